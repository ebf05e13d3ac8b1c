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
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

from kuberth.api.core import ObjectReference, Pod
from kuberth.api.events import Event, EventSeries, event_name
from kuberth.api.meta import ObjectMeta
from kuberth.api.rendering import EventRenderer
from kuberth.api.wire import MicroTime, to_builtins
from kuberth.client.protocol import Api, PostingApi
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import AlreadyExistsError, AnswerLostError, ApiError, NotFoundError
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


class FirstTold(NamedTuple):
    """An event as it happened first."""

    name: str
    namespace: str
    at_ns: int
    controller: str
    action: str
    reason: str
    note: str
    type: str
    regarding: ObjectReference
    related: ObjectReference | None


class ToldEvent:
    """One event, and what became of it."""

    __slots__ = ("first", "in_doubt", "last_ns", "post", "times", "writing", "written")

    def __init__(self, first: FirstTold) -> None:
        self.first = first
        self.last_ns = first.at_ns
        self.times = 1
        """How often it happened."""
        self.written = 0
        """How many occurrences the API knows of."""
        self.post: asyncio.Future[None] | None = None
        """Its first writing, while that is on its way without a task."""
        self.in_doubt = False
        """The answer to its first writing was lost."""
        self.writing: asyncio.Lock | None = None
        """A series must not overtake the event that it continues."""


class ApiEventRecorder:
    """Implements `kuberth.framework.handle.EventRecorder`. `run` does the writing."""

    def __init__(self, api: Api, clock: Clock, *, controllers: Sequence[str]) -> None:
        """An event comes from the profile whose pod it is about; the first reports on everybody else's."""
        self._api = api
        self._posting = api if isinstance(api, PostingApi) else None
        self._clock = clock
        self._controllers: tuple[str, ...] = ()
        self._instances: dict[str, str] = {}
        self.name_controllers(controllers)
        self._renderer = EventRenderer()
        self._numbers = count(1)
        self._told: OrderedDict[_News, ToldEvent] = OrderedDict()
        self._waiting: asyncio.Queue[ToldEvent] = asyncio.Queue(MAX_WAITING)
        self._posts: set[asyncio.Future[None]] = set()
        self.dropped = 0
        """News that were not written because too many were waiting."""

    def name_controllers(self, controllers: Sequence[str]) -> None:
        """The profiles that report from now on; what others reported may still have to be written."""
        self._controllers = tuple(controllers)
        host = socket.gethostname()
        self._instances |= {controller: f"{controller}-{host}" for controller in controllers}

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
            told.last_ns = now_ns
            told.times += 1
            self._told.move_to_end(news)
        else:
            metadata = regarding.metadata
            told = ToldEvent(
                FirstTold(
                    event_name(metadata.name, f"{now_ns:x}{next(self._numbers):x}"),
                    metadata.namespace,
                    now_ns,
                    self._controller_of(regarding, related),
                    action,
                    reason,
                    note,
                    type_,
                    reference_to(regarding),
                    None if related is None else reference_to(related),
                )
            )
            if self._told.pop(news, None) is None and len(self._told) >= MAX_REMEMBERED:
                self._told.popitem(last=False)
            self._told[news] = told
        self._hand_over(told)

    def _hand_over(self, told: ToldEvent) -> None:
        """See to it that what was told is written, for the first time or again."""
        if self._waiting.qsize() + len(self._posts) >= MAX_WAITING:
            self._drop()
        elif self._posting is None or told.times > 1 or not self._post(told, self._posting):
            self._waiting.put_nowait(told)

    def _drop(self) -> None:
        self.dropped += 1
        if self.dropped % 1000 == 1:
            logger.warning("events are written too slowly; %d dropped so far", self.dropped)

    # The first time, without a task

    def _post(self, told: ToldEvent, posting: PostingApi) -> bool:
        first = told.first
        body = self._renderer.event_json(
            namespace=first.namespace,
            name=first.name,
            now_ns=first.at_ns,
            controller=first.controller,
            instance=self._instances[first.controller],
            action=first.action,
            reason=first.reason,
            note=first.note,
            type_=first.type,
            regarding=first.regarding,
            related=first.related,
        )
        post = posting.post_nowait(
            Event, body, what=f"create Event {first.namespace}/{first.name}", namespace=first.namespace
        )
        if post is None:
            return False
        told.post = post
        told.written = 1
        self._posts.add(post)
        post.add_done_callback(partial(self._posted, told))
        return True

    def _posted(self, told: ToldEvent, post: asyncio.Future[None]) -> None:
        self._posts.discard(post)
        told.post = None
        if post.cancelled():
            return
        error = post.exception()
        if isinstance(error, AnswerLostError) and not self._waiting.full():
            # Its name is its own: writing it again does no harm.
            told.in_doubt = True
            told.written = 0
            self._waiting.put_nowait(told)
        elif error is not None:
            self._tell_failure(told, error)

    def _tell_failure(self, told: ToldEvent, error: BaseException) -> None:
        logger.warning("event %s/%s could not be written: %s", told.first.namespace, told.first.name, error)

    # Again, or where there is something to wait for

    async def run(self) -> None:
        """Write what is recorded, for as long as the task lives."""
        async with asyncio.TaskGroup() as writers:
            for number in range(WRITERS):
                writers.create_task(self._write_all(), name=f"event writer {number}")

    async def drain(self) -> None:
        """Return when everything recorded so far was written or given up."""
        while self._posts:
            await asyncio.wait(self._posts)
        await self._waiting.join()

    async def _write_all(self) -> None:
        while True:
            told = await self._waiting.get()
            try:
                if told.writing is None:
                    told.writing = asyncio.Lock()
                async with told.writing:
                    if told.post is not None:
                        await asyncio.wait([told.post])
                    await self._write(told)
            except ApiError as exc:
                self._tell_failure(told, exc)
            finally:
                self._waiting.task_done()

    async def _write(self, told: ToldEvent) -> None:
        if told.written >= told.times:
            return
        first = told.written == 0
        told.written = told.times
        event = self._event(told)
        metadata = event.metadata
        if first:
            try:
                await self._api.create(event)
            except AlreadyExistsError:
                if not told.in_doubt:
                    raise
                if event.series is None:
                    return
            else:
                return
        patch = {"series": to_builtins(event.series)}
        try:
            await self._api.patch(Event, metadata.name, patch, namespace=metadata.namespace)
        except NotFoundError:
            # It has expired on the server; the series goes on in a new object.
            await self._api.create(event)

    def _event(self, told: ToldEvent) -> Event:
        first = told.first
        series = None
        if told.times > 1:
            series = EventSeries(count=told.times, last_observed_time=micro_moment(told.last_ns, MicroTime))
        return Event(
            metadata=ObjectMeta(name=first.name, namespace=first.namespace),
            event_time=micro_moment(first.at_ns, MicroTime),
            series=series,
            reporting_controller=first.controller,
            reporting_instance=self._instances[first.controller],
            reason=first.reason,
            action=first.action,
            note=first.note,
            type=first.type,
            regarding=first.regarding,
            related=first.related,
        )

    def _controller_of(self, regarding: Pod, related: Any) -> str:
        # A victim's event comes from the scheduler of the pod that preempts it.
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
