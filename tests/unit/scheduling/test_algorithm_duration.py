"""scheduler_scheduling_algorithm_duration_seconds: the search for a node, once an attempt."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kuberth.framework import (
    DependsOn,
    FilterPlugin,
    Inputs,
    PermitPlugin,
    PostFilterPlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
)
from kuberth.testing import make_pod
from tests.unit.framework.harness import plugin
from tests.unit.scheduling.harness import CycleHarness, make_harness


class Watch:
    """A clock that stands still but for the time that plugins take."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def cycles(
    monkeypatch: pytest.MonkeyPatch, *, filtered: Any = None, reserved: Any = None, nodes: int = 2
) -> CycleHarness:
    """Filter takes a quarter of a second for all nodes, PostFilter two, Score four, what follows 100 each."""
    watch = Watch()
    monkeypatch.setattr(time, "perf_counter", watch)

    class Slow(FilterPlugin, PostFilterPlugin, ScorePlugin, ReservePlugin, PermitPlugin):
        name = "Slow"

        def filter(self, *_: Any) -> Any:
            watch.seconds += 0.25 / nodes
            return filtered

        def post_filter(self, *_: Any) -> Any:
            watch.seconds += 2
            return None, Status.unschedulable("no room")

        def score(self, *_: Any) -> int:
            watch.seconds += 4 / nodes
            return 0

        def reserve(self, *_: Any) -> Any:
            watch.seconds += 100
            return reserved

        def unreserve(self, *_: Any) -> None:
            watch.seconds += 100

        def permit(self, *_: Any) -> None:
            watch.seconds += 100

    return make_harness(Slow, nodes=[f"n{number}" for number in range(nodes)])


@pytest.mark.parametrize(
    ("filtered", "reserved", "seconds"),
    [
        pytest.param(None, None, 4.25, id="placed"),
        pytest.param(Status.unschedulable("full"), None, 2.25, id="fits-nowhere"),
        pytest.param(None, Status.unschedulable("taken"), 4.25, id="refused-at-reserve"),
        pytest.param(Status.error("broken"), None, 0.125, id="failed-at-the-first-node"),
    ],
)
def test_the_search_alone_is_timed(
    filtered: Any, reserved: Any, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = cycles(monkeypatch, filtered=filtered, reserved=reserved)
    harness.decide(make_pod("p"))
    (value,) = harness.made.metrics.algorithm_duration.values.values()
    assert value.count == 1
    assert value.sum == pytest.approx(seconds)
    harness.decide(make_pod("q"))
    assert value.count == 2
    assert value.sum == pytest.approx(2 * seconds)


@pytest.mark.parametrize("pods", [1, 2, 7])
def test_pods_that_are_rejected_as_equal_ones_were_count_too(pods: int) -> None:
    def judge(*_: Any) -> Status:
        return Status.unschedulable("full")

    full = plugin("Full", FilterPlugin, filter=judge)
    full.inputs = Inputs({"metadata.labels"}, filter=DependsOn.NODE)
    harness = make_harness(full, nodes=["n"])
    harness.add(*(make_pod(f"p{number}", uid=f"p{number}") for number in range(pods)))
    while harness.loop.schedule_one():
        pass
    assert sum(harness.made.metrics.schedule_attempts.values.values()) == pods
    (value,) = harness.made.metrics.algorithm_duration.values.values()
    assert value.count == pods
