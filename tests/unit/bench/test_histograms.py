"""Histograms between two moments, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from kuberth.bench.cases import LabelValues
from kuberth.bench.collecting import HistogramReading, Observations, combinations

NAME = "scheduler_scheduling_attempt_duration_seconds"
INF = float("inf")


def text(*buckets: int, total: float, result: str = "scheduled", profile: str = "p") -> str:
    labels = f'profile="{profile}",result="{result}"'
    bounds = ("0.001", "0.002", "0.004", "+Inf")
    lines = [f'{NAME}_bucket{{{labels},le="{bound}"}} {n}' for bound, n in zip(bounds, buckets, strict=True)]
    return "\n".join(
        [*lines, f"{NAME}_sum{{{labels}}} {total}", f"{NAME}_count{{{labels}}} {buckets[-1]}", ""]
    )


def reading(*texts: str) -> HistogramReading:
    return HistogramReading("# HELP x y\nother_total 5\n" + "".join(texts), [NAME])


def test_what_came_in_between() -> None:
    before = reading(text(10, 10, 10, 10, total=0.01))
    after = reading(text(10, 60, 110, 110, total=0.21))
    found = after.between(before, NAME, {"result": "scheduled"})
    assert found.count == 100
    assert found.sum == pytest.approx(0.2)
    assert found.buckets == [(0.001, 0), (0.002, 50), (0.004, 100), (INF, 100)]
    # Half lie between 1 and 2 ms, half between 2 and 4: straight lines inside the buckets.
    summary = found.summary(factor=1000)
    assert summary is not None
    assert list(astuple(summary)) == pytest.approx([2.0, 2.0, 3.6, 3.8, 3.96])


def test_label_values_that_were_asked_for_are_added_up() -> None:
    after = reading(
        text(1, 1, 1, 1, total=1, profile="a"),
        text(0, 3, 3, 3, total=2, profile="b"),
        text(9, 9, 9, 9, total=9, result="error"),
    )
    found = after.between(HistogramReading(), NAME, {"result": "scheduled"})
    assert [found.count, found.sum] == [4, 3]
    assert found.buckets[0][1] == 1
    assert after.label_values(NAME, ("result",)) == [{"result": "error"}, {"result": "scheduled"}]


@pytest.mark.parametrize(
    "buckets, q, expected",
    [
        ([(1, 10), (2, 10), (INF, 10)], 0.5, 0.5),
        ([(1, 0), (2, 4), (INF, 8)], 0.25, 1.5),
        ([(1, 0), (2, 4), (INF, 8)], 0.99, 2),
        ([(1, 0), (2, 4), (4, 8), (INF, 8)], 0.75, 3),
    ],
)
def test_quantiles(buckets: list[tuple[float, float]], q: float, expected: float) -> None:
    assert Observations(1, buckets[-1][1], buckets).quantile(q) == pytest.approx(expected)


def test_nothing_observed() -> None:
    assert reading().between(HistogramReading(), NAME, {}).summary() is None
    same = reading(text(1, 1, 1, 1, total=1))
    assert same.between(same, NAME, {}).summary() is None


def test_combinations_of_labels() -> None:
    both = [LabelValues("a", ("1", "2")), LabelValues("b", ("x",))]
    assert list(combinations(both)) == [{"a": "1", "b": "x"}, {"a": "2", "b": "x"}]
    assert list(combinations(None)) == [{}]
