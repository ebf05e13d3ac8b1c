"""NodePorts: rejects nodes where another pod uses a host port that the pod needs.

The address 0.0.0.0 (or no address, which is equivalent) stands for all addresses of the node: it conflicts
with every address of the same protocol and port.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from kuberth.api.core import Node, Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import HostPort, host_ports, overlap
from kuberth.cluster.selection import nowhere
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import EnqueueExtensions, FilterPlugin, PreFilterPlugin
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import has_node, on_any, on_deletion

_REJECTED: Final = Status.unschedulable("node(s) didn't have free ports for the requested pod ports")


class NodePorts(PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    name = "NodePorts"
    inputs = Inputs(
        {"spec.containers", "spec.init_containers"}, pre_filter=DependsOn.POD, filter=DependsOn.NODE
    )

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        return None if _wanted(state, pod) else SKIP

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        table = nodes.table
        holders = [
            users
            for port in _wanted(state, pod)
            for address, users in table.port_users(port.protocol, port.port).items()
            if overlap(address, port.ip)
        ]
        if not holders:
            return None
        taken = nowhere(nodes)
        for users in holders:
            taken |= nodes.take(users.column(table.slots)) > 0
        return Verdict.rejecting(taken, _REJECTED)

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [on_deletion(Pod, _frees_port), on_any(Node, Action.ADD)]


def _frees_port(pod: Pod, deleted: Pod) -> bool:
    freed = host_ports(deleted) if has_node(deleted) else ()
    return any(port.conflicts_with(other) for port in host_ports(pod) for other in freed)


def _wanted(state: CycleState, pod: Pod) -> Collection[HostPort]:
    return state.pod_info.host_ports if state.pod_info is not None else host_ports(pod)
