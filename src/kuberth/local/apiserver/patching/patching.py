"""JSON patches and JSON merge patches, and the choice among all patch types.

In: an object and a patch. Out: a fresh, patched tree; 400 for a patch that is none, 422 for one that does
not fit the object.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching import strategic
from kuberth.local.apiserver.refusals import bad_request, unsupported_media_type
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema import fields
from kuberth.local.apiserver.status_errors import StatusError

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
APPLY_PATCHES: Final = (APPLY_PATCH, "application/apply-patch+cbor", "application/apply-patch+json")
MAX_OPERATIONS: Final = 10_000
"""As upstream: a longer JSON patch is refused."""
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
"""As upstream: copying an object into itself would double it with every operation."""


def apply_patch(row: ServedResource, obj: Obj, patch: Any, *, content_type: str) -> Any:
    """The patched tree, not yet looked at; apply patches are not for here."""
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
    """RFC 6902."""
    if not isinstance(patch, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(patch) > MAX_OPERATIONS:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}",
        )
    document = fields.copy_tree(obj)
    copied = 0
    for operation in patch:
        if isinstance(operation, dict) and operation.get("op") == "copy":
            copied += len(msgspec.json.encode(_get(document, _from(operation))))
            if copied > MAX_COPIED_BYTES:
                why = f"the accumulated size increase of copy operations is {copied}, exceeding the limit "
                raise StatusError(413, "RequestEntityTooLarge", f"unable to copy, {why}{MAX_COPIED_BYTES}")
        document = _operate(document, operation)
    return document


def _expect_object(patch: Any) -> Obj:
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: the patch is no JSON object")
    return patch


def _operate(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        raise bad_request("error decoding patch: an operation needs an op and a path")
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "add":
            return _add(document, path, _value(operation))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            _get(document, path)
            return _replace(document, path, _value(operation))
        case "copy":
            return _add(document, path, fields.copy_tree(_get(document, _from(operation))))
        case "move":
            source = _from(operation)
            if path[: len(source)] == source and path != source:
                raise _unfit("a value cannot be moved into itself")
            document, value = _remove(document, source)
            return _add(document, path, value)
        case "test":
            if not _equal(_get(document, path), _value(operation)):
                raise _unfit(f"testing value {operation['path']} failed")
            return document
    raise bad_request(f"error decoding patch: unknown operation {str(operation.get('op'))[:64]!r}")


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


def _get(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _child(document, part)
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    last = path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(parent, last, end=len(parent) + 1), value)
    else:
        raise _unfit(f"a {type(parent).__name__} has no {last[:64]!r}")
    return document


def _replace(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        parent[_index(parent, path[-1], end=len(parent))] = value
    return document


def _remove(document: Any, path: list[str]) -> tuple[Any, Any]:
    if not path:
        return None, document
    parent = _get(document, path[:-1])
    value = _child(parent, path[-1])
    if isinstance(parent, dict):
        del parent[path[-1]]
    else:
        del parent[_index(parent, path[-1], end=len(parent))]
    return document, value


def _equal(left: Any, right: Any) -> bool:
    """As JSON sees it: true is not 1."""
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
