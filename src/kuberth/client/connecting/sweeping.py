"""One timer for many deadlines, because most are met long before they come.

In: deadlines as they are set. Out: a sweep over whatever has one, in time for the earliest, and now and then
without any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

SWEEP_SECONDS: Final = 30.0

Sweep = Callable[[float], float | None]
"""Looks after everything at this time of the loop; says when it has to look again, or None: at nothing."""


class SweepTimer:
    """Sweeps for as long as there is something to look after."""

    __slots__ = ("_at", "_handle", "_sweep")

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._handle: asyncio.TimerHandle | None = None
        self._at = 0.0

    def no_later_than(self, deadline: float) -> None:
        """Sweep when it comes, if not before."""
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
