"""Strategic merge patches: maps merge, and lists merge entry by entry where the schema names a key.

In: an object, a patch and the object's type. Out: a fresh merged tree. Directives: `$patch` (replace,
delete, merge), `$deleteFromPrimitiveList/…`, `$setElementOrder/…`, `$retainKeys`.
"""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.schema.fields import Field, fields_of
from kuberth.local.apiserver.status_errors import bad_request

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_PLAIN: Final = Field("any")


def merge(target: Obj, patch: Obj, *, type_name: str) -> Obj:
    """`target` merged with the patch; neither is changed."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type found in a strategic merge patch: {_short(directive)}")
    merged = dict(target)
    if _RETAIN in patch:
        merged = _retain(merged, patch)
    fields = fields_of(type_name)
    orders: dict[str, list[Any]] = {}
    for key, value in patch.items():
        if key in (_DIRECTIVE, _RETAIN):
            continue
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            gone = {_hashable(item) for item in _list(value, key)}
            present = merged.get(name)
            if isinstance(present, list):
                merged[name] = [item for item in present if _hashable(item) not in gone]
        elif key.startswith(_ORDER):
            orders[key.removeprefix(_ORDER)] = _list(value, key)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge_value(merged.get(key), value, field=fields.get(key) or _inner(type_name))
    for name, order in orders.items():
        present = merged.get(name)
        if isinstance(present, list):
            before = target.get(name)
            key = (fields.get(name) or _PLAIN).merge_key or ""
            merged[name] = _ordered(
                present, order, key=key, before=before if isinstance(before, list) else []
            )
    return merged


def _inner(type_name: str) -> Field:
    """The field type of a map's values."""
    return Field(type_name[2:]) if type_name.startswith("{}") else _PLAIN


def _merge_value(target: Any, patch: Any, *, field: Field) -> Any:
    if isinstance(patch, dict):
        return merge(target if isinstance(target, dict) else {}, patch, type_name=field.type)
    if isinstance(patch, list):
        present = target if isinstance(target, list) else []
        if field.merge_key is None:
            return [_clean(item) for item in patch]
        if field.merge_key == "":
            both = list({_hashable(item): item for item in (*present, *patch)}.values())
            return _ordered(both, patch, key="", before=present)
        merged = _merge_entries(present, patch, key=field.merge_key, item_type=field.item_type)
        return _ordered(merged, patch, key=field.merge_key, before=present)
    return patch


def _merge_entries(target: list[Any], patch: list[Any], *, key: str, item_type: str) -> list[Any]:
    entries = list(target)
    kept: list[Obj] = []
    for item in patch:
        if not isinstance(item, dict):
            raise bad_request(f"expected objects in the list with merge key {key!r}, got {_short(item)}")
        if item.get(_DIRECTIVE) == "replace" and key not in item:
            # The whole list is replaced by what else the patch holds.
            return [_clean(other) for other in patch if other is not item]
        kept.append(item)
    places = {
        _hashable(entry[key]): index
        for index, entry in reversed(list(enumerate(entries)))
        if isinstance(entry, dict) and key in entry
    }
    deleted = set()
    for item in kept:
        if key not in item:
            raise bad_request(f"map: {_short(item)} does not contain declared merge key: {key}")
        identity = _hashable(item[key])
        place = places.get(identity)
        directive = item.get(_DIRECTIVE)
        if directive == "delete":
            deleted.add(identity)
            places.pop(identity, None)
        elif place is None:
            if directive not in (None, "merge", "replace"):
                raise bad_request(f"unknown patch type {_short(directive)}")
            places[identity] = len(entries)
            entries.append(_clean(item))
        else:
            entries[place] = merge(entries[place], item, type_name=item_type)
    added = entries[len(target) :]
    stayed = (entry for entry in entries[: len(target)] if not _is_one_of(entry, key, deleted))
    return [*stayed, *added]


def _is_one_of(entry: Any, key: str, identities: set[Any]) -> bool:
    return isinstance(entry, dict) and key in entry and _hashable(entry[key]) in identities


def _ordered(merged: list[Any], order: list[Any], *, key: str, before: list[Any]) -> list[Any]:
    """Sort entries that `order` names in that order; the others keep their place among them.

    As upstream: an entry that only the server has comes before the first named entry that was behind it.
    """
    ranks = _positions(order, key)
    places = _positions(before, key)
    named = [entry for entry in merged if _identity(entry, key) in ranks]
    named.sort(key=lambda entry: ranks[_identity(entry, key)])
    others = [entry for entry in merged if _identity(entry, key) not in ranks]
    others.sort(key=lambda entry: places.get(_identity(entry, key), len(before)))
    result: list[Any] = []
    waiting = iter(others)
    other = next(waiting, None)
    for entry in named:
        place = places.get(_identity(entry, key))
        while other is not None and place is not None:
            other_place = places.get(_identity(other, key))
            if other_place is None or other_place > place:
                break
            result.append(other)
            other = next(waiting, None)
        result.append(entry)
    return result if other is None else [*result, other, *waiting]


def _positions(entries: list[Any], key: str) -> dict[Any, int]:
    return {_identity(entry, key): index for index, entry in reversed(list(enumerate(entries)))}


def _identity(entry: Any, key: str) -> Any:
    return _hashable(entry.get(key) if key and isinstance(entry, dict) else entry)


def _retain(target: Obj, patch: Obj) -> Obj:
    keys = patch[_RETAIN]
    if not isinstance(keys, list):
        raise bad_request("invalid retainKeys patch format: a list of keys is expected")
    return {key: value for key, value in target.items() if key in keys}


def _clean(tree: Any) -> Any:
    """The content of a patch without directives, for a value that does not exist yet."""
    if isinstance(tree, dict):
        return {
            key: _clean(value)
            for key, value in tree.items()
            if value is not None and not key.startswith(("$patch", _RETAIN, _DELETE_FROM, _ORDER))
        }
    if isinstance(tree, list):
        return [
            _clean(item) for item in tree if not (isinstance(item, dict) and item.get(_DIRECTIVE) == "delete")
        ]
    return tree


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise bad_request(f"{key[:64]} needs a list")
    return value


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _short(value: Any) -> str:
    return repr(value)[:64]
