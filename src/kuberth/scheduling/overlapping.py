"""Runs cycles that wait for extenders side by side, up to a limit; the other pods wait.

In: popped pods that an extender is interested in. Out: a task for each as soon as the limit allows. A
waiting pod is in flight for the queue, which records events for it; therefore their number is bounded, and no
pod waits forever.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Final, NamedTuple

from kuberth.framework.handle import Spawner
from kuberth.framework.queued_pod import QueuedPod

MAX_WAITING: Final = 1000
"""The maximum number of waiting pods; beyond it, the pod of lowest priority returns to the queue."""
_BATCH: Final = 64
"""Size of a batch: pods are ordered by priority within it; later pods wait for the next batch."""

RunCycle = Callable[[QueuedPod], Coroutine[Any, Any, None]]
"""A whole cycle; it never raises."""


class _WaitingPod(NamedTuple):
    """A waiting pod, ordered by its turn."""

    batch: int
    unimportance: int
    number: int
    queued: QueuedPod


class Overlapping:
    """Runs cycles that wait."""

    def __init__(
        self, run_cycle: RunCycle, *, spawn: Spawner, limit: int, requeue: Callable[[QueuedPod], None]
    ) -> None:
        self._run_cycle = run_cycle
        self._spawn = spawn
        self._limit = limit
        self._stopped = False
        self._requeue = requeue
        self._running = 0
        self._numbers = count()
        self._waiting: list[_WaitingPod] = []

    @property
    def running(self) -> int:
        """The number of running cycles."""
        return self._running

    @property
    def waiting(self) -> int:
        """The number of waiting pods."""
        return len(self._waiting)

    def add(self, queued: QueuedPod) -> None:
        """Run the pod's cycle now, or when its turn comes."""
        number = next(self._numbers)
        heapq.heappush(self._waiting, _WaitingPod(number // _BATCH, -queued.info.priority, number, queued))
        self._fill()
        if len(self._waiting) > MAX_WAITING:
            last = max(self._waiting, key=lambda waiting: (waiting.unimportance, waiting.number))
            self._waiting.remove(last)
            heapq.heapify(self._waiting)
            self._requeue(last.queued)

    def stop(self) -> None:
        """Start no more cycles."""
        self._waiting.clear()
        self._stopped = True

    def allow(self, limit: int) -> None:
        """Set how many cycles may overlap; running cycles continue."""
        self._limit = limit
        self._fill()

    def _fill(self) -> None:
        while self._waiting and self._running < self._limit and not self._stopped:
            waiting = heapq.heappop(self._waiting)
            self._spawn(self._run(waiting.queued), name=f"schedule {waiting.queued.key}")
            self._running += 1

    async def _run(self, queued: QueuedPod) -> None:
        try:
            await self._run_cycle(queued)
        except asyncio.CancelledError:
            self.stop()  # cycles are only cancelled all together
            raise
        finally:
            self._running -= 1
            self._fill()
