"""Who manages which fields of an object: its managedFields, kept up to date with every write.

In: an object before and after a write, and who wrote. Out: the managedFields it has then. Whoever changes a
field owns it alone from then on; whoever applies a field that is as it should be shares it (`applying`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kuberth.local.apiserver.objects import Obj, is_larger
from kuberth.local.apiserver.patching.field_sets import FieldSet, in_order, minus, read_set, union
from kuberth.local.apiserver.patching.typed_trees import difference, root_field
from kuberth.local.apiserver.resources import ServedResource

MAX_VALUES: Final = 30_000
"""Going through an object field by field takes some ten microseconds for each, and nobody else is served
meanwhile. Three thousand containers are half of it. Nobody keeps book of the fields of larger objects."""
MAX_MANAGED: Final = 2 * MAX_VALUES
"""So many marks all managers of an object may have together."""
_MAX_UPDATERS: Final = 10
"""As upstream: the oldest of more are counted as one."""
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
"""Metadata that belong to the server."""


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
        """Who updates in two versions is two managers; who applies is one."""
        version = self.api_version if self.operation == "Update" else ""
        return self.name, self.operation, version, self.subresource

    def described(self) -> str:
        """As conflicts name it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


def owned_part(obj: Obj) -> Obj:
    """An object without what no client can own."""
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name not in _UNOWNED}
    rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return {"metadata": metadata, **rest}


def managers_of(obj: Obj) -> list[Manager]:
    return _read(obj.get("metadata", {}).get("managedFields")) or []


def written(managers: Iterable[Manager]) -> list[Obj]:
    """As managedFields, in upstream's order; who manages nothing is left out."""
    order = sorted(
        (each for each in managers if each.fields),
        key=lambda each: (each.operation, each.time, each.name, each.api_version, each.subresource),
    )
    return [_entry(each, in_order(each.fields)) for each in order]


def is_reset(managed: Any) -> bool:
    """A list that is empty, or holds one empty entry, asks to keep no book any more."""
    return isinstance(managed, list) and managed in ([], [{}])


def first_writer(row: ServedResource, obj: Obj, *, name: str, now: str) -> list[Manager]:
    """Who created an object owns all that is in it."""
    if is_larger(obj, MAX_VALUES):
        return []
    found = difference({"metadata": {}}, owned_part(obj), root_field(row))
    fields = union(found.added or {}, found.changed or {})
    return [Manager(name, "Update", row.api_version, "", fields, now)]


def first_of_mold(row: ServedResource, metadata: Obj, spec: FieldSet, *, name: str, now: str) -> Obj:
    """The same, as metadata of an object whose spec has these fields, which are in order already."""
    owners = first_writer(row, {"metadata": metadata}, name=name, now=now)
    managed = [_entry(own, {**in_order(own.fields), "f:spec": spec}) for own in owners]
    return {"managedFields": managed} if managed else {}


def before_apply(row: ServedResource, obj: Obj, *, subresource: str, now: str) -> list[Manager]:
    """Whoever wrote an object of which nobody kept book, as the first to apply meets them."""
    return [
        each._replace(name=_BEFORE_APPLY, subresource=subresource)
        for each in first_writer(row, obj, name=_BEFORE_APPLY, now=now)
    ]


def after_update(
    row: ServedResource, old: Obj, new: Obj, *, name: str, subresource: str, now: str
) -> list[Obj]:
    """The managedFields of an object that somebody updates; a client may have sent others."""
    managed = new["metadata"].get("managedFields")
    if subresource:
        managed = None
    if is_reset(managed):
        return []
    managers = (_read(managed) if managed else None) or managers_of(old)
    # As upstream: of an object that was never tracked nobody keeps book before somebody applies.
    if not managers or is_larger(new, MAX_VALUES):
        return []
    found = difference(owned_part(old), owned_part(new), root_field(row))
    taken, removed = union(found.added or {}, found.changed or {}), found.removed or {}
    writer = Manager(name, "Update", row.api_version, subresource, taken, now)
    return written(_capped(_with_writer(lose(managers, taken, removed), writer)))


def lose(managers: Iterable[Manager], taken: FieldSet, removed: FieldSet) -> list[Manager]:
    """The managers without the fields that somebody else took over, or that are gone."""
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
    """None for what is no list of managers, or too much of one."""
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
