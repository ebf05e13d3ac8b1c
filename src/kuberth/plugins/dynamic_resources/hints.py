"""Queueing hints: whether a change of a claim or of the pod may help a rejected pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kuberth.api.core import Pod
from kuberth.api.resource import ResourceClaim
from kuberth.framework.cluster_events import Hint
from kuberth.framework.hint_objects import before_and_after, expect
from kuberth.plugins.devices.claims import KnownClaims
from kuberth.plugins.dynamic_resources.finding import GROUP_KIND, ClaimsNotReady, claims_of, group_name_of


def after_claim_change(
    claims: KnownClaims, pod: Pod, old: object, new: object, *, with_groups: bool = False
) -> Hint:
    """A claim that releases devices may help every pod; any other change only the users of the claim."""
    before, changed = _before_and_now(old, new)
    try:
        mine = {claim.metadata.uid for claim in claims_of(pod, claims, with_groups=with_groups)}
    except ClaimsNotReady:
        return Hint.SKIP
    if _gives_back(before, changed):
        return Hint.QUEUE
    if changed.metadata.uid not in mine:
        return Hint.SKIP
    return Hint.QUEUE if before is None or before.status != changed.status else Hint.SKIP


def claims_named_by(pod: Pod) -> Iterator[str]:
    """The keys of a pod for `users_of`: the pod, its group, and the claims that it names."""
    yield pod.metadata.uid
    if group := group_name_of(pod):
        yield _group_key(pod.metadata.namespace, group)
    for reference in pod.spec.resource_claims:
        if reference.resource_claim_name is not None:
            yield f"{pod.metadata.namespace}/{reference.resource_claim_name}"


def users_of(old: object, new: object) -> Sequence[str] | None:
    """The owner of the claim, a pod or a group, and all that name it; None if it releases devices."""
    before, changed = _before_and_now(old, new)
    if _gives_back(before, changed):
        return None
    metadata = changed.metadata
    owners = [
        _group_key(metadata.namespace, owner.name) if owner.kind == GROUP_KIND else owner.uid
        for owner in metadata.owner_references
        if owner.controller
    ]
    return [f"{metadata.namespace}/{metadata.name}", *owners]


def _group_key(namespace: str, name: str) -> str:
    return f"group {namespace}/{name}"


def _before_and_now(old: object, new: object) -> tuple[ResourceClaim | None, ResourceClaim]:
    before, after = before_and_after(ResourceClaim, old, new)
    return before, expect(ResourceClaim, after)


def _gives_back(before: ResourceClaim | None, changed: ResourceClaim) -> bool:
    return before is not None and before.status.allocation is not None and changed.status.allocation is None


def after_pod_change(claims: KnownClaims, pod: Pod, new: object, *, with_groups: bool = False) -> Hint:
    """Helps if all claims of the pod exist now."""
    changed = expect(Pod, new)
    if changed.metadata.uid != pod.metadata.uid:
        return Hint.SKIP
    try:
        claims_of(changed, claims, with_groups=with_groups)
    except ClaimsNotReady:
        return Hint.SKIP
    return Hint.QUEUE
