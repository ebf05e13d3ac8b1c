"""managedFields: which manager owns which fields of an object (server-side apply).

In: an object before and after a write, and the writer; or the current object and a manager's configuration.
Out: the new managedFields; the merged object, or a 409 that names the fields which others own and the manager
would change. A manager that changes a field becomes its only owner; a manager that applies a field with its
current value shares it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.local.apiserver.objects import Obj, is_larger
from kuberth.local.apiserver.patching.field_sets import (
    Difference,
    FieldSet,
    common,
    difference,
    field_set,
    in_order,
    merge_by_type,
    minus,
    paths,
    read_set,
    root_field,
    type_problems,
    union,
    without,
)
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema.fields import ShapeError, copy_tree
from kuberth.local.apiserver.status_errors import Cause, StatusError, bad_request, too_large

MAX_VALUES: Final = 30_000
"""The maximum number of values of an object whose fields are tracked. Each takes about ten microseconds,
during which the event loop is blocked. Three thousand containers are half of it."""
MAX_MANAGED: Final = 2 * MAX_VALUES
"""The maximum number of fields of all managers of an object together."""
_MAX_UPDATERS: Final = 10
"""The maximum number of managers of updates, as upstream: beyond it, the oldest are merged into one."""
_OLDEST: Final = "ancient-changes"
_BEFORE_APPLY: Final = "before-first-apply"
_UNOWNED: Final = frozenset(
    (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "selfLink",
        "managedFields",
    )
)
"""Metadata that the server owns."""


class Manager(NamedTuple):
    name: str
    operation: str
    """Update, or Apply."""
    api_version: str
    subresource: str
    fields: FieldSet
    time: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """A manager that updates in two versions counts twice; one that applies counts once."""
        version = self.api_version if self.operation == "Update" else ""
        return self.name, self.operation, version, self.subresource

    def described(self) -> str:
        """The manager's name, subresource and API version, as conflicts show them."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


def owned_part(obj: Obj) -> Obj:
    """An object without the fields that clients cannot own."""
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name not in _UNOWNED}
    rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return {"metadata": metadata, **rest}


def managers_of(obj: Obj) -> list[Manager]:
    return _read(obj.get("metadata", {}).get("managedFields")) or []


def written(managers: Iterable[Manager]) -> list[Obj]:
    """The managers as managedFields, in upstream's order; managers without fields are omitted."""
    order = sorted(
        (each for each in managers if each.fields),
        key=lambda each: (each.operation, each.time, each.name, each.api_version, each.subresource),
    )
    return [_entry(each, in_order(each.fields)) for each in order]


def is_reset(managed: Any) -> bool:
    """Whether a client wants no managedFields: an empty list, or one with an empty entry."""
    return isinstance(managed, list) and managed in ([], [{}])


def first_writer(row: ServedResource, obj: Obj, *, name: str, now: str) -> list[Manager]:
    """The manager of a created object, which owns all of its fields."""
    if is_larger(obj, MAX_VALUES):
        return []
    found = difference({"metadata": {}}, owned_part(obj), root_field(row))
    fields = union(found.added or {}, found.changed or {})
    return [Manager(name, "Update", row.api_version, "", fields, now)]


def first_of_prepared(row: ServedResource, metadata: Obj, spec: FieldSet, *, name: str, now: str) -> Obj:
    """The managedFields of a created object whose spec has the fields `spec`, which are in order already."""
    owners = first_writer(row, {"metadata": metadata}, name=name, now=now)
    managed = [_entry(own, {**in_order(own.fields), "f:spec": spec}) for own in owners]
    return {"managedFields": managed} if managed else {}


def before_apply(row: ServedResource, obj: Obj, *, subresource: str, now: str) -> list[Manager]:
    """The manager that represents all writers of an object without managedFields before the first apply."""
    return [
        each._replace(name=_BEFORE_APPLY, subresource=subresource)
        for each in first_writer(row, obj, name=_BEFORE_APPLY, now=now)
    ]


def after_update(
    row: ServedResource, old: Obj, new: Obj, *, name: str, subresource: str, now: str
) -> list[Obj]:
    """The managedFields after an update; a client may have sent different ones."""
    managed = new["metadata"].get("managedFields")
    if subresource:
        managed = None
    if is_reset(managed):
        return []
    managers = (_read(managed) if managed else None) or managers_of(old)
    # As upstream: an object without managedFields gets them with the first apply.
    if not managers or is_larger(new, MAX_VALUES):
        return []
    found = difference(owned_part(old), owned_part(new), root_field(row))
    taken, removed = union(found.added or {}, found.changed or {}), found.removed or {}
    writer = Manager(name, "Update", row.api_version, subresource, taken, now)
    return written(_capped(_with_writer(without_fields(managers, taken, removed), writer)))


def without_fields(managers: Iterable[Manager], taken: FieldSet, removed: FieldSet) -> list[Manager]:
    """The managers without the fields that another one took over or that were removed."""
    return [each._replace(fields=minus(minus(each.fields, taken), removed)) for each in managers]


def _with_writer(managers: list[Manager], writer: Manager) -> list[Manager]:
    if not writer.fields:
        return managers
    for index, each in enumerate(managers):
        if each.identity == writer.identity:
            managers[index] = writer._replace(fields=union(each.fields, writer.fields))
            return managers
    return [*managers, writer]


def _capped(managers: list[Manager]) -> list[Manager]:
    managers = [each for each in managers if each.fields]
    updaters = sorted(
        (each for each in managers if each.operation == "Update"), key=lambda each: (each.time, each.name)
    )
    surplus = len(updaters) - _MAX_UPDATERS
    buckets: dict[str, list[Manager]] = {}
    for each in updaters:
        if surplus <= 0:
            break
        bucket = buckets.setdefault(each.api_version, [])
        surplus -= bool(bucket)
        bucket.append(each)
    for version, members in buckets.items():
        if len(members) < 2:
            continue
        fields: FieldSet = {}
        for each in members:
            managers.remove(each)
            fields = union(fields, each.fields)
        managers.append(Manager(_OLDEST, "Update", version, "", fields, members[-1].time))
    return managers


def _read(managed: Any) -> list[Manager] | None:
    """The managers of a list; None if it is invalid or too large."""
    if not isinstance(managed, Sequence) or is_larger(managed, MAX_MANAGED):
        return None
    found = []
    for entry in managed:
        fields = read_set(entry.get("fieldsV1", {}))
        known = entry.get("operation") in ("Apply", "Update") and entry.get("fieldsType") == "FieldsV1"
        if fields is None or not known or not entry.get("apiVersion"):
            return None
        found.append(
            Manager(
                entry.get("manager", ""),
                entry["operation"],
                entry["apiVersion"],
                entry.get("subresource", ""),
                fields,
                entry.get("time", ""),
            )
        )
    return found


def _entry(manager: Manager, fields: FieldSet) -> Obj:
    entry: Obj = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
    if manager.time:
        entry["time"] = manager.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": fields}
    return {**entry, "subresource": manager.subresource} if manager.subresource else entry


_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_REPORTED: Final = 20
_STATUS_ALONE: Final = ("resourceclaims.resource.k8s.io",)
_KEPT_BY_STATUS: Final = (("deployments.apps", "labels"), ("pods", "ownerReferences"))


def read_applied(row: ServedResource, sent: Any) -> Obj:
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


def check_applied(wanted: Obj, *, name: str, namespace: str) -> None:
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


def first_applied(row: ServedResource, wanted: Obj, *, manager: str, now: str) -> list[Obj]:
    """The managedFields of an object that an apply patch creates."""
    fields = field_set(_applied_part(row, wanted, ""), root_field(row))
    return written([Manager(manager, "Apply", row.api_version, "", fields, now)])


def merge_applied(
    row: ServedResource, live: Obj, wanted: Obj, *, manager: str, subresource: str, force: bool, now: str
) -> Obj:
    """The current object with the manager's configuration, without fields that only its last one had."""
    if is_larger(live, MAX_VALUES + MAX_MANAGED):
        raise too_large(f"the object has more than {MAX_VALUES} values: too many to apply; replace it")
    root = root_field(row)
    applied = _applied_part(row, wanted, subresource)
    fields = field_set(applied, root)
    present = managers_of(live) or before_apply(row, live, subresource=subresource, now=now)
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
    same = before is not None and (before.fields, before.api_version) == (fields, row.api_version)
    if before is not None and same and change == Difference():
        own = before
    listed = written([*without_fields(others, taken, change.removed or {}), own])
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
