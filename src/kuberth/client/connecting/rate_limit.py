"""A token bucket that limits the rate of requests, as client-go's.

In: a rate and a burst. Out: a token, at once or after waiting, first come, first served. A cancelled waiter
takes no token. Time is the event loop's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

DEFAULT_QPS: Final = 5.0
DEFAULT_BURST: Final = 10
"""client-go's defaults for zero values."""


class RateLimiter:
    """`burst` tokens at most, `qps` new ones a second; a negative `qps` means no limit."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps or DEFAULT_QPS
        self._burst = float(burst if burst > 0 else DEFAULT_BURST)
        self._tokens = self._burst
        self._filled_at: float | None = None
        self._line: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def acquire_nowait(self) -> bool:
        """Take a token if there is one and no other caller waits."""
        if self._qps < 0:
            return True
        if self._line:
            return False
        self._fill(asyncio.get_running_loop().time())
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    async def acquire(self) -> None:
        """Take a token after all earlier callers."""
        if self.acquire_nowait():
            return
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        self._wait_for_token()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The token and the cancellation came in the same turn of the loop: give the token back.
                self._tokens += 1.0
                self._serve()
            raise

    @property
    def waiting(self) -> int:
        return sum(not turn.done() for turn in self._line)

    def _fill(self, now: float) -> None:
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now

    def _wait_for_token(self) -> None:
        if self._timer is None and self._line:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later((1.0 - self._tokens) / self._qps, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._serve()

    def _serve(self) -> None:
        self._fill(asyncio.get_running_loop().time())
        # Timers may fire a clock tick early; without the allowance they would be set again and again.
        while self._line and self._tokens >= 1.0 - 1e-6:
            turn = self._line.popleft()
            if not turn.done():
                self._tokens -= 1.0
                turn.set_result(None)
        self._wait_for_token()
