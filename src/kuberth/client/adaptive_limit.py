"""How many writes of one kind may wait for the API server, by how fast it answers.

In: the start and the end of every write, on an injected clock. Out: whether one more may start. A server that
is kept busy by fewer writes gets no more: what it has not got yet can still be put in another order. No I/O
and no tasks here. docs/adr/0019-bindings-in-flight.md says why this rule was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from kuberth.clock import NANOSECONDS, Clock

CEILING: Final = 512
FLOOR: Final = 8
"""Enough to measure."""
FREE_SECONDS: Final = 0.2
"""Answers that take no longer are fast enough, however fast an idle server answers: fewer writes would only
make smaller batches."""
TOLERANCE: Final = 1.6
"""The allowed duration of answers, as a multiple of the shortest mean of a round."""
PROBE_SECONDS: Final = 15.0
"""How often the limit is halved for two rounds, to see how long an answer takes with a shorter queue: the
first round ends the queue, the second measures."""
STALLED_SECONDS: Final = 1.0
"""Seconds without an answer after which some more may start: those in flight may be lost."""
MIN_ANSWERS: Final = 8
"""Answers of a round, at least."""
_SLOW_START: Final = 1.5
_MAX_CUT: Final = 0.5
_RESUMED: Final = 0.75


class AdaptiveLimit:
    """A limit between `FLOOR` and `CEILING` that follows the server.

    A round is as many answers as there are writes in flight. After each the limit is multiplied by the ratio
    of the allowed mean duration to the measured one, at most 1 and at least a half, and grows by its square
    root if it was reached. The allowed duration is `TOLERANCE` times the shortest mean of a round, or
    `FREE_SECONDS` if that is longer. At the floor no queue is of our making, so what is measured there
    replaces the shortest mean, and the limit grows faster until answers take too long.
    """

    def __init__(self, clock: Clock, *, refusals: Callable[[], int] = lambda: 0) -> None:
        """`refusals`: how many writes the server has asked to repeat later, ever. More of them in a round
        halve the limit."""
        self._clock = clock
        self._refusals = refusals
        self._refused_before = refusals()
        self._limit = float(FLOOR)
        self._probing_rounds = 0
        """The limit is halved for this number of rounds."""
        self._probed_ns = clock.now_ns()
        self._in_flight = 0
        self._answered_ns = clock.now_ns()
        """When a write last ended, or more were allowed because none did."""
        self._allowance = 0
        """Writes beyond the limit, because none ended for long."""
        self._is_crowded = False
        self._was_reached = False
        """Whether the limit was reached in this round."""
        self._is_unloaded = True
        """The round began with no more in flight than the floor, and the limit there."""
        self._is_slow_start = True
        self._fastest = math.inf
        """Shortest mean duration of a round, in seconds."""
        self._answers = 0
        self._seconds = 0.0
        """Sum of the durations of the round's answers."""

    @property
    def limit(self) -> int:
        """Writes that may be in flight."""
        return max(int(self._limit / 2 if self._probing_rounds else self._limit), FLOOR)

    @property
    def in_flight(self) -> int:
        """Writes that have started and not ended."""
        return self._in_flight

    def has_room(self) -> bool:
        """Whether one more write may start. Once the limit is reached, a quarter of it has to become free
        (writes that start together travel together), or none may have ended for `STALLED_SECONDS`."""
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
        """A write starts, whether there is room or not. Returns what `end` is to be called with."""
        now_ns = self._clock.now_ns()
        if not self._in_flight:
            self._answered_ns = now_ns
        self._in_flight += 1
        return now_ns

    def end(self, started_ns: int, *, answered: bool) -> bool:
        """A write has ended; `answered`: with the server's answer. Returns whether there is room again
        after `has_room` said that there is none."""
        self._in_flight -= 1
        now_ns = self._answered_ns = self._clock.now_ns()
        seconds = (now_ns - started_ns) / NANOSECONDS
        # A failure says something about the server's pace only if it took long, as a timeout does.
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
