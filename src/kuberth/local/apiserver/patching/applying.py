"""Server-side apply, small: a merge that records which manager set which fields.

In: the present object and what a manager applies. Out: the merged object with its managedFields. Only
appliers are recorded; what other writers set belongs to nobody, so only appliers conflict.
"""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, is_larger
from kuberth.local.apiserver.patching.field_sets import (
    FieldSet,
    clashes,
    field_set,
    merge_by_type,
    minus,
    without,
)
from kuberth.local.apiserver.refusals import bad_request
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema.fields import Field
from kuberth.local.apiserver.status_errors import Cause, StatusError

MAX_VALUES: Final = 30_000
"""Merging field by field takes some ten microseconds for each, and nobody else is served meanwhile. Three
thousand containers are half of it."""
_NOT_OWNED: Final = (
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)


def check(wanted: Obj, *, name: str, namespace: str) -> None:
    """400 unless what is applied is the object that the request names."""
    metadata = wanted.get("metadata", {})
    for field, expected in (("name", name), ("namespace", namespace)):
        given = metadata.get(field) or expected
        if given != expected:
            raise bad_request(
                f"the {field} of the object ({given}) does not match the {field} on the URL ({expected})"
            )
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if is_larger(wanted, MAX_VALUES):
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            f"more than {MAX_VALUES} values are too many to apply at once; create or replace the object",
        )


def first(row: ServedResource, wanted: Obj, *, manager: str, now: str) -> Obj:
    """What is created when the object is not there yet."""
    fields = _fields_of(row, wanted)
    entry = _entry(row, manager=manager, subresource="", fields=fields, now=now)
    return {**wanted, "metadata": {**wanted.get("metadata", {}), "managedFields": [entry]}}


def merged(
    row: ServedResource, live: Obj, wanted: Obj, *, manager: str, subresource: str, force: bool, now: str
) -> Obj:
    """The present object with what the manager applies, and without what it applied before but no longer."""
    if subresource == "status":
        wanted = {name: value for name, value in wanted.items() if name != "spec"}
    root = Field(row.schema or "any")
    fields = _fields_of(row, wanted)
    ours = _find(live, manager, subresource)
    others = [entry for entry in _entries(live) if entry is not ours]
    found: list[Cause] = []
    paths: set[str] = set()
    for entry in others:
        theirs = entry.get("fieldsV1", {})
        for path in clashes(fields, theirs, wanted=wanted, live=live, field=root):
            paths.add(path)
            message = f'conflict with "{entry.get("manager", "")}"'
            found.append(Cause(path, message, "FieldManagerConflict"))
    if found and not force:
        raise _conflict(found)
    if paths:
        others = [{**entry, "fieldsV1": minus(entry.get("fieldsV1", {}), paths)} for entry in others]
        others = [entry for entry in others if entry["fieldsV1"]]
    result = merge_by_type(live, {**wanted, "metadata": _applied_metadata(wanted)}, root)
    kept = [fields, *(entry.get("fieldsV1", {}) for entry in others)]
    result = without(result, (ours or {}).get("fieldsV1", {}), kept, root)
    entry = _entry(row, manager=manager, subresource=subresource, fields=fields, now=now)
    if ours is not None and {**ours, "time": now} == entry:
        entry = ours
    version = wanted.get("metadata", {}).get("resourceVersion", "")
    metadata = {
        **result["metadata"],
        "managedFields": [*others, entry],
        "resourceVersion": version or live["metadata"]["resourceVersion"],
    }
    if uid := wanted.get("metadata", {}).get("uid"):
        metadata["uid"] = uid
    return {**result, "metadata": metadata}


def _applied_metadata(wanted: Obj) -> Obj:
    return {name: value for name, value in wanted.get("metadata", {}).items() if name not in _NOT_OWNED}


def _fields_of(row: ServedResource, wanted: Obj) -> FieldSet:
    owned: dict[str, Any] = {
        name: value for name, value in wanted.items() if name not in ("apiVersion", "kind", "metadata")
    }
    if metadata := _applied_metadata(wanted):
        owned["metadata"] = metadata
    return field_set(owned, Field(row.schema or "any"))


def _entry(row: ServedResource, *, manager: str, subresource: str, fields: FieldSet, now: str) -> Obj:
    entry: Obj = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": row.api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**entry, "subresource": subresource} if subresource else entry


def _entries(live: Obj) -> list[Obj]:
    return [entry for entry in live["metadata"].get("managedFields", ()) if entry.get("operation") == "Apply"]


def _find(live: Obj, manager: str, subresource: str) -> Obj | None:
    for entry in _entries(live):
        if entry.get("manager") == manager and entry.get("subresource", "") == subresource:
            return entry
    return None


def _conflict(causes: list[Cause]) -> StatusError:
    plural = "" if len(causes) == 1 else "s"
    listed = "; ".join(f"{cause.message}: {cause.field}" for cause in causes)
    message = f"Apply failed with {len(causes)} conflict{plural}: {listed}"
    return StatusError(409, "Conflict", message, causes=causes)
