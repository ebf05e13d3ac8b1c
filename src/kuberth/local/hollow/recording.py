"""Records events: what a controller did, as `kubectl describe` shows it.

In: an object, a reason, a message. Out: an Event, created in the background; one that cannot be written is
dropped, since nothing may depend on it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kuberth.api.events import event_name
from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.informing import Informers
from kuberth.text.timestamps import stamp

logger = logging.getLogger(__name__)

_MOST: Final = 1000
"""The maximum number of events being written at a time; more are dropped."""


class Recorder:
    def __init__(self, informers: Informers, *, clock: Clock, component: str) -> None:
        self._informers = informers
        self._clock = clock
        self._component = component
        self._under_way = 0

    def record(self, obj: Obj, reason: str, message: str, *, type_: str = "Normal") -> None:
        """Write an event about an object in the background."""
        if self._under_way >= _MOST:
            return
        namespace = namespace_of(obj) or "default"
        now = stamp(self._clock)
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event_name(name_of(obj), secrets.token_hex(8)), "namespace": namespace},
            "involvedObject": {
                "apiVersion": obj.get("apiVersion", ""),
                "kind": obj.get("kind", ""),
                "namespace": namespace_of(obj),
                "name": name_of(obj),
                "uid": obj["metadata"].get("uid", ""),
                "resourceVersion": obj["metadata"].get("resourceVersion", ""),
            },
            "reason": reason,
            "message": message,
            "type": type_,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
        self._informers.spawn(self._write(namespace, event), name=f"hollow-event-{reason}")

    @contextmanager
    def reporting_refusals(self, owner: Obj) -> Iterator[None]:
        """Record an event on the owner of pods if the server refuses one in the block, as quotas do."""
        try:
            yield
        except StatusError as error:
            self.record(owner, "FailedCreate", f"Error creating: {error}", type_="Warning")
            raise

    async def _write(self, namespace: str, event: Obj) -> None:
        self._under_way += 1
        try:
            await self._informers.server.create("events", event, namespace=namespace)
        except StatusError as error:
            logger.debug("event %s not written: %s", event["reason"], error)
        finally:
            self._under_way -= 1
