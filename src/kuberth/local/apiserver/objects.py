"""Objects as the server stores them: plain JSON trees, which are never modified."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
    own = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
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
