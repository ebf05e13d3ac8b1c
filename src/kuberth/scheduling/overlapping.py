"""Runs cycles that wait for extenders side by side, up to a limit; the other pods wait in a line.

In: popped pods that an extender is interested in. Out: a task for each as soon as the limit allows. A pod in
the line is in flight for the queue, which records events for it; therefore the line is bounded, and no pod
stays in it forever.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Final, NamedTuple

from kuberth.framework.handle import Spawner
from kuberth.framework.queued_pod import QueuedPod

LONGEST_LINE: Final = 1000
"""The maximum length of the line; beyond it, the pod of lowest priority returns to the queue."""
_CROWD: Final = 64
"""Size of a batch: pods are ordered by priority within it; later pods wait for the next batch."""

Attend = Callable[[QueuedPod], Coroutine[Any, Any, None]]
"""A whole cycle; it never raises."""


class _Place(NamedTuple):
    """A pod in the line, ordered by its turn."""

    crowd: int
    unimportance: int
    number: int
    queued: QueuedPod


class Overlapping:
    """Runs cycles that wait."""

    def __init__(
        self, attend: Attend, *, spawn: Spawner, limit: int, give_back: Callable[[QueuedPod], None]
    ) -> None:
        self._attend = attend
        self._spawn = spawn
        self._limit = limit
        self._stopped = False
        self._give_back = give_back
        self._running = 0
        self._numbers = count()
        self._line: list[_Place] = []

    @property
    def running(self) -> int:
        """The number of running cycles."""
        return self._running

    @property
    def waiting(self) -> int:
        """The number of pods in the line."""
        return len(self._line)

    def add(self, queued: QueuedPod) -> None:
        """Run the pod's cycle now, or when its turn comes."""
        number = next(self._numbers)
        heapq.heappush(self._line, _Place(number // _CROWD, -queued.info.priority, number, queued))
        self._fill()
        if len(self._line) > LONGEST_LINE:
            last = max(self._line, key=lambda place: (place.unimportance, place.number))
            self._line.remove(last)
            heapq.heapify(self._line)
            self._give_back(last.queued)

    def stop(self) -> None:
        """Start no more cycles."""
        self._line.clear()
        self._stopped = True

    def allow(self, limit: int) -> None:
        """Set how many cycles may overlap; running cycles continue."""
        self._limit = limit
        self._fill()

    def _fill(self) -> None:
        while self._line and self._running < self._limit and not self._stopped:
            place = heapq.heappop(self._line)
            self._spawn(self._run(place.queued), name=f"schedule {place.queued.key}")
            self._running += 1

    async def _run(self, queued: QueuedPod) -> None:
        try:
            await self._attend(queued)
        except asyncio.CancelledError:
            self.stop()  # one is cancelled only when all come to an end
            raise
        finally:
            self._running -= 1
            self._fill()
