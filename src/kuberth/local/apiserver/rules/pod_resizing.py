"""Resizing of a pod: its subresource `resize` changes the cpu and memory of containers, and nothing else.

In: the pod as it is to be, and as it is. Out: the pod with the new amounts, and causes in upstream's words.
"""

from __future__ import annotations

from typing import Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.rules.declared_rules import declared_rules
from kuberth.local.apiserver.rules.defaulting import qos_class
from kuberth.local.apiserver.rules.pod_validation import mount_causes
from kuberth.local.apiserver.status_errors import Cause, forbidden_field, invalid_value

_GROUPS: Final = ("containers", "initContainers")
_TAKEN: Final = ("resources", "resizePolicy")
_MUTABLE: Final = ("cpu", "memory")


def resized(new: Obj, old: Obj) -> Obj:
    """The old pod with the resources of the new one; other changes are dropped, as upstream does."""
    spec = dict(old["spec"])
    for group in _GROUPS:
        fresh, present = new.get("spec", {}).get(group, []), old["spec"].get(group, [])
        if [each.get("name") for each in fresh] != [each["name"] for each in present]:
            spec[group] = fresh  # refused by `validate_resize`
        elif present:
            spec[group] = [_resized(*pair) for pair in zip(fresh, present, strict=True)]
    return {**old, "spec": spec}


def _resized(fresh: Obj, present: Obj) -> Obj:
    kept = {name: value for name, value in present.items() if name not in _TAKEN}
    return {**kept, **{name: fresh[name] for name in _TAKEN if name in fresh}}


def validate_resize(new: Obj, old: Obj) -> list[Cause]:
    """Causes for which a result of `resized` is refused."""
    fresh, present = new["spec"], old["spec"]
    causes = _validate_order(fresh, present)
    if causes:
        return causes
    if present.get("resources"):
        return [forbidden_field("", "resize of pods with pod-level resources is forbidden")]
    causes += [*declared_rules()["pods"].causes(new, None), *mount_causes(fresh, "spec")]
    before = old.get("status", {}).get("qosClass") or qos_class(present)
    if qos_class(fresh) != before:
        why = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid_value("spec", before, why))
    for group in _GROUPS:
        for index, (after, before) in enumerate(
            zip(fresh.get(group, ()), present.get(group, ()), strict=True)
        ):
            if group == "containers" or before.get("restartPolicy") == "Always":
                causes += _validate_amounts(after, before, f"spec.{group}[{index}]")
            elif after != before:
                causes.append(
                    forbidden_field(f"spec.{group}[{index}]", "only sidecar containers can be resized")
                )
    return causes


def _validate_order(fresh: Obj, present: Obj) -> list[Cause]:
    causes = []
    for group in _GROUPS:
        after, before = ([each.get("name") for each in spec.get(group, ())] for spec in (fresh, present))
        if len(after) != len(before):
            causes.append(forbidden_field(f"spec.{group}", f"{group} may not be added or removed on resize"))
            continue
        causes += [
            forbidden_field(
                f"spec.{group}[{index}].name", f"{group} may not be renamed or reordered on resize"
            )
            for index, pair in enumerate(zip(after, before, strict=True))
            if pair[0] != pair[1]
        ]
    return causes


def _validate_amounts(after: Obj, before: Obj, path: str) -> list[Cause]:
    fresh, present = after.get("resources", {}), before.get("resources", {})
    causes = [
        forbidden_field(f"{path}.resources.{field}", f"resource {field} cannot be removed")
        for field in ("requests", "limits")
        if present.get(field, {}).keys() - fresh.get(field, {}).keys()
    ]
    if _immutable(fresh) != _immutable(present):
        causes.append(forbidden_field("spec", "only cpu and memory resources are mutable"))
    return causes


def _immutable(resources: Obj) -> Obj:
    amounts = {
        field: {name: amount for name, amount in resources.get(field, {}).items() if name not in _MUTABLE}
        for field in ("requests", "limits")
    }
    return {**resources, **amounts}
