"""Conditions: lists of {type, status, reason, message} in which a type appears once."""

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


def set_condition(conditions: Sequence[Obj], condition: Obj, *, now: str) -> list[Obj]:
    """The list with `condition` in it; lastTransitionTime changes only with the status."""
    old = next((entry for entry in conditions if entry.get("type") == condition["type"]), None)
    moved = old is None or old.get("status") != condition["status"]
    since = now if moved or old is None else old.get("lastTransitionTime", now)
    new = {**condition, "lastTransitionTime": since}
    if old is None:
        return [*conditions, new]
    return [new if entry is old else entry for entry in conditions]


def without_condition(conditions: Iterable[Obj], type_: str) -> list[Obj]:
    return [condition for condition in conditions if condition.get("type") != type_]
