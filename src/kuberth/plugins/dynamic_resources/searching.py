"""How much work searches for devices may do, so that no claim holds the event loop.

In: demands whose searches are not finished when their attempt has used up its budget. Out: the same demands,
decided, or timed out when their searches together have used up `filterTimeout`. Work is counted in devices
looked at and not in seconds, so that decisions do not depend on the machine.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

ATTEMPT_WORK: Final = 40_000
"""What one attempt of a pod, or of a whole pod group, may spend on the event loop: well below 100 ms."""
FREE_WORK: Final = 16
"""Work of a search besides one look at each device that is not charged: an ordinary search takes no more."""
WORK_PER_SECOND: Final = 500_000
"""What `filterTimeout` means in work."""
_SLICE_WORK: Final = 8_000
_PAUSE_SECONDS: Final = 0.05
"""Between two slices; a slice takes less than that, so that background searches leave most of the CPU."""
_MOST_WAITING: Final = 256
_SLICES: Final = 400
"""Slices that an attempt is granted: searches that no pod waits for any more end after them."""


class SearchBudget:
    """The work that is left to an attempt."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int | None, left: int = ATTEMPT_WORK) -> None:
        """`limit`: what a demand may use over all attempts; None: no limit."""
        self.limit = limit
        self.left = left


class UnfinishedSearches(Protocol):
    """The searches of one demand."""

    def go_on(self, budget: SearchBudget) -> bool:
        """Spend the budget on them; False: none is left."""
        ...


class BackgroundSearches:
    """Finishes searches in slices between turns of the event loop; the next attempt uses the results."""

    def __init__(self, refresh: Callable[[], None], *, limit: int | None) -> None:
        """`refresh` brings what is searched up to date before every slice."""
        self._refresh = refresh
        self._limit = limit
        self._waiting: OrderedDict[UnfinishedSearches, int] = OrderedDict()
        """With the number of slices that are left to them."""
        self._next: asyncio.TimerHandle | None = None

    def add(self, searches: UnfinishedSearches) -> None:
        """Finish them, in turns with others. Without a running event loop, attempts alone go on with them."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if searches in self._waiting or len(self._waiting) < _MOST_WAITING:
            self._waiting[searches] = _SLICES
        if self._next is None:
            self._next = loop.call_later(_PAUSE_SECONDS, self._slice, loop)

    def close(self) -> None:
        """Finish no more searches."""
        if self._next is not None:
            self._next.cancel()

    def _slice(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next = None
        searches, slices = self._waiting.popitem(last=False)
        self._refresh()
        if searches.go_on(SearchBudget(self._limit, _SLICE_WORK)) and slices > 1:
            self._waiting[searches] = slices - 1
        if self._waiting:
            self._next = loop.call_later(_PAUSE_SECONDS, self._slice, loop)
