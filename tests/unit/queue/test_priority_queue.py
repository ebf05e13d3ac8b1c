from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.clock import NANOSECONDS
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import QueueError
from kuberth.framework import cluster_events as events
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint, Resource
from kuberth.framework.status import SUCCESS, Status
from kuberth.queue.interface import SchedulingQueue
from kuberth.queue.priority_queue import POD_POPPED, PriorityQueue
from kuberth.testing import make_pod
from tests.unit.queue.harness import (
    GATES,
    NODE_ADD,
    NODE_LABEL,
    NODE_TAINT,
    POD_ALL,
    SCHEDULER,
    QueueHarness,
    always,
    failing,
    kept_events,
    not_zero,
    on,
    ungated,
    with_metadata,
    with_spec,
    with_status,
)

QUEUE, SKIP = always(Hint.QUEUE), always(Hint.SKIP)

GATE_SETTINGS = pytest.mark.parametrize(
    ("hints_on", "early"),
    [(True, True), (True, False), (False, True), (False, False)],
    ids=["both-on", "hints-only", "early-only", "both-off"],
)


# Order


@pytest.mark.parametrize(
    ("early", "order"), [(True, ["high", "low"]), (False, ["low", "high"])], ids=["windows", "exact"]
)
def test_pods_of_one_second_leave_backoff_by_priority(early: bool, order: list[str]) -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), pop_from_backoff=early)
    harness.fail("low", "A", priority=1)
    harness.clock.advance(0.9)
    harness.fail("high", "A", priority=5)
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"low": "backoff", "high": "backoff"}
    if early:
        assert harness.pop_names() == order
        return
    harness.clock.advance(0.11)
    harness.queue.flush_backoff_completed()
    assert harness.queues == {"low": "active", "high": "backoff"}
    harness.clock.advance(0.9)
    first = harness.pop_names()
    harness.queue.flush_backoff_completed()
    assert first + harness.pop_names() == order


def test_an_earlier_second_goes_before_priority() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.fail("low", "A", priority=1)
    harness.clock.advance(1)
    harness.fail("high", "A", priority=5)
    harness.queue.move(NODE_ADD, None, None)
    assert harness.pop_names() == ["low", "high"]


def test_the_active_queue_goes_before_any_early_pop() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.fail("waiting", "A", priority=9)
    harness.queue.move(NODE_ADD, None, None)
    harness.add("new", priority=0)
    assert harness.pop_names() == ["new", "waiting"]
    assert harness.metrics.queue_incoming_pods.values[("active", events.POP_FROM_BACKOFF)] == 1


# Backoff


def test_backoff_without_early_pop_is_waited_out() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), pop_from_backoff=False)
    harness.fail("p", "A")
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queue.pop_nowait() is None
    harness.clock.advance(1)
    harness.queue.flush_backoff_completed()
    assert harness.queues == {"p": "backoff"}, "its last nanosecond is not over"
    harness.clock.advance(0.001)
    harness.queue.flush_backoff_completed()
    assert harness.queues == {"p": "active"}


def test_a_pod_whose_backoff_is_over_meanwhile_is_ready_at_once() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.fail("p", "A")
    harness.clock.advance(2)
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "active"}


@GATE_SETTINGS
def test_an_error_waits_out_its_backoff_with_any_gate(hints_on: bool, early: bool) -> None:
    harness = QueueHarness(queueing_hints=hints_on, pop_from_backoff=early)
    harness.fail("p")
    assert harness.queues == {"p": "backoff"}
    assert harness.queue.pop_nowait() is None
    harness.clock.advance(2)
    harness.queue.flush_backoff_completed()
    assert harness.pop_names() == ["p"]


def test_errors_in_a_row_count_until_a_rejection() -> None:
    harness = QueueHarness()
    harness.add("p")
    for _ in range(3):
        harness.reject(harness.pop("p"))
        harness.clock.advance(20)
        harness.queue.flush_backoff_completed()
    queued = harness.pop("p")
    assert (queued.consecutive_errors, queued.unschedulable_count, queued.attempts) == (3, 0, 4)
    harness.reject(queued, "A")
    assert (queued.consecutive_errors, queued.unschedulable_count) == (0, 1)


@pytest.mark.parametrize("plugins", [("A",), ()], ids=["rejected", "error"])
def test_every_failure_is_waited_out_from_its_own_time(plugins: tuple[str, ...]) -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), pop_from_backoff=False)
    harness.add("p")
    for seconds in (1, 2, 4, 8, 10, 10):
        queued = harness.pop("p")
        harness.clock.advance(0.25)
        harness.reject(queued, *plugins)
        harness.queue.move(NODE_ADD, None, None)
        assert harness.queues == {"p": "backoff"}
        assert queued.backoff_expires_ns == harness.clock.now_ns() + seconds * NANOSECONDS
        harness.clock.advance(seconds + 0.5)
        harness.queue.flush_backoff_completed()
        assert harness.queues == {"p": "active"}


@pytest.mark.parametrize("early", [True, False], ids=["early", "not-early"])
def test_pending_skips_backoff(early: bool) -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD, hint=QUEUE), pop_from_backoff=early)
    harness.fail("p", pending=["A"])
    assert harness.queues == {"p": "unschedulable"}
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "active"}


def test_no_maximum_means_no_backoff() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), max_backoff_seconds=0)
    harness.fail("p", "A")
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "active"}


def test_a_gate_that_opens_at_the_beginning_of_virtual_time_needs_no_backoff() -> None:
    harness = QueueHarness(start_ns=0)
    pod = harness.add("p", gates=["wait"])
    harness.update(pod, ungated(pod))
    assert harness.queues == {"p": "active"}


# Events and pods in flight


@pytest.mark.parametrize(
    ("hint", "pending", "queue"),
    [
        (QUEUE, False, "backoff"),
        (QUEUE, True, "active"),
        (SKIP, False, "unschedulable"),
        (failing, False, "backoff"),
    ],
    ids=["queue", "pending", "skip", "failing"],
)
def test_an_event_while_in_flight_is_judged_when_the_pod_comes_back(
    hint: Any, pending: bool, queue: str
) -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD, hint=hint))
    harness.add("p")
    queued = harness.pop("p")
    harness.queue.move(NODE_ADD, None, None)
    assert kept_events(harness.metrics) == 1
    harness.reject(queued, *([] if pending else ["A"]), pending=["A"] if pending else [])
    assert harness.queues == {"p": queue}
    assert kept_events(harness.metrics) == 0


def test_an_event_counts_for_pods_that_were_in_flight_then() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.add("before")
    harness.add("after")
    before = harness.pop("before")
    harness.queue.move(NODE_ADD, None, None)
    after = harness.pop("after")
    harness.reject(after, "A")
    assert harness.queues == {"after": "unschedulable"}
    assert kept_events(harness.metrics) == 1, "it is kept for the one still in flight"
    harness.reject(before, "A")
    assert harness.queues == {"after": "unschedulable", "before": "backoff"}


def test_an_event_before_the_pop_does_not_count() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.add("other")
    other = harness.pop("other")
    harness.queue.move(NODE_ADD, None, None)
    harness.fail("p", "A")
    assert harness.queues == {"p": "unschedulable"}
    harness.queue.done(other.uid)
    assert kept_events(harness.metrics) == 0


def test_an_update_in_flight_is_judged_like_an_event() -> None:
    label = ClusterEvent(Resource.POD, Action.UPDATE_POD_LABEL)
    harness = QueueHarness(hints=on("A", label))
    pod = harness.add("p")
    queued = harness.pop("p")
    new = harness.update(pod, with_metadata(pod, labels={"a": "b"}))
    assert harness.queues == {}
    queued.info = PodInfo(new)
    harness.reject(queued, "A")
    assert harness.queues == {"p": "backoff"}


def test_an_event_without_a_registered_hint_is_not_kept() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.add("p")
    harness.pop("p")
    harness.queue.move(NODE_LABEL, None, None)
    assert kept_events(harness.metrics) == 0
    harness.queue.move(NODE_ADD, None, None)
    gauge = harness.metrics.inflight_events
    assert not_zero(gauge) == {(POD_POPPED,): 1, ("NodeAdd",): 1}
    assert [pod.metadata.name for pod in harness.queue.in_flight()] == ["p"]
    for pod in harness.queue.in_flight():
        harness.queue.done(pod.metadata.uid)
    assert not not_zero(gauge)


def test_done_of_a_stranger_is_nothing() -> None:
    harness = QueueHarness()
    harness.queue.done("missing")
    assert not harness.metrics.inflight_events.values


def test_only_the_waiting_pods_that_a_pre_check_accepts_move() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.fail("yes", "A")
    harness.fail("no", "A")
    harness.queue.move(NODE_ADD, None, None, pre_check=lambda pod: pod.metadata.name == "yes")
    assert harness.queues == {"yes": "backoff", "no": "unschedulable"}


def test_only_the_pods_that_a_hint_means_move() -> None:
    def for_one(pod: Pod, _old: object, new: object) -> Hint:
        return Hint.QUEUE if pod.metadata.name == new else Hint.SKIP

    harness = QueueHarness(hints=on("A", NODE_ADD, hint=for_one))
    harness.fail("one", "A")
    harness.fail("two", "A")
    harness.queue.move(NODE_ADD, None, "two")
    assert harness.queues == {"one": "unschedulable", "two": "backoff"}


# Activation


def _in_active(harness: QueueHarness) -> Pod:
    return harness.add("p")


def _in_backoff(harness: QueueHarness) -> Pod:
    pod = harness.fail("p", "A")
    harness.queue.move(NODE_ADD, None, None)
    return pod


def _in_error_backoff(harness: QueueHarness) -> Pod:
    return harness.fail("p")


def _in_unschedulable(harness: QueueHarness) -> Pod:
    return harness.fail("p", "A")


def _gated(harness: QueueHarness) -> Pod:
    return harness.add("p", gates=["wait"])


def _unknown(_bench: QueueHarness) -> Pod:
    return make_pod("p")


@GATE_SETTINGS
@pytest.mark.parametrize(
    ("bring", "before", "after"),
    [
        (_in_active, "active", "active"),
        (_in_backoff, "backoff", "active"),
        (_in_error_backoff, "backoff", "active"),
        (_in_unschedulable, "unschedulable", "active"),
        (_gated, "gated", "gated"),
        (_unknown, None, None),
    ],
    ids=["active", "backoff", "error-backoff", "unschedulable", "gated", "unknown"],
)
def test_activate(
    bring: Callable[[QueueHarness], Pod], before: str | None, after: str | None, hints_on: bool, early: bool
) -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), queueing_hints=hints_on, pop_from_backoff=early)
    pod = bring(harness)
    assert harness.queues.get("p") == before
    harness.queue.activate({"default/p": pod})
    assert harness.queues.get("p") == after


def test_activate_in_flight_is_for_that_pod_only() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD, hint=SKIP))
    one, _two = harness.add("one"), harness.add("two")
    queued = [harness.pop("one"), harness.pop("two")]
    harness.queue.activate({"default/one": one})
    assert kept_events(harness.metrics) == 1
    for each in queued:
        harness.reject(each, "A")
    assert harness.queues == {"one": "backoff", "two": "unschedulable"}


def test_activate_of_several_pods_at_once() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    pods = [harness.fail(name, "A") for name in ("one", "two", "three")]
    harness.queue.activate({f"default/{pod.metadata.name}": pod for pod in pods[:2]})
    assert harness.queues == {"one": "active", "two": "active", "three": "unschedulable"}


# Pods come, change and go


def test_a_failed_pod_cannot_come_back_over_one_of_its_name() -> None:
    harness = QueueHarness()
    old = harness.add("p")
    queued = harness.pop("p")
    harness.queue.delete(old)
    new = harness.add("p")
    with pytest.raises(QueueError, match="default/p is already present in the active queue"):
        harness.reject(queued, "A")
    assert [pod.metadata.uid for pod in harness.queue.in_flight()] == []
    found = harness.queue.get("default/p")
    assert found is not None
    assert found.uid == new.metadata.uid


def test_a_pod_popped_twice_is_tried_once(caplog: pytest.LogCaptureFixture) -> None:
    harness = QueueHarness()
    pod = harness.add("p")
    harness.pop("p")
    harness.queue.add(PodInfo(pod))
    harness.add("q")
    with caplog.at_level(logging.ERROR):
        assert harness.pop_names() == ["q"]
    assert "popped while it is being scheduled" in caplog.text
    assert len(harness.queue.in_flight()) == 2


@GATE_SETTINGS
def test_a_pod_that_was_never_popped_is_not_lost_when_it_fails(
    hints_on: bool, early: bool, caplog: pytest.LogCaptureFixture
) -> None:
    source = QueueHarness()
    source.add("p")
    queued = source.pop("p")
    harness = QueueHarness(queueing_hints=hints_on, pop_from_backoff=early)
    harness.reject(queued, "A")
    assert harness.queues == {"p": "backoff" if hints_on else "unschedulable"}
    assert ("was requeued but was not in flight" in caplog.text) == hints_on


@GATE_SETTINGS
def test_an_update_keeps_the_queue_and_the_history(hints_on: bool, early: bool) -> None:
    for bring in (_in_active, _in_backoff, _in_error_backoff):
        harness = QueueHarness(hints=on("A", NODE_ADD), queueing_hints=hints_on, pop_from_backoff=early)
        pod = bring(harness)
        queues, queued = harness.queues, harness.queue.get("default/p")
        assert queued is not None
        before = (queued.attempts, queued.timestamp_ns)
        new = harness.update(pod, with_metadata(pod, labels={"a": "b"}))
        assert harness.queues == queues
        assert harness.queue.get("default/p") is queued
        assert (queued.pod, queued.attempts, queued.timestamp_ns) == (new, *before)


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    harness = QueueHarness()
    pod = make_pod("p")
    harness.update(pod, with_metadata(pod, labels={"a": "b"}))
    assert harness.queues == {"p": "active"}
    assert harness.metrics.queue_incoming_pods.values == {("active", "UnschedulablePodUpdate"): 1}


@pytest.mark.parametrize(
    ("hint", "queue"),
    [(QUEUE, "backoff"), (SKIP, "unschedulable"), (failing, "backoff")],
    ids=["q", "s", "f"],
)
def test_an_update_of_a_waiting_pod_asks_the_hints(hint: Any, queue: str) -> None:
    harness = QueueHarness(hints=on("A", POD_ALL, hint=hint))
    pod = harness.fail("p", "A")
    harness.update(pod, with_metadata(pod, labels={"a": "b"}))
    assert harness.queues == {"p": queue}


@pytest.mark.parametrize("bring", [_in_active, _in_backoff, _in_error_backoff, _in_unschedulable, _gated])
def test_delete_from_any_queue_leaves_no_trace(bring: Callable[[QueueHarness], Pod]) -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    pod = bring(harness)
    harness.queue.delete(pod)
    assert harness.queues == {}
    assert harness.queue.get("default/p") is None
    assert not not_zero(harness.metrics.unschedulable_pods)
    assert harness.queue.pop_nowait() is None
    harness.queue.delete(pod)


def test_a_pod_that_replaces_one_of_its_name_starts_afresh() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.fail("p", "A")
    new = harness.add("p")
    queued = harness.pop("p")
    assert (queued.uid, queued.attempts, queued.rejectors) == (new.metadata.uid, 1, set())
    assert not not_zero(harness.metrics.unschedulable_pods)


# Gates


@GATE_SETTINGS
def test_a_gated_pod_is_parked_until_its_gates_are_gone(hints_on: bool, early: bool) -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), queueing_hints=hints_on, pop_from_backoff=early)
    pod = harness.add("p", gates=["one", "two"])
    assert harness.queues == {"p": "gated"}
    assert harness.queue.pop_nowait() is None
    assert not_zero(harness.metrics.unschedulable_pods) == {(GATES, SCHEDULER): 1}
    half = harness.update(pod, with_spec(pod, scheduling_gates=pod.spec.scheduling_gates[:1]))
    assert harness.queues == {"p": "gated"}
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "gated"}
    harness.update(half, ungated(half))
    assert harness.queues == {"p": "active"}
    queued = harness.pop("p")
    assert (queued.attempts, queued.unschedulable_count) == (1, 0)
    assert not not_zero(harness.metrics.unschedulable_pods)


class Door:
    """A PreEnqueue plugin whose answer changes; counts how often it is asked."""

    def __init__(self) -> None:
        self.closed = False
        self.asked = 0

    def __call__(self, _pod: Pod, _first: str) -> Status:
        self.asked += 1
        return Status.unschedulable("closed").by("Door") if self.closed else SUCCESS


@pytest.mark.parametrize("early", [True, False], ids=["before-backoff", "after-backoff"])
def test_gates_are_asked_once_on_the_way_to_active(early: bool) -> None:
    door = Door()
    harness = QueueHarness(hints=on("A", NODE_ADD), pre_enqueue=door, pop_from_backoff=early)
    harness.fail("p", "A")
    assert door.asked == 1
    harness.queue.move(NODE_ADD, None, None)
    assert (harness.queues, door.asked) == ({"p": "backoff"}, 2 if early else 1)
    door.closed = True
    harness.clock.advance(2)
    harness.queue.flush_backoff_completed()
    assert (harness.queues, door.asked) == ({"p": "active" if early else "gated"}, 2)


def test_a_closed_gate_keeps_a_pod_out_of_the_backoff_queue() -> None:
    door = Door()
    harness = QueueHarness(hints=[*on("A", NODE_ADD), *on("Door", NODE_TAINT)], pre_enqueue=door)
    harness.fail("p", "A")
    door.closed = True
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "gated"}
    queued = harness.queue.get("default/p")
    assert queued is not None
    assert queued.rejectors == {"A", "Door"}
    door.closed = False
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "gated"}, "only events that the gating plugin registered for open its gate"
    harness.queue.move(NODE_TAINT, None, None)
    assert harness.queues == {"p": "backoff"}


def test_the_gating_plugin_is_asked_first() -> None:
    asked: list[str] = []

    def pre_enqueue(_pod: Pod, first: str) -> Status:
        asked.append(first)
        return Status.unschedulable("closed").by("Door")

    harness = QueueHarness(pre_enqueue=pre_enqueue)
    pod = harness.add("p")
    harness.queue.activate({"default/p": pod})
    assert asked == ["", "Door"]


def test_a_profile_without_gates_lets_everyone_in() -> None:
    harness = QueueHarness()
    harness.add("p", scheduler="someone-else", gates=["wait"])
    assert harness.queues == {"p": "active"}


# Without hints


def test_without_hints_an_event_during_the_attempt_brings_the_pod_back() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), queueing_hints=False)
    harness.add("one")
    harness.add("two")
    one = harness.pop("one")
    harness.queue.move(NODE_ADD, None, None)
    harness.reject(one, "B")
    assert harness.queues["one"] == "backoff", "any rejecting plugin"
    two = harness.pop("two")
    harness.reject(two, "A")
    assert harness.queues["two"] == "unschedulable", "the event was before its attempt"
    assert kept_events(harness.metrics) == 0


@pytest.mark.parametrize("plugins", [(), ("A",)], ids=["error", "rejection"])
@pytest.mark.parametrize(
    ("hints", "queue"), [(True, "active"), (False, "backoff")], ids=["hints", "without-hints"]
)
def test_no_backoff_at_all(plugins: tuple[str, ...], *, hints: bool, queue: str) -> None:
    """Without hints a pod that is worth another attempt still waits for the next flush."""
    harness = QueueHarness(
        hints=on("A", NODE_ADD), max_backoff_seconds=0, queueing_hints=hints, pop_from_backoff=False
    )
    harness.add("p")
    queued = harness.pop("p")
    harness.queue.move(NODE_ADD, None, None)
    harness.reject(queued, *plugins)
    assert harness.queues == {"p": queue}
    harness.queue.flush_backoff_completed()
    assert harness.queues == {"p": "active"}


@pytest.mark.parametrize("way", ["waiting", "in-flight", "own-update", "own-update-in-flight"])
def test_a_hint_is_asked_with_both_versions(way: str) -> None:
    asked: list[tuple[Pod, object, object]] = []

    def hint(pod: Pod, old: object, new: object) -> Hint:
        asked.append((pod, old, new))
        return Hint.SKIP

    label = ClusterEvent(Resource.POD, Action.UPDATE_POD_LABEL)
    harness = QueueHarness(hints=on("A", NODE_TAINT, label, hint=hint))
    old = harness.add("p")
    new = with_metadata(old, labels={"a": "b"})
    queued = harness.pop("p")
    if way in ("waiting", "own-update"):
        harness.reject(queued, "A")
    if way.startswith("own"):
        harness.update(old, new)
        queued.info = PodInfo(new)
    else:
        harness.queue.move(NODE_TAINT, "before", "after")
    if way.endswith("in-flight"):
        harness.reject(queued, "A")
    assert asked == [(new, old, new) if way.startswith("own") else (old, "before", "after")]
    assert harness.queues == {"p": "unschedulable"}


def test_without_hints_terms_that_a_waiting_pod_got_meanwhile_count() -> None:
    """A gated pod's affinity may still be narrowed; what it is now decides, not what it was."""

    def near(app: str) -> dict[str, Any]:
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
        return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    door_closed = True

    def door(_pod: Pod, _first: str) -> Status:
        return Status.unschedulable("closed").by("Door") if door_closed else SUCCESS

    hints = on("Door", ClusterEvent(Resource.POD, Action.ADD))
    harness = QueueHarness(hints=hints, queueing_hints=False, pre_enqueue=door)
    old = harness.add("p", uid="p", affinity=near("one"))
    harness.update(old, make_pod("p", uid="p", affinity=near("two")))
    door_closed = False
    for app, queue in (("one", "gated"), ("two", "active")):
        placed = make_pod("placed", labels={"app": app}, node="n")
        harness.queue.move(events.ASSIGNED_POD_ADD, None, placed)
        assert harness.queues == {"p": queue}, app


def test_without_hints_an_activation_during_the_attempt_counts_as_an_event() -> None:
    harness = QueueHarness(queueing_hints=False)
    pod = harness.add("p")
    queued = harness.pop("p")
    harness.queue.activate({"default/p": pod})
    harness.reject(queued, "A")
    assert harness.queues == {"p": "backoff"}


@pytest.mark.parametrize(
    ("change", "queue"),
    [
        pytest.param(lambda pod: with_metadata(pod, labels={"a": "b"}), "backoff", id="labels"),
        pytest.param(lambda pod: with_metadata(pod, annotations={"a": "b"}), "backoff", id="annotations"),
        pytest.param(lambda pod: with_spec(pod, node_selector={"a": "b"}), "backoff", id="spec"),
        pytest.param(lambda pod: with_metadata(pod, resource_version="7"), "unschedulable", id="version"),
        pytest.param(lambda pod: with_metadata(pod, generation=7), "unschedulable", id="generation"),
        pytest.param(lambda pod: with_metadata(pod, finalizers=("f",)), "unschedulable", id="finalizers"),
        pytest.param(lambda pod: with_status(pod, nominated_node_name="n"), "unschedulable", id="status"),
    ],
)
def test_without_hints_an_update_counts_unless_it_is_bookkeeping(
    change: Callable[[Pod], Pod], queue: str
) -> None:
    harness = QueueHarness(queueing_hints=False)
    pod = harness.fail("p", "A")
    harness.update(pod, change(pod))
    assert harness.queues == {"p": queue}


def test_without_hints_an_update_in_flight_queues_the_pod_beside_its_attempt() -> None:
    """The queue does not track pods in flight then; the scheduling loop skips pods that are assumed."""
    harness = QueueHarness(queueing_hints=False)
    pod = harness.add("p")
    queued = harness.pop("p")
    harness.update(pod, with_metadata(pod, labels={"a": "b"}))
    assert harness.queues == {"p": "active"}
    with pytest.raises(QueueError):
        harness.reject(queued, "A")


NEAR_WEB = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}
FAR_FROM_WEB = {"podAntiAffinity": NEAR_WEB["podAffinity"]}
PLACED_WEB = make_pod("web", labels={"app": "web"}, node="n1")


@pytest.mark.parametrize(
    ("rejectors", "affinity", "placed", "event", "moves"),
    [
        pytest.param({"InterPodAffinity"}, NEAR_WEB, PLACED_WEB, events.ASSIGNED_POD_ADD, True, id="near"),
        pytest.param(
            {"InterPodAffinity"}, NEAR_WEB, PLACED_WEB, events.ASSIGNED_POD_UPDATE, True, id="update"
        ),
        pytest.param(
            {"InterPodAffinity"},
            NEAR_WEB,
            make_pod("db", labels={"app": "db"}, node="n1"),
            events.ASSIGNED_POD_ADD,
            False,
            id="other-labels",
        ),
        pytest.param(
            {"InterPodAffinity"},
            NEAR_WEB,
            make_pod("web", labels={"app": "web"}, node="n1", namespace="other"),
            events.ASSIGNED_POD_ADD,
            False,
            id="other-namespace",
        ),
        pytest.param(
            {"InterPodAffinity"}, FAR_FROM_WEB, PLACED_WEB, events.ASSIGNED_POD_ADD, False, id="far"
        ),
        pytest.param({"Fit"}, None, PLACED_WEB, events.ASSIGNED_POD_ADD, False, id="no-terms"),
        pytest.param({"Fit"}, None, PLACED_WEB, events.ASSIGNED_POD_DELETE, True, id="delete-frees-queue"),
        pytest.param(
            {"Fit"},
            None,
            PLACED_WEB,
            ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN),
            True,
            id="scale-down-frees-queue",
        ),
        pytest.param(
            {"PodTopologySpread"},
            None,
            PLACED_WEB,
            events.ASSIGNED_POD_ADD,
            True,
            id="spread-same-namespace",
        ),
        pytest.param(
            {"PodTopologySpread"},
            None,
            make_pod("web", node="n1", namespace="other"),
            events.ASSIGNED_POD_ADD,
            False,
            id="spread-other-namespace",
        ),
    ],
)
def test_without_hints_a_placed_pod_requeues_pods_with_a_matching_affinity(
    rejectors: set[str], affinity: dict[str, Any] | None, placed: Pod, event: ClusterEvent, moves: bool
) -> None:
    registered = [
        hint for plugin in ("InterPodAffinity", "PodTopologySpread", "Fit") for hint in on(plugin, POD_ALL)
    ]
    harness = QueueHarness(hints=registered, queueing_hints=False)
    harness.fail("p", *rejectors, affinity=affinity)
    gone = event == events.ASSIGNED_POD_DELETE
    harness.queue.move(event, placed if gone else None, None if gone else placed)
    assert harness.queues == {"p": "backoff" if moves else "unschedulable"}


def test_without_hints_namespaces_are_selected_by_their_labels() -> None:
    affinity = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": "zone",
                    "labelSelector": {},
                    "namespaceSelector": {"matchLabels": {"team": "a"}},
                }
            ]
        }
    }
    harness = QueueHarness(hints=on("InterPodAffinity", POD_ALL), queueing_hints=False)
    harness.fail("p", "InterPodAffinity", affinity=affinity)
    placed = make_pod("web", node="n1", namespace="other")
    harness.queue.move(events.ASSIGNED_POD_ADD, None, placed)
    assert harness.queues == {"p": "unschedulable"}
    harness.context.cluster.set_namespace("other", {"team": "a"})
    harness.queue.move(events.ASSIGNED_POD_ADD, None, placed)
    assert harness.queues == {"p": "backoff"}


def test_with_hints_a_placed_pod_is_for_the_hints_to_judge() -> None:
    harness = QueueHarness(hints=on("Custom", POD_ALL, hint=QUEUE))
    harness.fail("p", "Custom")
    harness.queue.move(events.ASSIGNED_POD_ADD, None, PLACED_WEB)
    assert harness.queues == {"p": "backoff"}


# Time


@pytest.mark.parametrize(
    ("waited", "queue"), [(300.0, "unschedulable"), (300.001, "active")], ids=["at", "after"]
)
@GATE_SETTINGS
def test_a_pod_that_waits_too_long_is_tried_again(
    waited: float, queue: str, hints_on: bool, early: bool
) -> None:
    harness = QueueHarness(queueing_hints=hints_on, pop_from_backoff=early)
    harness.fail("p", "A")
    harness.clock.advance(waited)
    harness.queue.flush_unschedulable_leftover()
    assert harness.queues == {"p": queue}
    queued = harness.queue.get("default/p")
    assert queued is not None
    assert queued.was_flushed == (queue == "active")
    if queue == "active":
        harness.reject(harness.pop("p"), "A")
        assert not queued.was_flushed


def test_a_flushed_pod_still_backing_off_waits_that_out() -> None:
    harness = QueueHarness(max_unschedulable_seconds=1.0, initial_backoff_seconds=5.0)
    harness.fail("p", "A")
    harness.clock.advance(2)
    harness.queue.flush_unschedulable_leftover()
    assert harness.queues == {"p": "backoff"}


def test_a_gated_pod_is_asked_again_once_per_timeout() -> None:
    door = Door()
    door.closed = True
    harness = QueueHarness(pre_enqueue=door)
    harness.add("p")
    harness.clock.advance(301)
    harness.queue.flush_unschedulable_leftover()
    assert (harness.queues, door.asked) == ({"p": "gated"}, 2)
    queued = harness.queue.get("default/p")
    assert queued is not None
    assert not queued.was_flushed, "no attempt followed from it"
    harness.clock.advance(30)
    harness.queue.flush_unschedulable_leftover()
    assert door.asked == 2, "the flush restarts the wait"
    door.closed = False
    harness.clock.advance(301)
    harness.queue.flush_unschedulable_leftover()
    assert harness.queues == {"p": "active"}


def test_a_flush_is_an_event_for_pods_in_flight() -> None:
    harness = QueueHarness()
    harness.fail("old", "A")
    harness.clock.advance(301)
    harness.add("p")
    queued = harness.pop("p")
    harness.queue.flush_unschedulable_leftover()
    harness.reject(queued, "A")
    assert harness.queues == {"old": "active", "p": "backoff"}


def test_tick_flushes_when_due_and_says_when_to_come_again() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), pop_from_backoff=False)
    harness.clock.advance(0.25)
    queue = PriorityQueue(harness.context)
    assert queue.tick() == pytest.approx(0.75), "backoff is flushed at whole seconds"
    harness.clock.advance(0.75)
    assert queue.tick() == pytest.approx(1.0)
    harness.clock.advance(0.3)
    assert queue.tick() == pytest.approx(0.7)
    harness.clock.advance(5.2)
    assert queue.tick() == pytest.approx(0.5), "a late call is not made up for"


def test_a_queue_without_backoff_need_not_be_ticked_every_second() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), pop_from_backoff=False)
    calls: list[float] = []
    began_ns = harness.clock.now_ns()
    harness.queue.when_due(lambda: calls.append((harness.clock.now_ns() - began_ns) / NANOSECONDS))
    assert harness.queue.tick() == pytest.approx(3600.0), "no pod waits"
    harness.clock.advance(12.25)
    harness.fail("p")
    assert calls == [12.25], "a pod waits for time to pass"
    assert harness.queue.tick() == pytest.approx(0.75), "whole seconds are where they were"
    harness.fail("q")
    assert len(calls) == 1, "the next tick is near enough"
    for _ in range(2):
        harness.clock.advance(1)
        harness.queue.tick()
    assert harness.queues == {"p": "active", "q": "active"}
    assert harness.queue.tick() == pytest.approx(3600.0)


@pytest.mark.parametrize(
    ("idle", "expected"), [(12.25, 17.75), (30.0, 30.0), (90.0, 30.0), (95.5, 24.5), (7200.25, 29.75)]
)
def test_long_waiting_pods_are_flushed_at_the_same_intervals(idle: float, expected: float) -> None:
    """As if every tick had come though no pod waited."""
    harness = QueueHarness(hints=on("A", NODE_ADD))
    calls: list[int] = []
    harness.queue.when_due(lambda: calls.append(harness.clock.now_ns()))
    harness.queue.tick()
    harness.clock.advance(idle)
    harness.fail("p", "A")
    assert harness.queues == {"p": "unschedulable"}
    assert len(calls) == 1
    assert harness.queue.tick() == pytest.approx(expected)
    harness.fail("q", "A")
    assert len(calls) == 1, "the next tick is near enough"


def test_tick_does_both_flushes() -> None:
    harness = QueueHarness(max_unschedulable_seconds=40.0)
    harness.fail("rejected", "A")
    harness.fail("error")
    harness.queue.tick()
    assert harness.queues == {"rejected": "unschedulable", "error": "backoff"}
    for _ in range(59):
        harness.clock.advance(1)
        harness.queue.tick()
    assert harness.queues == {"rejected": "unschedulable", "error": "active"}, "looked at every 30 seconds"
    harness.clock.advance(1)
    harness.queue.tick()
    assert harness.queues == {"rejected": "active", "error": "active"}


def test_a_queue_of_ones_own_may_tick_otherwise() -> None:
    class Eager(PriorityQueue):
        """Looks at everything at every tick, four times a second."""

        def tick(self) -> float:
            self.flush_backoff_completed()
            self.flush_unschedulable_leftover()
            return 0.25

    harness = QueueHarness(make=Eager, max_unschedulable_seconds=1.0)
    harness.fail("p", "A")
    harness.clock.advance(2)
    assert harness.queue.tick() == 0.25
    assert harness.queues == {"p": "active"}


# Readiness, queues and counts


@pytest.mark.parametrize(("early", "more_calls"), [(True, 1), (False, 0)], ids=["early", "not-early"])
def test_when_ready_is_called_when_a_pod_can_be_popped(early: bool, more_calls: int) -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD), pop_from_backoff=early)
    calls: list[None] = []
    harness.queue.when_ready(lambda: calls.append(None))
    harness.add("gated", gates=["wait"])
    assert not calls
    harness.fail("p", "A")
    assert len(calls) == 1
    harness.queue.move(NODE_ADD, None, None)
    assert len(calls) == 1 + more_calls
    harness.clock.advance(2)
    harness.queue.flush_backoff_completed()
    assert len(calls) == 2 + more_calls


def test_queues_and_get() -> None:
    harness = QueueHarness(hints=[*on("A", NODE_ADD, hint=QUEUE), *on("B", NODE_TAINT)])
    harness.fail("parked", "B")
    harness.fail("error")
    harness.fail("backoff", "A")
    harness.queue.move(NODE_ADD, None, None)
    harness.add("gated", gates=["wait"])
    harness.add("active")
    assert harness.queues == {
        "active": "active",
        "backoff": "backoff",
        "error": "backoff",
        "parked": "unschedulable",
        "gated": "gated",
    }
    assert list(harness.queue.pending_pods()) == ["active", "backoff", "unschedulable", "gated"]
    for name in harness.queues:
        queued = harness.queue.get(f"default/{name}")
        assert queued is not None
        assert queued.pod.metadata.name == name
        assert SchedulingQueue.get(harness.queue, f"default/{name}") is queued, "the interface's own way"
    assert harness.queue.get("default/missing") is None
    assert SchedulingQueue.get(harness.queue, "default/missing") is None


def test_why_pods_come_in_is_counted() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.fail("p", "A")
    harness.queue.move(NODE_ADD, None, None)
    harness.clock.advance(2)
    harness.queue.flush_backoff_completed()
    harness.reject(harness.pop("p"), "A")
    found = harness.queue.get("default/p")
    assert found is not None
    harness.queue.activate({"default/p": found.pod})
    assert harness.metrics.queue_incoming_pods.values == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 2,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
        ("active", "ForceActivate"): 1,
    }


def test_rejections_are_counted_by_plugin_while_pods_wait() -> None:
    harness = QueueHarness(hints=on("A", NODE_ADD))
    harness.fail("one", "A", "B")
    harness.fail("two", "A", pending=["A"])
    gauge = harness.metrics.unschedulable_pods
    assert not_zero(gauge) == {("A", SCHEDULER): 2, ("B", SCHEDULER): 1}
    harness.queue.move(NODE_ADD, None, None)
    assert not_zero(gauge) == {("A", SCHEDULER): 2, ("B", SCHEDULER): 1}
    harness.pop("two")
    assert not_zero(gauge) == {("A", SCHEDULER): 1, ("B", SCHEDULER): 1}
    harness.pop("one")
    assert not not_zero(gauge)
