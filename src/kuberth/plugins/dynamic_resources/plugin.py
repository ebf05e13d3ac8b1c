"""DynamicResources: resource claims (DRA), for now only as far as to say that they are not supported.

A pod without claims is waved through at every point, exactly as kube-scheduler does. A pod with claims
is rejected before the nodes are looked at: placing it without its devices would be worse.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from kuberth.api.core import Pod, PodResourceClaim
from kuberth.cluster.nodes import Nodes
from kuberth.config.plugin_args import DynamicResourcesArgs
from kuberth.framework.cluster_events import Action, ClusterEvent, EventWithHint, Hint, Resource
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import (
    DependsOn,
    EnqueueExtensions,
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
    ScorePlugin,
    Scores,
)
from kuberth.framework.handle import Handle
from kuberth.framework.hint_objects import expect
from kuberth.framework.status import SKIP, SKIP_FOR_GOOD, Status
from kuberth.framework.verdict import Verdict

_DISABLED: Final = Status.unschedulable("plugin disabled")
_NO_CLAIMS: Final = Status.unschedulable("no new claims to deallocate")
_STILL_UNSUPPORTED: Final = Status.unschedulable("still not schedulable")


class DynamicResources(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
):
    name = "DynamicResources"
    reads = frozenset({"spec.resource_claims", "status.resource_claim_statuses"})
    score_depends_on = DependsOn.POD

    def __init__(self, _args: DynamicResourcesArgs | None, handle: Handle) -> None:
        self._enabled = handle.feature_gates.enabled("DynamicResourceAllocation")

    def pre_enqueue(self, _pod: Pod) -> None:
        """Upstream gates pods whose claims do not exist yet; here PreFilter says more about them."""

    def pre_filter(self, _state: CycleState, pod: Pod, _nodes: Nodes) -> Status:
        claims = needed_claims(pod) if self._enabled else ()
        if not claims:
            return SKIP_FOR_GOOD
        names = ", ".join(claim.name for claim in claims)
        return Status.unresolvable(f"resource claims are not supported yet by this scheduler: {names}")

    def filter_nodes(self, _state: CycleState, _pod: Pod, _nodes: Nodes) -> Verdict | None:
        return None

    def post_filter(
        self, _state: CycleState, pod: Pod, _diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        if not self._enabled:
            return None, _DISABLED
        return None, _STILL_UNSUPPORTED if needed_claims(pod) else _NO_CLAIMS

    def score_nodes(self, _state: CycleState, _pod: Pod, nodes: Nodes) -> Scores:
        """Which alternative of a claim a node can offer would count; without claims all are equal."""
        return np.zeros(len(nodes), np.int64)

    def reserve(self, _state: CycleState, _pod: Pod, _node_name: str) -> None:
        pass

    def unreserve(self, _state: CycleState, _pod: Pod, _node_name: str) -> None:
        pass

    def pre_bind_pre_flight(self, _state: CycleState, _pod: Pod, _node_name: str) -> Status:
        return SKIP

    def pre_bind(self, _state: CycleState, _pod: Pod, _node_name: str) -> None:
        pass

    def events_to_register(self) -> Iterable[EventWithHint]:
        if not self._enabled:
            return []
        node_change = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        added_or_updated = Action.ADD | Action.UPDATE
        return [
            EventWithHint(ClusterEvent(Resource.NODE, node_change)),
            EventWithHint(ClusterEvent(Resource.RESOURCE_CLAIM, added_or_updated), self._after_claim_change),
            EventWithHint(
                ClusterEvent(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
                self._after_pod_change,
            ),
            EventWithHint(ClusterEvent(Resource.DEVICE_CLASS, added_or_updated)),
            EventWithHint(ClusterEvent(Resource.RESOURCE_SLICE, added_or_updated)),
        ]

    def _after_claim_change(self, _pod: Pod, _old: object, _new: object) -> Hint:
        """No claim, whatever its state, makes a pod with claims schedulable here."""
        return Hint.SKIP

    def _after_pod_change(self, pod: Pod, _old: object, new: object) -> Hint:
        """Helps if it turns out that the pod's claim templates need no claim."""
        changed = expect(Pod, new)
        is_this_pod = changed.metadata.uid == pod.metadata.uid
        return Hint.QUEUE if is_this_pod and not needed_claims(changed) else Hint.SKIP


def needed_claims(pod: Pod) -> tuple[PodResourceClaim, ...]:
    """The pod's claims, without those whose template was resolved to "no claim is needed"."""
    if not pod.spec.resource_claims:
        return ()
    not_needed = {
        status.name for status in pod.status.resource_claim_statuses if status.resource_claim_name is None
    }
    return tuple(
        claim
        for claim in pod.spec.resource_claims
        if claim.resource_claim_name is not None or claim.name not in not_needed
    )
