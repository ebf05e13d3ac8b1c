"""Watches many deadlines, most of which are met long before they expire, with one timer.

In: deadlines. Out: calls of a sweep function, no later than the earliest deadline, and at least every
`SWEEP_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

SWEEP_SECONDS: Final = 30.0

Sweep = Callable[[float], float | None]
"""Handles what is due at this time of the loop; returns the next deadline, or None if there is none."""


class SweepTimer:
    """Calls the sweep for as long as it returns deadlines."""

    __slots__ = ("_at", "_handle", "_sweep")

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0

    def no_later_than(self, deadline: float) -> None:
        """Sweep at this deadline at the latest."""
        if self._handle is None or deadline < self._at:
            self._set(deadline)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _set(self, at: float) -> None:
        self.stop()
        loop = asyncio.get_running_loop()
        self._at = min(at, loop.time() + SWEEP_SECONDS)
        self._handle = loop.call_at(self._at, self._run)

    def _run(self) -> None:
        self._handle = None
        now = asyncio.get_running_loop().time()
        following = self._sweep(now)
        if following is not None:
            self.no_later_than(following)  # the sweep itself may have set an earlier one
