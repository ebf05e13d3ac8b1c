"""How many pods match a term, per row and per topology domain, kept up to date as pods come and go.

In: pods placed and removed, by class; terms that spread constraints and pod affinity ask about; terms
that placed pods themselves carry. Out: counts, so that no scheduling cycle ever loops over pods.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.counting import Column, RowCounts, resized
from kuberth.cluster.labels import LabelColumn
from kuberth.cluster.pod_info import AffinityTerm, PodClass, PodInfo, PodMatcher

MAX_COUNTED_TERMS: Final = 2048
"""Terms no one asked about for longest are forgotten beyond this; asking again counts afresh."""


class DomainSums:
    """Sums of a row count over the domains of one topology key, repaired in place as counts change."""

    __slots__ = ("_label", "_sums", "_version")

    def __init__(self, label: LabelColumn) -> None:
        self._label = label
        self._sums: Column = np.zeros(0, np.int64)
        self._version = -1

    def add(self, row: int, number: int) -> None:
        if self._version == self._label.version:
            domain = self._label.ids[row]
            if domain < len(self._sums):
                self._sums[domain] += number
            else:
                self._version = -1

    def sums(self, counts: RowCounts) -> Column:
        """Per value id of the key: how many there are; entry 0 sums the rows without the key."""
        if self._version != self._label.version:
            self._sums = sum_by_domain(self._label, counts.rows(), counts)
            self._version = self._label.version
        elif len(self._sums) < len(self._label.values):
            self._sums = resized(self._sums, len(self._label.values))
        return self._sums


def sum_by_domain(label: LabelColumn, rows: NDArray[np.int64], counts: RowCounts) -> Column:
    """Sum `counts` of `rows` by the rows' domains."""
    sums = np.zeros(len(label.values), np.int64)
    if len(rows):
        np.add.at(sums, label.ids[rows], counts.column(int(rows.max()) + 1)[rows])
    return sums


class Tally:
    """A count per row with its sums per domain of any topology key asked for."""

    __slots__ = ("_domains", "counts")

    def __init__(self) -> None:
        self.counts = RowCounts()
        self._domains: dict[str, DomainSums] = {}

    def add(self, row: int, number: int) -> None:
        self.counts.add(row, number)
        for domain in self._domains.values():
            domain.add(row, number)

    def by_domain(self, label: LabelColumn) -> Column:
        """Per value id of `label`: the number of pods in that domain. Not to be written to."""
        domain = self._domains.get(label.key)
        if domain is None:
            domain = self._domains[label.key] = DomainSums(label)
        return domain.sums(self.counts)


class CountedTerm(NamedTuple):
    """What is counted: the pods a matcher speaks of, with or without those that are being deleted."""

    pods: PodMatcher
    with_terminating: bool


class Carried(enum.Enum):
    """The role of a term that a placed pod carries."""

    REQUIRED_AFFINITY = "required affinity"
    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    PREFERRED = "preferred"


class CarriedTerm(NamedTuple):
    """A distinct term of placed pods; the weight is 0 for required ones."""

    role: Carried
    term: AffinityTerm
    weight: int


class Terms:
    """All counts about placed pods."""

    def __init__(self) -> None:
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._classes: dict[PodClass, RowCounts] = {}
        self._counted: OrderedDict[CountedTerm, Tally] = OrderedDict()
        self._tallies_of_class: dict[PodClass, list[Tally]] = {}
        self._carried: dict[Carried, dict[CarriedTerm, Tally]] = {role: {} for role in Carried}

    # Placed pods

    def add(self, info: PodInfo, row: int, number: int) -> None:
        """Count a pod on a row (`number` 1) or take it off (-1)."""
        counts = self._classes.get(info.pod_class)
        if counts is None:
            counts = self._classes[info.pod_class] = RowCounts()
            self._tallies_of_class[info.pod_class] = [
                tally for term, tally in self._counted.items() if self._speaks_of(term, info.pod_class)
            ]
        counts.add(row, number)
        for tally in self._tallies_of_class[info.pod_class]:
            tally.add(row, number)
        if counts.total == 0:
            del self._classes[info.pod_class], self._tallies_of_class[info.pod_class]
        for carried in carried_terms(info):
            self._carry(carried, row, number)

    def _carry(self, carried: CarriedTerm, row: int, number: int) -> None:
        terms = self._carried[carried.role]
        tally = terms.get(carried)
        if tally is None:
            tally = terms[carried] = Tally()
        tally.add(row, number)
        if tally.counts.total == 0:
            del terms[carried]

    # Questions

    def tally(self, pods: PodMatcher, *, with_terminating: bool = True) -> Tally:
        """The count of placed pods that `pods` speaks of; counted from now on until long unused."""
        term = CountedTerm(pods, with_terminating)
        tally = self._counted.get(term)
        if tally is not None:
            self._counted.move_to_end(term)
            return tally
        tally = Tally()
        for pod_class, counts in self._classes.items():
            if self._speaks_of(term, pod_class):
                for row in counts.rows().tolist():
                    tally.counts.add(row, counts[row])
                self._tallies_of_class[pod_class].append(tally)
        self._counted[term] = tally
        if len(self._counted) > MAX_COUNTED_TERMS:
            self._forget(*self._counted.popitem(last=False))
        return tally

    def carried(self, role: Carried) -> Mapping[CarriedTerm, Tally]:
        """The distinct terms that placed pods carry in `role`, with where they are."""
        return self._carried[role]

    def carried_about(self, role: Carried, info: PodInfo) -> Iterator[tuple[CarriedTerm, Tally]]:
        """Those of them that speak of the pod `info`."""
        namespace_labels = self._namespaces.get(info.namespace, {})
        for carried, tally in self._carried[role].items():
            if carried.term.pods.matches(info.namespace, info.labels, namespace_labels):
                yield carried, tally

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        return self._namespaces.get(namespace, {})

    # Namespaces

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A namespace's labels changed (None: it is gone); terms that select namespaces count afresh."""
        if self._namespaces.get(name) == labels:
            return
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = labels
        for term in [term for term in self._counted if not term.pods.namespace_selector.matches_nothing]:
            self._forget(term, self._counted.pop(term))

    def _speaks_of(self, term: CountedTerm, pod_class: PodClass) -> bool:
        if pod_class.terminating and not term.with_terminating:
            return False
        return term.pods.matches(
            pod_class.namespace, dict(pod_class.labels), self._namespaces.get(pod_class.namespace, {})
        )

    def _forget(self, term: CountedTerm, tally: Tally) -> None:
        for tallies in self._tallies_of_class.values():
            if tally in tallies:
                tallies.remove(tally)


def carried_terms(info: PodInfo) -> Iterator[CarriedTerm]:
    for term in info.required_affinity:
        yield CarriedTerm(Carried.REQUIRED_AFFINITY, term, 0)
    for term in info.required_anti_affinity:
        yield CarriedTerm(Carried.REQUIRED_ANTI_AFFINITY, term, 0)
    for weighted in info.preferred_terms:
        yield CarriedTerm(Carried.PREFERRED, weighted.term, weighted.weight)
