"""The ResourceClaims of a pod: which there are to be, which object each one is, whether the pod may use it.

In: pods and claims as plain objects. Out: answers for the controller that makes claims and the kubelet that
waits for them, in the words a kubelet uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kuberth.local.apiserver.objects import Obj, key_of, make_key, name_of, namespace_of

CLAIMS: Final = "resourceclaims.resource.k8s.io"


class PodClaim(NamedTuple):
    """One claim that a pod asks for."""

    name: str
    """What the pod's containers call it."""
    claim: str | None
    """The ResourceClaim's name; None while there is none."""
    template: str = ""
    """The template it is made from; "": people make it, or the scheduler does."""
    needed: bool = True
    """False where the pod's status says that it does without."""


def claims_of(pod: Obj) -> Iterator[PodClaim]:
    """Those of its spec, then the one behind its extended resources."""
    status = pod.get("status") or {}
    made = {
        each.get("name"): each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()
    }
    for entry in pod["spec"].get("resourceClaims") or ():
        name, template = entry.get("name", ""), entry.get("resourceClaimTemplateName")
        if template:
            yield PodClaim(name, made.get(name), template, needed=name not in made or bool(made[name]))
        else:
            yield PodClaim(name, entry.get("resourceClaimName"))
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if extended:
        yield PodClaim("", extended)


def has_claims(pod: Obj) -> bool:
    return bool(pod["spec"].get("resourceClaims") or pod.get("status", {}).get("extendedResourceClaimStatus"))


def claim_keys(pod: Obj) -> Iterator[str]:
    """Keys of the ResourceClaims it uses, for an index of pods."""
    return (make_key(namespace_of(pod), claim.claim) for claim in claims_of(pod) if claim.claim)


def owning_pod(claim: Obj) -> Obj | None:
    """The reference to the pod that a claim was made for."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Pod"):
            return dict(owner)
    return None


def is_for(pod: Obj, claim: Obj) -> bool:
    owner = owning_pod(claim)
    return owner is not None and owner.get("uid") == pod["metadata"]["uid"]


def is_reserved_for(pod: Obj, claim: Obj) -> bool:
    return any(
        each.get("uid") == pod["metadata"]["uid"] for each in claim.get("status", {}).get("reservedFor") or ()
    )


def problem_with_claims(pod: Obj, find: Callable[[str], Obj | None]) -> str:
    """Why a node cannot get the pod's devices ready; "" if it can. `find` gives a claim by its key."""
    for wanted in claims_of(pod):
        if not wanted.needed:
            continue
        if wanted.claim is None:
            return f'pod "{key_of(pod)}": ResourceClaim not created yet'
        claim = find(make_key(namespace_of(pod), wanted.claim))
        if claim is None:
            return f'fetch ResourceClaim {wanted.claim}: {CLAIMS} "{wanted.claim}" not found'
        if wanted.template and not is_for(pod, claim):
            created = f"ResourceClaim {key_of(claim)} was not created for Pod {key_of(pod)}"
            return f"{created} (Pod is not owner)"
        if not is_reserved_for(pod, claim):
            who, what = f"{name_of(pod)} ({pod['metadata']['uid']})", claim["metadata"]["uid"]
            return f"pod {who} is not allowed to use ResourceClaim {wanted.claim} ({what})"
        if "allocation" not in claim["status"]:
            return f"ResourceClaim {wanted.claim}: not allocated"
    return ""
