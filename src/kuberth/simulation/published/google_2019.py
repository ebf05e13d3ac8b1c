"""Google's cluster data 2019: instance events, as exported to CSV, and collection events beside them.

Columns are named as in BigQuery, those of nested records with a dot (`resource_request.cpus`). Times are
microseconds since ten minutes before the trace; sizes are shares of the largest machine, which is taken to
be one of `MACHINE`. If a file of the same name has "collection" in place of "instance", it has the users,
which are the tenants; else tenants are scheduling classes. Allocs (reservations) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.csv_rows import TableRow, read_rows

MACHINE: Final = {"cpu_milli": 64_000, "memory_mib": 512 * 1024}
"""The amount that 1.0 means here; the trace does not say."""
_COLUMNS: Final = (
    "time",
    "type",
    "collection_id",
    "instance_index",
    "priority",
    "resource_request.cpus",
    "resource_request.memory",
)
_TYPES: Final = [
    "SUBMIT",
    "QUEUE",
    "ENABLE",
    "SCHEDULE",
    "EVICT",
    "FAIL",
    "FINISH",
    "KILL",
    "LOST",
    "UPDATE_PENDING",
    "UPDATE_RUNNING",
]
"""Names of events; a trace may have their numbers instead."""
_ENDS: Final = ("EVICT", "FAIL", "FINISH", "KILL", "LOST")
_JOB: Final = ("", "0", "JOB")
_MICROSECONDS: Final = 1e6
_NEVER: Final = 2.0**63 - 1025
"""Events after the end of the trace have the largest time there is."""


@dataclass(slots=True)
class _Instance:
    submitted: float
    row: TableRow
    scheduled: float | None = None
    ended: float | None = None


def read_instances(path: Path) -> list[Arrival]:
    """One arrival per submission: an instance that ended and was submitted again arrives twice."""
    users = _users(path)
    instances: list[_Instance] = []
    current: dict[tuple[str, str], _Instance] = {}
    rows = sorted(
        ((row.number("time"), number, row) for number, row in enumerate(read_rows(path, needed=_COLUMNS))),
        key=lambda each: each[:2],
    )
    for time, _, row in rows:
        if row.text("collection_type") not in _JOB or time >= _NEVER:
            continue
        key = row.text("collection_id"), row.text("instance_index")
        type_ = row.text("type")
        if type_.isdecimal() and int(type_) < len(_TYPES):
            type_ = _TYPES[int(type_)]
        if type_ not in _TYPES:
            row.refuse("type", f"there is no event {type_!r:.40}")
        now = time / _MICROSECONDS
        instance = current.get(key)
        if type_ == "SUBMIT" or (instance is None and type_ == "SCHEDULE"):
            instance = current[key] = _Instance(now, row)
            instances.append(instance)
        if instance is not None and type_ == "SCHEDULE":
            instance.scheduled = now
        elif instance is not None and type_ in _ENDS:
            instance.ended = now
            del current[key]
    if not instances:
        raise ConfigError(f"{path}: no instance is submitted in this trace")
    first = min(each.submitted for each in instances)
    return [_arrival(each, number, first, users) for number, each in enumerate(instances, 1)]


def _arrival(instance: _Instance, number: int, first: float, users: dict[str, str]) -> Arrival:
    row = instance.row
    duration = None
    if instance.ended is not None:
        duration = instance.ended - (instance.submitted if instance.scheduled is None else instance.scheduled)
    cpus = row.number("resource_request.cpus", default=0.0)
    memory = row.number("resource_request.memory", default=0.0)
    collection = row.text("collection_id")
    tenant = users.get(collection) or f"class-{row.text('scheduling_class') or 'unknown'}"
    return Arrival(
        arrival=instance.submitted - first,
        duration=duration,
        name=f"{collection}-{row.text('instance_index')}-{number}",
        tenant=tenant,
        priority=int(row.number("priority", default=0.0)),
        requests={
            "cpu": f"{round(cpus * MACHINE['cpu_milli'])}m",
            "memory": f"{round(memory * MACHINE['memory_mib'])}Mi",
        },
    )


def _users(path: Path) -> dict[str, str]:
    """The users of collections, by short names: those of the trace are long hashes."""
    file = path.with_name(path.name.replace("instance", "collection"))
    if file == path or not file.exists():
        return {}
    hashes = {
        row.text("collection_id"): row.text("user")
        for row in read_rows(file, needed=("collection_id", "user"))
    }
    names = {user: f"user-{number}" for number, user in enumerate(sorted({*hashes.values()} - {""}), 1)}
    return {collection: names[user] for collection, user in hashes.items() if user}
