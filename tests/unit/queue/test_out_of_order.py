"""Pods that are given out though it is not their turn, and how those of a group come back."""

from __future__ import annotations

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import group_of
from kuberth.framework.cluster_events import UNSCHEDULED_POD_ADD, Hint
from kuberth.framework.inputs import signer
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.status import SUCCESS, Status
from kuberth.queue.guard import GuardedQueue
from kuberth.testing import make_pod
from tests.unit.queue.harness import NODE_ADD, POD_ALL, QueueHarness, on, queue_of_each


def test_take_from_every_queue() -> None:
    harness = QueueHarness(hints=on("Custom", NODE_ADD))
    harness.fail("unschedulable", "Custom")
    harness.fail("backoff")
    harness.add("active")
    assert harness.queues == {"active": "active", "backoff": "backoff", "unschedulable": "unschedulable"}
    for name in ("active", "backoff", "unschedulable"):
        taken = harness.queue.take_nowait(make_pod(name))
        assert taken is not None
        assert (taken.pod.metadata.name, taken.attempts) == (name, 1 if name == "active" else 2)
        assert harness.queue.take_nowait(make_pod(name)) is None
    assert not harness.queues
    in_flight = {pod.metadata.name for pod in harness.queue.in_flight()}
    assert in_flight == {"active", "backoff", "unschedulable"}


def test_a_gated_pod_is_not_given() -> None:
    harness = QueueHarness()
    pod = harness.add("p", gates=["example.com/wait"])
    assert harness.queue.take_nowait(pod) is None
    assert harness.queues == {"p": "gated"}


def test_an_unknown_pod_is_not_given() -> None:
    assert QueueHarness().queue.take_nowait(make_pod("p")) is None


def test_a_pod_that_was_taken_goes_its_way() -> None:
    harness = QueueHarness(hints=on("Custom", NODE_ADD))
    taken = harness.queue.take_nowait(harness.add("p"))
    assert taken is not None
    harness.queue.move(NODE_ADD, None, None)
    harness.reject(taken, "Custom")
    assert harness.queues == {"p": "backoff"}  # the event that it missed was kept for it


GROUP = {"podGroupName": "g"}


def test_pods_of_a_group_come_back_by_their_backoff_alone() -> None:
    """An empty active queue does not cut it short: a group comes back after every attempt."""
    harness = QueueHarness(pod_groups=True)
    harness.fail("p", "Custom", schedulingGroup=GROUP)
    assert harness.queues == {"p": "backoff"}
    assert harness.queue.pop_nowait() is None
    harness.clock.advance(2.0)
    harness.queue.tick()
    harness.pop("p")


def test_without_the_gate_they_wait_for_an_event() -> None:
    harness = QueueHarness()
    harness.fail("p", "Custom", schedulingGroup=GROUP)
    assert harness.queues == {"p": "unschedulable"}


def test_others_are_still_popped_early() -> None:
    harness = QueueHarness(pod_groups=True, hints=on("Custom", NODE_ADD))
    harness.fail("p", "Custom")
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "backoff"}
    harness.pop("p")


# One hint for all pods that a gate knows by the same fields


def test_one_hint_answers_for_all_equal_gated_pods() -> None:
    asked: list[str] = []
    opened = False

    def gate(pod: Pod, _first: str = "") -> Status:
        return SUCCESS if opened or not group_of(pod) else Status.unresolvable("closed").by("Gate")

    def hint(pod: Pod, _old: object, _new: object) -> Hint:
        asked.append(group_of(pod))
        return Hint.QUEUE if opened else Hint.SKIP

    sign = signer(["info.group"], plugin="Gate")
    registered = RegisteredHint("Gate", POD_ALL, hint, sign=sign)
    harness = QueueHarness(pre_enqueue=gate, hints=[registered])
    for number in range(100):
        harness.add(f"p{number}", schedulingGroup={"podGroupName": f"g{number % 2}"})
    harness.queue.move(UNSCHEDULED_POD_ADD, None, None)
    assert sorted(asked) == ["default/g0", "default/g1"]
    opened = True
    harness.queue.move(UNSCHEDULED_POD_ADD, None, None)
    assert set(harness.queues.values()) == {"active"}


# The guard


def test_the_guard_passes_it_on_and_catches_what_is_raised() -> None:
    harness = QueueHarness()
    guard = GuardedQueue(harness.queue, harness.clock)
    assert guard.gives_out_of_order
    taken = guard.take_nowait(harness.add("p"))
    assert taken is not None

    def broken(pod: Pod) -> None:
        raise RuntimeError("no")

    harness.queue.take_nowait = broken  # type: ignore[method-assign]  # a custom queue may raise
    other = harness.add("q")
    assert guard.take_nowait(other) is None
    assert queue_of_each(guard) == {"q": "active"}
