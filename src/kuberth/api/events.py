"""The events.k8s.io group (v1): the events the scheduler writes (Scheduled, FailedScheduling, Preempted)."""

from __future__ import annotations

import datetime
import uuid

from kuberth.api.core import EventSource
from kuberth.api.meta import ObjectMeta
from kuberth.api.references import ObjectReference
from kuberth.api.selectors.labels import is_subdomain
from kuberth.api.wire import MicroTime, Wire, always


class EventSeries(Wire):
    count: int = 0
    last_observed_time: MicroTime | None = None


class Event(Wire):
    api_version: str = always("events.k8s.io/v1")
    kind: str = always("Event")
    metadata: ObjectMeta = ObjectMeta()
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_source: EventSource = EventSource()
    deprecated_first_timestamp: datetime.datetime | None = None
    deprecated_last_timestamp: datetime.datetime | None = None
    deprecated_count: int = 0


def event_name(regarding: str, suffix: str) -> str:
    """The name of an event about the object with this name; `suffix` makes it unique.

    As in client-go, a UUID where an event may not be called so: the object's name can be as long as names
    may be, or follow other rules.
    """
    name = f"{regarding}.{suffix}"
    return name if is_subdomain(name) else str(uuid.uuid4())
