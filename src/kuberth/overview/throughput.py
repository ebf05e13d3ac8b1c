"""The scheduling rate: attempts by result, their durations, and the number of pending pods, per second.

In: the scheduler's counters, sampled once a second, and durations of attempts while the overview records.
Out: one row per second; the last ten minutes are kept.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kuberth.assembly.scheduler import Scheduler
from kuberth.text.figures import percentile

ThroughputRow = tuple[int, int, int, int, float | None, float | None, int]
"""Unix second, scheduled, unschedulable, error, p50 and p99 in milliseconds, pending pods."""

KEPT_ROWS: Final = 600
_RESULTS: Final = ("scheduled", "unschedulable", "error")
_MOST_DURATIONS: Final = 20_000
"""Durations kept for one second; more would not change its percentiles."""


class Throughput:
    """The rows of the last minutes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._before = self._attempts()
        self._durations: list[float] = []
        self.rows: deque[ThroughputRow] = deque(maxlen=KEPT_ROWS)

    def record(self, seconds: float) -> None:
        """Record the duration of an attempt."""
        if len(self._durations) < _MOST_DURATIONS:
            self._durations.append(seconds)

    def sample(self, second: int) -> ThroughputRow:
        """Add the row of this second."""
        now = self._attempts()
        scheduled, unschedulable, error = (
            int(after - before) for after, before in zip(now, self._before, strict=True)
        )
        self._before = now
        durations, self._durations = sorted(self._durations), []
        median, p99 = (
            round(percentile(durations, percent) * 1000, 3) if durations else None for percent in (50, 99)
        )
        row = (
            second,
            scheduled,
            unschedulable,
            error,
            median,
            p99,
            self._scheduler.queue.waiting_count(),
        )
        self.rows.append(row)
        return row

    def _attempts(self) -> list[float]:
        values = self._scheduler.metrics.schedule_attempts.values
        return [
            sum(number for labels, number in values.items() if labels[0] == result) for result in _RESULTS
        ]
