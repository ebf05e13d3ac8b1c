"""An event reaches the pods it may concern, and costs nothing for all others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from unittest.mock import patch

import pytest

from kuberth.api.core import Pod
from kuberth.api.selectors import Operator, Requirement
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.framework import cluster_events as events
from kuberth.framework.cluster_events import Action, ClusterEvent, Concern, Hint, Resource
from kuberth.framework.inputs import signer
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import SUCCESS, Status
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.queue.hints import Hints
from kuberth.queue.unschedulable import UnschedulablePods
from kuberth.testing import make_node, make_pod
from tests.unit.queue.harness import (
    GATES,
    GATES_GONE,
    NODE_ADD,
    NODE_LABEL,
    NODE_TAINT,
    SCHEDULER,
    QueueHarness,
    after_own_gates_are_gone,
    always,
    kept_events,
    on,
    scheduling_gates,
    ungated,
)

HINTS = [
    *on("A", NODE_ADD),
    *on("B", NODE_ADD, NODE_TAINT),
    *on(GATES, GATES_GONE, hint=after_own_gates_are_gone),
]


def queue(*pods: QueuedPod) -> UnschedulablePods:
    made = UnschedulablePods(Hints({SCHEDULER: HINTS}, SchedulerMetrics()))
    for queued in pods:
        assert made.add(queued) is True
    return made


def parked(
    name: str, *plugins: str, pending: Sequence[str] = (), gate: str = "", scheduler: str = SCHEDULER
) -> QueuedPod:
    queued = QueuedPod(PodInfo(make_pod(name, scheduler=scheduler)), timestamp_ns=0)
    queued.unschedulable_plugins = {*plugins, *([gate] if gate else [])}
    queued.pending_plugins = set(pending)
    queued.gating_plugin = gate
    return queued


def concerned(of: UnschedulablePods, event: ClusterEvent) -> list[str]:
    return [each.pod.metadata.name for each in of.concerned_by(event, None, None).pods]


@pytest.mark.parametrize(
    ("event", "names"),
    [
        pytest.param(NODE_ADD, ["a", "b", "ab", "pending", "orphan", "stranger"], id="of-two-plugins"),
        pytest.param(NODE_TAINT, ["b", "ab", "pending", "orphan", "stranger"], id="of-one-plugin"),
        pytest.param(NODE_LABEL, ["orphan", "stranger"], id="of-none"),
        pytest.param(
            ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            ["gated", "orphan", "stranger"],
            id="of-the-gate",
        ),
        pytest.param(
            events.UNSCHEDULABLE_TIMEOUT,
            ["a", "b", "gated", "ab", "pending", "orphan", "stranger"],
            id="wildcard",
        ),
    ],
)
def test_an_event_concerns_pods_of_its_plugins(event: ClusterEvent, names: list[str]) -> None:
    """In the order they came; a gated pod only by its gate; pods without rejecting plugins by any event."""
    of = queue(
        parked("a", "A"),
        parked("b", "B"),
        parked("gated", "A", "B", gate=GATES),
        parked("ab", "B", "A"),
        parked("pending", "C", pending=["B"]),
        parked("orphan"),
        parked("stranger", "A", scheduler="stranger"),
    )
    assert concerned(of, event) == names


def test_a_pod_added_again_keeps_its_place() -> None:
    first, second = parked("first", "A"), parked("second", "B")
    of = queue(first, second)
    first.unschedulable_plugins = {"B"}
    assert concerned(of, NODE_TAINT) == ["second"], "the queue does not know yet"
    assert of.add(first) is False
    assert concerned(of, NODE_TAINT) == ["first", "second"]
    first.unschedulable_plugins = {"C"}
    assert of.remove(first.key) is first
    assert of.remove(first.key) is None
    assert (len(of), first.key in of, second.key in of) == (1, False, True)
    assert of.get(first.key) is None
    assert of.get(second.key) is second
    assert concerned(of, NODE_TAINT) == ["second"]
    assert of.add(first) is True
    assert [queued.pod.metadata.name for queued in of] == ["second", "first"]


def test_gated_pods_are_not_looked_at_by_events_that_cannot_open_their_gates() -> None:
    """However many they are: their hints, PreEnqueue and PreChecks are not called."""
    asked: list[str] = []

    def pre_enqueue(pod: Pod, first: str) -> Status:
        asked.append("PreEnqueue")
        return scheduling_gates(pod, first)

    def pre_check(pod: Pod) -> bool:
        checked.append(pod.metadata.name)
        return True

    harness = QueueHarness(hints=on("A", NODE_ADD, NODE_TAINT), pre_enqueue=pre_enqueue)
    for number in range(50):
        harness.add(f"gated-{number}", gates=["wait"])
    harness.fail("p", "A")
    asked.clear()
    checked: list[str] = []
    for event in (NODE_TAINT, NODE_LABEL, events.ASSIGNED_POD_DELETE, events.ASSIGNED_POD_ADD):
        harness.queue.move(event, None, make_node("n"), pre_check=pre_check)
    assert asked == ["PreEnqueue"]
    assert checked == ["p"]
    assert harness.queues["p"] == "backoff"
    assert (
        harness.metrics.queueing_hint_execution_duration.values[("A", NODE_TAINT.label, "Queue")].count == 1
    )


def test_what_is_kept_for_pods_in_flight_does_not_grow_with_gated_pods() -> None:
    kept: dict[int, float] = {}
    for gated in (0, 40):
        harness = QueueHarness(hints=on("A", NODE_ADD, NODE_TAINT))
        harness.add("flying")
        harness.pop("flying")
        pods = [harness.add(f"gated-{number}", gates=["wait"]) for number in range(gated)]
        for event in (NODE_ADD, NODE_LABEL, NODE_TAINT):
            harness.queue.move(event, None, None)
        for pod in pods:
            harness.queue.delete(harness.update(pod, ungated(pod)))
        kept[gated] = kept_events(harness.metrics)
        assert len(harness.queue.in_flight()) == 1
    assert kept == {0: 2, 40: 2}


def test_a_pod_that_is_gated_later_waits_for_its_gate_only() -> None:
    """An event of the plugin that rejected it finds a gate closed; from then on only the gate counts."""
    closed = False

    def pre_enqueue(_pod: object, _first: str) -> Status:
        return Status.unschedulable("closed").by("Door") if closed else SUCCESS

    hints = [*on("A", NODE_ADD, hint=always(Hint.QUEUE)), *on("Door", NODE_TAINT)]
    harness = QueueHarness(hints=hints, pre_enqueue=pre_enqueue)
    harness.fail("p", "A")
    closed = True
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "gated"}
    closed = False
    harness.queue.move(NODE_ADD, None, None)
    assert harness.queues == {"p": "gated"}, "not an event of the door"
    harness.queue.move(NODE_TAINT, None, None)
    assert harness.queues == {"p": "backoff"}


def by_labels(info: PodInfo) -> bytes:
    return repr(sorted(info.labels.items())).encode()


@pytest.mark.parametrize(
    "resource, asked",
    [
        pytest.param(Resource.NODE, ["red-0", "blue-0"], id="of-a-node"),
        pytest.param(Resource.ASSIGNED_POD, ["red-0", "blue-0"], id="of-another-pod"),
    ],
)
def test_one_hint_call_answers_for_pods_with_the_same_signature(resource: str, asked: list[str]) -> None:
    seen: list[str] = []

    def likes_blue(pod: Pod, _old: object, _new: object) -> Hint:
        seen.append(pod.metadata.name)
        return Hint.QUEUE if pod.metadata.labels["color"] == "blue" else Hint.SKIP

    event = ClusterEvent(resource, Action.ADD)
    hints = [RegisteredHint("A", event, likes_blue, sign=by_labels)]
    made = UnschedulablePods(Hints({SCHEDULER: hints}, SchedulerMetrics()))
    for number in range(3):
        for color in ("red", "blue"):
            pod = make_pod(f"{color}-{number}", scheduler=SCHEDULER, labels={"color": color})
            queued = QueuedPod(PodInfo(pod), timestamp_ns=0)
            queued.unschedulable_plugins = {"A"}
            made.add(queued)
    names = [each.pod.metadata.name for each in made.concerned_by(event, None, make_node("n")).pods]
    everyone = [f"{color}-{number}" for number in range(3) for color in ("red", "blue")]
    assert names == [name for name in everyone if name.startswith("blue")]
    assert seen == asked


def test_pods_are_asked_about_together_until_a_selector_sees_a_difference() -> None:
    asked: list[str] = []
    labels = SelectedLabels()

    def is_blue(pod: Pod, _old: object, _new: object) -> Hint:
        asked.append(pod.metadata.name)
        return Hint.QUEUE if pod.metadata.labels["color"] == "blue" else Hint.SKIP

    sign = signer((), labels=labels)
    hints = [RegisteredHint("A", NODE_ADD, is_blue, sign=sign, labels=labels)]
    made = UnschedulablePods(Hints({SCHEDULER: hints}, SchedulerMetrics()))
    for color in ("red", "green", "blue"):
        pod = make_pod(color, scheduler=SCHEDULER, labels={"color": color})
        queued = QueuedPod(PodInfo(pod), timestamp_ns=0)
        queued.unschedulable_plugins = {"A"}
        made.add(queued)
    assert not made.concerned_by(NODE_ADD, None, make_node("n")).pods, "no selector sees that one is blue"
    assert asked == ["red"]

    def concerned_now() -> list[str]:
        asked.clear()
        return [each.pod.metadata.name for each in made.concerned_by(NODE_ADD, None, make_node("n")).pods]

    labels.note((Requirement("color", Operator.EQUALS, ("blue",)),))
    with patch("kuberth.queue.unschedulable.REINDEXED_AT_ONCE", 1):
        assert concerned_now() == ["red", "green", "blue"], "pods that are not filed again are each asked"
        assert concerned_now() == ["red", "green", "blue"]
        assert concerned_now() == ["blue"]
    assert asked == ["green"], "of red and green one was asked about, and of blue none is needed"


def test_pods_of_different_schedulers_are_not_equal() -> None:
    seen: list[str] = []

    def note(pod: Pod, _old: object, _new: object) -> Hint:
        seen.append(pod.spec.scheduler_name)
        return Hint.SKIP

    hints = {name: [RegisteredHint("A", NODE_ADD, note, sign=by_labels)] for name in ("one", "two")}
    made = UnschedulablePods(Hints(hints, SchedulerMetrics()))
    for number in range(2):
        for scheduler in ("one", "two"):
            made.add(parked(f"{scheduler}-{number}", "A", scheduler=scheduler))
    assert not made.concerned_by(NODE_ADD, None, make_node("n")).pods
    assert sorted(seen) == ["one", "two"]


def at_gate(name: str) -> QueuedPod:
    return parked(name, "A", gate="Gate")


def gate_queue(gate: Callable[[Pod], Status | None]) -> UnschedulablePods:
    hints = [RegisteredHint("Gate", NODE_ADD, None, gate=gate), *on("A", NODE_ADD)]
    return UnschedulablePods(Hints({SCHEDULER: hints, "another": on("Gate", NODE_ADD)}, SchedulerMetrics()))


def refuses(*names: str) -> Callable[[Pod], Status | None]:
    return lambda pod: Status.unresolvable("not yet") if pod.metadata.name in names else None


def test_pods_that_their_gate_refuses_again_are_left_alone() -> None:
    first, second = at_gate("first"), at_gate("second")
    made = gate_queue(refuses("first", "rejected"))
    for queued in (first, second, parked("rejected", "A")):
        made.add(queued)
    assert concerned(made, NODE_ADD) == ["second", "rejected"]
    assert concerned(made, NODE_TAINT) == []
    # A pod that was let through once and rejected then no longer stands before the gate.
    first.gating_plugin = ""
    made.add(first)
    assert concerned(made, NODE_ADD) == ["first", "second", "rejected"]
    made.remove(second.key)
    assert concerned(made, NODE_ADD) == ["first", "rejected"]


def test_what_periodic_flushes_bring_is_asked_whatever_the_gate_says() -> None:
    kept = at_gate("kept")
    made = gate_queue(refuses("kept"))
    made.add(kept)
    assert [*made.concerned_by(events.UNSCHEDULABLE_TIMEOUT, None, None).pods] == [kept]


def test_a_gate_that_fails_is_asked_in_earnest() -> None:
    def fail(_pod: Pod) -> Status | None:
        raise RuntimeError("broken")

    made = gate_queue(fail)
    made.add(at_gate("first"))
    assert concerned(made, NODE_ADD) == ["first"]


def test_gated_pods_that_others_rejected_before_are_asked_one_by_one() -> None:
    """What the gate's own hint says of one of them does not speak for those others."""
    hints = [RegisteredHint("Gate", NODE_ADD, always(Hint.SKIP), sign=by_labels), *on("A", NODE_ADD)]
    made = UnschedulablePods(Hints({SCHEDULER: hints}, SchedulerMetrics()))
    for name in ("first", "second"):
        made.add(parked(f"fresh-{name}", gate="Gate"))
        made.add(at_gate(name))
    assert concerned(made, NODE_ADD) == ["first", "second"]


def test_an_event_about_a_waiting_pod_says_nothing_of_its_equals() -> None:
    """A hint may compare the pod with that of the event, so the pod itself is asked in any case."""
    event = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE)

    def is_it(pod: Pod, _old: object, new: object) -> Hint:
        same = isinstance(new, Pod) and new.metadata.uid == pod.metadata.uid
        return Hint.QUEUE if same else Hint.SKIP

    made = UnschedulablePods(
        Hints({SCHEDULER: [RegisteredHint("A", event, is_it, sign=by_labels)]}, SchedulerMetrics())
    )
    waiting = [parked(name, "A") for name in ("first", "second", "third")]
    for queued in waiting:
        made.add(queued)
    for queued in waiting:
        assert queued in made.concerned_by(event, queued.pod, queued.pod).pods


# Concerns


def about(*keys: Hashable) -> Callable[[object, object], Iterable[Hashable] | None]:
    return lambda _old, _new: keys


def concern_queue(
    of_event: Callable[[object, object], Iterable[Hashable] | None],
    of_pod: Callable[[Pod], Iterable[Hashable]] = lambda pod: [pod.metadata.name],
) -> UnschedulablePods:
    hint = RegisteredHint("A", NODE_ADD, always(Hint.QUEUE), concern=Concern(of_pod, of_event))
    made = UnschedulablePods(Hints({SCHEDULER: [hint, *on("B", NODE_ADD)]}, SchedulerMetrics()))
    gated = parked("gated", gate="A")
    for queued in (parked("first", "A"), gated, parked("second", "A"), parked("both", "A", "B")):
        made.add(queued)
    return made


def test_pods_that_an_event_is_not_about_are_left_alone() -> None:
    made = concern_queue(about("second", "gated", "missing"))
    # What one plugin leaves alone another may want to hear of.
    assert concerned(made, NODE_ADD) == ["gated", "second", "both"]
    made.remove("default/second")
    assert concerned(made, NODE_ADD) == ["gated", "both"]
    assert concerned(made, NODE_TAINT) == []


def test_an_event_without_concerned_pods_is_for_all() -> None:
    everything = ["first", "gated", "second", "both"]
    assert concerned(concern_queue(lambda _old, _new: None), NODE_ADD) == everything


def test_a_plugin_that_cannot_say_what_an_event_is_about_is_asked_for_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_old: object, _new: object) -> Iterable[Hashable]:
        raise RuntimeError("broken")

    assert concerned(concern_queue(fail), NODE_ADD) == ["first", "gated", "second", "both"]
    assert "plugin 'A': the Concern failed for event NodeAdd" in caplog.text


def test_a_pod_of_which_a_plugin_cannot_say_what_it_is_known_by_is_always_asked_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(pod: Pod) -> Iterable[Hashable]:
        if pod.metadata.name == "first":
            raise RuntimeError("broken")
        return [pod.metadata.name]

    assert concerned(concern_queue(about("second"), fail), NODE_ADD) == ["first", "second", "both"]
    assert "plugin 'A': the Concern failed for pod default/first" in caplog.text


def test_without_a_concern_in_one_profile_all_are_asked_about() -> None:
    made = UnschedulablePods(
        Hints(
            {
                SCHEDULER: [RegisteredHint("A", NODE_ADD, None, concern=Concern(lambda _pod: (), about()))],
                "another": on("A", NODE_ADD),
            },
            SchedulerMetrics(),
        )
    )
    made.add(parked("first", "A"))
    assert concerned(made, NODE_ADD) == ["first"]
