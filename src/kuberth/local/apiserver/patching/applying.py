"""Server-side apply: a merge that uses the ownership of fields.

In: the current object and a manager's configuration. Out: the merged object with its managedFields, or a 409
that names the fields which others own and the manager would change.
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import Any, Final

import msgspec

from kuberth.local.apiserver.objects import Obj, is_larger
from kuberth.local.apiserver.patching import managers
from kuberth.local.apiserver.patching.field_sets import (
    Difference,
    FieldSet,
    common,
    difference,
    field_set,
    merge_by_type,
    minus,
    paths,
    root_field,
    type_problems,
    union,
    without,
)
from kuberth.local.apiserver.patching.managers import MAX_MANAGED, MAX_VALUES, Manager, owned_part
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema.fields import ShapeError, copy_tree
from kuberth.local.apiserver.status_errors import Cause, StatusError, bad_request, too_large

_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_REPORTED: Final = 20
_STATUS_ALONE: Final = ("resourceclaims.resource.k8s.io",)
_KEPT_BY_STATUS: Final = (("deployments.apps", "labels"), ("pods", "ownerReferences"))


def typed(row: ServedResource, sent: Any) -> Obj:
    """A copy of the applied configuration; 400 for fields that the kind's types do not allow.

    This applies whatever the field validation, since the manager would own the field. The message is
    upstream's; its code is 500, which is for failures of the server.
    """
    if not isinstance(sent, dict):
        raise bad_request("what is applied is no object")
    try:
        tree: Obj = copy_tree(sent)
    except ShapeError as error:
        raise bad_request(f"what is applied is no JSON: {error}") from None
    problems = list(islice(type_problems(tree, root_field(row)), _MOST_REPORTED))
    if problems:
        metadata = tree["metadata"] if isinstance(tree.get("metadata"), dict) else {}
        what = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        group_version = f"{row.group}/{row.version}"
        listed = problems[0] if len(problems) == 1 else "\n  ".join(("errors:", *problems))
        message = f"failed to create typed patch object ({what}; {group_version}, Kind={row.kind}): {listed}"
        raise bad_request(message)
    return tree


def check(wanted: Obj, *, name: str, namespace: str) -> None:
    """400 unless the applied object is the one that the request names."""
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
        raise too_large(
            f"more than {MAX_VALUES} values are too many to apply at once; create or replace the object"
        )


def first(row: ServedResource, wanted: Obj, *, manager: str, now: str) -> list[Obj]:
    """The managedFields of an object that an apply patch creates."""
    fields = field_set(_applied_part(row, wanted, ""), root_field(row))
    return managers.written([Manager(manager, "Apply", row.api_version, "", fields, now)])


def merged(
    row: ServedResource, live: Obj, wanted: Obj, *, manager: str, subresource: str, force: bool, now: str
) -> Obj:
    """The current object with the manager's configuration, and without fields that it applied before but no
    longer."""
    if is_larger(live, MAX_VALUES + MAX_MANAGED):
        raise too_large(f"the object has more than {MAX_VALUES} values: too many to apply; replace it")
    root = root_field(row)
    applied = _applied_part(row, wanted, subresource)
    fields = field_set(applied, root)
    present = managers.managers_of(live) or managers.before_apply(row, live, subresource=subresource, now=now)
    own = Manager(manager, "Apply", row.api_version, subresource, fields, now)
    before = next((each for each in present if each.identity == own.identity), None)
    others = [each for each in present if each is not before]
    owned = owned_part(live)
    result = merge_by_type(owned, applied, root)
    if before is not None:
        result = without(result, before.fields, [fields, *(each.fields for each in others)], root)
        result.setdefault("metadata", {})
    change = difference(owned, result, root)
    taken = union(change.added or {}, change.changed or {})
    if not force:
        allowed = _kubectl_applied(row, live) if manager == _KUBECTL else {}
        _expect_no_conflict(others, minus(taken, allowed))
    if before is not None and _is_same(before, own, change):
        own = before
    listed = managers.written([*managers.lose(others, taken, change.removed or {}), own])
    if is_larger(listed, MAX_MANAGED):
        raise too_large(f"the managers of the object own more than {MAX_MANAGED} fields; remove some")
    asked = wanted.get("metadata", {})
    metadata = {
        **{name: value for name, value in live["metadata"].items() if name not in owned["metadata"]},
        **result["metadata"],
        "managedFields": listed,
        "resourceVersion": asked.get("resourceVersion") or live["metadata"]["resourceVersion"],
    }
    if uid := asked.get("uid"):
        metadata["uid"] = uid
    if manager == _KUBECTL and _LAST_APPLIED in metadata.get("annotations", {}):
        metadata["annotations"] = {**metadata["annotations"], _LAST_APPLIED: _as_last_applied(wanted)}
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], **result, "metadata": metadata}


def _applied_part(row: ServedResource, wanted: Obj, subresource: str) -> Obj:
    """The relevant part of an apply patch: no status at the main endpoint, little else at /status."""
    applied = owned_part(wanted)
    if subresource == "status":
        metadata = {
            name: value for name, value in applied["metadata"].items() if changes_with_status(row, name)
        }
        applied = {"metadata": metadata, "status": applied.get("status", {})}
    elif row.has_status:
        applied.pop("status", None)
    if not applied["metadata"]:
        del applied["metadata"]
    return applied


def changes_with_status(row: ServedResource, name: str) -> bool:
    """Whether a write through /status changes this part of the metadata, as it does for most kinds."""
    if row.custom or row.id in _STATUS_ALONE:
        return False
    return (row.id, name) not in _KEPT_BY_STATUS


def _is_same(before: Manager, own: Manager, change: Difference) -> bool:
    return change == Difference() and before.fields == own.fields and before.api_version == own.api_version


def _expect_no_conflict(others: list[Manager], taken: FieldSet) -> None:
    found = [
        (each.described(), path)
        for each in sorted(others, key=lambda each: each.identity)
        for path in paths(common(each.fields, taken))
    ]
    if not found:
        return
    causes = [Cause(path, f"conflict with {manager}", "FieldManagerConflict") for manager, path in found]
    if len(found) == 1:
        conflicts = f"conflict: {causes[0].message}: {causes[0].field}"
    else:
        groups = groupby(found, key=lambda each: each[0])
        listed = [
            "\n".join((f"conflicts with {manager}:", *(f"- {path}" for _, path in group)))
            for manager, group in groups
        ]
        conflicts = "conflicts: " + "\n".join(listed)
    raise StatusError(409, "Conflict", f"Apply failed with {len(found)} {conflicts}", causes=causes)


def _kubectl_applied(row: ServedResource, live: Obj) -> FieldSet:
    """Fields that kubectl applied on the client side and that no other manager changed since."""
    text = live["metadata"].get("annotations", {}).get(_LAST_APPLIED, "")
    try:
        last = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if not isinstance(last, dict) or not isinstance(last.get("metadata", {}), dict):
        return {}
    if last.get("apiVersion") != row.api_version or is_larger(last, MAX_VALUES):
        return {}
    root = root_field(row)
    applied = owned_part(last)
    change = difference(applied, owned_part(live), root)
    fields = field_set(applied, root)
    for other in change:
        fields = minus(fields, other or {})
    return fields


def _as_last_applied(wanted: Obj) -> str:
    metadata = wanted.get("metadata", {})
    annotations = {
        name: value for name, value in metadata.get("annotations", {}).items() if name != _LAST_APPLIED
    }
    shown = {**wanted, "metadata": {**metadata, "annotations": annotations}}
    return msgspec.json.encode(shown, order="sorted").decode() + "\n"
