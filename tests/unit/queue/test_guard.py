"""A queue that raises is named and hurts only the pod it raised for."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from kuberth.api.core import Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import NANOSECONDS
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import QueueError
from kuberth.framework.handle import PodEvent
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.guard import LOST_EVENT, GuardedQueue
from kuberth.queue.interface import QueueContext, SchedulingQueue
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.testing import FakeClock, MemoryApi, make_node, make_pod, run_in_virtual_time
from kuberth.testing.harness import World, running
from tests.unit.queue.harness import (
    NODE_ADD,
    START_NS,
    make_context,
    on,
    pop_named,
    queue_of_each,
    requeue_rejected,
    with_metadata,
)

NAME = "tests.unit.queue.test_guard.Fragile"


class Fragile(PriorityQueue):
    """A queue with methods that raise before or after they do their work, as often as a test says."""

    def __init__(self, context: QueueContext) -> None:
        self.failing: dict[str, int] = {}
        self.raises: Callable[[], BaseException] = lambda: RuntimeError("fragile")
        self.after = False
        self.closed = 0
        super().__init__(context)

    def close(self) -> None:
        self.closed += 1


def _fragile(method: str) -> Callable[..., Any]:
    original = getattr(PriorityQueue, method)

    def call(self: Fragile, *args: Any, **kwargs: Any) -> Any:
        times = self.failing.get(method, 0)
        if times <= 0:
            return original(self, *args, **kwargs)
        self.failing[method] = times - 1
        if self.after:
            original(self, *args, **kwargs)
        raise self.raises()

    return call


METHODS = ("add", "update", "delete", "pop_nowait", "requeue", "done", "move", "activate", "tick")
for _method in (*METHODS, "when_ready", "pending_pods", "in_flight", "get", "queue_of"):
    setattr(Fragile, _method, _fragile(_method))


class GuardHarness:
    """A fragile queue behind its guard, on a clock that stands still."""

    def __init__(self, *, after: bool = False) -> None:
        self.clock = FakeClock(START_NS)
        self.inner = Fragile(make_context(self.clock, hints=on("A", NODE_ADD)))
        self.inner.after = after
        self.queue: SchedulingQueue = GuardedQueue(self.inner, self.clock)
        self.ready_calls = 0
        self.queue.when_ready(self.count_ready)

    def count_ready(self) -> None:
        self.ready_calls += 1

    def fail(self, method: str, times: int = 1) -> None:
        self.inner.failing[method] = times

    def add(self, name: str, **pod: Any) -> Pod:
        made = make_pod(name, **pod)
        self.queue.add(PodInfo(made))
        return made

    def pop(self, name: str) -> QueuedPod:
        return pop_named(self.queue, name)

    def reject(self, queued: QueuedPod, *plugins: str) -> None:
        requeue_rejected(self.queue, queued, *plugins)

    def wait(self, seconds: float) -> float:
        self.clock.advance(seconds)
        return self.queue.tick()

    @property
    def queues(self) -> dict[str, str]:
        return queue_of_each(self.queue)

    @property
    def flying(self) -> list[str]:
        return [pod.metadata.name for pod in self.queue.in_flight()]


@pytest.fixture(params=[False, True], ids=["before", "after"])
def harness(request: pytest.FixtureRequest) -> GuardHarness:
    """The queue raises before it has done anything, or when all is done."""
    return GuardHarness(after=request.param)


def test_a_pod_that_could_not_be_added_is_added_again(
    harness: GuardHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.fail("add", 2)
    harness.add("p")
    assert f"queue {NAME} failed in add for pod default/p; it will be added again" in caplog.text
    harness.add("q")
    harness.wait(0.5)
    assert harness.inner.failing == {"add": 0}, "the second pod took the second failure"
    harness.wait(1)
    assert harness.queues == {"p": "active", "q": "active"}


def test_debts_are_settled_with_growing_delays(caplog: pytest.LogCaptureFixture) -> None:
    harness = GuardHarness()
    harness.fail("add", 9)
    harness.add("p")
    tries: list[int] = []
    for second in range(1, 191):
        before = harness.inner.failing["add"]
        harness.wait(1)
        if harness.inner.failing["add"] < before:
            tries.append(second)
    assert tries == [1, 3, 7, 15, 31, 63, 123, 183]
    assert f"queue {NAME} failed in a retry of addition for pod default/p; it will be retried again" in (
        caplog.text
    )
    harness.wait(60)
    assert harness.queues == {"p": "active"}


def test_a_tick_is_asked_for_when_a_debt_is_due() -> None:
    harness = GuardHarness()
    harness.fail("add")
    harness.add("p")
    harness.clock.advance(0.75)
    assert harness.queue.tick() == pytest.approx(0.25)


@pytest.mark.parametrize("deleted", [False, True], ids=["stays", "goes"])
def test_news_of_a_pod_change_what_is_owed(harness: GuardHarness, deleted: bool) -> None:
    harness.fail("add")
    old = harness.add("p")
    new = with_metadata(old, labels={"a": "b"})
    harness.queue.update(old, PodInfo(new))
    if deleted:
        harness.queue.delete(new)
    harness.wait(5)
    assert harness.queues == ({} if deleted else {"p": "active"})
    queued = harness.queue.get("default/p")
    assert (queued is None) == deleted
    assert queued is None or queued.pod is new


def test_a_failed_update_adds_the_pod_again(harness: GuardHarness, caplog: pytest.LogCaptureFixture) -> None:
    old = harness.add("p", priority=1)
    new = with_metadata(old, labels={"a": "b"})
    harness.fail("update")
    harness.queue.update(old, PodInfo(new))
    assert "failed in update for pod default/p; it will be added again" in caplog.text
    harness.wait(1)
    queued = harness.queue.get("default/p")
    assert queued is not None
    assert queued.pod is new
    assert harness.queues == {"p": "active"}


def test_an_update_that_fails_in_flight_changes_nothing(
    harness: GuardHarness, caplog: pytest.LogCaptureFixture
) -> None:
    old = harness.add("p")
    queued = harness.pop("p")
    harness.fail("update")
    harness.queue.update(old, PodInfo(with_metadata(old, labels={"a": "b"})))
    assert "failed in update for pod default/p; its attempt goes on" in caplog.text
    harness.wait(5)
    assert (harness.queues, harness.flying) == ({}, ["p"])
    harness.queue.done(queued.uid)
    harness.fail("update")
    harness.queue.update(old, PodInfo(old))
    harness.wait(5)
    assert harness.queues == {"p": "active"}, "it is not in flight any more"


def test_a_pod_popped_before_its_retry_is_not_added_again() -> None:
    harness = GuardHarness()
    old = harness.add("p")
    harness.fail("update")
    harness.queue.update(old, PodInfo(with_metadata(old, labels={"a": "b"})))
    harness.pop("p")
    harness.wait(5)
    assert (harness.queues, harness.flying) == ({}, ["p"])


def test_a_deletion_that_fails_is_tried_again(
    harness: GuardHarness, caplog: pytest.LogCaptureFixture
) -> None:
    pod = harness.add("p")
    harness.fail("delete")
    harness.queue.delete(pod)
    assert "failed in delete for pod default/p; it will be deleted again" in caplog.text
    harness.wait(1)
    assert harness.queues == {}


def test_a_pod_that_should_have_been_deleted_is_not_popped() -> None:
    harness = GuardHarness()
    pod = harness.add("p", priority=9)
    harness.add("q")
    harness.fail("delete")
    harness.queue.delete(pod)
    harness.pop("q")
    assert harness.flying == ["q"]
    harness.wait(5)
    assert harness.queues == {}


def test_a_deletion_owed_does_not_take_the_next_pod_of_that_name() -> None:
    harness = GuardHarness()
    pod = harness.add("p")
    harness.fail("delete")
    harness.queue.delete(pod)
    again = harness.add("p")
    harness.wait(5)
    assert harness.pop("p").pod is again


def test_a_pop_that_fails_is_asked_again_at_the_next_tick(
    harness: GuardHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.inner.after = False
    harness.add("p")
    harness.fail("pop_nowait")
    ready_calls = harness.ready_calls
    assert harness.queue.pop_nowait() is None
    assert f"queue {NAME} failed in pop_nowait; asking again at its next tick" in caplog.text
    harness.wait(1)
    assert harness.ready_calls == ready_calls + 1
    harness.wait(1)
    assert harness.ready_calls == ready_calls + 1
    harness.pop("p")


def test_what_is_no_pod_is_not_popped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness = GuardHarness()
    monkeypatch.setattr(harness.inner, "pop_nowait", lambda: make_pod("p"))
    assert harness.queue.pop_nowait() is None
    assert "where a QueuedPod or None is expected" in caplog.text


def test_a_failed_requeue_adds_the_pod_again(harness: GuardHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.add("p")
    queued = harness.pop("p")
    harness.fail("requeue")
    harness.reject(queued, "A")
    assert "failed in requeue for pod default/p; it will be added again" in caplog.text
    assert harness.flying == []
    harness.wait(1)
    assert harness.queues == {"p": "active"}


def test_a_pod_that_waits_already_is_refused_as_the_interface_has_it() -> None:
    harness = GuardHarness()
    pod = harness.add("p")
    queued = harness.pop("p")
    harness.queue.add(PodInfo(pod))
    with pytest.raises(QueueError, match="already present"):
        harness.reject(queued, "A")
    harness.wait(5)
    assert (harness.queues, harness.flying) == ({"p": "active"}, [])


def test_a_queue_error_of_another_kind_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    harness = GuardHarness()
    harness.add("p")
    queued = harness.pop("p")
    harness.inner.raises = lambda: QueueError("not today")
    harness.fail("requeue")
    harness.reject(queued, "A")
    assert "not today" in caplog.text
    harness.wait(1)
    assert harness.queues == {"p": "active"}


def test_a_pod_is_not_in_flight_for_ever(harness: GuardHarness, caplog: pytest.LogCaptureFixture) -> None:
    harness.add("p")
    queued = harness.pop("p")
    harness.fail("done")
    harness.queue.done(queued.uid)
    assert f"failed in done for pod with uid {queued.uid}; it will be repeated" in caplog.text
    harness.wait(1)
    assert harness.flying == []


@pytest.mark.parametrize("method", ["move", "activate"])
def test_pods_that_waited_for_a_lost_event_are_tried_again(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    harness = GuardHarness()
    pod = harness.add("p")
    harness.reject(harness.pop("p"), "A")
    assert harness.queues == {"p": "unschedulable"}
    harness.fail(method)
    if method == "move":
        harness.queue.move(NODE_ADD, None, None)
        assert "failed in move at event NodeAdd; all pending pods are tried again" in caplog.text
    else:
        harness.queue.activate({"default/p": pod})
        assert "failed in activate for pod default/p; all pending pods" in caplog.text
    assert harness.queues == {"p": "unschedulable"}
    harness.wait(1)
    assert harness.queues == {"p": "backoff"}


def test_one_lost_event_stands_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = GuardHarness()
    seen: list[object] = []

    def move(event: object, *_: object, **__: object) -> NoReturn:
        seen.append(event)
        raise RuntimeError("never")

    monkeypatch.setattr(harness.inner, "move", move)
    for _ in range(12):
        harness.queue.move(NODE_ADD, None, None)
        harness.wait(0.3)
    assert seen.count(LOST_EVENT) == 2, "after one second and two more"


@pytest.mark.parametrize("answer", [None, "soon", math.nan, math.inf, -1.0], ids=str)
def test_a_tick_that_answers_nonsense(
    answer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness = GuardHarness()
    monkeypatch.setattr(harness.inner, "tick", lambda: answer)
    assert harness.queue.tick() == 1.0
    assert "where a number of seconds is expected" in caplog.text


@pytest.mark.parametrize("answer", [0, 0.25, 30])
def test_a_tick_that_says_when(answer: float, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = GuardHarness()
    monkeypatch.setattr(harness.inner, "tick", lambda: answer)
    assert harness.queue.tick() == answer


def test_a_tick_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    harness = GuardHarness()
    harness.fail("tick")
    assert harness.queue.tick() == 1.0
    assert f"queue {NAME} failed in tick; ticking again in 1 s" in caplog.text


def test_a_queue_whose_when_ready_fails_is_tried_at_every_tick() -> None:
    harness = GuardHarness()
    harness.fail("when_ready")
    harness.queue.when_ready(harness.count_ready)
    before = harness.ready_calls
    for _ in range(3):
        harness.wait(1)
    assert harness.ready_calls == before + 3


@pytest.mark.parametrize(
    ("method", "answer"), [("pending_pods", {}), ("in_flight", ()), ("get", None), ("queue_of", "")]
)
def test_failing_reads_return_empty_answers(
    method: str, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    harness = GuardHarness()
    harness.add("p")
    harness.fail(method)
    look = getattr(harness.queue, method)
    assert (look("default/p") if method in ("get", "queue_of") else look()) == answer
    assert f"failed in {method}" in caplog.text


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exception", [asyncio.CancelledError, SystemExit, GeneratorExit], ids=str)
def test_nothing_passes_the_guard(method: str, exception: type[BaseException]) -> None:
    harness = GuardHarness()
    harness.inner.raises = exception
    pod = harness.add("p")
    queued = harness.pop("p") if method in ("requeue", "done") else None
    harness.fail(method)
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: harness.add("q"),
        "update": lambda: harness.queue.update(pod, PodInfo(pod)),
        "delete": lambda: harness.queue.delete(pod),
        "pop_nowait": harness.queue.pop_nowait,
        "requeue": lambda: harness.queue.requeue(queued),  # type: ignore[arg-type]
        "done": lambda: harness.queue.done(pod.metadata.uid),
        "move": lambda: harness.queue.move(NODE_ADD, None, None),
        "activate": lambda: harness.queue.activate({"default/p": pod}),
        "tick": harness.queue.tick,
    }
    calls[method]()
    assert harness.inner.failing == {method: 0}


# In a whole scheduler


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("times", [1, 4])
def test_a_scheduler_goes_on_with_a_queue_that_fails(
    method: str, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Pods that fit are placed, also those that were rejected, changed and brought back meanwhile."""
    made: list[Fragile] = []

    def factory(context: QueueContext) -> Fragile:
        made.append(Fragile(context))
        made[0].failing[method] = times
        return made[0]

    async def scenario() -> None:
        async with running(make_node("n1", cpu="2"), queue=factory) as world:
            await steps(world)
        assert made[0].closed == 1

    async def steps(world: World) -> None:
        for name in ("one", "two", "three"):
            world.api.put(make_pod(name, cpu="1"))
        doomed = world.api.put(make_pod("doomed", cpu="64"))
        await world.quiet(seconds=3)
        world.api.replace(with_metadata(world.pod("doomed"), labels={"a": "b"}))
        await world.quiet(seconds=1)
        world.api.remove(Pod, "default/doomed")
        world.api.put(make_node("n2", cpu="2"))
        await world.bound("one", "two", "three", seconds=400)
        await world.until(lambda: not world.scheduler.queue.in_flight(), seconds=400)
        await world.until(lambda: world.scheduler.queue.get("default/doomed") is None, seconds=400)
        assert doomed.metadata.name == "doomed"

    with caplog.at_level(logging.ERROR):
        run_in_virtual_time(scenario)
    if made[0].failing[method] < times:
        assert f"queue {NAME} failed in {method}" in caplog.text
    elif method != "activate":
        pytest.fail(f"{method} was never called")


def test_a_queue_is_given_what_it_needs_and_closed() -> None:
    """Stores (with a kind that nothing else watches), the API, events and tasks of its own."""
    from kuberth.api.storage import StorageClass

    seen: list[str] = []

    class Curious(PriorityQueue):
        def __init__(self, context: QueueContext) -> None:
            super().__init__(context)
            self._classes = context.stores.of(StorageClass)

        def add(self, info: PodInfo) -> None:
            super().add(info)
            seen.extend(each.metadata.name for each in self._classes)
            self._context.recorder.record(PodEvent(info.pod, "Seen", "Queueing", "hello"))
            self._context.spawn(self._look(), name="a look")

        async def _look(self) -> None:
            nodes = await self._context.api.list(type(make_node("n")))
            seen.append(f"{len(nodes.items)} nodes")

        def close(self) -> None:
            seen.append("closed")

    async def scenario() -> None:
        storage = StorageClass(metadata=make_node("fast").metadata, provisioner="example.com")
        async with running(make_node("n1"), storage, queue=Curious) as world:
            world.api.put(make_pod("p"))
            await world.bound("p")
            await world.until(lambda: bool(world.events("Seen")))

    run_in_virtual_time(scenario)
    assert seen == ["fast", "1 nodes", "closed"]


def test_time_in_the_guard_is_the_clocks() -> None:
    harness = GuardHarness()
    harness.fail("add")
    harness.add("p")
    assert harness.clock.now_ns() == START_NS
    assert harness.queue.tick() == 1.0
    assert harness.queues == {}
    harness.clock.advance(1)
    assert harness.clock.now_ns() == START_NS + NANOSECONDS
    harness.queue.tick()
    assert harness.queues == {"p": "active"}


def test_a_queue_is_closed_also_when_the_scheduler_is_cancelled() -> None:
    made: list[Fragile] = []

    def factory(context: QueueContext) -> Fragile:
        made.append(Fragile(context))
        return made[0]

    async def scenario() -> None:
        scheduler = Scheduler(MemoryApi(), queue=factory)
        running_scheduler = asyncio.create_task(scheduler.run())
        await scheduler.wait_synced()
        running_scheduler.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running_scheduler

    run_in_virtual_time(scenario)
    assert made[0].closed == 1


def test_a_pod_is_deleted_before_it_is_added_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = GuardHarness()
    harness.fail("add")
    pod = harness.add("p")
    calls: list[tuple[str, object]] = []
    monkeypatch.setattr(harness.inner, "done", lambda uid: calls.append(("done", uid)))
    monkeypatch.setattr(harness.inner, "delete", lambda gone: calls.append(("delete", gone)))
    monkeypatch.setattr(harness.inner, "add", lambda info: calls.append(("add", info.pod)))
    harness.wait(1)
    assert calls == [("done", pod.metadata.uid), ("delete", pod), ("add", pod)]
