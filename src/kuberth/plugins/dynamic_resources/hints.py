"""Queueing hints: whether a change of a claim or of the pod itself may help a pod that had to wait."""

from __future__ import annotations

from kuberth.api.core import Pod
from kuberth.api.resource import ResourceClaim
from kuberth.framework.cluster_events import Hint
from kuberth.framework.hint_objects import before_and_after, expect
from kuberth.plugins.devices.claims import KnownClaims
from kuberth.plugins.dynamic_resources.finding import ClaimsNotReady, claims_of


def after_claim_change(claims: KnownClaims, pod: Pod, old: object, new: object) -> Hint:
    """A claim that gives devices back helps everybody, any other change only who uses the claim."""
    before, after = before_and_after(ResourceClaim, old, new)
    changed = expect(ResourceClaim, after)
    try:
        mine = {claim.metadata.uid for claim in claims_of(pod, claims)}
    except ClaimsNotReady:
        return Hint.SKIP
    if before is not None and before.status.allocation is not None and changed.status.allocation is None:
        return Hint.QUEUE
    if changed.metadata.uid not in mine:
        return Hint.SKIP
    return Hint.QUEUE if before is None or before.status != changed.status else Hint.SKIP


def after_pod_change(claims: KnownClaims, pod: Pod, new: object) -> Hint:
    """Helps if all claims of the pod are there now."""
    changed = expect(Pod, new)
    if changed.metadata.uid != pod.metadata.uid:
        return Hint.SKIP
    try:
        claims_of(changed, claims)
    except ClaimsNotReady:
        return Hint.SKIP
    return Hint.QUEUE
