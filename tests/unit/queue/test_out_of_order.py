"""Pods that are given out though it is not their turn, and how those of a group come back."""

from __future__ import annotations

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import group_of
from kuberth.framework.cluster_events import UNSCHEDULED_POD_ADD, Hint
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.signatures import signer
from kuberth.framework.status import SUCCESS, Status
from kuberth.queue.guard import GuardedQueue
from kuberth.testing import make_pod
from tests.unit.queue.building import NODE_ADD, POD_ALL, Bench, on, queue_of_each


def test_take_from_every_queue() -> None:
    bench = Bench(hints=on("Custom", NODE_ADD))
    bench.fail("unschedulable", "Custom")
    bench.fail("backoff")
    bench.add("active")
    assert bench.queues == {"active": "active", "backoff": "backoff", "unschedulable": "unschedulable"}
    for name in ("active", "backoff", "unschedulable"):
        taken = bench.queue.take_nowait(make_pod(name))
        assert taken is not None
        assert (taken.pod.metadata.name, taken.attempts) == (name, 1 if name == "active" else 2)
        assert bench.queue.take_nowait(make_pod(name)) is None
    assert not bench.queues
    in_flight = {pod.metadata.name for pod in bench.queue.in_flight()}
    assert in_flight == {"active", "backoff", "unschedulable"}


def test_a_gated_pod_is_not_given() -> None:
    bench = Bench()
    pod = bench.add("p", gates=["example.com/wait"])
    assert bench.queue.take_nowait(pod) is None
    assert bench.queues == {"p": "gated"}


def test_an_unknown_pod_is_not_given() -> None:
    assert Bench().queue.take_nowait(make_pod("p")) is None


def test_a_pod_that_was_taken_goes_its_way() -> None:
    bench = Bench(hints=on("Custom", NODE_ADD))
    taken = bench.queue.take_nowait(bench.add("p"))
    assert taken is not None
    bench.queue.move(NODE_ADD, None, None)
    bench.reject(taken, "Custom")
    assert bench.queues == {"p": "backoff"}  # the event that it missed was kept for it


GROUP = {"podGroupName": "g"}


def test_pods_of_a_group_come_back_by_their_backoff_alone() -> None:
    """An empty active queue does not cut it short: a group comes back after every attempt."""
    bench = Bench(pod_groups=True)
    bench.fail("p", "Custom", schedulingGroup=GROUP)
    assert bench.queues == {"p": "backoff"}
    assert bench.queue.pop_nowait() is None
    bench.clock.advance(2.0)
    bench.queue.tick()
    bench.pop("p")


def test_without_the_gate_they_wait_for_an_event() -> None:
    bench = Bench()
    bench.fail("p", "Custom", schedulingGroup=GROUP)
    assert bench.queues == {"p": "unschedulable"}


def test_others_are_still_popped_early() -> None:
    bench = Bench(pod_groups=True, hints=on("Custom", NODE_ADD))
    bench.fail("p", "Custom")
    bench.queue.move(NODE_ADD, None, None)
    assert bench.queues == {"p": "backoff"}
    bench.pop("p")


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
    bench = Bench(pre_enqueue=gate, hints=[registered])
    for number in range(100):
        bench.add(f"p{number}", schedulingGroup={"podGroupName": f"g{number % 2}"})
    bench.queue.move(UNSCHEDULED_POD_ADD, None, None)
    assert sorted(asked) == ["default/g0", "default/g1"]
    opened = True
    bench.queue.move(UNSCHEDULED_POD_ADD, None, None)
    assert set(bench.queues.values()) == {"active"}


# The guard


def test_the_guard_passes_it_on_and_catches_what_is_raised() -> None:
    bench = Bench()
    guard = GuardedQueue(bench.queue, bench.clock)
    assert guard.gives_out_of_order
    taken = guard.take_nowait(bench.add("p"))
    assert taken is not None

    def broken(pod: Pod) -> None:
        raise RuntimeError("no")

    bench.queue.take_nowait = broken  # type: ignore[method-assign]  # a custom queue may raise
    other = bench.add("q")
    assert guard.take_nowait(other) is None
    assert queue_of_each(guard) == {"q": "active"}
