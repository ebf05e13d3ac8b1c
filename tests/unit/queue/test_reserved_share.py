"""A share of the attempts is reserved for the pods that were rejected least often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import ConfigError
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.reserved_share import ReservedShareQueue, ReservedShareSubQueue
from kuberth.testing import FakeClock, make_node, make_pod
from kuberth.testing.queue_contract import QUEUE_CONTRACT
from tests.unit.queue.harness import NODE_ADD, QueueHarness, make_context, on


def queued(name: str, *, priority: int = 0, rejections: int = 0) -> QueuedPod:
    made = QueuedPod(PodInfo(make_pod(name, priority=priority)), timestamp_ns=0)
    made.unschedulable_count = made.rejections_since_event = rejections
    return made


def sub_queue(share: float) -> ReservedShareSubQueue:
    return ReservedShareSubQueue(lambda each: -each.info.priority, share=share)


def popped(queue: ReservedShareSubQueue, number: int) -> list[str]:
    return [each.pod.metadata.name for _ in range(number) if (each := queue.pop()) is not None]


@pytest.mark.parametrize(
    "share, expected",
    [
        (0, ["u0", "u1", "u2", "u3", "u4", "u5"]),
        (0.25, ["u0", "u1", "u2", "modest-0", "u3", "u4"]),
        (0.5, ["u0", "modest-0", "u1", "modest-1", "u2", "u3"]),
        (1, ["modest-0", "modest-1", "u0", "u1", "u2", "u3"]),
    ],
)
def test_one_attempt_in_so_many_goes_to_the_pod_with_the_fewest_rejections(
    share: float, expected: list[str]
) -> None:
    queue = sub_queue(share)
    for number in range(6):
        queue.add(queued(f"u{number}", priority=10, rejections=3 + number))
    for number in range(2):
        queue.add(queued(f"modest-{number}"))
    assert popped(queue, 6) == expected


@pytest.mark.parametrize("share", [0.001, 0.05, 0.1, 0.2, 0.3, 0.333, 0.5, 0.7, 0.9, 0.999])
def test_the_share_is_exact(share: float) -> None:
    queue = sub_queue(share)
    for number in range(1000):
        queue.add(queued(f"u{number}", priority=10, rejections=3))
        queue.add(queued(f"modest-{number}"))
    names = popped(queue, 1000)
    assert sum(name.startswith("modest") for name in names) == round(1000 * share)


def test_an_empty_queue_earns_nothing() -> None:
    queue = sub_queue(0.25)
    assert popped(queue, 20) == []
    queue.add(queued("modest"))
    for number in range(3):
        queue.add(queued(f"u{number}", priority=10, rejections=3))
    assert popped(queue, 4) == ["u0", "u1", "u2", "modest"]


def _reserving() -> QueueHarness:
    return QueueHarness(make=lambda context: ReservedShareQueue(context, share=1), hints=on("Fit", NODE_ADD))


def _let_time_pass(harness: QueueHarness) -> None:
    harness.clock.advance(400)
    harness.queue.tick()


def _event(harness: QueueHarness) -> None:
    harness.queue.move(NODE_ADD, None, make_node("n"))


def _event_in_flight(harness: QueueHarness) -> None:
    _event(harness)
    queued = harness.pop("old")
    _event(harness)
    harness.reject(queued, "Fit")
    harness.clock.advance(15)
    harness.queue.tick()


def _activation(harness: QueueHarness) -> None:
    pods = [each.pod for each in harness.queue.pending_pods()["unschedulable"]]
    harness.queue.activate({f"default/{pod.metadata.name}": pod for pod in pods})


@pytest.mark.parametrize(
    "step, first",
    [
        (_event, "old"),
        (_event_in_flight, "old"),
        (_activation, "old"),
        (_let_time_pass, "new"),
    ],
)
def test_an_event_that_brings_a_pod_back_clears_its_rejections(
    step: Callable[[QueueHarness], None], first: str
) -> None:
    """The passing of time does not: what rejected the pod may be as it was."""
    harness = _reserving()
    harness.fail("old", "Fit")
    for _ in range(4):
        _let_time_pass(harness)
        harness.reject(harness.pop("old"), "Fit")
    harness.clock.advance(15)  # no backoff is left
    step(harness)
    harness.add("new")
    assert harness.pop_names() == sorted(["old", "new"], reverse=first == "old")


def test_a_pod_leaves_both_orders() -> None:
    queue = sub_queue(0.5)
    for name in ("a", "b", "c"):
        queue.add(queued(name))
    assert queue.remove("default/b") is not None
    assert "default/b" not in queue
    assert popped(queue, 5) == ["a", "c"]
    assert len(queue) == 0


def test_a_newer_version_keeps_its_place_among_equals() -> None:
    queue = sub_queue(1)
    first, second = queued("first"), queued("second")
    queue.add(first)
    queue.add(second)
    first.info = PodInfo(make_pod("first", labels={"a": "b"}))
    queue.add(first)
    assert popped(queue, 2) == ["first", "second"]


@pytest.mark.parametrize("rule", QUEUE_CONTRACT, ids=str)
def test_it_keeps_the_contract_of_queues(rule: Any) -> None:
    rule(ReservedShareQueue)


@pytest.mark.parametrize("share", [-0.1, 1.5, "half"])
def test_a_share_that_is_none_is_refused(share: Any) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        ReservedShareQueue(make_context(FakeClock()), share=share)
