"""scheduler_batch_attempts_total: whether an attempt could use what was found out for an equal pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.evaluation import Evaluator
from kuberth.framework import QueuedPod
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.testing import make_node, make_pod
from tests.unit.scheduling.test_statements import checked_cycle, place


def counted(pods: list[Mapping[str, Any]], *, nodes: int = 2) -> Mapping[str, float]:
    evaluator = Evaluator([make_node(f"n{number}", cpu="4") for number in range(nodes)])
    metrics = evaluator.runner.metrics
    cycle = SchedulingCycle(evaluator.cluster, nominator=evaluator.nominator, metrics=metrics)
    for number, pod in enumerate(pods):
        info = PodInfo(make_pod(f"p{number}", **pod))
        cycle.run(QueuedPod(info, timestamp_ns=0), evaluator.runner)
    values = metrics.batch_attempts.values
    assert {profile for profile, _result in values} <= {"default-scheduler"}
    return {result: number for (_profile, result), number in values.items()}


ONE: Mapping[str, Any] = {"cpu": "1"}
HUGE: Mapping[str, Any] = {"cpu": "64"}
GONE: Mapping[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "gone"}}]}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([ONE], {"no_hint": 1}, id="the-first-of-its-kind"),
        pytest.param([ONE] * 4, {"no_hint": 1, "hint_used": 3}, id="equal-pods"),
        pytest.param([{"cpu": f"{n}00m"} for n in (1, 2, 3)], {"no_hint": 3}, id="different-pods"),
        pytest.param([HUGE], {"no_hint": 1}, id="fits-nowhere"),
        pytest.param([HUGE] * 3, {"no_hint": 1}, id="a-hint-that-placed-nothing-is-not-counted"),
        pytest.param([GONE], {}, id="rejected-before-a-hint-is-looked-for"),
    ],
)
def test_results(pods: list[Mapping[str, Any]], expected: Mapping[str, float]) -> None:
    assert counted(pods) == expected


def test_without_nodes_nothing_is_counted() -> None:
    assert counted([ONE, ONE], nodes=0) == {}


def test_a_hint_that_turns_out_to_be_wrong() -> None:
    evaluator, cycle = checked_cycle(every=1)
    for number in range(3):
        place(evaluator, cycle, f"honest-{number}", "")
    assert place(evaluator, cycle, "fib", "filter") == "n2"
    assert evaluator.runner.metrics.batch_attempts.values == {
        ("default-scheduler", "no_hint"): 1,
        ("default-scheduler", "hint_used"): 2,
        ("default-scheduler", "hint_not_used"): 1,
    }
