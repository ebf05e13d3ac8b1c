"""NamespacePodQuota: gates pods of a namespace that has enough pods on nodes (KEP-3521).

In: a maximum number of pods per namespace, in the arguments. Out: pods beyond it are gated, and cost no
attempts until a pod of the namespace leaves its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kuberth.api import Pod
from kuberth.api.selectors import EVERYTHING, NOTHING
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodMatcher
from kuberth.framework import (
    SKIP,
    Action,
    ClusterEvent,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    EventWithHint,
    Handle,
    Hint,
    Inputs,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Resource,
    Status,
)


class NamespacePodQuotaArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pods: Mapping[str, int] = {}
    """By namespace: the maximum number of its pods on nodes. Other namespaces are not limited."""


class NamespacePodQuota(PreEnqueuePlugin, PreFilterPlugin, EnqueueExtensions):
    """Gates pods at PreEnqueue, and rejects at PreFilter those that entered the queue at the same time."""

    name = "NamespacePodQuota"
    args_type = NamespacePodQuotaArgs
    inputs = Inputs({"metadata.namespace"}, pre_filter=DependsOn.ANYTHING)

    def __init__(self, args: NamespacePodQuotaArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle

    def pre_enqueue(self, pod: Pod) -> Status | None:
        namespace = pod.metadata.namespace
        limit = self._args.pods.get(namespace)
        if limit is None or self._placed(namespace) < limit:
            return None
        return Status.unresolvable(f"namespace {namespace} has its {limit} pods on nodes already")

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return SKIP if pod.metadata.namespace not in self._args.pods else self.pre_enqueue(pod)

    def _placed(self, namespace: str) -> int:
        matcher = PodMatcher(frozenset({namespace}), NOTHING, EVERYTHING)
        return self._handle.cluster.terms.tally(matcher).counts.total

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [EventWithHint(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._after_deletion)]

    def _after_deletion(self, pod: Pod, old: object, new: object) -> Hint:
        is_own = isinstance(old, Pod) and old.metadata.namespace == pod.metadata.namespace
        return Hint.QUEUE if is_own else Hint.SKIP
