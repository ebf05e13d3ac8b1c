"""Cycles that wait, side by side: so many at once, and a line for the others.

In: pods that extenders have a say about, as they are popped. Out: a task for each, as soon as there is room;
from the line the most important first.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from kuberth.framework.handle import Spawner
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner

Attend = Callable[[QueuedPod, Runner], Coroutine[Any, Any, None]]
"""A whole cycle; it never raises."""


class Overlapping:
    """Runs cycles that wait."""

    def __init__(self, attend: Attend, *, spawn: Spawner, limit: int) -> None:
        self._attend = attend
        self._spawn = spawn
        self._limit = limit
        self._running = 0
        self._numbers = count()
        self._line: list[tuple[int, int, QueuedPod, Runner]] = []

    @property
    def running(self) -> int:
        """How many are under way."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def add(self, queued: QueuedPod, runner: Runner) -> None:
        """Run the pod's cycle now, or when its turn comes."""
        heapq.heappush(self._line, (-queued.info.priority, next(self._numbers), queued, runner))
        self._fill()

    def stop(self) -> None:
        """Begin no more cycles."""
        self._line.clear()
        self._limit = 0

    def _fill(self) -> None:
        while self._line and self._running < self._limit:
            _priority, _number, queued, runner = heapq.heappop(self._line)
            self._spawn(self._run(queued, runner), name=f"schedule {queued.key}")
            self._running += 1

    async def _run(self, queued: QueuedPod, runner: Runner) -> None:
        try:
            await self._attend(queued, runner)
        except asyncio.CancelledError:
            self.stop()  # one is cancelled only when all come to an end
            raise
        finally:
            self._running -= 1
            self._fill()
