"""The ResourceClaims of pods and pod groups: which are needed, which object each one is, who may use it.

In: pods, groups and claims as plain objects. Out: results for the controller that creates claims and for the
kubelet that waits for them, with a kubelet's messages. `with_groups` is the gate DRAWorkloadResourceClaims:
claims of a pod's group are for the pod too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kuberth.local.apiserver.objects import Obj, key_of, make_key, name_of, namespace_of

CLAIMS: Final = "resourceclaims.resource.k8s.io"
GROUPS: Final = "podgroups.scheduling.k8s.io"
GROUP_CLAIMS_GATE: Final = "DRAWorkloadResourceClaims"
_GROUP_API: Final = "scheduling.k8s.io"


class PodClaim(NamedTuple):
    """A claim that a pod or a group needs."""

    name: str
    """The name by which the pod's containers refer to it."""
    claim: str | None
    """The ResourceClaim's name; None if it does not exist yet."""
    template: str = ""
    """The template it is created from; "" if users or the scheduler create it."""
    needed: bool = True
    """False if the pod's status says that it is not needed."""


def claims_of(pod: Obj) -> Iterator[PodClaim]:
    """The claims in the spec of a pod or group, then the claim behind a pod's extended resources."""
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


def owning_group(claim: Obj) -> Obj | None:
    """The reference to the pod group that a claim was made for."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("kind") == "PodGroup":
            return dict(owner) if owner.get("apiVersion", "").startswith(f"{_GROUP_API}/") else None
    return None


def group_of(pod: Obj) -> str:
    """The name of the pod's group; "" if it has none."""
    return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""


def group_keys(pod: Obj) -> list[str]:
    """The key of its group, for an index of pods."""
    return [make_key(namespace_of(pod), group_of(pod))] if group_of(pod) else []


def is_of_group(group: Obj, wanted: PodClaim) -> bool:
    """Whether what a pod asks for is what its group asks for."""
    own = (each for each in claims_of(group) if each.name == wanted.name)
    return any(
        each.template == wanted.template and (each.template or each.claim == wanted.claim) for each in own
    )


def as_user(obj: Obj, *, is_group: bool) -> Obj:
    """A pod or a group as an entry of a claim's reservedFor."""
    where = {"apiGroup": _GROUP_API, "resource": "podgroups"} if is_group else {"resource": "pods"}
    return {**where, "name": name_of(obj), "uid": obj["metadata"]["uid"]}


def is_group(user: Obj) -> bool:
    return (user.get("apiGroup"), user.get("resource")) == (_GROUP_API, "podgroups")


def is_for(pod: Obj, claim: Obj, *, with_groups: bool) -> bool:
    owner = owning_pod(claim)
    if owner is not None and owner.get("uid") == pod["metadata"]["uid"]:
        return True
    group = owning_group(claim) if with_groups and group_of(pod) else None
    return group is not None and group.get("name") == group_of(pod)


def is_reserved_for(pod: Obj, claim: Obj, *, with_groups: bool) -> bool:
    return any(
        each.get("uid") == pod["metadata"]["uid"]
        or (with_groups and is_group(each) and each.get("name") == group_of(pod))
        for each in claim.get("status", {}).get("reservedFor") or ()
    )


def problem_with_claims(pod: Obj, find: Callable[[str], Obj | None], *, with_groups: bool) -> str:
    """Why a node cannot get the pod's devices ready; "" if it can. `find` gives a claim by its key."""
    for wanted in claims_of(pod):
        if not wanted.needed:
            continue
        if wanted.claim is None:
            return f'pod "{key_of(pod)}": ResourceClaim not created yet'
        claim = find(make_key(namespace_of(pod), wanted.claim))
        if claim is None:
            return f'fetch ResourceClaim {wanted.claim}: {CLAIMS} "{wanted.claim}" not found'
        if wanted.template and not is_for(pod, claim, with_groups=with_groups):
            created = f"ResourceClaim {key_of(claim)} was not created for Pod {key_of(pod)}"
            group = group_of(pod) if with_groups else ""
            why = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
            return f"{created} ({why})"
        if not is_reserved_for(pod, claim, with_groups=with_groups):
            who, what = f"{name_of(pod)} ({pod['metadata']['uid']})", claim["metadata"]["uid"]
            return f"pod {who} is not allowed to use ResourceClaim {wanted.claim} ({what})"
        if "allocation" not in claim["status"]:
            return f"ResourceClaim {wanted.claim}: not allocated"
    return ""
