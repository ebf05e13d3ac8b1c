"""The overview of one scheduler: its subscribers, and the state that is kept for them.

In: a scheduler. Out: streams of server-sent events, pod histories, the throughput of the last ten minutes.
While there are subscribers, it collects changes four times a second. Ten minutes after the last one
disconnected, it stops observing the scheduler and only samples its counters, once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

import kuberth
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import KuberthError
from kuberth.framework.queued_pod import QueuedPod
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.overview.histories import PodHistories
from kuberth.overview.node_rows import NodeChanges, NodeRows
from kuberth.overview.pending import PendingPods, PodChanges
from kuberth.queue.observing import UNREPORTED, MoveCause
from kuberth.text.figures import percentile

ThroughputRow = tuple[int, int, int, int, float | None, float | None, int]
"""Unix second, scheduled, unschedulable, error, p50 and p99 in milliseconds, pending pods."""

KEPT_ROWS: Final = 600
_RESULTS: Final = ("scheduled", "unschedulable", "error")
_MAX_DURATIONS: Final = 20_000
"""Durations kept for one second; more would not change its percentiles."""
MAX_GONE: Final = 5000
"""If more rows than this have disappeared, all rows are sent again instead of their keys."""


class Throughput:
    """The rows of the last minutes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._before = self._attempts()
        self._durations: list[float] = []
        self.rows: deque[ThroughputRow] = deque(maxlen=KEPT_ROWS)

    def record(self, seconds: float) -> None:
        """Record the duration of an attempt."""
        if len(self._durations) < _MAX_DURATIONS:
            self._durations.append(seconds)

    def sample(self, second: int) -> ThroughputRow:
        """Add the row of this second."""
        now = self._attempts()
        scheduled, unschedulable, error = (
            int(after - before) for after, before in zip(now, self._before, strict=True)
        )
        self._before = now
        durations, self._durations = sorted(self._durations), []
        median, p99 = (
            round(percentile(durations, percent) * 1000, 3) if durations else None for percent in (50, 99)
        )
        row = (
            second,
            scheduled,
            unschedulable,
            error,
            median,
            p99,
            self._scheduler.queue.waiting_count(),
        )
        self.rows.append(row)
        return row

    def _attempts(self) -> list[float]:
        values = self._scheduler.metrics.schedule_attempts.values
        return [
            sum(number for labels, number in values.items() if labels[0] == result) for result in _RESULTS
        ]


class UnsentRows:
    """The keys of the rows of one kind that changed since one client received them, first all of them."""

    def __init__(self) -> None:
        self.is_all = True
        self._changed: set[str] = set()
        self._gone: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.is_all or self._changed or self._gone)

    def record(self, changed: Iterable[str], gone: Mapping[str, str]) -> None:
        self._changed.difference_update(gone)
        for key in changed:
            self._changed.add(key)
            self._gone.pop(key, None)
        self._gone |= gone
        if len(self._gone) > MAX_GONE:
            self.is_all = True
            self._gone.clear()

    def take(self, rows: Mapping[str, Any]) -> dict[str, Any]:
        """Return and clear the values of the changed rows, and the keys that are gone with the reason."""
        if self.is_all:
            tree: dict[str, Any] = {"set": list(rows.values()), "gone": [], "all": True}
        else:
            tree = {"set": [rows[key] for key in sorted(self._changed)], "gone": list(self._gone.items())}
        self.is_all = False
        self._changed.clear()
        self._gone.clear()
        return tree


class Subscriber:
    """Collects changes until they are sent to one client. The first events contain everything.

    It stores the names of changed rows, not their values, so that a slow client receives each row once, with
    its latest values.
    """

    def __init__(self, source: Overview) -> None:
        self._source = source
        self.has_changes = asyncio.Event()
        self._greet = self._all_throughput = True
        self._nodes, self._pods = UnsentRows(), UnsentRows()
        self._throughput: list[ThroughputRow] = []
        self._counts: dict[str, int] | None = None
        self._cut: dict[str, int] = {}
        self.has_changes.set()

    def record(self, nodes: NodeChanges, pods: PodChanges, throughput: Iterable[ThroughputRow]) -> None:
        if nodes.columns:
            self._greet = self._nodes.is_all = True
        self._nodes.record(nodes.changed, nodes.gone)
        self._pods.record(pods.changed, pods.gone)
        self._throughput.extend(throughput)
        del self._throughput[:-KEPT_ROWS]
        changed = (
            nodes.columns or nodes.changed or nodes.gone or pods.changed or pods.gone or self._throughput
        )
        # The number of pods that are left out of a queue follows from its length.
        if changed or self._source.pending.counts() != self._counts:
            self.has_changes.set()

    def take(self) -> list[bytes]:
        """Return and clear the recorded changes, as events."""
        self.has_changes.clear()
        return list(self._events())

    def _events(self) -> Iterator[bytes]:
        pending = self._source.pending
        if self._greet:
            self._greet = False
            yield event("hello", self._source.hello())
        if self._nodes:
            tree = self._nodes.take(self._source.nodes.rows)
            yield event("nodes", tree | {"gone": sorted(name for name, _reason in tree["gone"])})
        if (counts := pending.counts()) != self._counts:
            self._counts = counts
            yield event("queues", counts)
        if self._pods or pending.cut() != self._cut:
            self._cut = pending.cut()
            yield event("pods", self._pods.take(pending.rows) | ({"cut": self._cut} if self._cut else {}))
        if self._all_throughput or self._throughput:
            rows = self._source.throughput.rows if self._all_throughput else self._throughput
            yield event("throughput", {"rows": list(rows)} | ({"all": True} if self._all_throughput else {}))
            self._all_throughput, self._throughput = False, []


def event(name: str, tree: dict[str, Any]) -> bytes:
    """One server-sent event; JSON on one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(tree))


logger = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.25
"""Between two collections of changes, while there are subscribers."""
KEEPALIVE_SECONDS: Final = 15.0
"""A stream without events sends a comment this often."""
REMEMBERED_SECONDS: Final = 600.0
"""How long histories are recorded after the last subscriber disconnected."""
SCORES_PER_TICK: Final = 25
"""The maximum number of attempts per tick whose scores are kept."""
MAX_SUBSCRIBERS: Final = 32
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
        self._pending: PendingPods | None = None
        self._recording = False
        self._last_left_ns = 0
        self.throughput = Throughput(scheduler)
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
    def pending(self) -> PendingPods:
        assert self._pending is not None
        return self._pending

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

    def expect_capacity(self) -> None:
        """Raise TooManySubscribers if no other client can subscribe."""
        if len(self._subscribers) >= MAX_SUBSCRIBERS:
            raise TooManySubscribers(
                f"the overview has {MAX_SUBSCRIBERS} subscribers already; close one, or try later"
            )

    def subscribe(self) -> Subscriber:
        self.expect_capacity()
        if not self._subscribers:
            self._nodes = NodeRows(self.scheduler.cluster)
            self._pending = PendingPods(self.scheduler, clock=self._clock)
            self.scheduler.cluster.observe(self._pending)
            self._record()
        else:
            self._collect(())
        subscriber = Subscriber(self)
        self._subscribers.add(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.discard(subscriber)
        if self._subscribers or self._pending is None:
            return
        self.scheduler.cluster.unobserve(self._pending)
        self._nodes = self._pending = None
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
        self.scheduler.record_scores(0 if self._pending is None else SCORES_PER_TICK)

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
        """Sample the throughput once a second, and send subscribers what changed."""
        now_ns = self._clock.now_ns()
        second = now_ns // NANOSECONDS
        rows: tuple[ThroughputRow, ...] = ()
        if second > self._second:
            self._second = second
            rows = (self.throughput.sample(second),)
            if self._pending is not None and not self.scheduler.queue.reports_moves:
                for queued, queue in self._pending.scan_queue():
                    self.histories.moved(queued, queue, UNREPORTED)
        if self._subscribers:
            self._collect(rows)
            self.scheduler.record_scores(SCORES_PER_TICK)
            return
        alone_seconds = (now_ns - self._last_left_ns) / NANOSECONDS
        if self._recording and not self._always_records and alone_seconds > REMEMBERED_SECONDS:
            self._recording = False
            self.scheduler.observe(None)

    def _collect(self, throughput: tuple[ThroughputRow, ...]) -> None:
        nodes, pods = self.nodes.refresh(), self.pending.refresh()
        for subscriber in self._subscribers:
            subscriber.record(nodes, pods, throughput)

    # Called by the scheduler

    def pod_moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        self.histories.moved(queued, queue, cause)
        if self._pending is not None:
            self._pending.moved(queued, queue)

    def pod_popped(self, queued: QueuedPod) -> None:
        self.histories.popped(queued)
        if self._pending is not None:
            self._pending.popped(queued)

    def pod_done(self, uid: str) -> None:
        if self._pending is not None:
            self._pending.done(uid)

    def pod_deleted(self, uid: str) -> None:
        cluster = self.scheduler.cluster
        placed = None if cluster.is_assumed(uid) else cluster.placed(uid)
        self.histories.deleted(uid, node="" if placed is None else placed.node_name)
        if self._pending is not None:
            self._pending.deleted(uid)

    def pod_held(self, placement: Placement) -> None:
        self.histories.held(placement)

    def pod_bound(self, placement: Placement, seconds: float) -> None:
        self.histories.bound(placement, seconds)
        self.throughput.record(seconds)

    def pod_rejected(self, rejection: Rejection, seconds: float) -> None:
        self.histories.rejected(rejection, seconds)
        self.throughput.record(seconds)
