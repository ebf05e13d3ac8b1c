"""Pods that are rejected as equal pods were: in bulk, with the same results as one by one."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import DependsOn, FilterPlugin, Inputs, Plugin, PostFilterPlugin, Status
from kuberth.framework.cluster_events import ASSIGNED_POD_DELETE
from kuberth.scheduling.loop import REJECTED_AT_ONCE
from kuberth.testing import FakeClock, make_pod
from tests.unit.framework.harness import plugin
from tests.unit.scheduling.harness import CycleHarness, make_harness


def taken() -> type[Plugin]:
    def judge(_state: object, _pod: object, node: Any) -> Status | None:
        return Status.unschedulable("taken") if node.pod_count else None

    made = plugin("Taken", FilterPlugin, filter=judge)
    made.inputs = Inputs({"metadata.labels"}, filter=DependsOn.NODE)
    return made


def helpless() -> type[Plugin]:
    made = plugin("Helpless", PostFilterPlugin, post_filter=(None, Status.unschedulable("no help")))
    made.inputs = Inputs((), post_filter=DependsOn.POD)
    return made


def full_cluster(*, in_bulk: bool = True) -> CycleHarness:
    harness = make_harness(taken(), helpless(), nodes=("a",), clock=FakeClock())
    if not in_bulk:  # as a queue that leaves it out
        harness.queue.pop_rejecting = lambda *_, **__: (False, harness.queue.pop_nowait())  # type: ignore[method-assign]
    harness.made.cluster.add_pod(PodInfo(make_pod("there", uid="there", node="a")))
    return harness


def run_all(harness: CycleHarness) -> int:
    """How many turns it takes until no pod is left to try."""
    turns = 0
    while harness.loop.schedule_one():
        turns += 1
    return turns


def wake(harness: CycleHarness) -> None:
    harness.queue.move(ASSIGNED_POD_DELETE, make_pod("gone", node="a"), None)


def seen(harness: CycleHarness) -> object:
    """All that can be seen of the pods."""
    queues = {
        queue: [
            (
                each.key,
                each.attempts,
                each.unschedulable_count,
                each.timestamp_ns,
                each.first_attempt_ns,
                sorted(each.rejectors),
            )
            for each in pods
        ]
        for queue, pods in harness.queue.pending_pods().items()
    }
    metrics = harness.made.metrics
    return (
        queues,
        sorted(harness.made.outside.events),
        [
            (name, None if condition is None else condition.message)
            for name, condition, _ in harness.written.writes
        ],
        metrics.schedule_attempts.values,
        metrics.queue_incoming_pods.values,
        metrics.unschedulable_pods.values,
        metrics.inflight_events.values,
        harness.queue.in_flight(),
    )


def test_in_bulk_and_one_by_one_nothing_differs() -> None:
    worlds = full_cluster(), full_cluster(in_bulk=False)
    for harness in worlds:
        harness.add(*(make_pod(f"p{number}", uid=f"p{number}") for number in range(30)))
        run_all(harness)
        wake(harness)
        run_all(harness)
    assert seen(worlds[0]) == seen(worlds[1])
    assert worlds[0].made.metrics.repeated_rejections.values == {("default-scheduler",): 58}
    assert worlds[1].made.metrics.repeated_rejections.values == {}


def test_a_turn_ends_after_so_many_pods() -> None:
    harness = full_cluster()
    harness.add(*(make_pod(f"p{number}") for number in range(2 + 3 * REJECTED_AT_ONCE)))
    assert run_all(harness) == 2 + 3
    assert {each.attempts for each in harness.queue.pending_pods()["unschedulable"]} == {1}


def test_a_more_urgent_pod_comes_first() -> None:
    harness = full_cluster()
    harness.add(*(make_pod(f"p{number}") for number in range(4)))
    run_all(harness)
    harness.made.cluster.remove_pod("there")
    wake(harness)
    harness.loop.schedule_one()
    assert [each.queued.pod.metadata.name for each in harness.placements] == ["p0"]


@pytest.mark.parametrize(
    "change",
    [
        lambda harness: harness.pods.remove(make_pod("p3")),
        lambda harness: harness.pods.set(make_pod("p3", uid="p3", labels={"newer": "yes"})),
        lambda harness: harness.pods.set(
            make_pod("p3", uid="p3", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        ),
    ],
    ids=["gone", "newer version", "being deleted"],
)
def test_a_pod_that_has_changed_is_not_rejected_unseen(change: Any) -> None:
    worlds = full_cluster(), full_cluster(in_bulk=False)
    for harness in worlds:
        harness.add(*(make_pod(f"p{number}", uid=f"p{number}") for number in range(5)))
        run_all(harness)
        change(harness)
        wake(harness)
        run_all(harness)
    assert seen(worlds[0]) == seen(worlds[1])


def test_pods_of_another_scheduler_are_let_go() -> None:
    harness = full_cluster()
    harness.add(*(make_pod(f"p{number}") for number in range(3)), make_pod("other", scheduler="elsewhere"))
    run_all(harness)
    assert harness.queue.get("default/other") is None
    assert len(harness.queue.pending_pods()["unschedulable"]) == 3
