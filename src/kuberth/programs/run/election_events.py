"""Events about leader changes, as kube-scheduler writes them: about the Lease, in the core group.

In: the lease and a note, from the elector. Out: one core/v1 Event for each. The elector never waits for them,
and an event that cannot be written is logged and dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final

from kuberth.api.coordination import Lease
from kuberth.api.core import Event, EventSource
from kuberth.api.events import event_name
from kuberth.api.meta import ObjectMeta
from kuberth.client.protocol import Api
from kuberth.clock import Clock
from kuberth.errors import AlreadyExistsError
from kuberth.outcomes.event_recorder import reference_to
from kuberth.text.timestamps import moment

logger = logging.getLogger(__name__)

FLUSH_SECONDS: Final = 2.0
"""How long the end of the process may wait for the last event."""


class ElectionEvents:
    """Writes the elector's events. `run` writes them, `flush` writes the rest at the end."""

    def __init__(self, api: Api, clock: Clock, *, component: str) -> None:
        """`component` is the source of the events: the scheduler name of the first profile."""
        self._api = api
        self._clock = clock
        self._component = component
        self._waiting: deque[Event] = deque()
        self._recorded = asyncio.Event()

    def record(self, lease: Lease, note: str) -> None:
        """Have an event about the lease written."""
        now_ns = self._clock.now_ns()
        now = moment(now_ns)
        metadata = lease.metadata
        event = Event(
            metadata=ObjectMeta(name=event_name(metadata.name, f"{now_ns:x}"), namespace=metadata.namespace),
            involved_object=reference_to(lease),
            reason="LeaderElection",
            message=note,
            source=EventSource(component=self._component),
            first_timestamp=now,
            last_timestamp=now,
            count=1,
            type="Normal",
            reporting_component=self._component,
        )
        self._waiting.append(event)
        self._recorded.set()

    async def run(self) -> None:
        """Write recorded events until cancelled."""
        while True:
            await self._recorded.wait()
            self._recorded.clear()
            await self._write_all()

    async def flush(self) -> None:
        """Write what `run` left, unless that takes long."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._write_all()
        except TimeoutError:
            logger.warning("events about the leader election are given up: no answer in time")

    async def _write_all(self) -> None:
        while self._waiting:
            event = self._waiting[0]
            try:
                await self._api.create(event)
            except AlreadyExistsError:
                pass  # `run` was cancelled before it knew
            except Exception as error:
                logger.warning("the event %r could not be written: %s", event.message, error)
            self._waiting.popleft()
