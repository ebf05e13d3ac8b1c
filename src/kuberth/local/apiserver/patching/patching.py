"""JSON patches and JSON merge patches, and the choice among all patch types.

In: an object and a patch. Out: a new, patched tree; 400 for an invalid patch, 422 for one that does not fit
the object.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching import strategic
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema import fields
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
            return strategic.merge(obj, _expect_object(fields.copy_tree(patch)), type_name=row.schema)
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
                    raise _unfit("a value cannot be moved into itself")
                self._add(path, self._remove(source))
            case "test":
                if not self._is_equal(self._get(path), _value(operation)):
                    raise _unfit(f"testing value {operation['path'][:256]} failed")
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
            raise _unfit(f"a {type(parent).__name__} has no {last[:64]!r}")

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
        raise _unfit(f"the list of {len(items)} has no place {part[:64]!r}")
    return int(part)


def _child(parent: Any, part: str) -> Any:
    if isinstance(parent, dict):
        if part not in parent:
            raise _unfit(f"there is no {part[:64]!r}")
        return parent[part]
    if isinstance(parent, list):
        return parent[_index(parent, part, end=len(parent))]
    raise _unfit(f"a {type(parent).__name__} has no {part[:64]!r}")


def _equal(left: Any, right: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _unfit(why: str) -> StatusError:
    return StatusError(
        422, "Invalid", f"the server rejected our request due to an error in our request: {why}"
    )
