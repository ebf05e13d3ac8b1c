"""Any sequence of operations leaves every pod where the rules say, on both queues and with both gates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kuberth.api.core import Pod, PodCondition
from kuberth.clock import NANOSECONDS
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.errors import QueueError
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint, HintFunction, Resource
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import SUCCESS, Status
from kuberth.queue.fair_share import FairShareQueue
from kuberth.queue.interface import QueueContext
from kuberth.queue.priority_queue import POD_POPPED, PriorityQueue
from kuberth.testing import FakeClock, make_node, make_pod
from tests.unit.queue.harness import (
    GATES,
    NODE_ADD,
    NODE_TAINT,
    POD_ALL,
    SCHEDULER,
    make_context,
    not_zero,
    scheduling_gates,
    with_metadata,
    with_status,
)
from tests.unit.queue.model import DOOR, DOOR_LABEL, REGISTERED, Known, Model, answer, key_of

NAMES = st.sampled_from(["x/one", "x/two", "y/one", "y/two", "y/three"])
PLUGINS = st.sets(st.sampled_from(["A", "B"]))
ANSWERS = st.dictionaries(st.sampled_from(["A", "B", DOOR]), st.sampled_from(["queue", "skip", "raise"]))
EVENTS = st.sampled_from([event for event in REGISTERED if event.resource != Resource.UNSCHEDULABLE_POD])
SECONDS = st.sampled_from([0.001, 0.25, 0.999, 1.0, 1.5, 3.0, 31.0])

NOMINATION = {"nominated_node_name": "n1"}
CONDITION = {"conditions": (PodCondition(type="example.com/Checked", status="True"),)}
STATUSES = st.sampled_from([NOMINATION, CONDITION])

INITIAL_SECONDS, MAX_SECONDS, PATIENCE_SECONDS = 1, 5, 20


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Hints fail here thousands of times, each with a traceback in the log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def hint_of(plugin: str) -> HintFunction:
    def hint(pod: Pod, _old: object, new: object) -> Hint:
        match answer(plugin, pod, new):
            case "raise":
                raise RuntimeError("this hint is broken")
            case "queue":
                return Hint.QUEUE
        return Hint.SKIP

    return hint


class QueueMachine(RuleBasedStateMachine):
    """Does the same to a queue and to the model."""

    make: Callable[[QueueContext], PriorityQueue] = PriorityQueue
    queue: PriorityQueue
    model: Model
    clock: FakeClock

    @initialize(hints=st.booleans(), early=st.booleans(), start_ns=st.integers(0, 3 * NANOSECONDS))
    def begin(self, *, hints: bool, early: bool, start_ns: int) -> None:
        self.clock = FakeClock(start_ns)
        self.cluster = ClusterTable()
        self.cluster.set_node(make_node("n1", cpu="64"))
        self.pods: dict[str, Pod] = {}
        self.flying: dict[str, QueuedPod] = {}
        self.is_notified = False
        registered = [
            RegisteredHint(plugin, event, hint_of(plugin) if hints else None)
            for plugin, event in (
                ("A", POD_ALL),
                ("A", NODE_ADD),
                ("A", NODE_TAINT),
                ("B", POD_ALL),
                ("B", NODE_ADD),
                (DOOR, NODE_ADD),
            )
        ]
        self.context = make_context(
            self.clock,
            cluster=self.cluster,
            hints=registered,
            pre_enqueue=self.pre_enqueue,
            initial_backoff_seconds=INITIAL_SECONDS,
            max_backoff_seconds=MAX_SECONDS,
            max_unschedulable_seconds=PATIENCE_SECONDS,
            queueing_hints=hints,
            pop_from_backoff=early,
        )
        self.queue = type(self).make(self.context)
        self.queue.when_ready(self.notify)
        self.model = Model(
            hints=hints,
            early=early,
            initial_seconds=INITIAL_SECONDS,
            max_seconds=MAX_SECONDS,
            patience_seconds=PATIENCE_SECONDS,
            now_ns=start_ns,
        )

    def notify(self) -> None:
        self.is_notified = True

    def pre_enqueue(self, pod: Pod, first: str) -> Status:
        door = Status.unschedulable("closed").by(DOOR)
        if not self.model.door_is_closed or DOOR_LABEL not in pod.metadata.labels:
            door = SUCCESS
        gates = scheduling_gates(pod)
        one, other = (door, gates) if first == DOOR else (gates, door)
        return other if one.is_success else one

    # Pods come and go

    @rule(name=NAMES, priority=st.integers(0, 2), gated=st.booleans(), door=st.booleans())
    def add(self, name: str, *, priority: int, gated: bool, door: bool) -> None:
        """A new pod, or one that replaces another of its name whose deletion was missed."""
        namespace, _, short = name.partition("/")
        pod = self.pods[name] = make_pod(
            short,
            namespace=namespace,
            priority=priority,
            gates=["wait"] if gated else [],
            labels={DOOR_LABEL: "yes"} if door else {},
            cpu="1",
        )
        self.queue.add(PodInfo(pod))
        self.model.add(pod)

    @rule(name=NAMES, labels=ANSWERS, ungated=st.booleans())
    def update(self, name: str, *, labels: Mapping[str, str], ungated: bool) -> None:
        old = self.pods.get(name)
        if old is None:
            return
        kept = {key: value for key, value in old.metadata.labels.items() if key == DOOR_LABEL}
        new = with_metadata(old, labels={**kept, **labels})
        if ungated:
            new = msgspec.structs.replace(new, spec=msgspec.structs.replace(new.spec, scheduling_gates=()))
        self._update(name, old, new)

    @rule(name=NAMES, status=STATUSES)
    def update_of_status(self, name: str, status: Mapping[str, Any]) -> None:
        old = self.pods.get(name)
        if old is not None:
            self._update(name, old, with_status(old, **status))

    def _update(self, name: str, old: Pod, new: Pod) -> None:
        self.pods[name] = new
        self.queue.update(old, PodInfo(new))
        self.model.update(old, new)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            self.queue.delete(pod)
            self.model.delete(pod)

    # Attempts

    def first(self) -> list[Known]:
        return self.model.may_be_popped()

    @rule()
    def pop(self) -> None:
        expected = {key_of(known.pod) for known in self.first()}
        queued = self.queue.pop_nowait()
        if queued is None:
            assert not expected
            self.is_notified = False
            return
        assert queued.key in expected
        assert not queued.gated
        self.model.popped(queued.key)
        self.flying[queued.uid] = queued
        assert queued.attempts == self.model.flying[queued.uid].attempts

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), plugins=PLUGINS, pending=PLUGINS)
    def requeue(self, data: st.DataObject, plugins: set[str], pending: set[str]) -> None:
        self._requeue(self._land(data), plugins, pending)

    @rule(plugins=PLUGINS, answers=ANSWERS)
    def fail_at_once(self, plugins: set[str], answers: Mapping[str, str]) -> None:
        """A whole attempt in one step, with an event in it, so that pods get to fail many times."""
        flying = set(self.flying)
        self.pop()
        for uid in set(self.flying) - flying:
            self.move(NODE_ADD, answers)
            self._requeue(self.flying.pop(uid), plugins, set())

    def _requeue(self, queued: QueuedPod, plugins: set[str], pending: set[str]) -> None:
        name = queued.key
        current = self.pods.get(name)
        if name not in self.model.queues and (current is None or current.metadata.uid != queued.uid):
            self._done(queued)
            return
        queued.unschedulable_plugins = set(plugins)
        queued.pending_plugins = set(pending)
        if current is None or name in self.model.queues:
            with pytest.raises(QueueError, match="already present"):
                self.queue.requeue(queued)
        else:
            queued.info = PodInfo(current)
            self.model.flying[queued.uid].pod = current
            self.queue.requeue(queued)
        self.model.requeue(queued.uid, plugins, pending)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        self._done(self._land(data))

    def _land(self, data: st.DataObject) -> QueuedPod:
        return self.flying.pop(data.draw(st.sampled_from(sorted(self.flying)), "the pod that lands"))

    def _done(self, queued: QueuedPod) -> None:
        self.queue.done(queued.uid)
        self.model.done(queued.uid)
        self.queue.done(queued.uid)

    # Events

    @rule(event=EVENTS, answers=ANSWERS)
    def move(self, event: ClusterEvent, answers: Mapping[str, str]) -> None:
        self.queue.move(event, None, answers)
        self.model.move(event, answers)

    @rule(closed=st.booleans())
    def door(self, closed: bool) -> None:
        self.model.door_is_closed = closed

    @rule(name=NAMES)
    def activate(self, name: str) -> None:
        pod = self.pods.get(name)
        if pod is not None:
            self.queue.activate({name: pod})
            self.model.activate(pod)

    # Time

    @rule(seconds=SECONDS)
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.model.now_ns = self.clock.now_ns()

    @rule(seconds=st.sampled_from([1.0, 1.7, 6.0]))
    def wait_and_flush(self, seconds: float) -> None:
        self.advance(seconds)
        self.flush_backoff()

    @rule()
    def flush_backoff(self) -> None:
        self.queue.flush_backoff_completed()
        self.model.flush_backoff()

    @rule()
    def flush_unschedulable(self) -> None:
        self.queue.flush_unschedulable_leftover()
        self.model.flush_unschedulable()

    # What holds after every step

    @invariant()
    def every_pod_is_in_its_queue(self) -> None:
        expected: dict[str, set[str]] = {
            "active": set(),
            "backoff": set(),
            "unschedulable": set(),
            "gated": set(),
        }
        for key, known in self.model.queues.items():
            expected["backoff" if known.queue == "error" else known.queue].add(key)
        queues = self.queue.pending_pods()
        assert {queue: {queued.key for queued in pods} for queue, pods in queues.items()} == expected
        assert sum(map(len, queues.values())) == len(self.model.queues)
        for key, known in self.model.queues.items():
            queued = self.queue.get(key)
            assert queued is not None
            assert key in expected[self.queue.queue_of(key)]
            assert queued.uid == known.pod.metadata.uid
            assert queued.pod is known.pod
            assert (queued.attempts, queued.unschedulable_count, queued.consecutive_errors) == (
                known.attempts,
                known.rejections,
                known.errors,
            )
            assert (queued.unschedulable_plugins, queued.pending_plugins) == (known.rejectors, known.pending)
            assert queued.gating_plugin == known.gate
            assert queued.timestamp_ns == known.entered_ns
            if known.queue in ("backoff", "error"):
                assert queued.backoff_expires_ns == self.model.expiry_ns(known)

    @invariant()
    def in_flight_is_what_was_popped(self) -> None:
        in_flight = {pod.metadata.uid for pod in self.queue.in_flight()}
        # Without hints a queue does not know which pods are in flight.
        assert in_flight == (set(self.flying) if self.model.hints else set())

    @invariant()
    def events_are_kept_for_pods_in_flight_only(self) -> None:
        kept = self.model.kept_events() if self.model.hints else 0
        gauge = dict(not_zero(self.context.metrics.inflight_events))
        assert gauge.pop((POD_POPPED,), 0) == (len(self.flying) if self.model.hints else 0)
        assert sum(gauge.values()) == kept

    @invariant()
    def rejections_are_counted_for_waiting_pods_only(self) -> None:
        assert not_zero(self.context.metrics.unschedulable_pods) == {
            (plugin, SCHEDULER): number for plugin, number in self.model.rejected_by().items()
        }

    @invariant()
    def when_ready_was_called(self) -> None:
        assert self.is_notified or not self.first()

    def teardown(self) -> None:
        """Drain the queue: nothing may be left in it, nor in its gauges."""
        if not hasattr(self, "queue"):
            return
        for queued in list(self.flying.values()):
            self.queue.done(queued.uid)
        for known in list(self.model.queues.values()):
            self.queue.delete(known.pod)
        assert not any(self.queue.pending_pods().values())
        assert self.queue.pop_nowait() is None
        assert not not_zero(self.context.metrics.inflight_events)
        assert not not_zero(self.context.metrics.unschedulable_pods)


class FairShareMachine(QueueMachine):
    """The same, tenants being namespaces; pods that are done may have been placed."""

    WEIGHTS: ClassVar = {"x": 1.0, "y": 2.0}
    make = staticmethod(lambda context: FairShareQueue(context, weights=FairShareMachine.WEIGHTS))

    def share(self, known: Known) -> float:
        namespace = known.pod.metadata.namespace
        placed = sum(info.namespace == namespace for info in self.cluster.placed_pods())
        return placed / self.WEIGHTS[namespace]

    def first(self) -> list[Known]:
        return self.model.may_be_popped(self.share)

    @precondition(lambda self: self.flying)
    @rule(data=st.data())
    def place(self, data: st.DataObject) -> None:
        queued = self._land(data)
        self._done(queued)
        self.cluster.add_pod(queued.info.placed_on("n1"))

    @precondition(lambda self: self.cluster.placed_count)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        placed = sorted(info.uid for info in self.cluster.placed_pods())
        self.cluster.remove_pod(data.draw(st.sampled_from(placed)))


TestPriorityQueue: Any = QueueMachine.TestCase
TestPriorityQueue.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
TestFairShareQueue: Any = FairShareMachine.TestCase
TestFairShareQueue.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)


@pytest.mark.parametrize(
    "event",
    [event for event in REGISTERED if event.action is not Action.UPDATE],
    ids=lambda event: event.label,
)
def test_the_model_has_the_registrations_of_the_queue(event: ClusterEvent) -> None:
    """The one table that model and queue do not share is the same on both sides."""
    from kuberth.framework.cluster_events import concerns

    registrations = {"A": (POD_ALL, NODE_ADD, NODE_TAINT), "B": (POD_ALL, NODE_ADD), DOOR: (NODE_ADD,)}
    interested = {
        plugin
        for plugin, registered in registrations.items()
        if any(concerns(registration, event) for registration in registered)
    }
    assert interested == REGISTERED[event] - {GATES}
