"""kube-scheduler's metrics of plugins: how often they are called, and how long a point took."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kuberth.cluster.nodes import Nodes
from kuberth.framework import (
    SKIP,
    BindPlugin,
    CycleState,
    Diagnosis,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
    Verdict,
)
from kuberth.framework.running.calls import FEW_NODES
from kuberth.testing import make_pod
from tests.unit.framework.harness import Framework, framework, plugin, state_of

POD = make_pod("p")
PROFILE = "default-scheduler"
PREPARING: tuple[type[Plugin], ...] = (PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin)


class Reserving(ReservePlugin):
    def reserve(self, *_: object) -> None: ...
    def unreserve(self, *_: object) -> None: ...


class Flying(PreBindPlugin):
    def pre_bind(self, *_: object) -> None: ...


def rejects(name: str) -> Callable[..., Status | None]:
    return lambda _state, _pod, node: Status.unschedulable("no") if node.name == name else None


def rejects_of_table(name: str) -> Callable[..., Verdict]:
    def judge(_state: object, _pod: object, nodes: Nodes) -> Verdict:
        mask = np.array([each == name for each in nodes.names()], np.bool_)
        return Verdict.rejecting(mask, Status.unschedulable("no"))

    return judge


def evaluated(made: Framework) -> dict[str, float]:
    """`scheduler_plugin_evaluation_total` after a search and a ranking, by plugin and point."""
    state = state_of(POD)
    made.runner.pre_filtering.run(state, POD, made.nodes)
    passing = made.runner.filtering.run(state, POD, made.nodes, Diagnosis())
    assert not isinstance(passing, Status)
    feasible = made.nodes.at(passing)
    made.runner.scoring.run_pre_score(state, POD, feasible)
    assert not isinstance(made.runner.scoring.run(state, POD, feasible), Status)
    counted = made.metrics.plugin_evaluation.values
    assert {profile for _plugin, _point, profile in counted} <= {PROFILE}
    return {f"{name}.{point}": number for (name, point, _profile), number in counted.items()}


@pytest.mark.parametrize("count", [3, FEW_NODES + 4], ids=["few-nodes", "many-nodes"])
@pytest.mark.parametrize(
    "first, second",
    [
        pytest.param({"filter": rejects("n1"), "score": 1}, {"filter": None, "score": 1}, id="per-node"),
        pytest.param(
            {"filter_nodes": rejects_of_table("n1"), "score_nodes": lambda _s, _p, nodes: [1] * len(nodes)},
            {"filter_nodes": None, "score_nodes": lambda _s, _p, nodes: [1] * len(nodes)},
            id="whole-table",
        ),
    ],
)
def test_evaluations_are_counted_by_node_where_nodes_are_judged_and_by_pod_elsewhere(
    first: dict[str, Any], second: dict[str, Any], count: int
) -> None:
    made = framework(
        plugin("A", *PREPARING, pre_filter=None, pre_score=None, **first),
        plugin("B", *PREPARING, pre_filter=None, pre_score=None, **second),
        nodes=[f"n{number}" for number in range(1, count + 1)],
    )
    assert evaluated(made) == {
        "A.PreFilter": 1,
        "B.PreFilter": 1,
        "A.Filter": count,
        "B.Filter": count - 1,  # no other plugin is called for nodes that A rejected
        "A.PreScore": 1,
        "B.PreScore": 1,
        "A.Score": count - 1,
        "B.Score": count - 1,
    }


def test_a_skipping_plugin_is_not_evaluated_further() -> None:
    made = framework(plugin("A", *PREPARING, pre_filter=SKIP, filter=None, pre_score=SKIP, score=1))
    assert evaluated(made) == {"A.PreFilter": 1, "A.PreScore": 1}


# How long a point took

Run = Callable[[Framework, CycleState], object]


@pytest.mark.parametrize("is_broken", [False, True], ids=["success", "error"])
@pytest.mark.parametrize(
    "point, base, method, well, run",
    [
        (
            "PreEnqueue",
            PreEnqueuePlugin,
            "pre_enqueue",
            None,
            lambda made, _state: made.runner.run_pre_enqueue(POD),
        ),
        (
            "PreFilter",
            PreFilterPlugin,
            "pre_filter",
            None,
            lambda made, state: made.runner.pre_filtering.run(state, POD, made.nodes),
        ),
        (
            "PostFilter",
            PostFilterPlugin,
            "post_filter",
            (None, None),
            lambda made, state: made.runner.post_filtering.run(state, POD, Diagnosis()),
        ),
        (
            "PreScore",
            PreScorePlugin,
            "pre_score",
            None,
            lambda made, state: made.runner.scoring.run_pre_score(state, POD, made.nodes),
        ),
        (
            "Score",
            ScorePlugin,
            "score",
            1,
            lambda made, state: made.runner.scoring.run(state, POD, made.nodes),
        ),
        (
            "Reserve",
            Reserving,
            "reserve",
            None,
            lambda made, state: made.runner.reserving.run_reserve(state, POD, "n1"),
        ),
        (
            "Permit",
            PermitPlugin,
            "permit",
            None,
            lambda made, state: made.runner.reserving.run_permit(state, POD, "n1"),
        ),
        (
            "PreBindPreFlight",
            Flying,
            "pre_bind_pre_flight",
            None,
            lambda made, state: made.runner.binding.run_pre_bind_pre_flights(state, POD, "n1"),
        ),
        (
            "PreBind",
            PreBindPlugin,
            "pre_bind",
            None,
            lambda made, state: asyncio.run(made.runner.binding.run_pre_bind(state, POD, "n1")),
        ),
        (
            "Bind",
            BindPlugin,
            "bind",
            None,
            lambda made, state: asyncio.run(made.runner.binding.run_bind(state, POD, "n1")),
        ),
    ],
)
def test_a_point_is_timed_with_its_outcome(
    point: str, base: type[Plugin], method: str, well: object, run: Run, *, is_broken: bool
) -> None:
    answers: dict[str, Any] = {method: Status.error("broken") if is_broken else well}
    made = framework(plugin("A", base, **answers))
    run(made, state_of(POD))
    assert timed(made) == {(point, "Error" if is_broken else "Success", PROFILE): 1}


@pytest.mark.parametrize(
    "point, base, method, run",
    [
        (
            "Unreserve",
            Reserving,
            "unreserve",
            lambda made, state: made.runner.reserving.run_unreserve(state, POD, "n1"),
        ),
        (
            "PostBind",
            PostBindPlugin,
            "post_bind",
            lambda made, state: made.runner.binding.run_post_bind(state, POD, "n1"),
        ),
    ],
)
def test_a_point_that_cannot_fail_is_timed_as_a_success(
    point: str, base: type[Plugin], method: str, run: Run
) -> None:
    answers: dict[str, Any] = {method: ValueError("broken")}
    made = framework(plugin("A", base, **answers))
    run(made, state_of(POD))
    assert timed(made) == {(point, "Success", PROFILE): 1}


def timed(made: Framework) -> dict[tuple[str, ...], int]:
    """`scheduler_framework_extension_point_duration_seconds`, how often for which labels."""
    return {labels: value.count for labels, value in made.metrics.extension_point_duration.values.items()}


@pytest.mark.parametrize("form", [{"filter": None}, {"filter_nodes": None}], ids=["per-node", "whole-table"])
def test_a_single_node_counts_and_is_timed_as_one(form: dict[str, Any]) -> None:
    made = framework(plugin("A", FilterPlugin, **form))
    state = CycleState(state_of(POD).pod_info, record_plugin_metrics=True)
    assert made.runner.filtering.status(state, POD, made.node("n2")).is_success
    assert made.metrics.plugin_evaluation.values == {("A", "Filter", PROFILE): 1}
    took = made.metrics.plugin_execution_duration.values["A", "Filter", "Success"]
    assert took.count == 1
    assert 0 <= took.sum < 60, "seconds, from when it was asked"
