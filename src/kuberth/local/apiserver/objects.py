"""Objects as the server stores them: plain JSON trees, which are never modified.

In: a tree, or its labels, conditions and references. Out: its key, name, labels and conditions; label
selectors compiled once. Conditions are lists of {type, status, reason, message} with unique types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from kuberth.api.meta import LabelSelector
from kuberth.api.selectors import NOTHING, Selector, compile_label_selector
from kuberth.api.wire import decode
from kuberth.errors import SelectorError, WireError

Obj = dict[str, Any]


def name_of(obj: Obj) -> str:
    return str(obj.get("metadata", {}).get("name", ""))


def namespace_of(obj: Obj) -> str:
    return str(obj.get("metadata", {}).get("namespace", ""))


def key_of(obj: Obj) -> str:
    """`namespace/name`, or the name alone for kinds without a namespace."""
    return make_key(namespace_of(obj), name_of(obj))


def make_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def annotation_of(obj: Obj, name: str) -> str:
    """The value of an annotation; "" without it."""
    return str((obj["metadata"].get("annotations") or {}).get(name, ""))


def annotated_number(obj: Obj, name: str) -> int | None:
    """The number in an annotation; None if it has none."""
    text = annotation_of(obj, name)
    return int(text) if text.isdecimal() else None


def by_age(obj: Obj) -> tuple[str, str]:
    """Sort key: older objects come first, and those of the same second in the order of their names."""
    return obj["metadata"].get("creationTimestamp", ""), name_of(obj)


def newest_default(objects: Iterable[Obj], annotation: str) -> Obj | None:
    """The object that an annotation marks as the default, the newest of several, as upstream."""
    defaults = [obj for obj in objects if annotation_of(obj, annotation) == "true"]
    return max(defaults, key=by_age, default=None)


def with_metadata(obj: Obj, **changes: Any) -> Obj:
    """The object with these fields in its metadata."""
    return {**obj, "metadata": {**obj["metadata"], **changes}}


def reference_of(obj: Obj) -> Obj:
    """An ObjectReference of a stored object."""
    own = {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", "")}
    return {**own, "namespace": namespace_of(obj), "name": name_of(obj), "uid": obj["metadata"]["uid"]}


def revision_of(obj: Obj) -> int:
    """The object's resourceVersion as a number."""
    return int(obj["metadata"]["resourceVersion"])


def is_larger(tree: Any, most: int) -> bool:
    """Whether a tree has more than `most` values."""
    waiting = [tree] if isinstance(tree, (dict, list)) else []
    while waiting:
        each = waiting.pop()
        inside = each.values() if isinstance(each, dict) else each
        most -= len(inside)
        if most < 0:
            return True
        waiting += [value for value in inside if isinstance(value, (dict, list))]
    return False


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


def selector_of(selector: Obj | None) -> Selector:
    """Compile a selector: None selects nothing, {} everything; an invalid one selects nothing."""
    compiled = None if selector is None else _compile(msgspec.json.encode(selector, order="deterministic"))
    return NOTHING if compiled is None else compiled


def selector_text(selector: Any) -> str | None:
    """A selector in kubectl's notation; None for an invalid one.

    It may be a string already, or, for a replication controller, a plain set of labels.
    """
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" not in selector and "matchExpressions" not in selector:
        return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    compiled = _compile(msgspec.json.encode(selector, order="deterministic"))
    return None if compiled is None else str(compiled)


def labels_of(obj: Obj) -> dict[str, str]:
    return obj.get("metadata", {}).get("labels") or {}


@lru_cache(maxsize=4096)
def _compile(text: bytes) -> Selector | None:
    try:
        return compile_label_selector(decode(LabelSelector, text))
    except (SelectorError, WireError):
        return None
