"""Required affinity and anti-affinity, of the incoming pod and of placed pods.

In: the incoming pod and the cluster table. Out: a verdict on any view, from the current counts.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from kuberth.api.core import Pod, PodAffinity, PodAntiAffinity
from kuberth.api.selectors import EVERYTHING
from kuberth.cluster.arrays import Mask
from kuberth.cluster.labels import ABSENT, LabelColumn
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import AffinityTerm, PodInfo, PodMatcher, compile_term
from kuberth.cluster.selection import nowhere
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.terms import Carried, Tally
from kuberth.errors import SelectorError
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.status import Status
from kuberth.framework.verdict import Codes, Verdict


def incoming_pod(state: CycleState, pod: Pod) -> PodInfo:
    return state.pod_info if state.pod_info is not None else PodInfo(pod)


def matcher_of_placed_pods(term: AffinityTerm) -> PodMatcher:
    """Which placed pods an incoming pod's term matches.

    Upstream evaluates the namespace selector twice, for all namespaces and then for no labels at all;
    therefore a selector that accepts missing labels (NotIn, DoesNotExist) accepts every namespace. It does
    not do so for the terms of placed pods, so this is not part of compiling terms.
    """
    pods = term.pods
    return pods._replace(namespace_selector=EVERYTHING) if pods.namespace_selector.matches({}) else pods


def broken_term(pod: Pod) -> str:
    """What is wrong with the pod's affinity terms; empty if all are valid."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ""
    try:
        for terms in (affinity.pod_affinity, affinity.pod_anti_affinity):
            if terms is not None:
                _compile_all(pod, terms)
    except SelectorError as exc:
        return str(exc)
    return ""


def _compile_all(pod: Pod, terms: PodAffinity | PodAntiAffinity) -> None:
    for term in terms.required_during_scheduling_ignored_during_execution:
        compile_term(pod, term)
    for weighted in terms.preferred_during_scheduling_ignored_during_execution:
        compile_term(pod, weighted.pod_affinity_term)


_NOT_NEAR, _NOT_FAR, _NOT_BORNE = 1, 2, 3
_STATUSES: Final = (
    Status.unresolvable("node(s) didn't match pod affinity rules"),
    Status.unschedulable("node(s) didn't match pod anti-affinity rules"),
    Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
)


def _status(code: int) -> Status:
    return _STATUSES[code - 1]


class RequiredTerms:
    """The required terms that concern one incoming pod in one cycle, its own and those of placed pods."""

    def __init__(self, info: PodInfo, table: ClusterTable) -> None:
        self._info = info
        self._table = table
        self._near = _RequiredNeighbours(info, table) if info.required_affinity else None
        self._far = [
            (table.terms.tally(matcher_of_placed_pods(term)), table.label_column(term.topology_key))
            for term in info.required_anti_affinity
        ]
        self._known_objections: list[tuple[Tally, LabelColumn]] = []
        self._objections_version: Hashable = None

    @property
    def matter(self) -> bool:
        """Whether any node can be rejected at all."""
        if self._near is not None or self._far:
            return True
        return any(tally.is_in_any_domain(label) for tally, label in self._objections())

    def verdict(self, nodes: Nodes) -> Verdict | None:
        """Which nodes of the view are rejected; None if none is."""
        codes: Codes | None = None
        if self._near is not None:
            codes = _with(codes, ~self._near.is_at(nodes), _NOT_NEAR)
        for rules, code in ((self._far, _NOT_FAR), (self._objections(), _NOT_BORNE)):
            for tally, label in rules:
                if tally.is_in_any_domain(label):
                    codes = _with(codes, _shares_domain(nodes, tally, label), code)
        return None if codes is None else Verdict(codes, _status)

    def _objections(self) -> list[tuple[Tally, LabelColumn]]:
        """The rows of placed pods whose anti-affinity matches the incoming pod.

        A what-if can add a pod with a term that no other pod carries.
        """
        table = self._table
        version = (table.terms.version, table.terms.carried_in(Carried.REQUIRED_ANTI_AFFINITY).version)
        if version != self._objections_version:
            self._objections_version = version
            self._known_objections = [
                (each.pods, table.label_column(each.topology_key))
                for each in table.terms.contributions(Carried.REQUIRED_ANTI_AFFINITY, self._info)
            ]
        return self._known_objections


class _RequiredNeighbours:
    """The pods that match all affinity terms of the incoming pod."""

    def __init__(self, info: PodInfo, table: ClusterTable) -> None:
        matchers = [matcher_of_placed_pods(term) for term in info.required_affinity]
        keys = dict.fromkeys(term.topology_key for term in info.required_affinity)
        self._labels = [table.label_column(key) for key in keys]
        self._tally = table.terms.tally(*matchers)
        namespace_labels = table.terms.namespace_labels(info.namespace)
        self._is_its_own = all(
            matcher.matches(info.namespace, info.labels, namespace_labels) for matcher in matchers
        )

    def is_at(self, nodes: Nodes) -> Mask:
        """The nodes that share every topology with a matching pod.

        If a pod matches its own terms and no such pod is placed yet, any node with all topology keys is
        accepted, so that the first pod of a series can start.
        """
        starts_anywhere = self._is_its_own and not any(
            self._tally.is_in_any_domain(label) for label in self._labels
        )
        near: Mask | None = None
        for label in self._labels:
            here = _has(nodes, label) if starts_anywhere else _shares_domain(nodes, self._tally, label)
            near = here if near is None else near & here
        assert near is not None
        return near


def _with(codes: Codes | None, rejected: Mask, code: int) -> Codes | None:
    """The codes, with this one for rejected nodes that have none yet."""
    if codes is not None:
        rejected = rejected > (codes != 0)
    if not len(rejected) or not rejected.item(rejected.argmax()):  # the usual case: none is
        return codes
    new: Codes = rejected.view(np.uint8) * np.uint8(code)  # bytes take half as long as larger integers
    return new if codes is None else codes + new


def _has(nodes: Nodes, label: LabelColumn) -> Mask:
    has: Mask = nodes.take(label.ids) != ABSENT
    return has


def _shares_domain(nodes: Nodes, tally: Tally, label: LabelColumn) -> Mask:
    """Nodes that have the label, and with it a domain with a counted pod."""
    if not tally.is_in_any_domain(label):
        return nowhere(nodes)
    ids, sums = nodes.take(label.ids), tally.by_domain(label)
    if len(sums) <= len(ids):  # few domains: evaluate these, and look up the result per node
        counted = sums > 0
        counted[ABSENT] = False
        return counted.take(ids)
    shares: Mask = sums.take(ids) > 0
    if sums.item(ABSENT):
        shares &= ids != ABSENT
    return shares
