"""A pod that fits nowhere is rejected as an equal pod was, for as long as nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import (
    DependsOn,
    FilterPlugin,
    Inputs,
    Plugin,
    PostFilterPlugin,
    PreFilterPlugin,
    Status,
)
from kuberth.framework.status import SKIP
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.testing import make_pod
from tests.unit.framework.harness import plugin
from tests.unit.scheduling.harness import CycleHarness, make_harness

LABELS = {"metadata.labels"}


def with_inputs(made: type[Plugin], inputs: Inputs | None) -> type[Plugin]:
    made.inputs = inputs
    return made


def full(log: list[str], inputs: Inputs | None, **methods: Any) -> type[Plugin]:
    """A filter that lets a pod onto a node only while no other pod is there."""
    points = [FilterPlugin, *([PreFilterPlugin] if "pre_filter" in methods else [])]

    def judge(_state: object, _pod: object, node: Any) -> Status | None:
        return Status.unschedulable("taken") if node.pod_count else None

    return with_inputs(plugin("Full", *points, log=log, filter=judge, **methods), inputs)


def mending(log: list[str], inputs: Inputs | None, words: Callable[[], str] = lambda: "none") -> type[Plugin]:
    return with_inputs(
        plugin(
            "Mending",
            PostFilterPlugin,
            log=log,
            post_filter=lambda *_: (None, Status.unschedulable(words())),
        ),
        inputs,
    )


def taken(*plugins: type[Plugin], check_every: int = 0) -> CycleHarness:
    """Two nodes with a pod each."""
    harness = make_harness(*plugins, nodes=("a", "b"), check_every=check_every)
    for name in ("a", "b"):
        harness.made.cluster.add_pod(PodInfo(make_pod(f"on-{name}", uid=f"on-{name}", node=name)))
    return harness


def rejections(harness: CycleHarness, number: int) -> list[Rejection]:
    return [harness.reject(make_pod(f"p{each}")) for each in range(number)]


@pytest.mark.parametrize("in_bulk", [True, False])
def test_preemption_counts_as_tried_for_every_pod(in_bulk: bool) -> None:
    """As kube-scheduler counts, which asks PostFilter about each of them."""
    harnesses: list[CycleHarness] = []

    def words() -> str:
        harnesses[0].made.metrics.preemption_attempts.inc()
        return "none"

    harness = taken(full([], OF_NODE), mending([], ALONE, words))
    harnesses.append(harness)
    if in_bulk:
        harness.add(*(make_pod(f"p{each}") for each in range(6)))
        while harness.loop.schedule_one():
            pass
    else:
        rejections(harness, 6)
    assert harness.made.metrics.preemption_attempts.values == {(): 6}
    assert harness.made.metrics.repeated_rejections.values == ({("default-scheduler",): 4} if in_bulk else {})


OF_NODE = Inputs(LABELS, filter=DependsOn.NODE)
OF_CLUSTER = Inputs(LABELS, filter=DependsOn.CLUSTER)
ALONE = Inputs((), post_filter=DependsOn.POD)


@pytest.mark.parametrize("inputs", [OF_NODE, OF_CLUSTER], ids=["node", "cluster"])
def test_no_plugin_is_asked_about_the_third_equal_pod(inputs: Inputs) -> None:
    log: list[str] = []
    harness = taken(full(log, inputs), mending(log, ALONE))
    first, second = rejections(harness, 2)
    log.clear()
    third = harness.reject(make_pod("third"))
    assert log == []
    assert third.is_repeated
    assert not second.is_repeated
    assert (third.status, third.nomination) == (first.status, first.nomination)
    assert third.status.message == "0/2 nodes are available: 2 taken. none"
    (timed,) = harness.made.metrics.algorithm_duration.values.values()
    assert timed.count == 3, "an attempt that asks no plugin is timed, too"


@pytest.mark.parametrize("inputs", [OF_NODE, OF_CLUSTER], ids=["node", "cluster"])
def test_a_pod_that_leaves_lets_the_next_one_in(inputs: Inputs) -> None:
    harness = taken(full([], inputs), mending([], ALONE))
    rejections(harness, 3)
    harness.made.cluster.remove_pod("on-b")
    placed = harness.decide(make_pod("next"))
    assert isinstance(placed, Placement)
    assert placed.node_name == "b"


@pytest.mark.parametrize(
    "filter_inputs, mending_inputs, asked",
    [
        (None, ALONE, {"Full.filter", "Mending.post_filter"}),
        (Inputs(LABELS, filter=DependsOn.ANYTHING), ALONE, {"Full.filter", "Mending.post_filter"}),
        (OF_NODE, None, {"Mending.post_filter"}),
        (OF_NODE, Inputs((), post_filter=DependsOn.ANYTHING), {"Mending.post_filter"}),
    ],
    ids=[
        "filter states nothing",
        "filter of anything",
        "PostFilter states nothing",
        "PostFilter of anything",
    ],
)
def test_plugins_that_depend_on_more_are_asked(
    filter_inputs: Inputs | None, mending_inputs: Inputs | None, asked: set[str]
) -> None:
    log: list[str] = []
    harness = taken(full(log, filter_inputs), mending(log, mending_inputs))
    rejections(harness, 2)
    log.clear()
    assert not harness.reject(make_pod("third")).is_repeated
    assert set(log) == asked


def test_a_plugin_that_is_asked_at_prefilter_has_to_skip_the_pod() -> None:
    """Otherwise its Filter has a say."""
    log: list[str] = []
    inputs = Inputs(LABELS, pre_filter=DependsOn.ANYTHING, filter=DependsOn.ANYTHING)
    asking = with_inputs(
        plugin("Asking", PreFilterPlugin, FilterPlugin, log=log, pre_filter=SKIP, filter=None), inputs
    )
    harness = taken(full(log, OF_NODE), asking)
    rejections(harness, 2)
    log.clear()
    assert harness.reject(make_pod("third")).is_repeated
    assert log == ["Asking.pre_filter"]
    asking.pre_filter = lambda *_: None  # type: ignore[attr-defined]  # it does not skip any more
    assert not harness.reject(make_pod("fourth")).is_repeated


def test_a_pod_with_a_nominated_node_of_its_own_is_tried() -> None:
    harness = taken(full([], OF_NODE), mending([], ALONE))
    rejections(harness, 3)
    nominated = make_pod("nominated", status={"nominatedNodeName": "a"})
    assert not harness.reject(nominated).is_repeated


def test_a_nomination_for_another_pod_is_a_change() -> None:
    harness = taken(full([], OF_NODE), mending([], ALONE))
    rejections(harness, 3)
    harness.made.nominator.nominate(PodInfo(make_pod("other", priority=5)), "b")
    assert not harness.reject(make_pod("next")).is_repeated
    assert harness.reject(make_pod("after")).is_repeated


def test_a_pod_that_differs_in_a_stated_field_is_tried() -> None:
    harness = taken(full([], OF_NODE), mending([], ALONE))
    rejections(harness, 3)
    assert not harness.reject(make_pod("other", labels={"app": "other"})).is_repeated


def test_an_error_of_postfilter_is_not_kept() -> None:
    failing = with_inputs(plugin("Failing", PostFilterPlugin, post_filter=ValueError("broken")), ALONE)
    harness = taken(full([], OF_NODE), failing)
    assert not any(each.is_repeated for each in rejections(harness, 4))


def test_a_wrong_statement_is_found_by_the_check(caplog: pytest.LogCaptureFixture) -> None:
    """PostFilter states that its words depend on the pod alone, but they follow something else."""
    said = ["first"]
    harness = taken(full([], OF_NODE), mending([], ALONE, lambda: said[0]), check_every=4)
    rejections(harness, 3)
    said[0] = "second"
    checked = harness.reject(make_pod("checked"))
    assert checked.status.message.endswith("second")
    assert "plugin 'Mending': its `inputs` are wrong. PostFilter" in caplog.text
    assert harness.made.metrics.plan_differences.values == {("Mending", "default-scheduler"): 1}
    said[0] = "third"
    assert harness.reject(make_pod("next")).status.message.endswith("third")
