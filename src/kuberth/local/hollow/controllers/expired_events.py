"""Expiry of events: deleted an hour after they last happened, as etcd's leases do it.

In: events, looked at once a minute. Out: deletions.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from kuberth.clock import NANOSECONDS, Clock
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.informing import Informers
from kuberth.text.timestamps import parse_timestamp

_KEPT_SECONDS: Final = 3600
_LOOK_SECONDS: Final = 60.0


class ExpiredEventsController:
    name = "event-ttl"

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        # Listed once a minute: watching every event would cost more.
        self._core = informers.core
        self._clock = clock

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            oldest = self._clock.now_ns() - _KEPT_SECONDS * NANOSECONDS
            for event in (await self._core.list("events"))["items"]:
                if _last_seen(event) < oldest:
                    with suppress(StatusError):  # gone already
                        await self._core.delete("events", name_of(event), namespace=namespace_of(event))


def _last_seen(event: Obj) -> int:
    """Nanoseconds since the epoch; an event that does not say when it happened is from the beginning."""
    series = event.get("series") or {}
    moment = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return parse_timestamp(moment or event["metadata"].get("creationTimestamp")) or 0
