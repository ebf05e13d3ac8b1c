"""Required terms: near pods the incoming one needs, far from pods it or they cannot bear.

In: the incoming pod and the cluster table. Out: a verdict on any view, from counts as they stand when it
is asked.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kuberth.cluster.labels import ABSENT, LabelColumn
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selection import Mask, everywhere, nowhere
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.terms import Carried, Tally
from kuberth.framework.status import Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.inter_pod_affinity.incoming import asked_of_placed_pods

_NOT_NEAR, _NOT_FAR, _NOT_BORNE = 1, 2, 3
_STATUSES: Final = (
    Status.unresolvable("node(s) didn't match pod affinity rules"),
    Status.unschedulable("node(s) didn't match pod anti-affinity rules"),
    Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
)


class RequiredTerms:
    """The required terms about one incoming pod in one cycle, its own and those of placed pods."""

    def __init__(self, info: PodInfo, table: ClusterTable) -> None:
        self._info = info
        self._table = table
        self._near = _Company(info, table) if info.required_affinity else None
        self._far = [
            (table.terms.tally(asked_of_placed_pods(term)), table.label_column(term.topology_key))
            for term in info.required_anti_affinity
        ]

    @property
    def matter(self) -> bool:
        """Whether any node can be ruled out at all."""
        if self._near is not None or self._far:
            return True
        return any(tally.is_in_any_domain(label) for tally, label in self._objections())

    def verdict(self, nodes: Nodes) -> Verdict:
        codes = np.zeros(len(nodes), np.int64)
        # Written from the last rule to the first, so that the first one that rejects a node has its say.
        for tally, label in self._objections():
            codes[_shares_domain(nodes, tally, label)] = _NOT_BORNE
        for tally, label in self._far:
            codes[_shares_domain(nodes, tally, label)] = _NOT_FAR
        if self._near is not None:
            codes[~self._near.is_at(nodes)] = _NOT_NEAR
        return Verdict.choosing(codes, *_STATUSES)

    def _objections(self) -> list[tuple[Tally, LabelColumn]]:
        """Where placed pods are whose anti-affinity speaks of the incoming pod.

        Asked anew each time: a what-if can bring a pod with a term that no other pod carries.
        """
        return [
            (tally, self._table.label_column(carried.term.topology_key))
            for carried, tally in self._table.terms.carried_about(Carried.REQUIRED_ANTI_AFFINITY, self._info)
        ]


class _Company:
    """The pods that the incoming pod has to be near to: those that all its affinity terms speak of."""

    def __init__(self, info: PodInfo, table: ClusterTable) -> None:
        matchers = [asked_of_placed_pods(term) for term in info.required_affinity]
        keys = dict.fromkeys(term.topology_key for term in info.required_affinity)
        self._labels = [table.label_column(key) for key in keys]
        self._tally = table.terms.tally(*matchers)
        namespace_labels = table.terms.namespace_labels(info.namespace)
        self._is_its_own = all(
            matcher.matches(info.namespace, info.labels, namespace_labels) for matcher in matchers
        )

    def is_at(self, nodes: Nodes) -> Mask:
        """Nodes that share every topology with such a pod.

        The first pod of a series that wants to be near its own kind has to start somewhere: as long as
        none of them is placed, any node with all the topology keys will do.
        """
        starts_anywhere = self._is_its_own and not any(
            self._tally.is_in_any_domain(label) for label in self._labels
        )
        mask = everywhere(nodes)
        for label in self._labels:
            if starts_anywhere:
                mask &= nodes.take(label.ids) != ABSENT
            else:
                mask &= _shares_domain(nodes, self._tally, label)
        return mask


def _shares_domain(nodes: Nodes, tally: Tally, label: LabelColumn) -> Mask:
    """Nodes that have the label, and with it a domain in which some pod is counted."""
    if not tally.is_in_any_domain(label):
        return nowhere(nodes)
    ids = nodes.take(label.ids)
    shares: Mask = np.take(tally.by_domain(label), ids) > 0
    shares &= ids != ABSENT
    return shares
