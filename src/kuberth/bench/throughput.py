"""Pods per second, sampled as Kubernetes' scheduler_perf samples its SchedulingThroughput.

In: how many pods were scheduled, about every second. Out: rates, and of these the average and percentiles.
Rates are those between two samples. What comes before the first scheduled pod, and the interval in which it
came, does not count; an interval without pods is joined to the next interval with
pods, and has its rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kuberth.text.figures import percentile

PERCENTILES: Final = {"Perc50": 50, "Perc90": 90, "Perc95": 95, "Perc99": 99}


class RateSample(NamedTuple):
    """The rate of an interval that ended at a time."""

    at_seconds: float
    pods_per_second: float
    scheduled: int


class ThroughputSampler:
    """Fed once an interval; time is any clock's, in seconds."""

    def __init__(self) -> None:
        self.samples: list[RateSample] = []
        self._rates: list[float] = []
        self._last_at = 0.0
        self._last_count = 0
        self._skipped = 0
        self._started = False

    def take(self, now: float, scheduled: int) -> None:
        if scheduled == 0:
            return
        if not self._started:
            self._started = True
            self._last_at, self._last_count = now, scheduled
            return
        more = scheduled - self._last_count
        if more == 0:
            self._skipped += 1
            return
        rate = more / (now - self._last_at) if now > self._last_at else 0.0
        self._rates += [rate] * (self._skipped + 1)
        self.samples.append(RateSample(now, rate, scheduled))
        self._last_at, self._last_count, self._skipped = now, scheduled, 0

    def summary(self) -> Distribution | None:
        """The average and percentiles; None if it was over before there was a rate."""
        return summarized(self._rates)


@dataclass(frozen=True, slots=True)
class Distribution:
    """The average and percentiles in scheduler_perf's words: Average, Perc50, Perc90, Perc95, Perc99."""

    average: float
    perc50: float
    perc90: float
    perc95: float
    perc99: float

    def bucket(self, name: str) -> float | None:
        return getattr(self, name.lower(), None)


def summarized(numbers: Sequence[float]) -> Distribution | None:
    if not numbers:
        return None
    ordered = sorted(numbers)
    return Distribution(
        sum(ordered) / len(ordered), *(percentile(ordered, percent) for percent in PERCENTILES.values())
    )
