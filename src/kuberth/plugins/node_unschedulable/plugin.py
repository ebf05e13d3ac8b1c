"""NodeUnschedulable: rejects cordoned nodes (`spec.unschedulable`) for pods that do not tolerate them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kuberth.api.core import Node, Pod, Taint
from kuberth.api.taints import find_untolerated
from kuberth.cluster.nodes import Nodes
from kuberth.framework.cluster_events import Action, ClusterEvent, EventWithHint, Hint, Resource
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import EnqueueExtensions, FilterPlugin
from kuberth.framework.handle import Handle
from kuberth.framework.hint_objects import before_and_after, expect
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import Status
from kuberth.framework.verdict import Verdict

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
            EventWithHint(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self._after_node_change
            ),
            EventWithHint(
                ClusterEvent(Resource.POD, Action.UPDATE_POD_TOLERATION), self._after_toleration_change
            ),
        ]

    def _after_node_change(self, _pod: Pod, old: object, new: object) -> Hint:
        """Only a node that was uncordoned, or a new one that is not cordoned, helps."""
        before, _after = before_and_after(Node, old, new)
        was_cordoned = before is None or before.spec.unschedulable
        return Hint.QUEUE if was_cordoned and not expect(Node, new).spec.unschedulable else Hint.SKIP

    def _after_toleration_change(self, pod: Pod, _old: object, new: object) -> Hint:
        changed = expect(Pod, new)
        is_this_pod = changed.metadata.uid == pod.metadata.uid
        return Hint.QUEUE if is_this_pod and self._tolerates_cordon(changed) else Hint.SKIP

    def _tolerates_cordon(self, pod: Pod) -> bool:
        untolerated = find_untolerated(
            (CORDONED,), pod.spec.tolerations, comparison_operators=self._comparison_operators
        )
        return untolerated is None
