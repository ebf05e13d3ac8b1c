"""JSON patches, JSON merge patches and strategic merge patches, and the choice among all patch types.

In: an object, its type and a patch. Out: a new, patched tree; 400 for an invalid patch, 422 for one that does
not fit the object. In a strategic merge patch maps merge, and lists merge entry by entry where the schema
names a key; its directives are `$patch` (replace, delete, merge), `$deleteFromPrimitiveList/…`,
`$setElementOrder/…` and `$retainKeys`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema import fields
from kuberth.local.apiserver.schema.fields import Field, fields_of
from kuberth.local.apiserver.status_errors import StatusError, bad_request, too_large, unsupported_media_type

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
APPLY_PATCHES: Final = (APPLY_PATCH, "application/apply-patch+cbor", "application/apply-patch+json")
MAX_OPERATIONS: Final = 10_000
"""The maximum number of operations of a JSON patch, as upstream."""
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
"""The maximum number of bytes that copies may add, as upstream: each copy of an object into itself doubles
it."""

MAX_WORK: Final = 500_000
"""The maximum work of a JSON patch; one step of a path is one unit, a fraction of a microsecond."""
_MOVED_AT_ONCE: Final = 1000
"""Entries of a list that may be shifted for one unit of work."""
_BYTES_AT_ONCE: Final = 30
"""Bytes of JSON that may be written or read for one unit of work."""


def apply_patch(row: ServedResource, obj: Obj, patch: Any, *, content_type: str) -> Any:
    """The patched tree, not yet validated; apply patches are handled in `applying`."""
    kind = content_type.partition(";")[0].strip()
    try:
        if kind == JSON_PATCH:
            return json_patch(obj, fields.copy_tree(patch))
        if kind == MERGE_PATCH:
            return merge_patch(obj, _expect_object(fields.copy_tree(patch)))
        if kind == STRATEGIC_MERGE_PATCH and not row.custom:
            return strategic_merge(obj, _expect_object(fields.copy_tree(patch)), type_name=row.schema)
    except fields.ShapeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    supported = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if not row.custom:
        supported.insert(2, STRATEGIC_MERGE_PATCH)
    raise unsupported_media_type(supported)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7396: maps merge, null deletes, everything else is replaced."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(obj: Obj, patch: Any) -> Any:
    """RFC 6902. Own code: the jsonpatch library takes true for 1, and has no limit of work."""
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(patch) > MAX_OPERATIONS:
        raise too_large(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        )
    patcher = _Patcher(fields.copy_tree(obj))
    for operation in patch:
        patcher.operate(operation)
    return patcher.document


def _expect_object(patch: Any) -> Obj:
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: the patch is no JSON object")
    return patch


class _Patcher:
    """A document, modified in place, and the remaining work."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._work = 0
        self._copied = 0

    def operate(self, operation: Any) -> None:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("error decoding patch: an operation needs an op and a path")
        path = _pointer(operation["path"])
        match operation.get("op"):
            case "add":
                self._add(path, _value(operation))
            case "remove":
                self._remove(path)
            case "replace":
                self._get(path)
                self._replace(path, _value(operation))
            case "copy":
                self._add(path, self._copy(_from(operation)))
            case "move":
                source = _from(operation)
                if path[: len(source)] == source and path != source:
                    raise _inapplicable("a value cannot be moved into itself")
                self._add(path, self._remove(source))
            case "test":
                if not self._is_equal(self._get(path), _value(operation)):
                    raise _inapplicable(f"testing value {operation['path'][:256]} failed")
            case unknown:
                raise bad_request(f"error decoding patch: unknown operation {str(unknown)[:64]!r}")

    def _spend(self, work: int) -> None:
        """Count work, during which the event loop is blocked; StatusError beyond the limit."""
        self._work += work
        if self._work > MAX_WORK:
            raise too_large("the JSON patch takes too long to apply; make it smaller, or split it")

    def _get(self, path: list[str]) -> Any:
        self._spend(1 + len(path))
        value = self.document
        for part in path:
            value = _child(value, part)
        return value

    def _add(self, path: list[str], value: Any) -> None:
        if not path:
            self.document = value
            return
        parent, last = self._get(path[:-1]), path[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif isinstance(parent, list):
            self._spend(len(parent) // _MOVED_AT_ONCE)
            parent.insert(len(parent) if last == "-" else _index(parent, last, end=len(parent) + 1), value)
        else:
            raise _inapplicable(f"a {type(parent).__name__} has no {last[:64]!r}")

    def _replace(self, path: list[str], value: Any) -> None:
        if not path:
            self.document = value
            return
        parent = self._get(path[:-1])
        parent[path[-1] if isinstance(parent, dict) else _index(parent, path[-1], end=len(parent))] = value

    def _remove(self, path: list[str]) -> Any:
        """The previous value."""
        if not path:
            value, self.document = self.document, None
            return value
        parent = self._get(path[:-1])
        value = _child(parent, path[-1])
        if isinstance(parent, dict):
            del parent[path[-1]]
        else:
            self._spend(len(parent) // _MOVED_AT_ONCE)
            del parent[_index(parent, path[-1], end=len(parent))]
        return value

    def _copy(self, path: list[str]) -> Any:
        text = msgspec.json.encode(self._get(path))
        self._copied += len(text)
        if self._copied > MAX_COPIED_BYTES:
            why = f"the accumulated size increase of copy operations is {self._copied}, exceeding the limit "
            raise too_large(f"unable to copy, {why}{MAX_COPIED_BYTES}")
        self._spend(len(text) // _BYTES_AT_ONCE)
        return msgspec.json.decode(text)

    def _is_equal(self, left: Any, right: Any) -> bool:
        text = msgspec.json.encode(left, order="deterministic")
        self._spend(len(text) // _BYTES_AT_ONCE)
        if text == msgspec.json.encode(right, order="deterministic"):
            return True
        # Rare, and then mostly the end of the patch: another number, or 1 and 1.0.
        self._spend(len(text))
        return _equal(left, right)


def _value(operation: Obj) -> Any:
    if "value" not in operation:
        raise bad_request("error decoding patch: the operation has no value")
    return operation["value"]


def _from(operation: Obj) -> list[str]:
    if not isinstance(operation.get("from"), str):
        raise bad_request("error decoding patch: the operation has no from")
    return _pointer(operation["from"])


def _pointer(text: str) -> list[str]:
    if not text:
        return []
    if not text.startswith("/"):
        raise bad_request(f"error decoding patch: {text[:64]!r} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _index(items: list[Any], part: str, *, end: int) -> int:
    if not (part.isascii() and part.isdigit()) or len(part) > 9 or int(part) >= end:
        raise _inapplicable(f"the list of {len(items)} has no place {part[:64]!r}")
    return int(part)


def _child(parent: Any, part: str) -> Any:
    if isinstance(parent, dict):
        if part not in parent:
            raise _inapplicable(f"there is no {part[:64]!r}")
        return parent[part]
    if isinstance(parent, list):
        return parent[_index(parent, part, end=len(parent))]
    raise _inapplicable(f"a {type(parent).__name__} has no {part[:64]!r}")


def _equal(left: Any, right: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _inapplicable(why: str) -> StatusError:
    """The error for a valid patch that does not fit the object."""
    return StatusError(
        422, "Invalid", f"the server rejected our request due to an error in our request: {why}"
    )


_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_PLAIN: Final = Field("any")


def strategic_merge(target: Obj, patch: Obj, *, type_name: str) -> Obj:
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
        return strategic_merge(target if isinstance(target, dict) else {}, patch, type_name=field.type)
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
            entries[place] = strategic_merge(entries[place], item, type_name=item_type)
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
