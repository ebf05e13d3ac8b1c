from __future__ import annotations

import contextlib
import logging
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.extension_points import QueueSortPlugin
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.sub_queues import OrderedSubQueue, SortValue, sort_value_of
from kuberth.testing import make_pod
from tests.unit.queue.harness import ByPriority, QueueHarness


class LessOnly(QueueSortPlugin):
    """Orders by priority, then by age, as `ByPriority` does, but has no sort key."""

    name = "LessOnly"

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return (-first.info.priority, first.timestamp_ns) < (-second.info.priority, second.timestamp_ns)


class Broken(QueueSortPlugin):
    name = "Broken"

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        raise RuntimeError("cannot compare")


class Indifferent(QueueSortPlugin):
    name = "Indifferent"

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return False


def queued_pod(name: str, *, priority: int = 0, timestamp_ns: int = 0) -> QueuedPod:
    return QueuedPod(PodInfo(make_pod(name, priority=priority)), timestamp_ns=timestamp_ns)


class QueueMachine(RuleBasedStateMachine):
    """An ordered queue beside a list that is sorted whenever someone looks."""

    sort_value: SortValue = staticmethod(sort_value_of(ByPriority()))

    def __init__(self) -> None:
        super().__init__()
        self.queue = OrderedSubQueue(type(self).sort_value)
        self.pods: dict[str, QueuedPod] = {}
        self.arrivals: dict[str, int] = {}
        self.arrived = 0

    @rule(name=st.sampled_from("abcdefgh"), priority=st.integers(0, 3), timestamp_ns=st.integers(0, 3))
    def add(self, name: str, *, priority: int, timestamp_ns: int) -> None:
        """The same object comes again with another priority and time, as queued pods do."""
        fresh = queued_pod(name, priority=priority, timestamp_ns=timestamp_ns)
        queued = self.pods.get(name, fresh)
        queued.info, queued.timestamp_ns = fresh.info, timestamp_ns
        self.pods[name] = queued
        self.arrived += 1
        self.arrivals[name] = self.arrived
        self.queue.add(queued)

    @rule(name=st.sampled_from("abcdefgh"))
    def remove(self, name: str) -> None:
        expected = self.pods.get(name) if self.arrivals.pop(name, None) else None
        assert self.queue.remove(f"default/{name}") is expected

    @rule()
    def pop(self) -> None:
        expected = next(iter(self.sorted()), None)
        popped = self.queue.pop()
        assert popped is expected
        if popped is not None:
            del self.arrivals[popped.pod.metadata.name]

    @rule(timestamp_ns=st.integers(0, 3))
    def one_that_left_changes(self, timestamp_ns: int) -> None:
        """A pod that is in another queue now must not disturb the order here."""
        for name, queued in self.pods.items():
            if name not in self.arrivals:
                queued.timestamp_ns = timestamp_ns

    def sorted(self) -> list[QueuedPod]:
        def position(name: str) -> tuple[int, int, int]:
            queued = self.pods[name]
            return -queued.info.priority, queued.timestamp_ns, self.arrivals[name]

        return [self.pods[name] for name in sorted(self.arrivals, key=position)]

    @invariant()
    def holds_what_came(self) -> None:
        inside = {f"default/{name}" for name in self.arrivals}
        assert {queued.key for queued in self.queue} == inside
        assert len(self.queue) == len(inside)
        assert self.queue.peek() is next(iter(self.sorted()), None)
        for name in "abcdefgh":
            key = f"default/{name}"
            assert (key in self.queue) == (key in inside)
            assert self.queue.get(key) is (self.pods[name] if key in inside else None)


class LessOnlyQueueMachine(QueueMachine):
    sort_value = staticmethod(sort_value_of(LessOnly()))


class SometimesKey(LessOnly):
    """Has a sort key for some pods only."""

    name = "SometimesKey"

    def sort_key(self, queued: QueuedPod) -> tuple[int, int] | None:
        if queued.info.priority + queued.timestamp_ns == 3:
            return None
        return -queued.info.priority, queued.timestamp_ns


class NeverKey(LessOnly):
    name = "NeverKey"

    def sort_key(self, queued: QueuedPod) -> None:
        return None


class SometimesKeyQueueMachine(QueueMachine):
    sort_value = staticmethod(sort_value_of(SometimesKey()))


TestQueueOfSomeKeys = SometimesKeyQueueMachine.TestCase
TestQueueOfSomeKeys.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
TestQueueOfLess = LessOnlyQueueMachine.TestCase
TestQueueOfLess.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)


@given(st.lists(st.integers(-3, 3), max_size=60))
def test_sorts_like_a_list_and_keeps_arrival_order_among_equals(priorities: list[int]) -> None:
    pods = [queued_pod(str(index), priority=priority) for index, priority in enumerate(priorities)]
    queue = OrderedSubQueue(lambda queued: -queued.info.priority)
    for queued in pods:
        queue.add(queued)
    assert [queue.pop() for _ in pods] == sorted(pods, key=lambda queued: -queued.info.priority)
    assert queue.pop() is None


def test_dead_entries_do_not_pile_up() -> None:
    queue = OrderedSubQueue(lambda queued: queued.timestamp_ns)
    for turn in range(10_000):
        queue.add(queued_pod("a", timestamp_ns=turn))
        queue.add(queued_pod("b", timestamp_ns=-turn))
        queue.remove("default/b")
    assert len(queue) == 1
    assert len(queue._line) + len(queue._added) <= 2 * 1 + 64 + 1


@pytest.mark.parametrize("seed", range(20))
def test_the_order_holds_for_crowds_that_come_and_go(seed: int) -> None:
    chance = random.Random(seed)
    queue = OrderedSubQueue(lambda queued: (-queued.info.priority, queued.timestamp_ns))
    inside: dict[str, tuple[int, int, int, QueuedPod]] = {}
    for number in range(60):
        for each in range(chance.choice((1, 3, 100, 400))):
            name = f"p{chance.randrange(2000)}" if chance.random() < 0.3 else f"p{number}-{each}"
            queued = queued_pod(name, priority=chance.randrange(3), timestamp_ns=chance.randrange(number + 5))
            queue.add(queued)
            inside[queued.key] = (-queued.info.priority, queued.timestamp_ns, number * 1000 + each, queued)
        for key in chance.sample(sorted(inside), min(len(inside), chance.choice((0, 1, 50)))):
            assert queue.remove(key) is inside.pop(key)[3]
        for _ in range(min(len(inside), chance.choice((0, 1, 5, 200)))):
            first = min(inside.values(), key=lambda entry: entry[:3])[3]
            assert queue.peek() is first
            assert queue.pop() is first
            del inside[first.key]
    assert len(queue) == len(inside)


def test_keys_that_cannot_be_compared_leave_the_order_of_arrival(caplog: pytest.LogCaptureFixture) -> None:
    queue = OrderedSubQueue(lambda queued: 1 if queued.timestamp_ns < 200 else "text")
    pods = [queued_pod(f"p{number}", timestamp_ns=number) for number in range(300)]
    for queued in pods:
        with contextlib.suppress(TypeError):
            queue.add(queued)
    assert [queue.pop() for _ in pods] == pods
    assert "cannot be compared" in caplog.text


@pytest.mark.parametrize("seed", range(5))
def test_the_order_holds_when_dead_entries_are_swept_out(seed: int) -> None:
    chance = random.Random(seed)
    queue = OrderedSubQueue(lambda queued: queued.timestamp_ns)
    pods = [queued_pod(f"p{number}", timestamp_ns=number) for number in range(400)]
    for queued in chance.sample(pods, len(pods)):
        queue.add(queued)
    gone = chance.sample(pods[1:], 300)
    for queued in gone:
        queue.remove(queued.key)
    queue.add(queued_pod("last", timestamp_ns=1000))
    assert len(queue._line) + len(queue._added) == 101, "swept"
    times = [popped.timestamp_ns for _ in range(101) if (popped := queue.pop()) is not None]
    assert times == sorted(times)
    assert len(times) == 101


@pytest.mark.parametrize(
    "plugin",
    [ByPriority(), LessOnly(), NeverKey(), SometimesKey()],
    ids=lambda plugin: str(plugin.name),
)
def test_queue_order_with_and_without_a_sort_key(plugin: QueueSortPlugin) -> None:
    harness = QueueHarness(sort=plugin)
    for name, priority in (("low", 1), ("high", 5), ("low-too", 1), ("highest", 9)):
        harness.add(name, priority=priority)
        harness.clock.advance(1)
    assert harness.pop_names() == ["highest", "high", "low", "low-too"]


@pytest.mark.parametrize("plugin", [Broken(), Indifferent()], ids=lambda plugin: str(plugin.name))
def test_a_sort_that_fails_or_does_not_care_gives_arrival_order(
    plugin: QueueSortPlugin, caplog: pytest.LogCaptureFixture
) -> None:
    harness = QueueHarness(sort=plugin)
    names = [f"p{number}" for number in range(20)]
    for name in names:
        harness.add(name)
    assert harness.pop_names() == names
    failures = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert bool(failures) == isinstance(plugin, Broken)
    assert all("'Broken' failed at QueueSort" in record.getMessage() for record in failures)


def test_an_update_sorts_a_ready_pod_again_even_without_a_sort_key() -> None:
    class ByLabel(QueueSortPlugin):
        name = "ByLabel"

        def less(self, first: QueuedPod, second: QueuedPod) -> bool:
            return first.info.labels["rank"] < second.info.labels["rank"]

    harness = QueueHarness(sort=ByLabel())
    pods = {name: harness.add(name, labels={"rank": name}) for name in "bcdefgh"}
    harness.update(pods["b"], make_pod("b", uid=pods["b"].metadata.uid, labels={"rank": "z"}))
    harness.update(pods["h"], make_pod("h", uid=pods["h"].metadata.uid, labels={"rank": "a"}))
    assert harness.pop_names() == ["h", "c", "d", "e", "f", "g", "b"]
