"""Cycles that wait, side by side: a limited number at once, and a line for the others.

In: pods that extenders have a say about, as they are popped. Out: a task for each, as soon as there is room.
A pod in the line is in flight for the queue, which keeps events for it; so the line is bounded, and
no pod stays in it for ever.
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
"""Beyond, the least important goes back to the queue."""
_CROWD: Final = 64
"""Size of a batch: within it the most important pod is first; pods that arrive later wait for the batch."""

Attend = Callable[[QueuedPod], Coroutine[Any, Any, None]]
"""A whole cycle; it never raises."""


class _Place(NamedTuple):
    """A pod in line; places sort by whose turn is next."""

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
        """How many are under way."""
        return self._running

    @property
    def waiting(self) -> int:
        """How many stand in line."""
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
        """Begin no more cycles."""
        self._line.clear()
        self._stopped = True

    def allow(self, limit: int) -> None:
        """Set how many may overlap; cycles under way go on."""
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
