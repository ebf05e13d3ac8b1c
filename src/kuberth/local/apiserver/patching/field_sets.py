"""Sets of fields, as FieldsV1 writes them, and the trees whose fields they are.

In: JSON trees and their types. Out: the fields that a tree sets, differences, trees merged by type, and trees
without the fields of a set. Lists without keys, and atomic structs, are only replaced as a whole.

A set is a tree of marks. `f:` is a field, `k:` a list entry by its keys, `v:` an entry by its value. A mark
with nothing below is a member of the set; one with marks below is a member if `.` is among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema.fields import Field, go_type
from kuberth.local.apiserver.schema.structural import StructuralSchema

FieldSet = dict[str, Any]

SELF: Final = "."
_ORDER: Final = {"f": 0, "k": 1, "v": 2, "i": 3}


def is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def union(first: FieldSet, second: FieldSet) -> FieldSet:
    if not first or not second:
        return first or second
    found = dict(first)
    for mark, node in second.items():
        if (own := found.get(mark)) is not None:
            member = is_member(own) or is_member(node)
            node = _node(union(_below(own), _below(node)), member=member) or {}
        found[mark] = node
    return found


def minus(fields: FieldSet, gone: FieldSet) -> FieldSet:
    """The members of the first set that are not in the second."""
    if not gone:
        return fields
    found: FieldSet = {}
    for mark, node in fields.items():
        other = gone.get(mark)
        if other is None:
            found[mark] = node
            continue
        member = is_member(node) and not is_member(other)
        left = _node(minus(_below(node), _below(other)), member=member)
        if left is not None:
            found[mark] = left
    return found


def common(first: FieldSet, second: FieldSet) -> FieldSet:
    """The members of both."""
    found: FieldSet = {}
    for mark, node in first.items():
        other = second.get(mark)
        if other is None:
            continue
        member = is_member(node) and is_member(other)
        both = _node(common(_below(node), _below(other)), member=member)
        if both is not None:
            found[mark] = both
    return found


def _below(node: FieldSet) -> FieldSet:
    return {mark: inner for mark, inner in node.items() if mark != SELF} if SELF in node else node


def _node(below: FieldSet, *, member: bool) -> FieldSet | None:
    if below:
        return {SELF: {}, **below} if member else below
    return {} if member else None


def paths(fields: FieldSet, above: str = "") -> Iterator[str]:
    """The members, as conflicts name them, in order."""
    for mark in sorted(fields, key=_sort_key):
        if mark == SELF:
            continue
        node, path = fields[mark], above + path_of(mark)
        if is_member(node):
            yield path
        yield from paths(node, path)


def in_order(fields: FieldSet) -> FieldSet:
    """The field set in the order in which upstream writes it."""
    if len(fields) < 2:
        return {mark: in_order(node) for mark, node in fields.items()} if fields else fields
    marks = sorted(fields)
    if marks[-1][0] != "f":  # `f:` sorts before the marks of entries, and their order is that of their values
        marks.sort(key=_sort_key)
    return {mark: in_order(fields[mark]) for mark in marks}


def read_set(tree: Any) -> FieldSet | None:
    """The set of a client's FieldsV1; None if it is invalid."""
    if not isinstance(tree, dict):
        return None
    for mark, node in tree.items():
        if mark != SELF and not _is_mark(mark):
            return None
        if read_set(node) is None:
            return None
    return tree


def _is_mark(mark: str) -> bool:
    kind, colon, text = mark.partition(":")
    if not colon or kind not in _ORDER:
        return False
    if kind == "f":
        return True
    value = _parsed(text)
    return isinstance(value, dict) if kind == "k" else value is not None


def key_mark(keys: Iterable[tuple[str, Any]]) -> str:
    return "k:" + json_text(dict(sorted(keys)))


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def path_of(mark: str) -> str:
    if mark.startswith("f:"):
        return f".{mark[2:]}"
    if mark.startswith("k:"):
        keys = _parsed(mark[2:])
        if isinstance(keys, dict):
            return "[" + ",".join(f"{name}={json_text(value)}" for name, value in keys.items()) + "]"
    if mark.startswith("v:"):
        return f"[={mark[2:]}]"
    return f"[{mark[2:]}]"


def _sort_key(mark: str) -> tuple[Any, ...]:
    """Fields by name, then entries by the values of their keys: port 80 comes before port 443."""
    if mark[:2] == "f:":
        return (0, mark[2:])
    if mark == SELF:
        return (-1,)
    kind, text = mark[0], mark[2:]
    value = _parsed(text)
    if kind == "k" and isinstance(value, dict):
        return (1, tuple((name, *_rank(value[name])) for name in sorted(value)), text)
    return (_ORDER.get(kind, 4), _rank(value), text)


def _rank(value: Any) -> tuple[int, Any]:
    """Values of one type among each other; types that cannot be compared one after the other."""
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, (int, float)):
        return (0, value)
    return (1, value if isinstance(value, str) else json.dumps(value))


_ANY: Final = Field("any")
_CUSTOM: Final = StructuralSchema.of(None, is_resource=True)
"""A custom kind without a schema: only its metadata has a known type."""


class _Absent(Enum):
    ABSENT = "absent"


_ABSENT: Final = _Absent.ABSENT


def root_field(row: ServedResource) -> Field:
    if row.schema:
        return Field(row.schema)
    return row.structure or _CUSTOM


def _parts(tree: Any, field: Field, *, zeros: bool = False) -> Obj:
    """The fields or entries of a value by their marks; none for a leaf or an atomic value.

    `zeros` adds the fields that Go writes even if they are empty.
    """
    if isinstance(tree, dict):
        go = go_type(field.type)
        if field.atomic or go.atomic:
            return {}
        whole = {**go.zeros, **tree} if zeros and go.zeros else tree
        return {f"f:{name}": value for name, value in whole.items()}
    if isinstance(tree, list):
        if field.map_keys:
            return entries_by_key(tree, field)
        if field.is_set:
            return {f"v:{json_text(value)}": value for value in tree}
    return {}


def _part_field(field: Field, mark: str) -> Field:
    """The type of a part of a value."""
    if mark[0] == "f":
        return field.child(mark[2:])
    return field.item() if mark[0] == "k" else _ANY


def field_set(tree: Any, field: Field) -> FieldSet:
    """The fields that a tree sets; a leaf or an atomic value is an empty set."""
    found = {}
    for mark, value in _parts(tree, field).items():
        inside = field_set(value, _part_field(field, mark))
        # An entry of a list or map has an owner, unlike a field of a struct, which always exists.
        is_entry = inside and not (mark[0] == "f" and field.has(mark[2:]))
        found[mark] = {SELF: {}, **inside} if is_entry else inside
    return found


def type_problems(tree: Any, field: Field, path: str = "") -> Iterator[str]:
    """Fields that the type does not have, and entries of a list that have the same keys."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            where = f"{path}.{name}"
            if not field.declares(name):
                yield f"{where}: field not declared in schema"
            else:
                yield from type_problems(value, field.child(name), where)
    elif isinstance(tree, list):
        entry_field = field.item()
        seen: set[str] = set()
        for index, entry in enumerate(tree):
            where = f"{path}[{index}]"
            if field.map_keys and isinstance(entry, dict):
                mark = _entry_mark(entry, field)
                where = path + path_of(mark)
                if mark in seen:
                    yield f"{path}: duplicate entries for key {path_of(mark)}"
                seen.add(mark)
            yield from type_problems(entry, entry_field, where)


class Difference(NamedTuple):
    """The fields that only one of two trees has, and those with different values in both."""

    added: FieldSet | None = None
    changed: FieldSet | None = None
    removed: FieldSet | None = None


_SAME: Final = Difference()
_CHANGED: Final = Difference(changed={})
_REMOVED: Final = Difference(removed={})
"""A leaf; sets are never changed once they are made."""


def difference(old: Any, new: Any, field: Field) -> Difference:
    """The difference from `old` to `new`; None in it is an empty set."""
    if old == new:
        return _SAME
    first, second = _parts(old, field, zeros=True), _parts(new, field, zeros=True)
    same_kind = type(old) is type(new) or any(side is _ABSENT or side is None for side in (old, new))
    if not (first or second) or not same_kind:
        return _REMOVED if new is _ABSENT else _CHANGED
    found: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    if new is _ABSENT:
        found[2][SELF] = {}
    for mark in first | second:
        part = _part_field(field, mark)
        if mark not in first:
            found[0][mark] = _all_of(second[mark], part)
            continue
        inner = difference(first[mark], second.get(mark, _ABSENT), part)
        for into, fields in zip(found, inner, strict=True):
            if fields is not None:
                into[mark] = fields
    return Difference(*(each or None for each in found))


def _all_of(tree: Any, field: Field) -> FieldSet:
    """The fields of a tree where nothing was before: the tree itself, and everything in it."""
    if not tree or not isinstance(tree, (dict, list)):
        return {}  # most of what there is
    parts = _parts(tree, field, zeros=True)
    found: FieldSet = {SELF: {}} if parts else {}
    for mark, value in parts.items():
        inside = value and isinstance(value, (dict, list))
        found[mark] = _all_of(value, _part_field(field, mark)) if inside else {}
    return found


def merge_by_type(live: Any, wanted: Any, field: Field) -> Any:
    """`live` with everything that `wanted` says."""
    is_map = isinstance(wanted, dict)
    merges = not field.is_atomic if is_map else field.map_keys or field.is_set
    if not merges or not isinstance(live, (dict, list)) or type(live) is not type(wanted):
        return wanted
    merged = _parts(live, field)
    for mark, value in _parts(wanted, field).items():
        merged[mark] = merge_by_type(merged.get(mark), value, _part_field(field, mark))
    return {mark[2:]: value for mark, value in merged.items()} if is_map else list(merged.values())


def without(tree: Any, gone: FieldSet, kept: Iterable[FieldSet], field: Field) -> Any:
    """`tree` without the fields in `gone`, except those that another set keeps."""
    kept = list(kept)
    if isinstance(tree, dict):
        left = dict(tree)
        for mark, inner in gone.items():
            name = mark.removeprefix("f:")
            if not mark.startswith("f:") or name not in left:
                continue
            others = [each[mark] for each in kept if mark in each]
            if not others:
                del left[name]
            elif inner:
                left[name] = without(left[name], inner, others, field.child(name))
        return left
    if isinstance(tree, list):
        return list(_entries_without(tree, gone, kept, field))
    return tree


def _entries_without(tree: list[Any], gone: FieldSet, kept: list[FieldSet], field: Field) -> Iterator[Any]:
    for entry in tree:
        keyed = field.map_keys and isinstance(entry, dict)
        mark = _entry_mark(entry, field) if keyed else f"v:{json_text(entry)}"
        if mark not in gone:
            yield entry
            continue
        # A manager that only set a field in an entry does not keep the entry.
        others = [each[mark] for each in kept if mark in each]
        if not any(is_member(each) for each in others) and is_member(gone[mark]):
            continue
        yield without(entry, gone[mark], others, field.item()) if keyed else entry


def entries_by_key(tree: Any, field: Field) -> Obj:
    """The entries of a list by their keys; the last of several with the same keys."""
    if not isinstance(tree, list):
        return {}
    return {_entry_mark(entry, field): entry for entry in tree if isinstance(entry, dict)}


def _entry_mark(entry: Obj, field: Field) -> str:
    keys = {}
    for name in field.map_keys:
        value = entry[name] if name in entry else field.key_default(name)
        if value is not None:
            keys[name] = value
    return key_mark(keys.items())
