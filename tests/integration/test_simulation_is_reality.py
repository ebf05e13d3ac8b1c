"""One scenario thrice: as `simulate` plays it, and on the embedded cluster's API in virtual and in real time.

All give the same placements, and every pod the same way through the scheduling queues. In real time, what
may happen in either order happens further apart than a busy machine is late. If it was later than that, the
machine did not keep the scenario's time, and the scenario is played again.
"""

from __future__ import annotations

import asyncio

import pytest

from kuberth.api.core import Pod
from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.queued_pod import QueuedPod
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.in_process import InProcessApi
from kuberth.queue.interface import PreCheck, QueueContext
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.running import Scenario, SimulationApi, SimulationRun
from tests.unit.simulation.harness import scene

BATCHES, BATCH = 20, 15
PERIOD = 1.13
"""Seconds between two batches; no multiple of a backoff."""
ENDS = (0.37, 0.74)
"""So long after a batch a pod ends: one at a time."""
LATE = 0.1
TRIES = 5
SEED = 11


class Diary:
    """Where the pods of a queue went."""

    def __init__(self) -> None:
        self.ways: dict[str, list[str]] = {}
        self.placed: dict[str, str] = {}
        self._queues: dict[str, str] = {}

    def queue(self, context: QueueContext) -> PriorityQueue:
        return _Watched(context, self)

    def note(self, queue: PriorityQueue) -> None:
        queues = {queued.key: name for name, pods in queue.pending_pods().items() for queued in pods}
        for key in queues.keys() | self._queues.keys():
            if queues.get(key) != self._queues.get(key):
                self.ways.setdefault(key, []).append(queues.get(key, "out"))
        self._queues = queues


class _Watched(PriorityQueue):
    def __init__(self, context: QueueContext, diary: Diary) -> None:
        super().__init__(context)
        self._diary = diary

    def add(self, info: PodInfo) -> None:
        super().add(info)
        self._diary.note(self)

    def pop_nowait(self) -> QueuedPod | None:
        queued = super().pop_nowait()
        self._diary.note(self)
        return queued

    def requeue(self, queued: QueuedPod) -> None:
        super().requeue(queued)
        self._diary.note(self)

    def move(
        self, event: ClusterEvent, old: object, new: object, *, pre_check: PreCheck | None = None
    ) -> None:
        super().move(event, old, new, pre_check=pre_check)
        if isinstance(new, Pod) and new.spec.node_name:
            self._diary.placed[new.metadata.name] = new.spec.node_name
        self._diary.note(self)

    def tick(self) -> float:
        seconds = super().tick()
        self._diary.note(self)
        return seconds


def scenario(diary: Diary) -> Scenario:
    """Nodes fill up; what comes later waits for one of the first to end."""
    ends = iter([0.1 + PERIOD * batch + end for batch in range(6, BATCHES) for end in ENDS])
    arrivals = []
    for number in range(BATCHES * BATCH):
        at = 0.1 + PERIOD * (number // BATCH)
        end = next(ends, None) if number % 3 == 1 and number < 6 * BATCH else None
        arrivals.append(
            Arrival(
                round(at, 6),
                None if end is None else round(end - at, 6),
                name=f"p-{number:03d}",
                requests={"cpu": ("500m", "2", "1")[number % 3]},
            )
        )
    return scene(*arrivals, nodes=20, cpu="8", queue=diary.queue, until=PERIOD * (BATCHES + 1))


def in_virtual_time() -> Diary:
    diary = Diary()

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        await SimulationRun(scenario(diary), SimulationApi(clock=clock, steady=True), seed=SEED).run()

    run_in_virtual_time(main)
    return diary


def on_the_embedded_server() -> Diary:
    """In virtual time."""
    diary = Diary()

    async def main() -> None:
        store = await RevisionStore.open(None)
        try:
            core = Core(store, clock=LoopClock(asyncio.get_running_loop()))
            await SimulationRun(scenario(diary), InProcessApi(core), seed=SEED).run()
        finally:
            await store.close()

    run_in_virtual_time(main)
    return diary


async def in_real_time() -> tuple[Diary, float]:
    """And how late the loop was at worst."""
    diary, loop = Diary(), asyncio.get_running_loop()
    late = 0.0

    async def look_at_the_time() -> None:
        nonlocal late
        while True:
            due = loop.time() + 0.01
            await asyncio.sleep(0.01)
            late = max(late, loop.time() - due)

    store = await RevisionStore.open(None)
    try:
        # The queue's whole seconds are those of the scenario's beginning, as in virtual time.
        clock = LoopClock(loop)
        await asyncio.sleep(1 - loop.time() % 1)
        looking = asyncio.ensure_future(look_at_the_time())
        await SimulationRun(scenario(diary), InProcessApi(Core(store, clock=clock)), seed=SEED).run()
        looking.cancel()
    finally:
        await store.close()
    return diary, late


def test_simulation_is_what_the_embedded_server_gives() -> None:
    expected, diary = in_virtual_time(), on_the_embedded_server()
    assert len(expected.ways) == BATCHES * BATCH
    assert any("unschedulable" in way for way in expected.ways.values())
    assert diary.placed == expected.placed
    assert diary.ways == expected.ways


@pytest.mark.scale  # real time: a machine that others use does not keep it
def test_simulation_is_reality() -> None:
    expected = in_virtual_time()
    lateness = []
    for _ in range(TRIES):
        diary, late = asyncio.run(in_real_time())
        lateness.append(round(late, 3))
        if late < LATE or (diary.placed, diary.ways) == (expected.placed, expected.ways):
            break
    assert diary.placed == expected.placed, f"the loop was late by {lateness} s"
    assert diary.ways == expected.ways, f"the loop was late by {lateness} s"
