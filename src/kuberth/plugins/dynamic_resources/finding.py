"""A pod's claims: those it names, and those that were made for it from templates.

In: a pod and the known claims. Out: the claims in the pod's order, or why the pod has to wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kuberth.api.core import Pod, PodResourceClaim
from kuberth.api.resource import ResourceClaim
from kuberth.errors import KuberthError
from kuberth.plugins.devices.claims import KnownClaims


class ClaimsNotReady(KuberthError):  # noqa: N818  # an outcome more than a fault
    """Some claim of the pod is not there, or is not for it."""


def claims_of(pod: Pod, claims: KnownClaims) -> Sequence[ResourceClaim]:
    """The pod's claims; raises ClaimsNotReady about the first that is not as it should be."""
    return [claim for _, claim in named_claims_of(pod, claims)]


def named_claims_of(pod: Pod, claims: KnownClaims) -> Iterator[tuple[str, ResourceClaim]]:
    """The same, with what containers call them."""
    for reference in pod.spec.resource_claims:
        name = _name_of(pod, reference)
        if name is None:
            continue  # the template was found to need no claim
        namespace = pod.metadata.namespace
        claim = claims.get(name, namespace=namespace)
        if claim is None:
            raise ClaimsNotReady(f'could not find ResourceClaim "{namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimsNotReady(f'resourceclaim "{name}" is being deleted')
        if reference.resource_claim_name is None and not _is_owner(pod, claim):
            raise ClaimsNotReady(
                f"ResourceClaim {namespace}/{name} was not created for Pod "
                f"{namespace}/{pod.metadata.name} (Pod is not owner)"
            )
        yield reference.name, claim


def _name_of(pod: Pod, reference: PodResourceClaim) -> str | None:
    """None: no claim is needed."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if reference.resource_claim_template_name is None:
        raise ClaimsNotReady(
            f'pod "{key}", spec.resourceClaim "{reference.name}": none of the supported fields are set'
        )
    for status in pod.status.resource_claim_statuses:
        if status.name == reference.name:
            return status.resource_claim_name
    raise ClaimsNotReady(f'pod "{key}": ResourceClaim not created yet')


def _is_owner(pod: Pod, claim: ResourceClaim) -> bool:
    owners = claim.metadata.owner_references
    return next((owner.uid for owner in owners if owner.controller), None) == pod.metadata.uid


def is_reserved_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the pod is among those that may use the claim."""
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)
