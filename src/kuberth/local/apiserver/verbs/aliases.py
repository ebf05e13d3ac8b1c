"""The same stored object seen through several resources.

In: an object as it is stored, or as a client of one resource wrote it. Out: the other form. Events have
other field names in each of their two groups; versions of a custom kind differ in apiVersion only.
"""

from __future__ import annotations

from typing import Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource

_EVENT_FIELDS: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
"""Field of a core event → the same field in events.k8s.io."""
_EVENT_FIELDS_BACK: Final = {new: old for old, new in _EVENT_FIELDS.items()}
_EVENTS: Final = "events.events.k8s.io"


def to_view(row: ServedResource, stored: Obj) -> Obj:
    """A stored object as this resource serves it."""
    if not row.storage_version:
        return stored
    if row.id == _EVENTS:
        stored = {_EVENT_FIELDS.get(name, name): value for name, value in stored.items()}
    return {**stored, "apiVersion": row.api_version}


def to_stored(row: ServedResource, obj: Obj) -> Obj:
    """An object of this resource as it is stored."""
    if not row.storage_version:
        return obj
    if row.id == _EVENTS:
        obj = {_EVENT_FIELDS_BACK.get(name, name): value for name, value in obj.items()}
    return {**obj, "apiVersion": row.storage_version}
