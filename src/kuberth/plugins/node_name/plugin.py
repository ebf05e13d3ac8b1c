"""NodeName: places a pod with `spec.nodeName` only on that node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kuberth.api.core import Node, Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import named
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import EnqueueExtensions, FilterPlugin
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import on_any

_REJECTED: Final = Status.unresolvable("node(s) didn't match the requested node name")


class NodeName(FilterPlugin, EnqueueExtensions):
    name = "NodeName"
    inputs = Inputs({"spec.node_name"}, filter=DependsOn.NODE_OBJECT)

    def filter_nodes(self, _state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        if not pod.spec.node_name:
            return None
        return Verdict.rejecting(~named(nodes, pod.spec.node_name), _REJECTED)

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [on_any(Node, Action.ADD)]
