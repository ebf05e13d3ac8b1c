"""NodeDeclaredFeatures: places pods that need a kubelet feature on nodes that declare it.

Kubernetes 1.36 knows five such features. Two of them can be derived from a pod's spec at scheduling; the
others matter for updates of running pods. None of them has a version from which on every node has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np

from kuberth.api.core import Node, Pod, PodSpec
from kuberth.cluster.nodes import Nodes
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import EnqueueExtensions, FilterPlugin, PreFilterPlugin
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import is_same_pod, on_new

_REJECTED: Final = Status.unresolvable("node(s) didn't match Pod's required features")
_REQUIRED: Final = StateKey[frozenset[str]]("NodeDeclaredFeatures/required")


def _restarts_all_containers(spec: PodSpec) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    )


def _has_user_namespace_on_host_network(spec: PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


_NEEDED_BY: Final[Mapping[str, Callable[[PodSpec], bool]]] = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _has_user_namespace_on_host_network,
}


def required_features(pod: Pod) -> frozenset[str]:
    """The features that a node must declare to run the pod."""
    return frozenset(feature for feature, needed in _NEEDED_BY.items() if needed(pod.spec))


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    name = "NodeDeclaredFeatures"
    inputs = Inputs(
        {"spec.containers", "spec.init_containers", "spec.host_network", "spec.host_users"},
        pre_filter=DependsOn.POD,
        filter=DependsOn.NODE_OBJECT,
    )

    def __init__(self, _args: object, handle: Handle) -> None:
        self._enabled = handle.feature_gates.enabled("NodeDeclaredFeatures")

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        required = required_features(pod) if self._enabled else frozenset()
        if not required:
            return SKIP
        state.write(_REQUIRED, required)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        if not self._enabled:
            return None
        required = state.get(_REQUIRED)
        if required is None:
            required = required_features(pod)
        column = nodes.table.declared_features
        lacking = np.fromiter((not required <= declared for declared in column.values), np.bool_)
        return Verdict.rejecting(np.take(lacking, nodes.take(column.ids)), _REJECTED)

    def events_to_register(self) -> Iterable[EventWithHint]:
        if not self._enabled:
            return []
        return [
            on_new(Node, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE, _declares_others),
            on_new(Pod, Action.UPDATE, _requires_others),
        ]


def _declares_others(_pod: Pod, before: Node | None, after: Node) -> bool:
    return before is None or before.status.declared_features != after.status.declared_features


def _requires_others(pod: Pod, before: Pod | None, after: Pod) -> bool:
    return is_same_pod(pod, after) and (
        before is None or required_features(before) != required_features(after)
    )
