"""A clock that tests advance."""

from __future__ import annotations

from kuberth.clock import NANOSECONDS


class FakeClock:
    """Implements `kuberth.clock.Clock`."""

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        """The current time of the clock."""
        return self._now_ns

    def advance(self, seconds: float) -> None:
        """Advance by this number of seconds."""
        self._now_ns += round(seconds * NANOSECONDS)
