"""TaintToleration: NoSchedule and NoExecute taints reject a pod, PreferNoSchedule taints lower the score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from kuberth.api.core import Node, Pod, Taint, Toleration
from kuberth.api.taints import KeyedTolerations, find_untolerated
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import by_taints
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Scores,
)
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.scores import normalized
from kuberth.framework.status import Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import is_same_pod, on_new

_REJECTED: Final = Status.unresolvable("node(s) had untolerated taint(s)")
_SOFT: Final = "PreferNoSchedule"
_SOFT_TOLERATIONS: Final = StateKey[KeyedTolerations]("TaintToleration/soft tolerations")


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions):
    name = "TaintToleration"
    inputs = Inputs(
        {"spec.tolerations"},
        filter=DependsOn.NODE_OBJECT,
        pre_score=DependsOn.POD,
        score=DependsOn.NODE_OBJECT,
    )

    def __init__(self, _args: object, handle: Handle) -> None:
        self._comparison_operators = handle.feature_gates.enabled("TaintTolerationComparisonOperators")

    def filter_nodes(self, _state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        if _no_node_is_tainted(nodes):
            return None
        tolerations = self._keyed(pod.spec.tolerations)
        return Verdict.choosing(by_taints(nodes, lambda taints: not tolerations.cover_all(taints)), _REJECTED)

    def pre_score(self, state: CycleState, pod: Pod, _nodes: Nodes) -> None:
        state.write(_SOFT_TOLERATIONS, self._soft_tolerations(pod))

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores:
        """The number of PreferNoSchedule taints that the pod does not tolerate; normalizing reverses it."""
        if _no_node_is_tainted(nodes):
            return np.zeros(len(nodes), np.int64)
        tolerations = state.get(_SOFT_TOLERATIONS)
        if tolerations is None:
            tolerations = self._soft_tolerations(pod)
        return by_taints(nodes, lambda taints: _untolerated_soft(taints, tolerations))

    def normalize_scores(self, _state: CycleState, _pod: Pod, scores: Scores) -> Scores:
        return normalized(scores, reverse=True)

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [
            on_new(Node, Action.ADD | Action.UPDATE_NODE_TAINT, self._stops_repelling),
            # Tolerations can only be added, so any change of the pod's tolerations may help.
            on_new(Pod, Action.UPDATE_POD_TOLERATION, lambda pod, _before, after: is_same_pod(pod, after)),
        ]

    def _stops_repelling(self, pod: Pod, before: Node | None, after: Node) -> bool:
        """Only a new node without an untolerated taint, or a node that loses its last one, helps."""
        repelled = before is None or self._repels(before.spec.taints, pod)
        return repelled and not self._repels(after.spec.taints, pod)

    def _repels(self, taints: Sequence[Taint], pod: Pod) -> bool:
        tolerations = pod.spec.tolerations
        untolerated = find_untolerated(taints, tolerations, comparison_operators=self._comparison_operators)
        return untolerated is not None

    def _soft_tolerations(self, pod: Pod) -> KeyedTolerations:
        return self._keyed(each for each in pod.spec.tolerations if each.effect in ("", _SOFT))

    def _keyed(self, tolerations: Iterable[Toleration]) -> KeyedTolerations:
        return KeyedTolerations(tolerations, comparison_operators=self._comparison_operators)


def _untolerated_soft(taints: Sequence[Taint], tolerations: KeyedTolerations) -> int:
    return sum(taint.effect == _SOFT and not tolerations.cover(taint) for taint in taints)


def _no_node_is_tainted(nodes: Nodes) -> bool:
    return len(nodes.table.taints.values) == 1
