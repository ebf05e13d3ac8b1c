"""Conditions: lists of {type, status, reason, message} with unique types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kuberth.local.apiserver.objects import Obj


def find_condition(obj: Obj, type_: str) -> Obj | None:
    """A condition in the object's status."""
    # A plain loop: this runs for every change of every pod.
    conditions: Iterable[Obj] = obj.get("status", {}).get("conditions") or ()
    for condition in conditions:
        if condition.get("type") == type_:
            return condition
    return None


def is_true(obj: Obj, type_: str) -> bool:
    condition = find_condition(obj, type_)
    return condition is not None and condition.get("status") == "True"


def condition(type_: str, status: str | bool, reason: str, message: str) -> Obj:
    """A condition without times; `status` True or False is written as a string."""
    return {"type": type_, "status": str(status), "reason": reason, "message": message}


def with_condition(status: Obj, condition: Obj, *, now: str) -> Obj:
    """An object's status with `condition` added or replaced."""
    return {**status, "conditions": set_condition(status.get("conditions") or (), condition, now=now)}


def set_condition(conditions: Sequence[Obj], condition: Obj, *, now: str) -> list[Obj]:
    """The list with `condition` added or replaced; lastTransitionTime changes only with the status."""
    old = next((entry for entry in conditions if entry.get("type") == condition["type"]), None)
    stays = old is not None and old.get("status") == condition["status"]
    since = old.get("lastTransitionTime") if old is not None and stays else None
    new = {**condition, "lastTransitionTime": since or now}
    if old is None:
        return [*conditions, new]
    return [new if entry is old else entry for entry in conditions]


def without_condition(conditions: Iterable[Obj], type_: str) -> list[Obj]:
    return [condition for condition in conditions if condition.get("type") != type_]
