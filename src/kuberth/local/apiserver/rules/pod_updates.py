"""Validation of updates of a pod. In: the new and the old spec. Out: causes, in upstream's words."""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.metadata_validation import forbidden_field, invalid_value
from kuberth.local.apiserver.status_errors import Cause

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
    causes += _validate_deadline(new, old)
    causes += _validate_only_added_tolerations(new.get("tolerations", []), old.get("tolerations", []))
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


def _validate_deadline(new: Obj, old: Obj) -> list[Cause]:
    path = "spec.activeDeadlineSeconds"
    fresh, present = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if fresh is None:
        if present is None:
            return []
        return [invalid_value(path, None, "must not update from a positive integer to nil value")]
    if present is not None and present < fresh:
        return [invalid_value(path, fresh, "must be less than or equal to previous value")]
    return []


def _validate_only_added_tolerations(new: list[Obj], old: list[Obj]) -> list[Cause]:
    def without_seconds(toleration: Obj) -> Obj:
        return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}

    fresh = [without_seconds(each) for each in new]
    if all(without_seconds(each) in fresh for each in old):
        return []
    why = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_field("spec.tolerations", why)]


def _munge_gated(munged: Obj, old: Obj) -> list[Cause]:
    """Causes of changes that do not narrow the placement of a gated pod."""
    causes = []
    fresh, present = munged.get("nodeSelector", {}), old.get("nodeSelector", {})
    if fresh != present:
        if any(fresh.get(key) != value for key, value in present.items()):
            why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            causes.append(invalid_value("spec.nodeSelector", fresh, why))
        _put(munged, "nodeSelector", old.get("nodeSelector"))
    new_affinity, old_affinity = munged.get("affinity"), old.get("affinity")
    new_node, old_node = (new_affinity or {}).get("nodeAffinity"), (old_affinity or {}).get("nodeAffinity")
    if new_node != old_node:
        causes += _validate_node_affinity_change(new_node or {}, old_node or {})
        merged = dict(new_affinity or {})
        _put(merged, "nodeAffinity", old_node)
        _put(munged, "affinity", merged if merged or old_affinity is not None else None)
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


def _put(obj: Obj, name: str, value: Any) -> None:
    if value is None:
        obj.pop(name, None)
    else:
        obj[name] = value
