"""Which fields somebody set, as FieldsV1 trees: `f:` a field, `k:` a list entry by its keys, `v:` a value.

In: trees and their types. Out: field sets, trees merged by type, and trees without the fields of a set.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.schema.fields import Field, fields_of

FieldSet = dict[str, Any]

_ANY: Final = Field("any")
_KEY_DEFAULTS: Final = {"protocol": "TCP"}
"""List keys that clients leave out, and what the server fills in."""


def child_field(field: Field, name: str) -> Field:
    """The field of a struct, or the values of a map."""
    if field.type.startswith("{}"):
        return Field(field.item_type)
    return fields_of(field.type).get(name) or _ANY


def field_set(tree: Any, field: Field) -> FieldSet:
    """The fields a tree sets; a leaf, and whatever is only replaced as a whole, is an empty set."""
    if isinstance(tree, dict) and not field.atomic:
        return {f"f:{name}": field_set(value, child_field(field, name)) for name, value in tree.items()}
    if isinstance(tree, list):
        if field.map_keys:
            entry_field = Field(field.item_type)
            return {
                _entry_key(entry, field): {".": {}, **field_set(entry, entry_field)}
                for entry in tree
                if isinstance(entry, dict)
            }
        if field.is_set:
            return {f"v:{_json(value)}": {} for value in tree}
    return {}


def merge_by_type(live: Any, wanted: Any, field: Field) -> Any:
    """`live` with everything that `wanted` says."""
    if isinstance(wanted, dict) and isinstance(live, dict) and not field.atomic:
        merged = dict(live)
        for name, value in wanted.items():
            merged[name] = merge_by_type(live.get(name), value, child_field(field, name))
        return merged
    if isinstance(wanted, list) and isinstance(live, list):
        if field.map_keys:
            entries = {_entry_key(entry, field): entry for entry in live if isinstance(entry, dict)}
            entry_field = Field(field.item_type)
            for entry in wanted:
                if isinstance(entry, dict):
                    key = _entry_key(entry, field)
                    entries[key] = merge_by_type(entries.get(key), entry, entry_field)
            return list(entries.values())
        if field.is_set:
            return list({_json(value): value for value in (*live, *wanted)}.values())
    return wanted


def without(tree: Any, gone: FieldSet, kept: Iterable[FieldSet], field: Field) -> Any:
    """`tree` without the fields in `gone`, save those that another set keeps."""
    kept = [each for each in kept if isinstance(each, dict)]
    if isinstance(tree, dict):
        left = dict(tree)
        for mark, inner in gone.items():
            name = mark.removeprefix("f:")
            if not mark.startswith("f:") or name not in left:
                continue
            others = [each[mark] for each in kept if mark in each]
            if not others:
                del left[name]
            elif isinstance(inner, dict) and inner:
                left[name] = without(left[name], inner, others, child_field(field, name))
        return left
    if isinstance(tree, list):
        return list(_entries_without(tree, gone, kept, field))
    return tree


def _entries_without(tree: list[Any], gone: FieldSet, kept: list[FieldSet], field: Field) -> Iterator[Any]:
    for entry in tree:
        keyed = field.map_keys and isinstance(entry, dict)
        mark = _entry_key(entry, field) if keyed else f"v:{_json(entry)}"
        if mark not in gone:
            yield entry
            continue
        others = [each[mark] for each in kept if mark in each]
        if others and keyed and isinstance(gone[mark], dict):
            yield without(entry, gone[mark], others, Field(field.item_type))
        elif others:
            yield entry


def clashes(
    ours: FieldSet, theirs: Any, *, wanted: Any, live: Any, field: Field, above: tuple[str, ...] = ()
) -> Iterator[str]:
    """Paths in both sets whose wanted value is not the present one."""
    if not isinstance(theirs, dict):
        return
    wanted, live = _by_mark(wanted, field), _by_mark(live, field)
    for mark, inner in ours.items():
        if mark == "." or mark not in theirs:
            continue
        here, next_wanted, next_live = (*above, mark), wanted.get(mark), live.get(mark)
        next_field = child_field(field, mark[2:]) if mark.startswith("f:") else Field(field.item_type)
        leaf = not inner or not theirs[mark]
        if leaf and not mark.startswith("v:"):
            if next_wanted != next_live:
                yield "".join(map(_path_of, here))
        elif inner:
            yield from clashes(
                inner, theirs[mark], wanted=next_wanted, live=next_live, field=next_field, above=here
            )


def minus(fields: Any, paths: set[str], path: str = "") -> FieldSet:
    """A set without the fields at these paths."""
    left: FieldSet = {}
    for mark, inner in fields.items() if isinstance(fields, dict) else ():
        where = path + _path_of(mark)
        if where not in paths:
            left[mark] = minus(inner, paths, where)
    return left


def _path_of(mark: str) -> str:
    if mark.startswith("f:"):
        return f".{mark[2:]}"
    if mark.startswith("k:"):
        try:
            keys = json.loads(mark[2:])
        except ValueError:
            return f"[{mark[2:]}]"
        if isinstance(keys, dict):
            return "[" + ",".join(f"{name}={_json(value)}" for name, value in keys.items()) + "]"
    return f"[{mark[2:]}]"


def _by_mark(tree: Any, field: Field) -> dict[str, Any]:
    """What a tree holds, by the marks that a field set uses."""
    if isinstance(tree, dict):
        return {f"f:{name}": value for name, value in tree.items()}
    if isinstance(tree, list) and field.map_keys:
        return {_entry_key(entry, field): entry for entry in tree if isinstance(entry, dict)}
    return {}


def _entry_key(entry: Obj, field: Field) -> str:
    keys = {name: entry.get(name, _KEY_DEFAULTS.get(name)) for name in sorted(field.map_keys)}
    return "k:" + _json({name: value for name, value in keys.items() if value is not None})


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
