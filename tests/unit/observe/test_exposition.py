from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kuberth.observe.exposition import number, render
from kuberth.observe.metrics import ComputedGauge, Counter, Family, Histogram, SchedulerMetrics


def text_of(*families: Family, open_metrics: bool = False) -> str:
    return "".join(render(families, open_metrics=open_metrics))


def test_a_counter_with_labels() -> None:
    counter = Counter("pods_total", "Pods\nby \\ result.", ("result", "profile"), stability="STABLE")
    counter.inc(("scheduled", "default-scheduler"), 2)
    counter.inc(("error", 'a"b\\c\nd'))
    counter.inc(("error", "a"))
    assert text_of(counter) == (
        "# HELP pods_total [STABLE] Pods\\nby \\\\ result.\n"
        "# TYPE pods_total counter\n"
        'pods_total{profile="a",result="error"} 1\n'
        'pods_total{profile="a\\"b\\\\c\\nd",result="error"} 1\n'
        'pods_total{profile="default-scheduler",result="scheduled"} 2\n'
    )


def test_a_histogram() -> None:
    histogram = Histogram("took_seconds", "Time.", ("result",), buckets=[0.001, 1, 2000000])
    for seconds in (0.0005, 0.001, 0.5, 3, 1e9):
        histogram.observe(("ok",), seconds)
    assert text_of(histogram) == (
        "# HELP took_seconds Time.\n"
        "# TYPE took_seconds histogram\n"
        'took_seconds_bucket{result="ok",le="0.001"} 2\n'
        'took_seconds_bucket{result="ok",le="1"} 3\n'
        'took_seconds_bucket{result="ok",le="2e+06"} 4\n'
        'took_seconds_bucket{result="ok",le="+Inf"} 5\n'
        'took_seconds_sum{result="ok"} 1.0000000035015e+09\n'
        'took_seconds_count{result="ok"} 5\n'
    )


def test_without_labels_a_series_is_there_from_the_start() -> None:
    assert text_of(Counter("x_total", "X.")).endswith("\nx_total 0\n")
    assert text_of(Histogram("y", "Y.", buckets=[1])).endswith(
        'y_bucket{le="1"} 0\ny_bucket{le="+Inf"} 0\ny_sum 0\ny_count 0\n'
    )


def test_with_labels_a_family_is_left_out_until_something_happens() -> None:
    families: list[Family] = [
        Counter("x", "X.", ("a",)),
        Histogram("y", "Y.", ("a",), buckets=[1]),
        ComputedGauge("z", ""),
    ]
    assert text_of(*families) == ""


def test_families_are_sorted_and_computed_gauges_asked() -> None:
    gauge = ComputedGauge("a_pods", "Pods.", ("queue",))
    gauge.compute = lambda: {("gated",): 2.0, ("active",): 0.5}
    assert text_of(Counter("b", "B."), gauge) == (
        "# HELP a_pods Pods.\n# TYPE a_pods gauge\n"
        'a_pods{queue="active"} 0.5\na_pods{queue="gated"} 2\n'
        "# HELP b B.\n# TYPE b counter\nb 0\n"
    )


@pytest.mark.parametrize(
    "value, text",
    [
        (0, "0"), (1, "1"), (-3, "-3"), (0.5, "0.5"), (999999, "999999"), (1e6, "1e+06"),
        (1234567, "1.234567e+06"), (-2.5e7, "-2.5e+07"), (5e-05, "5e-05"), (0.0001, "0.0001"),
        (16777216, "1.6777216e+07"), (1e21, "1e+21"), (123456789012345680.0, "1.2345678901234568e+17"),
        (math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"),
    ],
)  # fmt: skip
def test_numbers_as_go_prints_them(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(allow_nan=False))
def test_numbers_read_back_the_same(value: float) -> None:
    assert float(number(value)) == value


@pytest.mark.parametrize("open_metrics", (False, True), ids=("text", "OpenMetrics"))
@given(values=st.dictionaries(st.text(max_size=5), st.integers(0, 10**9), max_size=4))
def test_prometheus_own_parsers_read_it(open_metrics: bool, values: dict[str, int]) -> None:
    metrics = SchedulerMetrics()
    for label, count in values.items():
        metrics.schedule_attempts.inc((label, "p"), count)
        metrics.permit_wait_duration.observe((label,), count)
    text = text_of(*metrics.families(), open_metrics=open_metrics)
    parsed = list((parse_open_metrics if open_metrics else parse_text)(text))
    found = {
        sample.labels["result"]: sample.value
        for family in parsed
        for sample in family.samples
        if sample.name == "scheduler_schedule_attempts_total"
    }
    assert found == values
    assert text.endswith("# EOF\n") == open_metrics


def test_open_metrics_bounds_are_floats() -> None:
    text = text_of(Histogram("y", "Y.", buckets=[1, 2.5]), open_metrics=True)
    assert [line.partition(" ")[0] for line in text.splitlines() if "le=" in line] == [
        'y_bucket{le="1.0"}',
        'y_bucket{le="2.5"}',
        'y_bucket{le="+Inf"}',
    ]
