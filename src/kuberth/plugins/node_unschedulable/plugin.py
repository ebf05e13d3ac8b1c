"""NodeUnschedulable: rejects cordoned nodes (`spec.unschedulable`) for pods that do not tolerate them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kuberth.api.core import Node, Pod, Taint
from kuberth.api.taints import find_untolerated
from kuberth.cluster.nodes import Nodes
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import EnqueueExtensions, FilterPlugin
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import is_same_pod, on_new

# A pod that tolerates the taint of cordoned nodes also tolerates the flag itself.
CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_REJECTED: Final = Status.unresolvable("node(s) were unschedulable")


class NodeUnschedulable(FilterPlugin, EnqueueExtensions):
    name = "NodeUnschedulable"
    inputs = Inputs({"spec.tolerations"}, filter=DependsOn.NODE_OBJECT)

    def __init__(self, _args: object, handle: Handle) -> None:
        self._comparison_operators = handle.feature_gates.enabled("TaintTolerationComparisonOperators")

    def filter_nodes(self, _state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        cordoned = nodes.take(nodes.table.unschedulable)
        if not cordoned.any() or self._tolerates_cordon(pod):
            return None
        return Verdict.rejecting(cordoned, _REJECTED)

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [
            on_new(Node, Action.ADD | Action.UPDATE_NODE_TAINT, _is_uncordoned),
            on_new(Pod, Action.UPDATE_POD_TOLERATION, self._has_new_toleration),
        ]

    def _has_new_toleration(self, pod: Pod, _before: Pod | None, after: Pod) -> bool:
        return is_same_pod(pod, after) and self._tolerates_cordon(after)

    def _tolerates_cordon(self, pod: Pod) -> bool:
        untolerated = find_untolerated(
            (CORDONED,), pod.spec.tolerations, comparison_operators=self._comparison_operators
        )
        return untolerated is None


def _is_uncordoned(_pod: Pod, before: Node | None, after: Node) -> bool:
    """Only a node that was uncordoned, or a new one that is not cordoned, helps."""
    return (before is None or before.spec.unschedulable) and not after.spec.unschedulable
