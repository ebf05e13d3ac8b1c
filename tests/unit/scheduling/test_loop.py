from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest

from kuberth.clock import LoopClock
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import CycleState, FilterPlugin, ReservePlugin, Status
from kuberth.testing import make_pod, run_in_virtual_time
from tests.unit.framework.harness import plugin
from tests.unit.scheduling.harness import CycleHarness, make_harness


def broken(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("broken")


def test_one_pod_after_the_other() -> None:
    scheduler = make_harness(nodes=["n1"])
    scheduler.add(make_pod("a"), make_pod("b"))
    assert [scheduler.loop.schedule_one() for _ in range(3)] == [True, True, False]
    assert [placement.pod.metadata.name for placement in scheduler.placements] == ["a", "b"]


def test_a_rejected_pod_goes_back() -> None:
    scheduler = make_harness(plugin("F", FilterPlugin, filter=Status.unschedulable("no")))
    scheduler.add(make_pod("p"))
    assert scheduler.loop.schedule_one()
    assert scheduler.placements == []
    assert scheduler.queues() == {"unschedulable": ["p"]}


def test_a_pod_of_another_scheduler_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = make_harness()
    scheduler.add(make_pod("p", scheduler="someone-else"))
    assert scheduler.loop.schedule_one()
    assert (scheduler.placements, scheduler.queues(), scheduler.queue.in_flight()) == ([], {}, ())
    assert "has schedulerName 'someone-else'" in caplog.text


def test_a_pod_that_is_being_deleted_is_let_go() -> None:
    scheduler = make_harness()
    scheduler.add(make_pod("p", metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"}))
    assert scheduler.loop.schedule_one()
    assert (scheduler.placements, scheduler.queues(), scheduler.queue.in_flight()) == ([], {}, ())
    assert scheduler.made.outside.events == [
        ("p", "FailedScheduling", "skip schedule deleting pod: default/p")
    ]


def test_a_pod_that_is_on_its_way_already_is_let_go() -> None:
    scheduler = make_harness(nodes=["n1"])
    pod = make_pod("p", uid="u")
    scheduler.made.cluster.assume_pod(PodInfo(pod).placed_on("n1"))
    scheduler.add(pod)
    assert scheduler.loop.schedule_one()
    assert (scheduler.placements, scheduler.queue.in_flight()) == ([], ())
    assert scheduler.made.cluster.is_assumed("u")


def test_a_defect_costs_no_one_their_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = make_harness(nodes=["n1"])
    scheduler.add(make_pod("p", uid="u"), make_pod("q"))

    def fail(*_: object) -> NoReturn:
        raise RuntimeError("our own mistake")

    with monkeypatch.context() as patched:
        # After the pod was assumed: the worst moment.
        patched.setattr(scheduler.runner.reserving, "run_permit", fail)
        assert scheduler.loop.schedule_one()
    assert scheduler.queues() == {"active": ["q"], "backoff": ["p"]}
    assert scheduler.made.cluster.placed("u") is None
    assert scheduler.made.outside.events[0].note == "our own mistake"
    took = scheduler.made.metrics.attempt_duration.values[("error", "default-scheduler")]
    assert took.sum < 60, "counted from when the attempt began"
    assert scheduler.loop.schedule_one()
    assert len(scheduler.placements) == 1


def test_a_binding_that_does_not_start_gives_the_pod_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    undone: list[str] = []
    reserving = plugin(
        "R", ReservePlugin, reserve=None, unreserve=lambda _s, pod, _n: undone.append(pod.metadata.name)
    )
    scheduler = make_harness(reserving, nodes=["n1"])
    scheduler.add(make_pod("p", uid="u"), make_pod("q"))

    def fail(_placement: object) -> NoReturn:
        raise RuntimeError("no task today")

    with monkeypatch.context() as patched:
        patched.setattr(scheduler.loop, "bind", fail)
        assert scheduler.loop.schedule_one()
    assert scheduler.queues() == {"active": ["q"], "backoff": ["p"]}
    assert scheduler.queue.in_flight() == ()
    assert scheduler.made.cluster.placed("u") is None
    assert undone == ["p"]
    assert "the binding of pod default/p to node n1 did not start" in caplog.text
    assert scheduler.loop.schedule_one()
    assert len(scheduler.placements) == 1


def test_an_event_that_cannot_be_recorded_keeps_no_pod_in_flight(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_harness()
    scheduler.add(make_pod("p", metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"}))
    monkeypatch.setattr(scheduler.made.outside, "record", broken)
    assert scheduler.loop.schedule_one()
    assert (scheduler.queues(), scheduler.queue.in_flight()) == ({}, ())
    assert "the event that pod default/p is being deleted was not recorded" in caplog.text


def test_whatever_else_fails_gives_the_pod_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_harness(plugin("F", FilterPlugin, filter=Status.unschedulable("no")))
    scheduler.add(make_pod("p"))
    monkeypatch.setattr(scheduler.failures, "handle", broken)
    assert scheduler.loop.schedule_one()
    assert (scheduler.queues(), scheduler.queue.in_flight()) == ({"backoff": ["p"]}, ())
    assert "the scheduling loop failed with pod default/p; it is queued again" in caplog.text


def test_a_pod_that_waits_again_when_something_fails_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = make_harness(plugin("F", FilterPlugin, filter=Status.unschedulable("no")))
    scheduler.add(make_pod("p"))
    handle = scheduler.failures.handle

    def handle_and_fail(rejection: Any) -> NoReturn:
        handle(rejection)
        raise RuntimeError("too late")

    monkeypatch.setattr(scheduler.failures, "handle", handle_and_fail)
    assert scheduler.loop.schedule_one()
    assert (scheduler.queues(), scheduler.queue.in_flight()) == ({"unschedulable": ["p"]}, ())


def test_pods_a_plugin_wants_tried_again_are_activated() -> None:
    other = make_pod("other", uid="other")

    def activate(state: CycleState, _pod: object, _node_name: str) -> None:
        state.pods_to_activate["default/other"] = other

    refusing = plugin(
        "F",
        FilterPlugin,
        filter=lambda _s, pod, _n: Status.unschedulable("no") if pod.metadata.name == "other" else None,
    )
    scheduler = make_harness(
        refusing, plugin("A", ReservePlugin, reserve=activate, unreserve=None), nodes=["n1"]
    )
    scheduler.add(other)
    scheduler.loop.schedule_one()
    assert scheduler.queues() == {"unschedulable": ["other"]}
    scheduler.add(make_pod("p"))
    scheduler.loop.schedule_one()
    assert scheduler.queues() == {"active": ["other"]}
    assert scheduler.placements[0].state.pods_to_activate == {}, "not once more after the binding"


# Running


def running(steps: Any, **options: Any) -> CycleHarness:
    async def main() -> CycleHarness:
        scheduler = make_harness(nodes=["n1"], clock=LoopClock(asyncio.get_running_loop()), **options)
        async with asyncio.TaskGroup() as tasks:
            loops = [tasks.create_task(scheduler.loop.run()), tasks.create_task(scheduler.loop.run_ticks())]
            await asyncio.sleep(1)
            await steps(scheduler)
            scheduler.loop.stop()
            await loops[0]
        return scheduler

    return run_in_virtual_time(main)


def test_the_loop_waits_for_pods_and_stops_on_request() -> None:
    async def steps(scheduler: CycleHarness) -> None:
        scheduler.add(make_pod("a"))
        await asyncio.sleep(0.1)
        assert len(scheduler.placements) == 1
        scheduler.add(make_pod("b"), make_pod("c"))
        await asyncio.sleep(0.1)

    scheduler = running(steps)
    assert [placement.pod.metadata.name for placement in scheduler.placements] == ["a", "b", "c"]


def test_after_stop_no_pod_is_popped() -> None:
    async def steps(scheduler: CycleHarness) -> None:
        scheduler.loop.stop()
        scheduler.add(make_pod("late"))
        await asyncio.sleep(0.1)

    assert running(steps).queues() == {"active": ["late"]}


def test_others_get_their_turn_between_two_pods() -> None:
    async def steps(scheduler: CycleHarness) -> None:
        turns: list[int] = []
        scheduler.add(*(make_pod(f"p{number}") for number in range(5)))
        while len(scheduler.placements) < 5:
            turns.append(len(scheduler.placements))
            await asyncio.sleep(0)
        assert turns == sorted(turns)
        assert set(turns) >= {1, 2, 3, 4}

    running(steps)
