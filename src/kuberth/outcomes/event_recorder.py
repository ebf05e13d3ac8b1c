"""Kubernetes events (events.k8s.io/v1) about pods, written behind the scheduler's back.

In: what a cycle or a plugin wants told. Out: events on the API. The same news about the same pod becomes
a series instead of many events. Recording never waits: beyond a bound, news is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict
from collections.abc import Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.api.core import ObjectReference, Pod
from kuberth.api.events import Event, EventSeries
from kuberth.api.meta import ObjectMeta
from kuberth.api.wire import MicroTime, to_builtins
from kuberth.client.protocol import Api
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import ApiError, NotFoundError
from kuberth.text.timestamps import micro_moment

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 10_000
"""News that wait to be written; more are dropped."""
MAX_REMEMBERED: Final = 4096
"""Events that can still become a series."""
SERIES_SECONDS: Final = 6 * 60
"""The same news after so long is a new event."""
WRITERS: Final = 8


class _News(NamedTuple):
    """What makes two events the same news; the wording may differ."""

    regarding: str
    related: str
    type: str
    reason: str
    action: str


class _Told:
    __slots__ = ("event", "last_ns", "writing", "written")

    def __init__(self, event: Event, now_ns: int) -> None:
        self.event = event
        self.last_ns = now_ns
        self.written = 0
        """How many occurrences the API knows of."""
        self.writing = asyncio.Lock()
        """A series must not overtake the event that it continues."""


class ApiEventRecorder:
    """Implements `kuberth.framework.handle.EventRecorder`. `run` does the writing."""

    def __init__(self, api: Api, clock: Clock, *, controllers: Sequence[str]) -> None:
        """An event comes from the profile whose pod it is about; the first reports on everybody else's."""
        self._api = api
        self._clock = clock
        self._controllers = tuple(controllers)
        self._host = socket.gethostname()
        self._numbers = count(1)
        self._told: OrderedDict[_News, _Told] = OrderedDict()
        self._waiting: asyncio.Queue[_Told] = asyncio.Queue(MAX_WAITING)
        self.dropped = 0
        """News that were not written because too many were waiting."""

    def record(
        self,
        regarding: Pod,
        *,
        reason: str,
        action: str,
        note: str,
        warning: bool = False,
        related: Any = None,
    ) -> None:
        type_ = "Warning" if warning else "Normal"
        news = _News(
            regarding.metadata.uid, related.metadata.uid if related is not None else "", type_, reason, action
        )
        now_ns = self._clock.now_ns()
        told = self._told.get(news)
        if told is not None and now_ns - told.last_ns <= SERIES_SECONDS * NANOSECONDS:
            self._repeat(told, now_ns)
        else:
            told = _Told(self._event(regarding, reason, action, note, type_, related, now_ns), now_ns)
            self._told[news] = told
        self._told.move_to_end(news)
        if len(self._told) > MAX_REMEMBERED:
            self._told.popitem(last=False)
        try:
            self._waiting.put_nowait(told)
        except asyncio.QueueFull:
            self.dropped += 1
            if self.dropped % 1000 == 1:
                logger.warning("events are written too slowly; %d dropped so far", self.dropped)

    async def run(self) -> None:
        """Write what is recorded, for as long as the task lives."""
        async with asyncio.TaskGroup() as writers:
            for number in range(WRITERS):
                writers.create_task(self._write_all(), name=f"event writer {number}")

    async def drain(self) -> None:
        """Return when everything recorded so far was written or given up."""
        await self._waiting.join()

    def _repeat(self, told: _Told, now_ns: int) -> None:
        series = told.event.series
        told.last_ns = now_ns
        told.event = msgspec.structs.replace(
            told.event,
            series=EventSeries(
                count=2 if series is None else series.count + 1,
                last_observed_time=micro_moment(now_ns, MicroTime),
            ),
        )

    async def _write_all(self) -> None:
        while True:
            told = await self._waiting.get()
            try:
                async with told.writing:
                    await self._write(told)
            except ApiError as exc:
                metadata = told.event.metadata
                logger.warning("event %s/%s could not be written: %s", metadata.namespace, metadata.name, exc)
            finally:
                self._waiting.task_done()

    async def _write(self, told: _Told) -> None:
        event = told.event
        times = 1 if event.series is None else event.series.count
        if told.written >= times:
            return
        first = told.written == 0
        told.written = times
        if first:
            await self._api.create(event)
            return
        patch = {"series": to_builtins(event.series)}
        metadata = event.metadata
        try:
            await self._api.patch(Event, metadata.name, patch, namespace=metadata.namespace)
        except NotFoundError:
            # It has expired on the server; the series goes on in a new object.
            await self._api.create(event)

    def _event(
        self,
        regarding: Pod,
        reason: str,
        action: str,
        note: str,
        type_: str,
        related: Any,
        now_ns: int,
    ) -> Event:
        metadata = regarding.metadata
        controller = self._controller_of(regarding, related)
        return Event(
            metadata=ObjectMeta(
                name=f"{metadata.name}.{now_ns:x}{next(self._numbers):x}", namespace=metadata.namespace
            ),
            event_time=micro_moment(now_ns, MicroTime),
            reporting_controller=controller,
            reporting_instance=f"{controller}-{self._host}",
            reason=reason,
            action=action,
            note=note,
            type=type_,
            regarding=_reference(regarding),
            related=None if related is None else _reference(related),
        )

    def _controller_of(self, regarding: Pod, related: Any) -> str:
        # A victim's event comes from the scheduler of the pod that preempts it.
        for pod in (related, regarding):
            if isinstance(pod, Pod) and pod.spec.scheduler_name in self._controllers:
                return pod.spec.scheduler_name
        return self._controllers[0]


def _reference(obj: Any) -> ObjectReference:
    metadata = obj.metadata
    return ObjectReference(
        api_version=obj.api_version,
        kind=obj.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
