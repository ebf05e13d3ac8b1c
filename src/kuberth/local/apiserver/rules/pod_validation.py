"""Validation of pods, of their updates and resizes, and of taints.

In: specs or parts of them, defaulted, and for updates the old ones. Out: causes, in upstream's words; of a
resize the pod with the new amounts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from kuberth.api.pod_resources import is_extended_resource
from kuberth.api.quantity import format_quantity, parse
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.defaulting import qos_class
from kuberth.local.apiserver.rules.device_checks import native_resource_causes
from kuberth.local.apiserver.status_errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    invalid_values,
    not_supported,
    required,
)
from kuberth.text import names

_NEGATIVE: Final = "must be greater than or equal to 0"
_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_GROUPS: Final = ("containers", "initContainers", "ephemeralContainers")
_SOURCES: Final = ("resourceClaimName", "resourceClaimTemplateName")


def validate_pod(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    causes = list(mount_causes(spec, "spec"))
    if old is not None:
        return [*causes, *validate_spec_update(spec, old["spec"])]
    if spec.get("schedulingGates") and spec.get("nodeName"):
        why = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden_field("spec.nodeName", why))
    return causes


def check_pod_spec(spec: Obj, path: str) -> Iterator[Cause]:
    """Names and host ports are unique in a pod, and containers use claims of their pod."""
    names_seen: set[str] = set()
    ports_seen: set[tuple[Any, ...]] = set()
    for group in filter(spec.get, _GROUPS):
        yield from _duplicate_names(spec[group], f"{path}.{group}", names_seen)
        for index, container in enumerate(spec[group]):
            where = f"{path}.{group}[{index}]"
            if claims := (container.get("resources") or {}).get("claims"):
                yield from _used_claim_causes(claims, f"{where}.resources", spec)
            if ports := container.get("ports"):
                yield from _host_port_causes(ports, f"{where}.ports", ports_seen)
    for field in filter(spec.get, ("volumes", "resourceClaims")):
        yield from _duplicate_names(spec[field], f"{path}.{field}", set())


def _duplicate_names(items: Iterable[Obj], path: str, seen: set[str]) -> Iterator[Cause]:
    for index, item in enumerate(items):
        if name := item.get("name"):
            if name in seen:
                yield duplicate(f"{path}[{index}].name", name)
            seen.add(name)


def _host_port_causes(ports: Iterable[Obj], path: str, seen: set[tuple[Any, ...]]) -> Iterator[Cause]:
    for index, port in enumerate(ports):
        if number := port.get("hostPort"):
            identity = (port.get("protocol"), port.get("hostIP", ""), number)
            if identity in seen:
                yield duplicate(f"{path}[{index}].hostPort", "/".join(map(str, identity)))
            seen.add(identity)


def mount_causes(spec: Obj, path: str, *, claims: Collection[str] = ()) -> Iterator[Cause]:
    """Containers mount volumes of their pod. `claims` are further volumes of the pods."""
    volumes = {*claims, *(volume.get("name") for volume in spec.get("volumes", ()))}
    for group in _GROUPS:
        for index, container in enumerate(spec.get(group, ())):
            for number, mount in enumerate(container.get("volumeMounts", ())):
                where = f"{path}.{group}[{index}].volumeMounts[{number}]"
                if mount.get("name") not in volumes:
                    why = f'Not found: "{mount.get("name", "")}"'
                    yield Cause(f"{where}.name", why, "FieldValueNotFound")
                if not mount.get("mountPath"):
                    yield required(f"{where}.mountPath")


def check_container_resources(resources: Obj, path: str) -> list[Cause]:
    causes = []
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    causes += check_container_quantities(limits, f"{path}.limits")
    for name, quantity in requests.items():
        causes += check_container_quantities({name: quantity}, f"{path}.requests")
        native = "/" not in name or "kubernetes.io/" in name
        overcommits = native and not name.startswith("hugepages-")
        if name not in limits:
            if not overcommits:
                causes.append(
                    required(f"{path}.limits", "Limit must be set for non overcommitable resources")
                )
            continue
        limit = limits[name]
        if not overcommits and parse(quantity) != parse(limit):
            why = f"must be equal to {name} limit of {limit}"
            causes.append(invalid_value(f"{path}.requests", quantity, why))
        elif parse(limit) < parse(quantity):
            why = f"must be less than or equal to {name} limit of {limit}"
            causes.append(invalid_value(f"{path}.requests", quantity, why))
    return causes


def check_container_quantities(quantities: Mapping[str, str], path: str) -> list[Cause]:
    causes = []
    for name, quantity in quantities.items():
        where = f"{path}[{name}]"
        causes += resource_name_causes(name, where)
        causes += validate_quantity(name, quantity, where)
    return causes


def resource_name_causes(name: str, path: str) -> list[Cause]:
    causes = invalid_values(path, name, names.qualified_name_problems(name))
    if "/" not in name:
        if name not in _STANDARD and not name.startswith("hugepages-"):
            causes.append(invalid_value(path, name, "must be a standard resource type or fully qualified"))
            causes.append(invalid_value(path, name, "must be a standard resource for containers"))
    elif "kubernetes.io/" not in name and name.startswith("requests."):
        causes.append(invalid_value(path, name, "doesn't follow extended resource name standard"))
    return causes


def validate_quantity(name: str, quantity: str, path: str) -> list[Cause]:
    value = parse(quantity)
    if value < parse("0"):
        return [invalid_value(path, quantity, _NEGATIVE)]
    if (name == "pods" or is_extended_resource(name)) and value.milli_value() % 1000:
        return [invalid_value(path, quantity, "must be an integer")]
    return []


def check_volume(volume: Obj, path: str) -> list[Cause]:
    sources = [each for each in volume if each != "name"]
    if not sources:
        return [required(path, "must specify a volume type")]
    why = "may not specify more than 1 volume type"
    return [forbidden_field(f"{path}.{extra}", why) for extra in sources[1:]]


def check_pod_claim(claim: Obj, path: str) -> Iterator[Cause]:
    """A claim of a pod either exists or is created from a template."""
    given = [source for source in _SOURCES if claim.get(source) is not None]
    if not given:
        why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        yield invalid_value(path, claim, why)
    elif len(given) > 1:
        why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        yield invalid_value(path, claim, why)


def _used_claim_causes(claims: Iterable[Obj], path: str, spec: Obj) -> Iterator[Cause]:
    """The claims that a container uses are its pod's; each request of one is named once."""
    known = sorted({each["name"] for each in spec.get("resourceClaims") or () if each.get("name")})
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name, request = f"{path}.claims[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            yield required(where)
            continue
        if name in seen:
            yield duplicate(where, name)
        else:
            if request:
                yield from invalid_values(f"{where}.request", request, names.label_problems(request))
            key = f"{name}/{request}" if request else name
            if key in seen:
                yield duplicate(where, key)
            elif not request:
                yield from (duplicate(where, name) for other in seen if other.startswith(f"{name}/"))
            seen.add(key)
        if name not in known:
            listed = f": {', '.join(known)}" if known else " which is empty"
            why = f"must be one of the names in pod.spec.resourceClaims{listed}"
            yield Cause(where, f'Not found: "{name}": {why}', "FieldValueNotFound")


def check_node_resources(pod: Obj, _path: str) -> Iterator[Cause]:
    """Check the node resources that claims' devices take: the claims are the pod's, containers use them."""
    status, spec = pod.get("status", {}), pod.get("spec", {})
    used = [*(spec.get("resourceClaims") or ()), *(status.get("resourceClaimStatuses") or ())]
    known = {each.get("resourceClaimName") for each in used}
    for index, taken in enumerate(status.get("nodeAllocatableResourceClaimStatuses") or ()):
        where = f"status.nodeAllocatableResourceClaimStatuses[{index}]"
        name, resources = taken.get("resourceClaimName", ""), taken.get("resources") or {}
        if not name:
            yield required(f"{where}.resourceClaimName", "must not be empty")
        if name not in known:
            yield invalid_value(f"{where}.resourceClaimName", name, "no mapping found in pod reference")
        if not taken.get("containers"):
            yield required(f"{where}.containers", "must not be empty")
        if not resources:
            yield required(f"{where}.resources", "must not be empty")
        for resource, amount in sorted(resources.items()):
            at = f"{where}.resources[{resource}]"
            yield from native_resource_causes(resource, at)
            if parse(amount) < parse("0"):
                yield invalid_value(at, format_quantity(amount), "must be non-negative")


# Updates

_UPDATABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_spec_update(new: Obj, old: Obj) -> list[Cause]:
    """Causes of changes in fields that are immutable, which are nearly all."""
    causes: list[Cause] = []
    munged = dict(new)
    for group in ("containers", "initContainers"):
        fresh, present = new.get(group, []), old.get(group, [])
        if len(fresh) != len(present):
            return [forbidden_field(f"spec.{group}", "pod updates may not add or remove containers")]
        if fresh:
            munged[group] = [
                {**container, "image": was.get("image", "")}
                for container, was in zip(fresh, present, strict=True)
            ]
            for index, container in enumerate(fresh):
                image = container.get("image", "")
                if image != image.strip():
                    why = "must not have leading or trailing whitespace"
                    causes.append(invalid_value(f"spec.{group}[{index}].image", image, why))
    causes += _deadline_causes(new, old)
    causes += _toleration_causes(new.get("tolerations", []), old.get("tolerations", []))
    present_gates = {gate.get("name") for gate in old.get("schedulingGates", ())}
    for index, gate in enumerate(new.get("schedulingGates", ())):
        if gate.get("name") not in present_gates:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            causes.append(forbidden_field(f"spec.schedulingGates[{index}].name", why))
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        munged.pop(field, None)
        if field in old:
            munged[field] = old[field]
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if present_gates:
        causes += _munge_gated(munged, old)
    if munged != old:
        changed = sorted(name for name in {*munged, *old} if munged.get(name) != old.get(name))
        why = f"pod updates may not change fields other than {_UPDATABLE}\n changed: {', '.join(changed)}"
        causes.append(forbidden_field("spec", why))
    return causes


def _deadline_causes(new: Obj, old: Obj) -> Iterator[Cause]:
    path = "spec.activeDeadlineSeconds"
    fresh, present = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if fresh is None and present is not None:
        yield invalid_value(path, None, "must not update from a positive integer to nil value")
    elif fresh is not None and present is not None and present < fresh:
        yield invalid_value(path, fresh, "must be less than or equal to previous value")


def _toleration_causes(new: list[Obj], old: list[Obj]) -> Iterator[Cause]:
    """Causes unless tolerations were only added."""

    def without_seconds(toleration: Obj) -> Obj:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    fresh = [without_seconds(each) for each in new]
    if not all(without_seconds(each) in fresh for each in old):
        why = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_field("spec.tolerations", why)


def _munge_gated(munged: Obj, old: Obj) -> list[Cause]:
    """Causes of changes that do not narrow the placement of a gated pod."""
    causes = []
    fresh, present = munged.get("nodeSelector", {}), old.get("nodeSelector", {})
    if fresh != present:
        if any(fresh.get(key) != value for key, value in present.items()):
            why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            causes.append(invalid_value("spec.nodeSelector", fresh, why))
        _set_or_remove(munged, "nodeSelector", old.get("nodeSelector"))
    new_affinity, old_affinity = munged.get("affinity"), old.get("affinity")
    new_node, old_node = (new_affinity or {}).get("nodeAffinity"), (old_affinity or {}).get("nodeAffinity")
    if new_node != old_node:
        causes += _validate_node_affinity_change(new_node or {}, old_node or {})
        merged = dict(new_affinity or {})
        _set_or_remove(merged, "nodeAffinity", old_node)
        _set_or_remove(munged, "affinity", merged if merged or old_affinity is not None else None)
    return causes


def _validate_node_affinity_change(new: Obj, old: Obj) -> list[Cause]:
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    if name not in old:
        return []
    path = f"spec.affinity.nodeAffinity.{name}.nodeSelectorTerms"
    old_terms = old[name].get("nodeSelectorTerms", [])
    new_terms = new.get(name, {}).get("nodeSelectorTerms", [])
    if len(old_terms) != len(new_terms):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid_value(path, new_terms, why)]
    why = "only additions are allowed (no mutations or deletions)"
    return [
        invalid_value(f"{path}[{index}]", fresh, why)
        for index, (fresh, present) in enumerate(zip(new_terms, old_terms, strict=True))
        if not _only_adds(fresh, present)
    ]


def _only_adds(new: Obj, old: Obj) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields) and any(new.get(field) for field in fields):
        return False
    return all(new.get(field, [])[: len(old.get(field, []))] == old.get(field, []) for field in fields)


def _set_or_remove(obj: Obj, name: str, value: Any) -> None:
    if value is None:
        obj.pop(name, None)
    else:
        obj[name] = value


# Tolerations and taints

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_tolerations(tolerations: Iterable[Obj], path: str) -> list[Cause]:
    causes = []
    for index, toleration in enumerate(tolerations):
        where = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        effect, value = toleration.get("effect", ""), toleration.get("value", "")
        if key:
            causes += invalid_values(f"{where}.key", key, names.label_key_problems(key))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(invalid_value(f"{where}.operator", operator, why))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid_value(f"{where}.effect", effect, why))
        if operator in ("", "Equal"):
            if problems := names.label_value_problems(value):
                causes.append(invalid_value(f"{where}.operator", value, ";".join(problems)))
        elif operator == "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                causes.append(invalid_value(f"{where}.operator", value, why))
        elif operator not in ("Lt", "Gt"):
            causes.append(not_supported(f"{where}.operator", operator, ("Equal", "Exists")))
        elif not (value.removeprefix("-").isascii() and value.removeprefix("-").isdigit()):
            causes.append(invalid_value(f"{where}.value", value, "must be a valid decimal integer"))
        if effect and effect not in _EFFECTS:
            causes.append(not_supported(f"{where}.effect", effect, _EFFECTS))
    return causes


def validate_taints(taints: Any, path: str) -> list[Cause]:
    causes = []
    seen = set()
    for index, taint in enumerate(taints):
        where = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        causes += invalid_values(f"{where}.key", key, names.label_key_problems(key))
        if problems := names.label_value_problems(value):
            causes.append(invalid_value(f"{where}.value", value, ";".join(problems)))
        if not effect:
            causes.append(required(f"{where}.effect"))
        elif effect not in _EFFECTS:
            causes.append(not_supported(f"{where}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            shown = f'{{"Key":"{key}","Value":"{value}","Effect":"{effect}","TimeAdded":null}}'
            why = "taints must be unique by key and effect pair"
            causes.append(Cause(where, f"Duplicate value: {shown}: {why}", "FieldValueDuplicate"))
        seen.add((key, effect))
    return causes


_RESIZED_GROUPS: Final = ("containers", "initContainers")
_TAKEN: Final = ("resources", "resizePolicy")
_MUTABLE: Final = ("cpu", "memory")


def resized(new: Obj, old: Obj) -> Obj:
    """The old pod with the resources of the new one; other changes are dropped, as upstream does."""
    spec = dict(old["spec"])
    for group in _RESIZED_GROUPS:
        fresh, present = new.get("spec", {}).get(group, []), old["spec"].get(group, [])
        if [each.get("name") for each in fresh] != [each["name"] for each in present]:
            spec[group] = fresh  # refused by `validate_resize`
        elif present:
            spec[group] = [
                {name: value for name, value in was.items() if name not in _TAKEN}
                | {name: container[name] for name in _TAKEN if name in container}
                for container, was in zip(fresh, present, strict=True)
            ]
    return {**old, "spec": spec}


def validate_resize(new: Obj, old: Obj, *, spec_causes: Iterable[Cause]) -> list[Cause]:
    """Causes for which a result of `resized` is refused; `spec_causes` are those of any pod's spec."""
    fresh, present = new["spec"], old["spec"]
    causes = list(_order_causes(fresh, present))
    if causes:
        return causes
    if present.get("resources"):
        return [forbidden_field("", "resize of pods with pod-level resources is forbidden")]
    causes += spec_causes
    before = old.get("status", {}).get("qosClass") or qos_class(present)
    if qos_class(fresh) != before:
        why = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid_value("spec", before, why))
    for group in _RESIZED_GROUPS:
        for index, (after, before) in enumerate(
            zip(fresh.get(group, ()), present.get(group, ()), strict=True)
        ):
            if group == "containers" or before.get("restartPolicy") == "Always":
                causes += _resize_causes(after, before, f"spec.{group}[{index}]")
            elif after != before:
                why = "only sidecar containers can be resized"
                causes.append(forbidden_field(f"spec.{group}[{index}]", why))
    return causes


def _order_causes(fresh: Obj, present: Obj) -> Iterator[Cause]:
    """Causes unless both specs have the same containers in the same order."""
    for group in _RESIZED_GROUPS:
        after, before = ([each.get("name") for each in spec.get(group, ())] for spec in (fresh, present))
        if len(after) != len(before):
            yield forbidden_field(f"spec.{group}", f"{group} may not be added or removed on resize")
            continue
        for index, (name, old_name) in enumerate(zip(after, before, strict=True)):
            if name != old_name:
                why = f"{group} may not be renamed or reordered on resize"
                yield forbidden_field(f"spec.{group}[{index}].name", why)


def _resize_causes(after: Obj, before: Obj, path: str) -> Iterator[Cause]:
    """Causes of the change of a container's resources."""
    fresh, present = after.get("resources", {}), before.get("resources", {})
    for field in ("requests", "limits"):
        if present.get(field, {}).keys() - fresh.get(field, {}).keys():
            yield forbidden_field(f"{path}.resources.{field}", f"resource {field} cannot be removed")
    if _immutable(fresh) != _immutable(present):
        yield forbidden_field("spec", "only cpu and memory resources are mutable")


def _immutable(resources: Obj) -> Obj:
    amounts = {
        field: {name: amount for name, amount in resources.get(field, {}).items() if name not in _MUTABLE}
        for field in ("requests", "limits")
    }
    return {**resources, **amounts}
