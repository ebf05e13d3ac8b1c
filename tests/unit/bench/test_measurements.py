"""Thresholds, medians and ratios."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kuberth.bench.cases import ThresholdMetricSelector, shipped
from kuberth.bench.measurements import (
    Distribution,
    Measurement,
    MetricSummary,
    RateSample,
    ThresholdVerdict,
    median,
    plain,
    threshold_verdict,
)
from kuberth.bench.running import WorkloadResult

FLAT = Distribution(100, 100, 100, 100, 100)


def measured(average: float, **fields: object) -> Measurement:
    base = Measurement(
        name="ns",
        scheduled=1000,
        seconds=10.0,
        overall=average,
        throughput=Distribution(average, average, average, average, average),
        cpu_ms_per_pod=1.0,
        peak_mib=100.0,
        attempts_ms=None,
    )
    return replace(base, **fields)  # type: ignore[arg-type]  # whatever a test is about


@pytest.mark.parametrize(
    "threshold, selector, met",
    [
        (99, ThresholdMetricSelector(), True),
        (100, ThresholdMetricSelector(), False),
        (101, ThresholdMetricSelector(), False),
        (101, ThresholdMetricSelector(expect_lower=True), True),
        (5, ThresholdMetricSelector(name="m", labels={"a": "b"}, data_bucket="Perc99"), False),
        (4.9, ThresholdMetricSelector(name="m", labels={"a": "b"}, data_bucket="Perc99"), True),
        (5, ThresholdMetricSelector(name="m", labels={"a": "c"}, data_bucket="Perc99"), None),
        (5, ThresholdMetricSelector(data_bucket="Perc10"), None),
    ],
)
def test_thresholds(threshold: float, selector: ThresholdMetricSelector, met: bool | None) -> None:
    metrics = [MetricSummary("m", {"a": "b"}, Distribution(1, 2, 3, 4, 5))]
    verdict = threshold_verdict(threshold, selector, FLAT, metrics)
    assert verdict is not None
    assert verdict.met is met


def test_no_threshold_and_nothing_sampled() -> None:
    assert threshold_verdict(0, ThresholdMetricSelector(), FLAT, []) is None
    verdict = threshold_verdict(5, ThresholdMetricSelector(), None, [])
    assert verdict is not None
    assert verdict.met is None


def test_a_median_is_taken_number_by_number() -> None:
    def run(average: float, cpu: float | None, got: float) -> Measurement:
        return measured(
            average,
            cpu_ms_per_pod=cpu,
            verdict=ThresholdVerdict(50, ThresholdMetricSelector(), got),
            samples=[RateSample(1, average, 1)],
        )

    found = median([run(100, 3.0, 100), run(300, 1.0, 300), run(120, None, 120)])
    assert found.average == 120
    assert found.cpu_ms_per_pod == 2.0
    assert found.verdict == ThresholdVerdict(50, ThresholdMetricSelector(), 120)
    assert found.samples == [RateSample(1, 120, 1)]
    assert median([measured(5)]) == measured(5)


def test_a_run_too_short_has_its_overall_rate() -> None:
    short = measured(7, throughput=None)
    assert (short.average, short.sampled) == (7, False)
    assert plain(short)["podsPerSecond"] == {
        "average": 7,
        "sampled": False,
        "overall": 7,
        "p50": None,
        "p90": None,
        "p95": None,
        "p99": None,
    }


def result(**averages: float) -> WorkloadResult:
    names = {name.replace("_", "-"): [measured(average)] for name, average in averages.items()}
    return WorkloadResult(shipped()[0], names)


def test_ratios_are_those_to_the_first_peer() -> None:
    rows = list(result(kuberth=300, kube_scheduler=100, blind=400).rows())
    assert [(name, ratio) for name, _, ratio in rows] == [
        ("kuberth", 3),
        ("kube-scheduler", None),
        ("blind", 4),
    ]
    assert [ratio for _, _, ratio in result(kuberth=300).rows()] == [None]
    assert [ratio for _, _, ratio in result(kuberth=300, blind=0).rows()] == [None, None]


@pytest.mark.parametrize("ours, theirs, missed", [(100, 10, False), (10, 100, True)])
def test_only_our_own_threshold_counts(ours: float, theirs: float, missed: bool) -> None:
    def judged_run(got: float) -> list[Measurement]:
        return [measured(got, verdict=ThresholdVerdict(50, ThresholdMetricSelector(), got))]

    found = WorkloadResult(shipped()[0], {"kuberth": judged_run(ours), "kube-scheduler": judged_run(theirs)})
    assert found.missed is missed
