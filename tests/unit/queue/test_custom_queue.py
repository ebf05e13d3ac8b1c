"""Custom queues, alone and inside a whole scheduler."""

from __future__ import annotations

import ast
import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from kuberth.api.core import Node, Pod
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import NANOSECONDS, LoopClock
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import ConfigError, QueueError
from kuberth.queue.fair_share import FairShareQueue, fair_share
from kuberth.queue.interface import QueueFactory, SchedulingQueue
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.testing import MemoryApi, make_namespace, make_node, make_pod, run_in_virtual_time
from kuberth.testing.harness import running
from tests.unit.queue.fifo import RETRY_SECONDS, Fifo
from tests.unit.queue.harness import NODE_ADD, make_context, queue_of_each, ungated


def test_it_knows_nothing_but_the_interface() -> None:
    tree = ast.parse((Path(__file__).parent / "fifo.py").read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in imported if name and name.startswith("kuberth.queue")} == {
        "kuberth.queue.interface"
    }


def test_a_missing_method_fails_at_construction() -> None:
    class Half(Fifo):
        tick = SchedulingQueue.tick

    with pytest.raises(TypeError, match="tick"):
        Half(make_context())


def test_first_come_first_served() -> None:
    queue = Fifo(make_context())
    gated = make_pod("gated", gates=["wait"])
    for pod in (make_pod("one", priority=1), gated, make_pod("two", priority=9)):
        queue.add(PodInfo(pod))
    assert queue_of_each(queue) == {"one": "active", "two": "active", "gated": "unschedulable"}
    queues = [queue.queue_of(f"default/{name}") for name in ("one", "gated", "unknown")]
    assert queues == ["active", "unschedulable", ""]
    one = queue.pop_nowait()
    assert one is not None
    assert one.pod.metadata.name == "one"
    assert [pod.metadata.name for pod in queue.in_flight()] == ["one"]
    queue.requeue(one)
    with pytest.raises(QueueError):
        queue.requeue(one)
    queue.update(gated, PodInfo(ungated(gated)))
    queue.move(NODE_ADD, None, None)
    assert queue.tick() == RETRY_SECONDS
    names = [queued.pod.metadata.name for _ in range(4) if (queued := queue.pop_nowait()) is not None]
    assert names == ["two", "gated", "one"], "the pod that has waited longer comes back first"
    assert queue.get("default/one") is None


async def _schedule(factory: QueueFactory | None) -> dict[str, str]:
    """Three pods on a node for two; a second node comes later, and a gate opens."""
    api = MemoryApi()
    api.put(make_namespace("default"))
    api.put(make_node("n1", cpu="2"))
    for name in ("one", "two", "three"):
        api.put(make_pod(name, cpu="1"))
    gated = api.put(make_pod("gated", cpu="1", gates=["wait"]))
    scheduler = Scheduler(api, queue=factory, clock=LoopClock(asyncio.get_running_loop()))

    def placed() -> dict[str, str]:
        return {pod.metadata.name: pod.spec.node_name for pod in api.all(Pod) if pod.spec.node_name}

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.run(), name="scheduler")
        async with asyncio.timeout(60):
            while len(placed()) < 2:
                await api.next_change()
        api.put(make_node("n2", cpu="2"))
        current = api.read(Pod, "default/gated")
        assert not current.spec.node_name
        assert gated.metadata.uid == current.metadata.uid
        api.replace(ungated(current))
        async with asyncio.timeout(60):
            while len(placed()) < 4:
                await api.next_change()
        scheduler.stop()
    assert {node.metadata.name for node in api.all(Node)} == {"n1", "n2"}
    return placed()


@pytest.mark.parametrize(
    "factory",
    [None, PriorityQueue, FairShareQueue, fair_share(tenant_label="team", weights={"a": 2}), Fifo],
    ids=["default", "priority", "fair-share", "fair-share-by-label", "fifo"],
)
def test_a_scheduler_runs_on_any_queue(factory: QueueFactory | None) -> None:
    placed = run_in_virtual_time(lambda: _schedule(factory))
    assert sorted(placed.values()) == ["n1", "n1", "n2", "n2"]


def test_each_tick_says_when_the_next_one_is_due() -> None:
    async def scenario() -> None:
        answers, asked = iter([2.0, 7.0, 0.5, 30.0]), []

        class Alarm(Fifo):
            def tick(self) -> float:
                asked.append(self._context.clock.now_ns() / NANOSECONDS)
                return next(answers, 3600.0)

        async with running(queue=Alarm) as world:
            await world.quiet(seconds=100)
        waits = [later - earlier for earlier, later in pairwise(asked)]
        assert waits == pytest.approx([2.0, 7.0, 0.5, 30.0])

    run_in_virtual_time(scenario)


def test_what_is_no_queue_is_refused() -> None:
    with pytest.raises(ConfigError, match="which is not a kuberth"):
        Scheduler(MemoryApi(), queue=lambda _context: object())  # type: ignore[arg-type, return-value]
