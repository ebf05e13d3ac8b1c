"""Writes Kubernetes events (events.k8s.io/v1) about pods in the background.

In: a `PodEvent` of a cycle or a plugin. Out: events in the API. Equal events about the same pod become a
series, as in client-go: the second occurrence is written; further ones are only counted until the series ends
or is refreshed. Recording never blocks: beyond a limit, events are dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final

from kuberth.api.core import ObjectReference, Pod
from kuberth.api.events import Event, EventSeries, event_name
from kuberth.api.meta import ObjectMeta
from kuberth.api.rendering import EventFields, EventRenderer
from kuberth.api.wire import MicroTime, to_builtins
from kuberth.client.protocol import Api
from kuberth.client.writes import Verb, Write
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import AlreadyExistsError, AnswerLostError, ApiError, NotFoundError
from kuberth.framework.handle import PodEvent
from kuberth.text.timestamps import micro_moment

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 10_000
"""The maximum number of events that wait to be written; more are dropped."""
MAX_REMEMBERED: Final = 200_000
"""The maximum number of events that can become a series: more than one per pending pod."""
SERIES_SECONDS: Final = 6 * 60
"""After this time without an occurrence, a series has ended: its count is written, and an equal event starts
a new one."""
REFRESH_SECONDS: Final = 30 * 60
"""An active series is written again after this time, so that its event does not expire."""
WRITERS: Final = 8


_SeriesKey = tuple[str, str, bool, str, str]
"""What all events of one series have in common: the UIDs of both objects, type, reason and action. Notes may
differ."""


@dataclass(slots=True, eq=False)
class EventSeriesState:
    """An event, its number of occurrences, and how many of them the API server knows."""

    key: _SeriesKey
    first: EventFields
    """The first occurrence."""
    last_ns: int
    written_ns: int
    """When it was last written, or queued to be written."""
    times: int = 1
    """The number of occurrences."""
    written: int = 0
    """The number of occurrences that the API server knows."""
    post: asyncio.Future[None] | None = None
    """The first write, while it is in flight without a task."""
    in_doubt: bool = False
    """Whether the response to the first write was lost."""
    writing: asyncio.Lock | None = None
    """Held while the event is written: a series must not overtake its first event."""


class ApiEventRecorder:
    """Implements `kuberth.framework.handle.EventRecorder`. `run` does the writing."""

    def __init__(self, api: Api, clock: Clock, *, controllers: Sequence[str]) -> None:
        """`controllers` are the profiles' scheduler names.

        An event is reported by its pod's profile, or by the first one if that is unknown.
        """
        self._api = api
        self._clock = clock
        self._controllers: tuple[str, ...] = ()
        self._instances: dict[str, str] = {}
        self.name_controllers(controllers)
        self._renderer = EventRenderer()
        self._numbers = count(1)
        self._series: OrderedDict[_SeriesKey, EventSeriesState] = OrderedDict()
        self._waiting: asyncio.Queue[EventSeriesState] = asyncio.Queue(MAX_WAITING)
        self._posts: set[asyncio.Future[None]] = set()
        self.dropped = 0
        """The number of events that were dropped because the limit was reached."""

    def name_controllers(self, controllers: Sequence[str]) -> None:
        """Set the profiles that report events; events of earlier ones may still be written."""
        self._controllers = tuple(controllers)
        host = socket.gethostname()
        self._instances |= {controller: f"{controller}-{host}" for controller in controllers}

    def record(self, event: PodEvent) -> EventSeriesState | None:
        """`kuberth.framework.handle.EventRecorder.record`; returns the series for `record_again`, or None if
        each occurrence has to be recorded.
        """
        regarding, reason, action, note, warning, related = event
        related_uid = related.metadata.uid if related is not None else ""
        key = (regarding.metadata.uid, related_uid, warning, reason, action)
        now_ns = self._clock.now_ns()
        series = self._series.get(key)
        if series is not None and now_ns - series.last_ns <= SERIES_SECONDS * NANOSECONDS:
            series.last_ns = now_ns
            series.times += 1
            self._series.move_to_end(key)
            if series.times > 2:
                return series
        else:
            metadata = regarding.metadata
            controller = self._controller_of(regarding, related)
            series = EventSeriesState(
                key,
                EventFields(
                    event_name(metadata.name, f"{now_ns:x}{next(self._numbers):x}"),
                    metadata.namespace,
                    now_ns,
                    controller,
                    self._instances[controller],
                    action,
                    reason,
                    note,
                    "Warning" if warning else "Normal",
                    reference_to(regarding),
                    None if related is None else reference_to(related),
                ),
                last_ns=now_ns,
                written_ns=now_ns,
            )
            if self._series.pop(key, None) is None and len(self._series) >= MAX_REMEMBERED:
                self._series.popitem(last=False)
            self._series[key] = series
        self._enqueue(series)
        return series

    def record_again(self, series: EventSeriesState) -> bool:
        """Count another occurrence. False, and nothing is done, if the series has ended or just begun."""
        now_ns = self._clock.now_ns()
        if (
            series.times < 2
            or now_ns - series.last_ns > SERIES_SECONDS * NANOSECONDS
            or self._series.get(series.key) is not series
        ):
            return False
        series.last_ns = now_ns
        series.times += 1
        self._series.move_to_end(series.key)
        return True

    def _enqueue(self, series: EventSeriesState) -> None:
        """Post the event, or queue it for the writers."""
        if self._waiting.qsize() + len(self._posts) >= MAX_WAITING:
            self._drop()
        elif series.times > 1 or not self._post(series):
            self._waiting.put_nowait(series)

    def _drop(self) -> None:
        self.dropped += 1
        if self.dropped % 1000 == 1:
            logger.warning("the API server is too slow for events; dropped %d so far", self.dropped)

    # The first occurrence, without a task

    def _post(self, series: EventSeriesState) -> bool:
        first = series.first
        post = self._api.post_nowait(
            Write(Verb.CREATE, Event, first.name, first.namespace, body=self._renderer.event_json(first))
        )
        if post is None:
            return False
        series.post = post
        series.written = 1
        self._posts.add(post)
        post.add_done_callback(partial(self._posted, series))
        return True

    def _posted(self, series: EventSeriesState, post: asyncio.Future[None]) -> None:
        self._posts.discard(post)
        series.post = None
        if post.cancelled():
            return
        error = post.exception()
        if isinstance(error, AnswerLostError) and not self._waiting.full():
            # Its name is unique, so it can be written again.
            series.in_doubt = True
            series.written = 0
            self._waiting.put_nowait(series)
        elif error is not None:
            self._log_failure(series, error)

    def _log_failure(self, series: EventSeriesState, error: BaseException) -> None:
        first = series.first
        logger.warning("event %s/%s could not be written: %s", first.namespace, first.name, error)

    # Later occurrences, and events that could not be posted

    async def run(self) -> None:
        """Write recorded events until cancelled."""
        async with asyncio.TaskGroup() as writers:
            for number in range(WRITERS):
                writers.create_task(self._write_all(), name=f"event writer {number}")
            writers.create_task(self._write_counts_regularly(), name="event series")

    async def _write_counts_regularly(self) -> None:
        while True:
            await asyncio.sleep(SERIES_SECONDS)
            self.write_counts()

    def write_counts(self) -> None:
        """Write the counts of series that have ended or must be refreshed; forget those that ended."""
        now_ns = self._clock.now_ns()
        ended_ns = now_ns - SERIES_SECONDS * NANOSECONDS
        refresh_ns = now_ns - REFRESH_SECONDS * NANOSECONDS
        for key, series in list(self._series.items()):
            has_ended = series.last_ns < ended_ns
            if has_ended:
                del self._series[key]
            is_behind = 1 < series.times > series.written
            if is_behind and (has_ended or series.written_ns <= refresh_ns):
                series.written_ns = now_ns
                self._enqueue(series)

    async def drain(self) -> None:
        """Return when every recorded event is written or given up."""
        while self._posts:
            await asyncio.wait(self._posts)
        await self._waiting.join()

    async def _write_all(self) -> None:
        while True:
            series = await self._waiting.get()
            try:
                if series.writing is None:
                    series.writing = asyncio.Lock()
                async with series.writing:
                    if series.post is not None:
                        await asyncio.wait([series.post])
                    await self._write(series)
            except ApiError as exc:
                self._log_failure(series, exc)
            finally:
                self._waiting.task_done()

    async def _write(self, series: EventSeriesState) -> None:
        if series.written >= series.times:
            return
        first = series.written == 0
        series.written = series.times
        event = self._event(series)
        metadata = event.metadata
        if first:
            try:
                await self._api.create(event)
            except AlreadyExistsError:
                if not series.in_doubt:
                    raise
                if event.series is None:
                    return
            else:
                return
        patch = {"series": to_builtins(event.series)}
        try:
            await self._api.patch(Event, metadata.name, patch, namespace=metadata.namespace)
        except NotFoundError:
            # The event has expired on the server; the series continues in a new object.
            await self._api.create(event)

    def _event(self, state: EventSeriesState) -> Event:
        first, series = state.first, None
        if state.times > 1:
            series = EventSeries(count=state.times, last_observed_time=micro_moment(state.last_ns, MicroTime))
        return Event(
            metadata=ObjectMeta(name=first.name, namespace=first.namespace),
            event_time=micro_moment(first.at_ns, MicroTime),
            series=series,
            reporting_controller=first.controller,
            reporting_instance=first.instance,
            reason=first.reason,
            action=first.action,
            note=first.note,
            type=first.type,
            regarding=first.regarding,
            related=first.related,
        )

    def _controller_of(self, regarding: Pod, related: Any) -> str:
        # A victim's event is reported by the scheduler of its preemptor.
        for pod in (related, regarding):
            if isinstance(pod, Pod) and pod.spec.scheduler_name in self._controllers:
                return pod.spec.scheduler_name
        return self._controllers[0]


def reference_to(obj: Any) -> ObjectReference:
    """The reference by which an event names an object."""
    metadata = obj.metadata
    return ObjectReference(
        api_version=obj.api_version,
        kind=obj.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
