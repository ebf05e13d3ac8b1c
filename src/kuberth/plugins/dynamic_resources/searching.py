"""Limits the work of device searches, so that no claim blocks the event loop.

In: demands with searches that were unfinished when their attempt had used up its budget. Out: the same
demands, finished, or timed out when their searches together have used up `filterTimeout`. Work is counted in
checked devices and not in seconds, so that decisions do not depend on the machine.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

ATTEMPT_WORK: Final = 40_000
"""The budget of one attempt of a pod, or of a whole pod group, on the event loop: well below 100 ms."""
FREE_WORK: Final = 16
"""Work of a search that is not charged, besides one check per device: an ordinary search takes no more."""
WORK_PER_SECOND: Final = 500_000
"""`filterTimeout` as an amount of work."""
_SLICE_WORK: Final = 8_000
_PAUSE_SECONDS: Final = 0.05
"""The pause between two slices; a slice is shorter, so that background searches leave most of the CPU."""
_MOST_WAITING: Final = 256
_SLICES: Final = 400
"""How many slices an attempt triggers: searches that no pod needs any more end after them."""


class SearchBudget:
    """The remaining budget of an attempt."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int | None, left: int = ATTEMPT_WORK) -> None:
        """`limit`: the budget of a demand over all attempts; None: no limit."""
        self.limit = limit
        self.left = left


class UnfinishedSearches(Protocol):
    """The searches of one demand."""

    def go_on(self, budget: SearchBudget) -> bool:
        """Spend the budget on the searches; False if none is left."""
        ...


class BackgroundSearches:
    """Continues searches in slices between turns of the event loop; the next attempt uses the results."""

    def __init__(self, refresh: Callable[[], None], *, limit: int | None) -> None:
        """`refresh` updates the inventory before every slice."""
        self._refresh = refresh
        self._limit = limit
        self._waiting: OrderedDict[UnfinishedSearches, int] = OrderedDict()
        """The searches, with their remaining slices."""
        self._next: asyncio.TimerHandle | None = None

    def add(self, searches: UnfinishedSearches) -> None:
        """Finish them in turns with others. Without a running event loop, only attempts continue them."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if searches in self._waiting or len(self._waiting) < _MOST_WAITING:
            self._waiting[searches] = _SLICES
        if self._next is None:
            self._next = loop.call_later(_PAUSE_SECONDS, self._slice, loop)

    def close(self) -> None:
        """Stop all searches."""
        if self._next is not None:
            self._next.cancel()

    def _slice(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next = None
        searches, slices = self._waiting.popitem(last=False)
        self._refresh()
        budget = SearchBudget(self._limit, _SLICE_WORK)
        if searches.go_on(budget) and slices > 1:
            self._waiting[searches] = slices - 1
        if self._waiting:
            # A selector may take longer than a slice.
            done = max(_SLICE_WORK - budget.left, _SLICE_WORK) / _SLICE_WORK
            self._next = loop.call_later(done * _PAUSE_SECONDS, self._slice, loop)
