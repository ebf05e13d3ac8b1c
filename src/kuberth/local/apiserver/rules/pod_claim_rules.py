"""Validation of the claims of a pod. In: a pod's spec or status. Out: causes, in upstream's words."""

from __future__ import annotations

from typing import Final

from kuberth.api.quantity import format_quantity, parse
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.device_checks import native_resource_causes
from kuberth.local.apiserver.rules.metadata_validation import (
    duplicate,
    invalid_value,
    invalid_values,
    required,
)
from kuberth.local.apiserver.status_errors import Cause
from kuberth.text import names

_SOURCES: Final = ("resourceClaimName", "resourceClaimTemplateName")


def validate_pod_claims(spec: Obj, path: str) -> list[Cause]:
    """The claims that a pod asks for; each is either there or made from a template."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        where, name = f"{path}.resourceClaims[{index}]", claim.get("name", "")
        if not name:
            causes.append(required(f"{where}.name"))
        elif name in seen:
            causes.append(duplicate(f"{where}.name", name))
        else:
            causes += invalid_values(f"{where}.name", name, names.label_problems(name))
        seen.add(name)
        given = [source for source in _SOURCES if claim.get(source) is not None]
        if len(given) > 1:
            why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            causes.append(invalid_value(where, claim, why))
        elif not given:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            causes.append(invalid_value(where, claim, why))
        for source in given:
            problems = names.subdomain_problems(claim[source])
            causes += invalid_values(f"{where}.{source}", claim[source], problems)
    return causes


def validate_used_claims(resources: Obj, path: str, spec: Obj) -> list[Cause]:
    """The claims that a container uses are its pod's; each request of one is named once."""
    causes: list[Cause] = []
    known = sorted({each["name"] for each in spec.get("resourceClaims") or () if each.get("name")})
    seen: set[str] = set()
    for index, claim in enumerate(resources.get("claims") or ()):
        where, name, request = f"{path}.claims[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            causes.append(required(where))
        elif name in seen:
            causes.append(duplicate(where, name))
        else:
            if request:
                causes += invalid_values(f"{where}.request", request, names.label_problems(request))
            key = f"{name}/{request}" if request else name
            if key in seen:
                causes.append(duplicate(where, key))
            elif not request:
                causes += [duplicate(where, name) for other in seen if other.startswith(f"{name}/")]
            seen.add(key)
        if name and name not in known:
            listed = f": {', '.join(known)}" if known else " which is empty"
            why = f"must be one of the names in pod.spec.resourceClaims{listed}"
            causes.append(Cause(where, f'Not found: "{name}": {why}', "FieldValueNotFound"))
    return causes


def validate_node_resources(status: Obj, spec: Obj, path: str) -> list[Cause]:
    """What the devices of claims take of the node: the claims are the pod's, containers use them."""
    causes: list[Cause] = []
    used = [*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())]
    known = {each.get("resourceClaimName") for each in used}
    for index, taken in enumerate(status.get("nodeAllocatableResourceClaimStatuses") or ()):
        where = f"{path}.nodeAllocatableResourceClaimStatuses[{index}]"
        name, resources = taken.get("resourceClaimName", ""), taken.get("resources") or {}
        if not name:
            causes.append(required(f"{where}.resourceClaimName", "must not be empty"))
        if name not in known:
            why = "no mapping found in pod reference"
            causes.append(invalid_value(f"{where}.resourceClaimName", name, why))
        if not taken.get("containers"):
            causes.append(required(f"{where}.containers", "must not be empty"))
        if not resources:
            causes.append(required(f"{where}.resources", "must not be empty"))
        for resource, amount in sorted(resources.items()):
            at = f"{where}.resources[{resource}]"
            causes += native_resource_causes(resource, at)
            if parse(amount) < parse("0"):
                causes.append(invalid_value(at, format_quantity(amount), "must be non-negative"))
    return causes
