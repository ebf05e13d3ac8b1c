"""The overview of one scheduler: its subscribers, and the state that is kept for them.

In: a scheduler. Out: streams of server-sent events, pod histories, the pace of the last ten minutes. While
there are subscribers it collects changes four times a second. Ten minutes after the last one left, it stops
observing the scheduler and only samples its counters, once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any, Final

import kuberth
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import KuberthError
from kuberth.framework.queued_pod import QueuedPod
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.overview.histories import PodHistories
from kuberth.overview.node_rows import NodeRows
from kuberth.overview.pace import PaceLine, PaceRows
from kuberth.overview.subscriber import Subscriber
from kuberth.overview.waiting import PodChanges, QueueView
from kuberth.queue.observing import UNREPORTED, MoveCause

logger = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.25
"""Between two collections of changes, while there are subscribers."""
KEEPALIVE_SECONDS: Final = 15.0
"""A stream without events sends a comment this often."""
REMEMBERED_SECONDS: Final = 600.0
"""How long histories are still recorded after the last subscriber left."""
SCORES_PER_TICK: Final = 25
"""Attempts per tick whose scores are kept, of perhaps thousands."""
MOST_SUBSCRIBERS: Final = 32
_KEEPALIVE: Final = b": still here\n\n"


class TooManySubscribers(KuberthError):  # noqa: N818  # an outcome that the client gets as an answer
    """The stream has as many subscribers as it allows."""


class Overview:
    """Implements `SchedulerObserver`. `run` has to run along with the scheduler."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        clock: Clock,
        program: str,
        cluster: str,
        writable: bool,
        always_records: bool = False,
    ) -> None:
        """`writable`: the same server serves the Kubernetes API. `always_records`: record histories from the
        start, not only while there are subscribers."""
        self.scheduler = scheduler
        self._clock = clock
        self._program = program
        self._cluster_name = cluster
        self._writable = writable
        self._always_records = always_records
        self._subscribers: set[Subscriber] = set()
        self._nodes: NodeRows | None = None
        self._waiting: QueueView | None = None
        self._recording = False
        self._last_left_ns = 0
        self.pace = PaceRows(scheduler)
        self.histories = PodHistories(clock)
        self._second = clock.now_ns() // NANOSECONDS
        if always_records:
            self._record()

    # State for subscribers, which exists while there are any

    @property
    def nodes(self) -> NodeRows:
        assert self._nodes is not None
        return self._nodes

    @property
    def waiting(self) -> QueueView:
        assert self._waiting is not None
        return self._waiting

    @property
    def subscribers(self) -> int:
        return len(self._subscribers)

    @property
    def recording(self) -> bool:
        """Whether histories are being recorded."""
        return self._recording

    def hello(self) -> dict[str, Any]:
        return {
            "version": kuberth.__version__,
            "program": self._program,
            "writable": self._writable,
            "now": round(self._clock.now_ns() / NANOSECONDS, 3),
            "cluster": self._cluster_name,
            "profiles": sorted(self.scheduler.runners),
            "resources": self.nodes.resources,
        }

    # Subscribers

    def subscribe(self) -> Subscriber:
        if len(self._subscribers) >= MOST_SUBSCRIBERS:
            raise TooManySubscribers(
                f"the overview has {MOST_SUBSCRIBERS} subscribers already; close one, or try later"
            )
        if not self._subscribers:
            self._nodes = NodeRows(self.scheduler.cluster)
            self._waiting = QueueView(self.scheduler, clock=self._clock)
            self.scheduler.cluster.observe(self._waiting)
            self._record()
        else:
            self._collect(())
        subscriber = Subscriber(self)
        self._subscribers.add(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)
        if self._subscribers or self._waiting is None:
            return
        self.scheduler.cluster.unobserve(self._waiting)
        self._nodes = self._waiting = None
        self._last_left_ns = self._clock.now_ns()
        self._record()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yields events with the full state, then with every change, until the client disconnects."""
        try:
            subscriber = self.subscribe()
        except TooManySubscribers as full:
            logger.info("refused a stream: %s", full)
            return
        try:
            while True:
                try:
                    async with asyncio.timeout(KEEPALIVE_SECONDS):
                        await subscriber.has_changes.wait()
                except TimeoutError:
                    yield _KEEPALIVE
                    continue
                for piece in subscriber.take():
                    yield piece
        finally:
            self.unsubscribe(subscriber)

    def _record(self) -> None:
        self._recording = True
        self.scheduler.observe(self)
        self.scheduler.keep_scores(0 if self._waiting is None else SCORES_PER_TICK)

    async def run(self) -> None:
        """Call `tick` on time, until cancelled."""
        while True:
            if self._subscribers:
                await asyncio.sleep(TICK_SECONDS)
            else:
                await asyncio.sleep(1 - self._clock.now_ns() % NANOSECONDS / NANOSECONDS)
            try:
                self.tick()
            except Exception:  # the scheduler shares this loop and must continue
                logger.exception("the overview failed; it tries again at its next tick")

    def tick(self) -> None:
        """Sample the pace once a second, and send subscribers what changed."""
        now_ns = self._clock.now_ns()
        second = now_ns // NANOSECONDS
        rows: tuple[PaceLine, ...] = ()
        if second > self._second:
            self._second = second
            rows = (self.pace.sample(second),)
            if self._waiting is not None and not self.scheduler.queue.reports_moves:
                for queued, queue in self._waiting.scan_queue():
                    self.histories.moved(queued, queue, UNREPORTED)
        if self._subscribers:
            self._collect(rows)
            self.scheduler.keep_scores(SCORES_PER_TICK)
            return
        alone_seconds = (now_ns - self._last_left_ns) / NANOSECONDS
        if self._recording and not self._always_records and alone_seconds > REMEMBERED_SECONDS:
            self._recording = False
            self.scheduler.observe(None)

    def _collect(self, pace: tuple[PaceLine, ...]) -> PodChanges:
        nodes, pods = self.nodes.refresh(), self.waiting.refresh()
        for subscriber in self._subscribers:
            subscriber.record(nodes, pods, pace)
        return pods

    # Called by the scheduler

    def pod_moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        self.histories.moved(queued, queue, cause)
        if self._waiting is not None:
            self._waiting.moved(queued, queue)

    def pod_popped(self, queued: QueuedPod) -> None:
        self.histories.popped(queued)
        if self._waiting is not None:
            self._waiting.popped(queued)

    def pod_done(self, uid: str) -> None:
        if self._waiting is not None:
            self._waiting.done(uid)

    def pod_deleted(self, uid: str) -> None:
        cluster = self.scheduler.cluster
        placed = None if cluster.is_assumed(uid) else cluster.placed(uid)
        self.histories.deleted(uid, node="" if placed is None else placed.node_name)
        if self._waiting is not None:
            self._waiting.deleted(uid)

    def pod_held(self, placement: Placement) -> None:
        self.histories.held(placement)

    def pod_bound(self, placement: Placement, seconds: float) -> None:
        self.histories.bound(placement, seconds)
        self.pace.record(seconds)

    def pod_rejected(self, rejection: Rejection, seconds: float) -> None:
        self.histories.rejected(rejection, seconds)
        self.pace.record(seconds)
