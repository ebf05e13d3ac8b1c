"""Queueing hints: whether a change of a claim or of the pod may help a rejected pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kuberth.api.core import Pod
from kuberth.api.resource import ResourceClaim
from kuberth.framework.hint_objects import before_and_after, expect
from kuberth.plugins.devices.claims import KnownClaims
from kuberth.plugins.dynamic_resources.finding import GROUP_KIND, ClaimsNotReady, claims_of, group_name_of
from kuberth.plugins.hints import is_same_pod


def claim_change_helps(
    claims: KnownClaims,
    pod: Pod,
    before: ResourceClaim | None,
    after: ResourceClaim,
    *,
    with_groups: bool = False,
) -> bool:
    """A claim that releases devices may help every pod; any other change only the users of the claim."""
    try:
        own = {claim.metadata.uid for claim in claims_of(pod, claims, with_groups=with_groups)}
    except ClaimsNotReady:
        return False
    if _releases(before, after):
        return True
    return after.metadata.uid in own and (before is None or before.status != after.status)


def pod_change_helps(
    claims: KnownClaims, pod: Pod, _before: Pod | None, after: Pod, *, with_groups: bool = False
) -> bool:
    """Helps if all claims of the pod exist now."""
    try:
        claims_of(after, claims, with_groups=with_groups)
    except ClaimsNotReady:
        return False
    return is_same_pod(pod, after)


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
    before, _after = before_and_after(ResourceClaim, old, new)
    claim = expect(ResourceClaim, new)
    if _releases(before, claim):
        return None
    metadata = claim.metadata
    owners = [
        _group_key(metadata.namespace, owner.name) if owner.kind == GROUP_KIND else owner.uid
        for owner in metadata.owner_references
        if owner.controller
    ]
    return [f"{metadata.namespace}/{metadata.name}", *owners]


def _group_key(namespace: str, name: str) -> str:
    return f"group {namespace}/{name}"


def _releases(before: ResourceClaim | None, after: ResourceClaim) -> bool:
    return before is not None and before.status.allocation is not None and after.status.allocation is None
