"""The results of a measured phase of a workload, and its threshold.

In: samples, readings and counts of one phase. Out: a `Measurement`, and of several runs the median one.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

from kuberth.bench.cases import THROUGHPUT, ThresholdMetricSelector
from kuberth.text.figures import percentile

PERCENTILES: Final = {"Perc50": 50, "Perc90": 90, "Perc95": 95, "Perc99": 99}


class RateSample(NamedTuple):
    """The rate of an interval that ended at a time."""

    at_seconds: float
    pods_per_second: float
    scheduled: int


class ThroughputSampler:
    """Samples pods per second as scheduler_perf samples its SchedulingThroughput.

    Call `take` once per interval, with the time in seconds. A rate is that between two samples. The time
    before the first scheduled pod, and its interval, do not count. Intervals without pods get the rate of the
    next interval with pods, which includes their time.
    """

    def __init__(self) -> None:
        self.samples: list[RateSample] = []
        self._rates: list[float] = []
        self._last_at = 0.0
        self._last_count = 0
        self._skipped = 0

    def take(self, now: float, scheduled: int) -> None:
        """Take a sample, with the number of pods scheduled so far."""
        more = scheduled - self._last_count
        if more == 0:
            self._skipped += bool(scheduled)
            return
        if self._last_count:
            rate = more / (now - self._last_at) if now > self._last_at else 0.0
            self._rates += [rate] * (self._skipped + 1)
            self.samples.append(RateSample(now, rate, scheduled))
        self._last_at, self._last_count, self._skipped = now, scheduled, 0

    def summary(self) -> Distribution | None:
        """The average and percentiles; None without a rate."""
        return summarize(self._rates)


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


def summarize(numbers: Sequence[float]) -> Distribution | None:
    if not numbers:
        return None
    ordered = sorted(numbers)
    return Distribution(
        sum(ordered) / len(ordered), *(percentile(ordered, percent) for percent in PERCENTILES.values())
    )


ATTEMPTS: Final = "scheduler_scheduling_attempt_duration_seconds"
EXTENSION_POINTS: Final = "scheduler_framework_extension_point_duration_seconds"
PLUGINS: Final = "scheduler_plugin_execution_duration_seconds"


class LatencySample(NamedTuple):
    """Scheduling attempts of one interval."""

    at_seconds: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class MetricSummary:
    """A histogram metric of the scheduler for one combination of label values, in milliseconds."""

    name: str
    labels: Mapping[str, str]
    data: Distribution


@dataclass(frozen=True, slots=True)
class ThresholdVerdict:
    """A threshold and the measured value; `met` is None if nothing was measured."""

    threshold: float
    selector: ThresholdMetricSelector
    value: float | None

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value < self.threshold if self.selector.expect_lower else self.value > self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The results of a measured phase of a workload, or their median over several runs."""

    name: str
    scheduled: int
    seconds: float
    """Seconds from the beginning to the last scheduled pod."""
    overall: float
    """Pods per second from the first scheduled pod to the last; from the start of the phase if all pods were
    scheduled at once."""
    throughput: Distribution | None
    """The sampled throughput; None if the phase ended before the first sample."""
    cpu_ms_per_pod: float | None
    peak_mib: float | None
    attempts_ms: Distribution | None
    metrics: Sequence[MetricSummary] = ()
    verdict: ThresholdVerdict | None = None
    samples: Sequence[RateSample] = field(default=(), repr=False)
    latencies: Sequence[LatencySample] = field(default=(), repr=False)

    @property
    def average(self) -> float:
        """Pods per second as scheduler_perf averages them; of a run too short for that, the overall rate."""
        return self.overall if self.throughput is None else self.throughput.average

    @property
    def sampled(self) -> bool:
        return self.throughput is not None


def threshold_verdict(
    threshold: float,
    selector: ThresholdMetricSelector,
    throughput: Distribution | None,
    metrics: Sequence[MetricSummary],
) -> ThresholdVerdict | None:
    """The verdict on a threshold; None if there is no threshold."""
    if not threshold:
        return None
    if selector.name == THROUGHPUT:
        found = throughput
    else:
        wanted = selector.labels.items()
        found = next(
            (each.data for each in metrics if each.name == selector.name and wanted <= each.labels.items()),
            None,
        )
    return ThresholdVerdict(
        threshold, selector, None if found is None else found.bucket(selector.data_bucket)
    )


def median(runs: Sequence[Measurement]) -> Measurement:
    """The median of every number; curves are those of the run nearest to the median."""
    if len(runs) == 1:
        return runs[0]
    average = statistics.median(run.average for run in runs)
    nearest = min(runs, key=lambda run: abs(run.average - average))
    verdict = nearest.verdict
    if verdict is not None:
        verdict = replace(verdict, value=_median([run.verdict.value for run in runs if run.verdict]))
    return replace(
        nearest,
        seconds=statistics.median(run.seconds for run in runs),
        overall=statistics.median(run.overall for run in runs),
        throughput=_median_summary([run.throughput for run in runs]),
        cpu_ms_per_pod=_median([run.cpu_ms_per_pod for run in runs]),
        peak_mib=_median([run.peak_mib for run in runs]),
        attempts_ms=_median_summary([run.attempts_ms for run in runs]),
        verdict=verdict,
    )


def _median(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return statistics.median(known) if known else None


def _median_summary(summaries: Sequence[Distribution | None]) -> Distribution | None:
    known = [summary for summary in summaries if summary is not None]
    if not known:
        return None
    return Distribution(
        *(statistics.median(getattr(each, part.name) for each in known) for part in fields(Distribution))
    )


def plain(measurement: Measurement) -> dict[str, Any]:
    """The measurement for programs: numbers with their units in their names."""
    verdict = measurement.verdict
    tree: dict[str, Any] = {
        "name": measurement.name,
        "scheduled": measurement.scheduled,
        "seconds": measurement.seconds,
        "podsPerSecond": {
            "average": measurement.average,
            "sampled": measurement.sampled,
            "overall": measurement.overall,
            **_percentiles(measurement.throughput),
        },
        "cpuMsPerPod": measurement.cpu_ms_per_pod,
        "peakMiB": measurement.peak_mib,
        "attemptMs": None if measurement.attempts_ms is None else _with_average(measurement.attempts_ms),
        "threshold": None
        if verdict is None
        else {
            "metric": verdict.selector.name,
            "bucket": verdict.selector.data_bucket,
            "labels": verdict.selector.labels,
            "wanted": verdict.threshold,
            "expectLower": verdict.selector.expect_lower,
            "got": verdict.value,
            "met": verdict.met,
        },
        "metricsMs": [
            {"metric": each.name, "labels": dict(each.labels), **_with_average(each.data)}
            for each in measurement.metrics
        ],
        "samples": [
            {"atSeconds": at, "podsPerSecond": rate, "scheduled": scheduled}
            for at, rate, scheduled in measurement.samples
        ],
    }
    return {name: _rounded(value) for name, value in tree.items()}


def _percentiles(summary: Distribution | None) -> dict[str, Any]:
    return {f"p{percent}": getattr(summary, f"perc{percent}", None) for percent in PERCENTILES.values()}


def _with_average(summary: Distribution) -> dict[str, Any]:
    return {"average": summary.average, **_percentiles(summary)}


def _rounded(value: Any) -> Any:
    """The value with all numbers in it rounded to four digits."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value
