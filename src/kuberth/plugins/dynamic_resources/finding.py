"""Finds a pod's claims: those that it names, and those created from templates, for it or its group.

In: a pod and the known claims. Out: the claims in the pod's order, or why the pod has to wait for them; and
the consumer of each claim: with groups (gate DRAWorkloadResourceClaims) this may be the pod's group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kuberth.api.core import Pod, PodResourceClaim
from kuberth.api.resource import ResourceClaim, ResourceClaimConsumerReference
from kuberth.api.scheduling import PodGroup, PodGroupResourceClaim
from kuberth.errors import KuberthError
from kuberth.informers.store import Store, object_key
from kuberth.plugins.devices.claims import KnownClaims

GROUP_API: Final = "scheduling.k8s.io"
GROUP_RESOURCE: Final = "podgroups"
GROUP_KIND: Final = "PodGroup"
_NO_FIELDS: Final = "none of the supported fields are set"
_NOT_CREATED: Final = "ResourceClaim not created yet"


class ClaimsNotReady(KuberthError):  # noqa: N818  # an outcome more than a fault
    """A claim of the pod does not exist, or belongs to another pod."""


def claims_of(pod: Pod, claims: KnownClaims, *, with_groups: bool = False) -> Sequence[ResourceClaim]:
    """The pod's claims; raises ClaimsNotReady for the first one that is not ready."""
    return [claim for _, claim in named_claims_of(pod, claims, with_groups=with_groups)]


def named_claims_of(
    pod: Pod, claims: KnownClaims, *, with_groups: bool = False
) -> Iterator[tuple[PodResourceClaim, ResourceClaim]]:
    """The same, with the pod's references to them.

    `with_groups`: claims created for the pod's group belong to the pod too.
    """
    for reference in pod.spec.resource_claims:
        name = _claim_name(pod, reference)
        if name is None:
            continue  # the template needs no claim
        namespace = pod.metadata.namespace
        claim = _expect_claim(claims, namespace, name)
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimsNotReady(f'resourceclaim "{name}" is being deleted')
        if reference.resource_claim_name is None and not _is_for(pod, claim, with_groups=with_groups):
            group = group_name_of(pod) if with_groups else ""
            why = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
            raise ClaimsNotReady(
                f"ResourceClaim {namespace}/{name} was not created for Pod "
                f"{namespace}/{pod.metadata.name} ({why})"
            )
        yield reference, claim


def _expect_claim(claims: KnownClaims, namespace: str, name: str) -> ResourceClaim:
    claim = claims.get(name, namespace=namespace)
    if claim is None:
        raise ClaimsNotReady(f'could not find ResourceClaim "{namespace}/{name}"')
    return claim


def _claim_name(owner: Pod | PodGroup, reference: PodResourceClaim | PodGroupResourceClaim) -> str | None:
    """The name of the claim that a pod or group refers to; None if no claim is needed."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name
    kind, quote = ("pod", '"') if isinstance(owner, Pod) else ("PodGroup", "")
    subject = f"{kind} {quote}{object_key(owner)}{quote}"
    if reference.resource_claim_template_name is None:
        raise ClaimsNotReady(f"{subject}, spec.resourceClaim {quote}{reference.name}{quote}: {_NO_FIELDS}")
    for status in owner.status.resource_claim_statuses:
        if status.name == reference.name:
            return status.resource_claim_name
    raise ClaimsNotReady(f"{subject}: {_NOT_CREATED}")


def _is_for(pod: Pod, claim: ResourceClaim, *, with_groups: bool) -> bool:
    owner = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    if owner is None:
        return False
    if owner.uid == pod.metadata.uid:
        return True
    return (
        with_groups
        and (owner.kind, owner.name) == (GROUP_KIND, group_name_of(pod))
        and owner.api_version.startswith(f"{GROUP_API}/")
    )


def is_reserved_for(pod: Pod, claim: ResourceClaim, *, with_groups: bool = False) -> bool:
    """Whether the claim is reserved for the pod; `with_groups` also as a member of its group."""
    return any(
        consumer.uid == pod.metadata.uid
        or (
            with_groups
            and (consumer.api_group, consumer.resource) == (GROUP_API, GROUP_RESOURCE)
            and consumer.name == group_name_of(pod)
        )
        for consumer in claim.status.reserved_for
    )


# Groups


def group_name_of(pod: Pod) -> str:
    """The name of the pod's group; "" if it has none."""
    named = pod.spec.scheduling_group
    return "" if named is None or not named.pod_group_name else named.pod_group_name


def group_in(groups: Store[PodGroup], pod: Pod) -> PodGroup | None:
    """The pod's PodGroup; None if it does not exist."""
    return groups.get(group_name_of(pod), namespace=pod.metadata.namespace)


def user_of(pod: Pod) -> ResourceClaimConsumerReference:
    """The pod as a consumer reference of a claim."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def user_for(pod: Pod, reference: PodResourceClaim, group: PodGroup) -> ResourceClaimConsumerReference:
    """The consumer of the claim: the pod's group, if the group has the same claim, or the pod."""
    for shared in group.spec.resource_claims:
        if shared.resource_claim_name is None and shared.resource_claim_template_name is None:
            raise ClaimsNotReady(f"PodGroup {object_key(group)} claim {shared.name}: {_NO_FIELDS}")
        if (shared.name, shared.resource_claim_name, shared.resource_claim_template_name) == (
            reference.name,
            reference.resource_claim_name,
            reference.resource_claim_template_name,
        ):
            return group_as_user(group)
    return user_of(pod)


def group_as_user(group: PodGroup) -> ResourceClaimConsumerReference:
    """The group as a consumer reference of a claim."""
    return ResourceClaimConsumerReference(
        api_group=GROUP_API,
        resource=GROUP_RESOURCE,
        name=group.metadata.name,
        uid=group.metadata.uid,
    )


def claims_of_group(group: PodGroup, claims: KnownClaims) -> Iterator[ResourceClaim]:
    """The group's claims; raises ClaimsNotReady for the first one that does not exist."""
    for reference in group.spec.resource_claims:
        name = _claim_name(group, reference)
        if name is None:
            continue
        claim = _expect_claim(claims, group.metadata.namespace, name)
        owners = claim.metadata.owner_references
        owner = next((owner.uid for owner in owners if owner.controller), None)
        if reference.resource_claim_name is not None or owner == group.metadata.uid:
            yield claim
