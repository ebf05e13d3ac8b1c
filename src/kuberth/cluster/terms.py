"""How many pods match a term, per row and topology domain, updated as pods are added and removed.

In: placed and removed pods, by class; terms of spread constraints and pod affinity; terms that placed pods
carry. Out: counts, so that no scheduling cycle ever loops over pods.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.selectors import Selector
from kuberth.cluster.arrays import Column, Mask
from kuberth.cluster.counting import RowCounts
from kuberth.cluster.labels import ABSENT, LabelColumn, LabelColumns
from kuberth.cluster.pod_info import AffinityTerm, PodClass, PodInfo, PodMatcher
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.cluster.term_index import UNDEMANDING, LabelIndex, LabelPair, demanded_labels
from kuberth.cluster.term_sums import TermSums

MAX_COUNTED_TERMS: Final = 2048
"""The maximum number of counted terms; beyond it, the least recently used are dropped, and counted again on
request."""
LONG_TERM: Final = 256
"""A term with this number of values in its selectors is long."""
MAX_LONG_VALUES: Final = 200_000
"""The maximum number of values in all long terms, about 30 MiB; beyond it, the least recently used are
dropped."""
MAX_TERMS_ONE_BY_ONE: Final = 64
"""If more terms of a topology than this may match a pod, they are summed instead of evaluated one by one."""
MAX_FILED: Final = 64
"""The maximum number of label values under which a term is indexed."""


class DomainSums:
    """Sums of a row count over the domains of one topology key, for a version of the key's column."""

    __slots__ = ("absent", "label", "sums", "version")

    def __init__(self, label: LabelColumn, counts: RowCounts) -> None:
        self.label = label
        """The column of the key."""
        sums = _sum_by_domain(label, counts.rows(), counts)
        self.absent: int = sums.item(ABSENT)
        """The sum over the rows without the key."""
        self.sums = RowCounts.of(sums)
        """The sum per value id of the key."""
        self.version = label.version
        """The column's version; with another one the sums are invalid."""

    def add(self, row: int, number: int) -> None:
        domain = self.label.ids.item(row)
        self.sums.add(domain, number)
        if domain == ABSENT:
            self.absent += number


def _sum_by_domain(label: LabelColumn, rows: NDArray[np.int64], counts: RowCounts) -> Column:
    """Sum `counts` of `rows` by the rows' domains."""
    sums = np.zeros(len(label.values), np.int64)
    np.add.at(sums, label.ids[rows], counts.at(rows))
    return sums


class Tally:
    """A count per row with its sums per domain of any requested topology key."""

    __slots__ = ("_domains", "counts", "slot")

    def __init__(self) -> None:
        self.counts = RowCounts()
        """The number of pods per row."""
        self._domains: dict[str, DomainSums] = {}
        self.slot: int = -1
        """For a carried term: its slot in `TermSums`; -1 if it has none."""

    def add(self, row: int, number: int) -> None:
        self.counts.add(row, number)
        for domain in self._domains.values():
            if domain.version == domain.label.version:
                domain.add(row, number)

    def by_domain(self, label: LabelColumn, among: NDArray[np.bool_] | None = None) -> Column:
        """Per value id of `label`: the number of pods in that domain. Read-only.

        With `among`, a mask over rows, only pods on these rows count; this is computed at each call.
        """
        if among is None:
            return self._domain(label).sums.column(len(label.values))
        rows = self.counts.rows()
        return _sum_by_domain(label, rows[among[rows]], self.counts)

    def is_in_any_domain(self, label: LabelColumn) -> bool:
        """Whether any of the pods is on a node with the label."""
        if len(label.values) == 1:  # no node ever had the key: a pod's terms can name thousands of such keys
            return False
        domain = self._domains.get(label.key)  # as below, without the call
        if domain is None or domain.version != label.version:
            domain = self._domain(label)
        return self.counts.total > domain.absent

    def _domain(self, label: LabelColumn) -> DomainSums:
        domain = self._domains.get(label.key)
        if domain is None or domain.version != label.version:
            domain = self._domains[label.key] = DomainSums(label, self.counts)
        return domain


class CountedTerm(NamedTuple):
    """Counts pods that all matchers match, with or without terminating ones."""

    pods: tuple[PodMatcher, ...]
    with_terminating: bool

    @property
    def demanded_labels(self) -> tuple[LabelPair, ...]:
        return demanded_labels(matcher.selector for matcher in self.pods)

    @property
    def length(self) -> int:
        """The number of values in its selectors."""
        return sum(
            len(requirement.values)
            for matcher in self.pods
            for selector in (matcher.namespace_selector, matcher.selector)
            for requirement in selector.requirements
        )

    @property
    def selects_namespaces(self) -> bool:
        return any(not matcher.namespace_selector.matches_nothing for matcher in self.pods)


class _CountedClass:
    """The placed pods of one class, and the tallies that count them."""

    __slots__ = ("counts", "labels", "tallies")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self.counts = RowCounts()
        self.tallies: dict[Tally, None] = {}


class Carried(enum.IntEnum):
    """The role of a term that a placed pod carries. An integer, since it is a frequent lookup key."""

    REQUIRED_AFFINITY = 0
    """The pod must be near matching pods."""
    REQUIRED_ANTI_AFFINITY = 1
    """The pod must not be near matching pods."""
    PREFERRED = 2
    """Near is better, or worse if the weight is negative."""


class CarriedTerm(NamedTuple):
    """A distinct term of placed pods; the weight is 0 for required ones."""

    role: Carried
    """The role of the term."""
    term: AffinityTerm
    """The term itself."""
    weight: int
    """The weight of a preferred term; negative for anti-affinity."""


class MatchedSum(Tally):
    """The sum of many terms that match one pod, or the pods that carry them.

    Valid until a term is added or removed.
    """

    __slots__ = ("_matched", "_sums", "_version", "_weighted")

    def __init__(self, sums: TermSums, matched: Mask, *, weighted: bool) -> None:
        super().__init__()
        self._sums = sums
        self._matched = matched
        self._weighted = weighted
        self._version = -1

    def by_domain(self, label: LabelColumn, among: NDArray[np.bool_] | None = None) -> Column:
        self._refresh()
        return super().by_domain(label, among)

    def is_in_any_domain(self, label: LabelColumn) -> bool:
        self._refresh()
        return super().is_in_any_domain(label)

    def _refresh(self) -> None:
        if self._version != self._sums.version:
            self._version = self._sums.version
            self.counts = RowCounts.of(self._sums.by_row(self._matched, weighted=self._weighted))
            self._domains.clear()


class Contribution(NamedTuple):
    """What one term, or a sum of terms, adds to the scores of the nodes by topology."""

    topology_key: str
    counts: Tally
    """The count per row."""
    weight: int
    """The weight of one counted pod."""
    pods: Tally
    """The pods that carry the terms, or that the terms match."""


def _weight(carried: CarriedTerm) -> int:
    return carried.weight if carried.role is Carried.PREFERRED else 1


class TopologyTerms:
    """The carried terms of one topology key."""

    __slots__ = ("index", "number", "sums")

    def __init__(self) -> None:
        self.number = 0
        """The number of terms."""
        self.index: LabelIndex[CarriedTerm, Tally] = LabelIndex()
        """The terms by the labels that they require."""
        self.sums: TermSums | None = None
        """The same terms, for pods that too many of them may match; None while there are few terms."""

    def file(self, carried: CarriedTerm, tally: Tally) -> None:
        """Add a term that no placed pod had."""
        self.number += 1
        self.index.file(carried, tally, _filed_under(carried.term.pods.selector))
        if self.sums is not None:
            tally.slot = self.sums.file(carried.term.pods, _weight(carried))
        elif self.number > MAX_TERMS_ONE_BY_ONE:
            self.sums = TermSums()
            for each, counted in dict(self.index.entries()).items():
                counted.slot = self.sums.file(each.term.pods, _weight(each))
                for row in counted.counts.rows().tolist():
                    self.sums.add(counted.slot, row, counted.counts[row])

    def add(self, tally: Tally, row: int, number: int) -> None:
        """Change the number of pods with the term on a row."""
        if self.sums is not None and tally.slot >= 0:
            self.sums.add(tally.slot, row, number)

    def remove(self, carried: CarriedTerm, tally: Tally) -> None:
        """Remove a term that no placed pod has any more."""
        self.number -= 1
        self.index.remove(carried, _filed_under(carried.term.pods.selector))
        if self.sums is not None and tally.slot >= 0:
            self.sums.remove(tally.slot, carried.term.pods)


class CarriedTerms:
    """The distinct terms that placed pods carry in one role, with the rows of these pods."""

    __slots__ = ("_by_topology", "_follows_domains", "_labels", "_selected", "tallies", "version")

    def __init__(self, labels: LabelColumns, selected: SelectedLabels, *, follows_domains: bool) -> None:
        self._labels = labels
        self._selected = selected
        self._follows_domains = follows_domains
        self.version = 0
        """Grows when a term is added or removed; with `follows_domains` also when its pods enter the first
        domain of its topology, or leave the last."""
        self.tallies: dict[CarriedTerm, Tally] = {}
        self._by_topology: dict[str, TopologyTerms] = {}

    def topologies(self) -> Iterator[tuple[str, TopologyTerms]]:
        """The terms whose topology keys some node has; others cannot matter."""
        wanted: Iterable[str] = self._by_topology
        if len(self._labels.keys) < len(self._by_topology):
            wanted = self._labels.keys
        for key in wanted:
            terms = self._by_topology.get(key)
            if terms is not None and key in self._labels.keys:
                yield key, terms

    def add(self, carried: CarriedTerm, row: int, number: int) -> None:
        tally = self.tallies.get(carried)
        if tally is None:
            tally = self.tallies[carried] = Tally()
            self.version += 1
            self._file(carried, tally)
        self._by_topology[carried.term.topology_key].add(tally, row, number)
        if not self._follows_domains:
            tally.add(row, number)
        else:
            label = self._labels.column(carried.term.topology_key)
            was_somewhere = tally.is_in_any_domain(label)
            tally.add(row, number)
            self.version += was_somewhere != tally.is_in_any_domain(label)
        if tally.counts.total == 0:
            del self.tallies[carried]
            self.version += 1
            self._remove(carried, tally)

    def _file(self, carried: CarriedTerm, tally: Tally) -> None:
        key = carried.term.topology_key
        self._selected.note(carried.term.pods.selector.requirements)
        if (terms := self._by_topology.get(key)) is None:
            terms = self._by_topology[key] = TopologyTerms()
        terms.file(carried, tally)

    def _remove(self, carried: CarriedTerm, tally: Tally) -> None:
        key = carried.term.topology_key
        terms = self._by_topology[key]
        terms.remove(carried, tally)
        if not terms.number:
            del self._by_topology[key]

    def forget_namespace(self, name: str) -> None:
        """Drop cached results of namespace selectors for a namespace whose labels changed."""
        for terms in self._by_topology.values():
            if terms.sums is not None:
                terms.sums.forget_namespace(name)


def _filed_under(selector: Selector) -> tuple[LabelPair, ...]:
    """Labels that the selector requires; none for selectors with thousands of values, to save memory."""
    demanded = demanded_labels((selector,))
    return demanded if len(demanded) <= MAX_FILED else (UNDEMANDING,)


class Terms:
    """All counts about placed pods."""

    def __init__(self, labels: LabelColumns, selected: SelectedLabels) -> None:
        self._labels = labels
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._classes: dict[PodClass, _CountedClass] = {}
        self._classes_by_label: LabelIndex[PodClass, _CountedClass] = LabelIndex()
        self._counted: OrderedDict[CountedTerm, Tally] = OrderedDict()
        self._counted_by_label: LabelIndex[CountedTerm, Tally] = LabelIndex()
        self._long: OrderedDict[CountedTerm, int] = OrderedDict()
        """Counted terms with many values, with their number."""
        self._long_values = 0
        # Only of anti-affinity it matters before nodes are looked at whether its pods are in any domain.
        self._carried = {
            role: CarriedTerms(labels, selected, follows_domains=role is Carried.REQUIRED_ANTI_AFFINITY)
            for role in Carried
        }
        self.version = 0
        """Grows whenever a returned tally is not updated any more, or a namespace changes."""

    # Placed pods

    def add(self, info: PodInfo, row: int, number: int) -> None:
        """Count a pod on a row (`number` 1) or remove it (-1)."""
        self._count(info, row, number)
        if info.required_affinity or info.required_anti_affinity or info.preferred_terms:
            for carried in carried_terms(info):
                self._carried[carried.role].add(carried, row, number)

    def renew(self, old: PodInfo, new: PodInfo, row: int) -> None:
        """Apply a new version of a pod with the same terms; its class may differ."""
        if new.pod_class != old.pod_class:
            self._count(old, row, -1)
            self._count(new, row, 1)

    def _count(self, info: PodInfo, row: int, number: int) -> None:
        pod_class = info.pod_class
        counted = self._classes.get(pod_class)
        if counted is None:
            counted = self._new_class(pod_class, info.labels)
        counted.counts.add(row, number)
        for tally in counted.tallies:
            tally.add(row, number)
        if counted.counts.total == 0:
            del self._classes[pod_class]
            self._classes_by_label.remove(pod_class, pod_class.labels)

    def _new_class(self, pod_class: PodClass, labels: Mapping[str, str]) -> _CountedClass:
        counted = self._classes[pod_class] = _CountedClass(labels)
        self._classes_by_label.file(pod_class, counted, pod_class.labels)
        for term, tally in self._counted_by_label.under((*pod_class.labels, UNDEMANDING)):
            if self._matches(term, pod_class, labels):
                counted.tallies[tally] = None
        return counted

    # Questions

    def tally(self, *pods: PodMatcher, with_terminating: bool = True) -> Tally:
        """The count of placed pods that all of `pods` match; updated until it is unused for long."""
        term = CountedTerm(pods, with_terminating)
        tally = self._counted.get(term)
        if tally is not None:
            self._counted.move_to_end(term)
            if term in self._long:
                self._long.move_to_end(term)
            return tally
        tally = Tally()
        for pod_class, counted in self._classes_demanded_by(term):
            if self._matches(term, pod_class, counted.labels):
                tally.counts.add_all(counted.counts)
                counted.tallies[tally] = None
        self._counted[term] = tally
        self._counted_by_label.file(term, tally, term.demanded_labels)
        if len(self._counted) > MAX_COUNTED_TERMS:
            self._forget(next(iter(self._counted)))
        if (length := term.length) >= LONG_TERM:
            self._long[term] = length
            self._long_values += length
            while self._long_values > MAX_LONG_VALUES and len(self._long) > 1:
                self._forget(next(iter(self._long)))
        return tally

    def carried(self, role: Carried) -> Mapping[CarriedTerm, Tally]:
        """The distinct terms that placed pods carry in `role`, with the rows of the pods."""
        return self._carried[role].tallies

    def carried_in(self, role: Carried) -> CarriedTerms:
        """The same with its `version`, which together with that of `Terms` covers the result of
        `contributions`."""
        return self._carried[role]

    def contributions(self, role: Carried, info: PodInfo, weight: int = 1) -> Iterator[Contribution]:
        """What the terms that match the pod `info` add to scores, multiplied by `weight`.

        Only for topology keys that some node has. Valid until a term is added or removed.
        """
        namespace, labels = info.namespace, info.labels
        namespace_labels = self._namespaces.get(namespace, {})
        pairs = (*labels.items(), UNDEMANDING)
        for key, terms in self._carried[role].topologies():
            if terms.sums is not None and terms.index.count(pairs) > MAX_TERMS_ONE_BY_ONE:
                matched = terms.sums.matched(namespace, labels, namespace_labels)
                if matched.any():
                    counts = MatchedSum(terms.sums, matched, weighted=True)
                    yield Contribution(key, counts, weight, MatchedSum(terms.sums, matched, weighted=False))
                continue
            for carried, tally in terms.index.under(pairs):
                if carried.term.pods.matches(namespace, labels, namespace_labels):
                    yield Contribution(key, tally, weight * _weight(carried), tally)

    def contributions_of_placed(self, terms: Iterable[tuple[str, PodMatcher, int]]) -> Iterator[Contribution]:
        """What placed pods add to the scores of a pod with thousands of terms.

        Each term is a topology key, matchers and a weight. Later changes of pods are not included.
        """
        by_key: dict[str, TermSums] = {}
        for key, pods, weight in terms:
            if key in self._labels.keys:
                if (sums := by_key.get(key)) is None:
                    sums = by_key[key] = TermSums()
                sums.file(pods, weight)
        for key, sums in by_key.items():
            counts, found = Tally(), Tally()
            for pod_class, counted in self._classes.items():
                namespace_labels = self._namespaces.get(pod_class.namespace, {})
                matched = sums.matched(pod_class.namespace, counted.labels, namespace_labels)
                number = int(np.count_nonzero(matched))
                if number:
                    counts.counts.add_all(counted.counts, times=sums.total_weight(matched))
                    found.counts.add_all(counted.counts, times=number)
            yield Contribution(key, counts, 1, found)

    def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace; empty if it is unknown."""
        return self._namespaces.get(namespace, {})

    # Namespaces

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Handle changed labels of a namespace (None: deleted): recount terms that select namespaces."""
        if self._namespaces.get(name) == labels:
            return
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = labels
        self.version += 1
        for carried in self._carried.values():
            carried.forget_namespace(name)
        for term in [term for term in self._counted if term.selects_namespaces]:
            self._forget(term)

    def _classes_demanded_by(self, term: CountedTerm) -> Iterable[tuple[PodClass, _CountedClass]]:
        demanded = term.demanded_labels
        return self._classes.items() if UNDEMANDING in demanded else self._classes_by_label.under(demanded)

    def _matches(self, term: CountedTerm, pod_class: PodClass, labels: Mapping[str, str]) -> bool:
        if pod_class.terminating and not term.with_terminating:
            return False
        namespace = pod_class.namespace
        namespace_labels = self._namespaces.get(namespace, {})
        return all(matcher.matches(namespace, labels, namespace_labels) for matcher in term.pods)

    def _forget(self, term: CountedTerm) -> None:
        tally = self._counted.pop(term)
        self._long_values -= self._long.pop(term, 0)
        self.version += 1
        self._counted_by_label.remove(term, term.demanded_labels)
        for _, counted in self._classes_demanded_by(term):
            counted.tallies.pop(tally, None)


def carried_terms(info: PodInfo) -> Iterator[CarriedTerm]:
    for term in info.required_affinity:
        yield CarriedTerm(Carried.REQUIRED_AFFINITY, term, 0)
    for term in info.required_anti_affinity:
        yield CarriedTerm(Carried.REQUIRED_ANTI_AFFINITY, term, 0)
    for weighted in info.preferred_terms:
        yield CarriedTerm(Carried.PREFERRED, weighted.term, weighted.weight)
