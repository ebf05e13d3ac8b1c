"""What happens to gates and to counts between backoffQ and an early pop (KEP-5142)."""

from __future__ import annotations

import pytest

from kuberth.api.core import Pod
from kuberth.framework.cluster_events import Hint
from kuberth.framework.status import SUCCESS, Status
from tests.unit.queue.harness import NODE_ADD, QueueHarness, always, on


class Door:
    """PreEnqueue of a profile that a test opens and closes."""

    def __init__(self) -> None:
        self.is_open = True
        self.asked: list[str] = []

    def __call__(self, pod: Pod, _first: str) -> Status:
        self.asked.append(pod.metadata.name)
        return SUCCESS if self.is_open else Status.unresolvable("closed").by("Door")


def test_pre_enqueue_is_asked_on_the_way_into_the_backoff_queue_and_not_at_the_early_pop() -> None:
    door = Door()
    harness = QueueHarness(hints=on("A", NODE_ADD), pre_enqueue=door)
    harness.fail("p", "A")
    door.asked.clear()
    harness.queue.move(NODE_ADD, None, None)
    assert (harness.queues, door.asked) == ({"p": "backoff"}, ["p"])
    door.is_open = False
    queued = harness.pop("p")
    assert door.asked == ["p"], "it was asked again at the pop"
    assert not queued.gated


@pytest.mark.parametrize("early", [True, False], ids=["early-pop", "no-early-pop"])
def test_a_pod_whose_backoff_ends_is_asked_again_only_if_it_was_not_asked_before(*, early: bool) -> None:
    door = Door()
    harness = QueueHarness(hints=on("A", NODE_ADD), pre_enqueue=door, pop_from_backoff=early)
    harness.fail("p", "A")
    door.asked.clear()
    harness.queue.move(NODE_ADD, None, None)
    assert door.asked == (["p"] if early else [])
    harness.clock.advance(2)
    harness.queue.flush_backoff_completed()
    assert (harness.queues, door.asked) == ({"p": "active"}, ["p"])


def test_a_pod_that_stays_where_it_waits_is_not_counted_as_incoming_again() -> None:
    door = Door()
    door.is_open = False
    hints = [*on("Door", NODE_ADD, hint=always(Hint.QUEUE)), *on("A", NODE_ADD, hint=always(Hint.SKIP))]
    harness = QueueHarness(hints=hints, pre_enqueue=door)
    harness.add("gated")
    counted = {("unschedulable", "UnschedulablePodAdd"): 1}
    assert harness.metrics.queue_incoming_pods.values == counted
    for _ in range(3):
        harness.queue.move(NODE_ADD, None, None)
        harness.clock.advance(301)
        harness.queue.flush_unschedulable_leftover()
    assert len(door.asked) > 1, "the gate was asked again"
    assert harness.queues == {"gated": "gated"}
    assert harness.metrics.queue_incoming_pods.values == counted


def test_a_pod_behind_a_gate_on_its_way_to_backoff_is_counted_where_it_came_from() -> None:
    """As above, for a pod that a plugin rejected before the gate closed."""
    door = Door()
    harness = QueueHarness(hints=on("A", NODE_ADD), pre_enqueue=door)
    harness.fail("p", "A")
    before = dict(harness.metrics.queue_incoming_pods.values)
    assert before == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
    }
    door.is_open = False
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "gated"}
    assert harness.metrics.queue_incoming_pods.values == before


def test_the_clock_of_the_scheduling_sli_starts_at_the_first_way_into_the_active_queue() -> None:
    door = Door()
    door.is_open = False
    hints = [*on("Door", NODE_ADD), *on("A", NODE_ADD)]
    harness = QueueHarness(hints=hints, pre_enqueue=door, pop_from_backoff=False)
    harness.add("p")
    harness.clock.advance(100)
    harness.queue.move(NODE_ADD, None, None)
    waiting = harness.queue.get("default/p")
    assert waiting is not None
    assert (waiting.gated, waiting.first_attempt_ns) == (True, None)
    door.is_open = True
    harness.queue.move(NODE_ADD, None, None)
    opened = harness.clock.now_ns()
    queued = harness.pop("p")
    assert queued.first_attempt_ns == opened
    harness.reject(queued, "A")
    harness.clock.advance(100)
    harness.queue.move(NODE_ADD, None, None)
    assert harness.pop("p").first_attempt_ns == opened, "of the first attempt, not of the last"
