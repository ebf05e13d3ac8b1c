"""The overview of one scheduler: who looks on, and what is kept for them.

In: a scheduler. Out: streams of server-sent events, stories, the pace of the last minutes. It looks at what
changed four times a second while somebody is there. When nobody has been there for a while, nothing of the
scheduler is observed any more but its counters, once a second.
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
from kuberth.overview.node_rows import NodeRows
from kuberth.overview.onlooker import Onlooker
from kuberth.overview.pace import PaceLine, PaceRows
from kuberth.overview.stories import Stories
from kuberth.overview.waiting import PodChanges, QueueView
from kuberth.queue.observing import UNTOLD, MoveCause

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 0.25
"""Between two looks at what changed."""
SILENCE_SECONDS: Final = 15.0
"""After so long without news a stream says that it is still there."""
REMEMBERED_SECONDS: Final = 600.0
"""So long after the last one has gone stories are still recorded."""
SCORES_OF_A_LOOK: Final = 25
"""Between two looks the scores of so many attempts are kept: when there are thousands, of some of them."""
MOST_SUBSCRIBERS: Final = 32
_STILL_HERE: Final = b": still here\n\n"


class TooManySubscribers(KuberthError):  # noqa: N818  # an outcome: who asks is told so
    """No more can look on at once."""


class Overview:
    """Implements `SchedulerObserver`, while somebody looks on or did lately; `run` it beside that."""

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
        """`writable`: the Kubernetes API is served where this is. `always_records`: stories are recorded from
        the start, and not just while somebody looks on."""
        self.scheduler = scheduler
        self._clock = clock
        self._program = program
        self._cluster_name = cluster
        self._writable = writable
        self._always_records = always_records
        self._onlookers: set[Onlooker] = set()
        self._nodes: NodeRows | None = None
        self._waiting: QueueView | None = None
        self._recording = False
        self._last_gone_ns = 0
        self.pace = PaceRows(scheduler)
        self.stories = Stories(clock)
        self._second = clock.now_ns() // NANOSECONDS
        if always_records:
            self._record()

    # What there is to see, while somebody looks on

    @property
    def nodes(self) -> NodeRows:
        assert self._nodes is not None
        return self._nodes

    @property
    def waiting(self) -> QueueView:
        assert self._waiting is not None
        return self._waiting

    @property
    def watched(self) -> bool:
        """Whether somebody looks on."""
        return bool(self._onlookers)

    @property
    def subscribers(self) -> int:
        return len(self._onlookers)

    @property
    def recording(self) -> bool:
        """Whether stories are being recorded."""
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

    # Who looks on

    def subscribe(self) -> Onlooker:
        if len(self._onlookers) >= MOST_SUBSCRIBERS:
            raise TooManySubscribers(f"{MOST_SUBSCRIBERS} are looking on already; close one, or try later")
        if not self._onlookers:
            self._nodes = NodeRows(self.scheduler.cluster)
            self._waiting = QueueView(self.scheduler)
            self.scheduler.cluster.observe(self._waiting)
            self._record()
        else:
            self._look(())
        onlooker = Onlooker(self)
        self._onlookers.add(onlooker)
        return onlooker

    def unsubscribe(self, onlooker: Onlooker) -> None:
        self._onlookers.discard(onlooker)
        if self._onlookers or self._waiting is None:
            return
        self.scheduler.cluster.unobserve(self._waiting)
        self._nodes = self._waiting = None
        self._last_gone_ns = self._clock.now_ns()
        self._record()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Everything, then what changes, for as long as somebody reads it."""
        try:
            onlooker = self.subscribe()
        except TooManySubscribers as full:
            logger.info("a stream ends before it began: %s", full)
            return
        try:
            while True:
                try:
                    async with asyncio.timeout(SILENCE_SECONDS):
                        await onlooker.news.wait()
                except TimeoutError:
                    yield _STILL_HERE
                    continue
                for piece in onlooker.take():
                    yield piece
        finally:
            self.unsubscribe(onlooker)

    def _record(self) -> None:
        self._recording = True
        self.scheduler.observe(self)
        self.scheduler.keep_scores(0 if self._waiting is None else SCORES_OF_A_LOOK)

    # Time passes

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if self._onlookers:
                await asyncio.sleep(LOOK_SECONDS)
            else:
                await asyncio.sleep(1 - self._clock.now_ns() % NANOSECONDS / NANOSECONDS)
            try:
                self.tick()
            except Exception:  # whoever looks on must not cost the scheduler anything
                logger.exception("the overview failed; looking again")

    def tick(self) -> None:
        """Do what is due."""
        now_ns = self._clock.now_ns()
        second = now_ns // NANOSECONDS
        rows: tuple[PaceLine, ...] = ()
        if second > self._second:
            self._second = second
            rows = (self.pace.sample(second),)
            if self._waiting is not None and not self.scheduler.queue.tells_moves:
                for queued, queue in self._waiting.look_around():
                    self.stories.moved(queued, queue, UNTOLD)
        if self._onlookers:
            self._look(rows)
            self.scheduler.keep_scores(SCORES_OF_A_LOOK)
        elif self._recording and not self._always_records and self._long_alone(now_ns):
            self._recording = False
            self.scheduler.observe(None)

    def _long_alone(self, now_ns: int) -> bool:
        return now_ns - self._last_gone_ns > REMEMBERED_SECONDS * NANOSECONDS

    def _look(self, pace: tuple[PaceLine, ...]) -> PodChanges:
        nodes, pods = self.nodes.look(), self.waiting.look()
        for onlooker in self._onlookers:
            onlooker.note(nodes, pods, pace)
        return pods

    # What the scheduler tells as it happens

    def pod_moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        self.stories.moved(queued, queue, cause)
        if self._waiting is not None:
            self._waiting.moved(queued, queue)

    def pod_popped(self, queued: QueuedPod) -> None:
        self.stories.popped(queued)
        if self._waiting is not None:
            self._waiting.popped(queued)

    def pod_done(self, uid: str) -> None:
        if self._waiting is not None:
            self._waiting.done(uid)

    def pod_deleted(self, uid: str) -> None:
        cluster = self.scheduler.cluster
        placed = None if cluster.is_assumed(uid) else cluster.placed(uid)
        self.stories.deleted(uid, node="" if placed is None else placed.node_name)
        if self._waiting is not None:
            self._waiting.deleted(uid)

    def pod_held(self, placement: Placement) -> None:
        self.stories.held(placement)

    def pod_bound(self, placement: Placement, seconds: float) -> None:
        self.stories.bound(placement, seconds)
        self.pace.took(seconds)

    def pod_rejected(self, rejection: Rejection, seconds: float) -> None:
        self.stories.rejected(rejection, seconds)
        self.pace.took(seconds)
