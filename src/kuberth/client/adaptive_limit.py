"""Limits the number of in-flight writes of one kind by how fast the API server answers.

In: the start and the end of every write, on an injected clock. Out: whether another one may start. If fewer
writes keep the server busy, no more are sent: writes that have not been sent can still be reordered. It does
no I/O and has no tasks. docs/adr/0019-bindings-in-flight.md explains the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from kuberth.clock import NANOSECONDS, Clock

CEILING: Final = 512
FLOOR: Final = 8
"""Enough writes for a measurement."""
FREE_SECONDS: Final = 0.2
"""Answers within this time are fast enough, however fast an idle server is: a lower limit would only make
smaller batches."""
TOLERANCE: Final = 1.6
"""The allowed duration of answers, as a multiple of the shortest mean of a round."""
PROBE_SECONDS: Final = 15.0
"""How often the limit is halved for two rounds, to measure an answer with a shorter queue: the first round
empties the queue, the second measures."""
STALLED_SECONDS: Final = 1.0
"""After this number of seconds without an answer, more writes may start: those in flight may be lost."""
MIN_ANSWERS: Final = 8
"""The minimum number of answers in a round."""
_SLOW_START: Final = 1.5
_MAX_CUT: Final = 0.5
_RESUMED: Final = 0.75


class AdaptiveLimit:
    """A limit between `FLOOR` and `CEILING` that adapts to the server.

    A round has as many answers as there are writes in flight. After each round, the limit is multiplied by
    the ratio of the allowed mean duration to the measured one, at most 1 and at least a half, and grows by
    its square root if it was reached. The allowed duration is `TOLERANCE` times the shortest mean of a round,
    or `FREE_SECONDS` if that is longer. At the floor there is no queue of our own, so the measured mean
    replaces the shortest one, and the limit grows faster until answers take too long.
    """

    def __init__(self, clock: Clock, *, refusals: Callable[[], int] = lambda: 0) -> None:
        """`refusals`: how often the server has refused writes for now; growth in a round halves the limit."""
        self._clock = clock
        self._refusals = refusals
        self._refused_before = refusals()
        self._limit = float(FLOOR)
        self._probing_rounds = 0
        """The number of rounds for which the limit stays halved."""
        self._probed_ns = clock.now_ns()
        self._in_flight = 0
        self._answered_ns = clock.now_ns()
        """When a write last ended, or the limit was last raised because none did."""
        self._allowance = 0
        """Additional writes that may start because none has ended for long."""
        self._is_crowded = False
        self._was_reached = False
        """Whether the limit was reached in this round."""
        self._is_unloaded = True
        """Whether the round began with no more in flight than the floor, and with the limit there."""
        self._is_slow_start = True
        self._fastest = math.inf
        """Shortest mean duration of a round, in seconds."""
        self._answers = 0
        self._seconds = 0.0
        """Sum of the durations of the round's answers."""

    @property
    def limit(self) -> int:
        """The maximum number of writes in flight."""
        return max(int(self._limit / 2 if self._probing_rounds else self._limit), FLOOR)

    @property
    def in_flight(self) -> int:
        """The number of writes in flight."""
        return self._in_flight

    def has_room(self) -> bool:
        """Whether another write may start.

        Once the limit is reached, a quarter of it has to become free (writes that start together are sent
        together), or none may have ended for `STALLED_SECONDS`.
        """
        limit = self.limit
        if self._in_flight < limit:
            self._allowance = 0
        limit = min(limit + self._allowance, CEILING)
        self._is_crowded = self._in_flight >= (limit * _RESUMED if self._is_crowded else limit)
        if self._is_crowded:
            self._was_reached = True
            self._is_crowded = not self._allow_more(limit)
        return not self._is_crowded

    def _allow_more(self, limit: int) -> bool:
        now_ns = self._clock.now_ns()
        if limit >= CEILING or now_ns - self._answered_ns < STALLED_SECONDS * NANOSECONDS:
            return False
        self._answered_ns = now_ns
        self._allowance = self._in_flight + FLOOR - self.limit
        return True

    def start(self) -> int:
        """Record that a write starts, regardless of the limit. Returns the argument for `end`."""
        now_ns = self._clock.now_ns()
        if not self._in_flight:
            self._answered_ns = now_ns
        self._in_flight += 1
        return now_ns

    def end(self, started_ns: int, *, answered: bool) -> bool:
        """Record that a write has ended; `answered`: with a response of the server.

        Returns whether writes may start again after `has_room` has returned False.
        """
        self._in_flight -= 1
        now_ns = self._answered_ns = self._clock.now_ns()
        seconds = (now_ns - started_ns) / NANOSECONDS
        # A failure is a measurement of the server only if it took long, like a timeout.
        if answered or seconds > self._allowed_seconds:
            self._answers += 1
            self._seconds += seconds
            if self._answers >= max(MIN_ANSWERS, self._in_flight):
                self._end_round(now_ns)
        return self._is_crowded and self._in_flight < self.limit * _RESUMED

    @property
    def _allowed_seconds(self) -> float:
        return FREE_SECONDS if self._fastest == math.inf else max(FREE_SECONDS, TOLERANCE * self._fastest)

    def _end_round(self, now_ns: int) -> None:
        mean = self._seconds / self._answers
        refused = self._refusals()
        self._fastest = mean if self._is_unloaded else min(self._fastest, mean)
        self._adapt(mean, refused=refused > self._refused_before)
        self._limit = min(max(self._limit, float(FLOOR)), float(CEILING))
        if self._probing_rounds:
            self._probing_rounds -= 1
        elif not self._was_reached or self._allowed_seconds <= FREE_SECONDS:
            self._probed_ns = now_ns
        elif now_ns - self._probed_ns >= PROBE_SECONDS * NANOSECONDS:
            self._probed_ns = now_ns
            self._probing_rounds = 2
        self._refused_before = refused
        self._is_unloaded = self._limit <= FLOOR and self._in_flight <= FLOOR
        self._was_reached = False
        self._answers = 0
        self._seconds = 0.0

    def _adapt(self, mean: float, *, refused: bool) -> None:
        allowed = self._allowed_seconds
        if refused or mean > allowed:
            self._limit *= _MAX_CUT if refused else max(_MAX_CUT, allowed / mean)
            self._is_slow_start = False
        elif self._is_unloaded:
            self._is_slow_start = True
        if self._was_reached and not refused and not self._probing_rounds:
            self._limit = (
                self._limit * _SLOW_START if self._is_slow_start else self._limit + math.sqrt(self._limit)
            )
