"""managedFields: which manager owns which fields of an object, updated with every write.

In: an object before and after a write, and the writer. Out: its new managedFields. A manager that changes a
field becomes its only owner; a manager that applies a field with its current value shares it (`applying`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kuberth.local.apiserver.objects import Obj, is_larger
from kuberth.local.apiserver.patching.field_sets import (
    FieldSet,
    difference,
    in_order,
    minus,
    read_set,
    root_field,
    union,
)
from kuberth.local.apiserver.resources import ServedResource

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
    return written(_capped(_with_writer(lose(managers, taken, removed), writer)))


def lose(managers: Iterable[Manager], taken: FieldSet, removed: FieldSet) -> list[Manager]:
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
    entry: Obj = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
    }
    if manager.time:
        entry["time"] = manager.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": fields}
    return {**entry, "subresource": manager.subresource} if manager.subresource else entry
