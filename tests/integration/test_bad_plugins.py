"""A plugin that raises or answers nonsense costs a clear error and a retry, never a pod or the loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.clock import run_in_virtual_time
from kuberth.framework import Hint
from kuberth.framework.status import Status
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import running_with
from tests.integration.recording import Recording

ABORTING_POINTS = (
    "PreFilter",
    "Filter",
    "PreScore",
    "Score",
    "NormalizeScore",
    "Reserve",
    "Permit",
    "PreBindPreFlight",
    "PreBind",
    "Bind",
)
LABELS = {"NormalizeScore": "ScoreExtensionNormalize"}


def raising(_pod: Pod) -> Any:
    raise ZeroDivisionError("the plugin divided by zero")


def nonsense(_pod: Pod) -> Any:
    return {"verdict": "maybe"}


@pytest.mark.parametrize("point", ABORTING_POINTS)
@pytest.mark.parametrize("behaviour", [raising, nonsense])
def test_an_aborted_cycle_names_plugin_and_point_and_the_pod_is_retried(
    point: str, behaviour: Callable[[Pod], Any]
) -> None:
    async def scenario() -> None:
        plugin = Recording()
        async with running_with(
            plugin,
            make_node("n1"),
            make_node("n2"),
        ) as world:
            plugin.behave[point] = behaviour
            world.api.put(make_pod("victim"))
            await world.in_queue("victim", "backoff")
            (note,) = world.events("FailedScheduling")
            assert "'Recording'" in note
            assert LABELS.get(point, point) in note
            expected = "divided by zero" if behaviour is raising else "expected"
            assert expected in note
            condition = world.pod("victim").status.conditions[0]
            assert condition.reason == "SchedulerError"
            assert world.scheduler.cluster.placed_count == 0
            plugin.behave.clear()
            world.api.put(make_pod("other"))
            await world.bound("other", "victim", seconds=10)

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("behaviour", [raising, nonsense])
def test_pre_enqueue_that_fails_gates_the_pod_until_it_is_asked_again(
    behaviour: Callable[[Pod], Any],
) -> None:
    async def scenario() -> None:
        plugin = Recording()
        plugin.behave["PreEnqueue"] = behaviour
        async with running_with(
            plugin,
            make_node("n1"),
            make_pod("victim"),
        ) as world:
            await world.in_queue("victim", "gated")
            plugin.behave.clear()
            await world.bound("victim", seconds=400)

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("point", ["Unreserve", "PostBind"])
def test_points_that_cannot_fail_are_logged(point: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        plugin = Recording()
        plugin.behave[point] = raising
        if point == "Unreserve":
            plugin.behave["PreBind"] = lambda _pod: Status.unschedulable("not yet")
        async with running_with(
            plugin,
            make_node("n1"),
            make_pod("victim"),
        ) as world:
            await world.until(lambda: f"{point} victim" in plugin.calls)
            plugin.behave.pop("PreBind", None)
            world.api.put(make_node("n2"))
            await world.bound("victim", seconds=20)

    with caplog.at_level(logging.ERROR):
        run_in_virtual_time(scenario)
    assert f"plugin 'Recording' failed at {point}" in caplog.text


@pytest.mark.parametrize("behaviour", [raising, nonsense, lambda _pod: Hint.QUEUE])
def test_a_failing_hint_counts_as_queue(behaviour: Callable[[Pod], Any]) -> None:
    async def scenario() -> None:
        plugin = Recording()
        plugin.behave["Filter"] = lambda _pod: Status.unschedulable("no")
        plugin.behave["Hint"] = behaviour
        async with running_with(
            plugin,
            make_node("n1"),
            make_pod("victim"),
        ) as world:
            await world.in_queue("victim", "unschedulable")
            del plugin.behave["Filter"]
            world.api.put(make_node("n2"))
            await world.bound("victim", seconds=5)

    run_in_virtual_time(scenario)


def test_a_raising_post_filter_leaves_the_pod_unschedulable_and_is_reported() -> None:
    async def scenario() -> None:
        plugin = Recording()
        plugin.behave["Filter"] = lambda _pod: Status.unschedulable("no")
        plugin.behave["PostFilter"] = raising
        async with running_with(
            plugin,
            make_node("n1"),
            make_pod("victim"),
        ) as world:
            await world.in_queue("victim", "unschedulable")
            (note,) = world.events("FailedScheduling")
            assert "0/1 nodes are available: 1 no." in note
            assert "plugin 'Recording' at PostFilter: ZeroDivisionError: the plugin divided by zero" in note

    run_in_virtual_time(scenario)
