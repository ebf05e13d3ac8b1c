"""The two cycles and a queue around a framework of the plugins under test; nothing runs by itself."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from kuberth.api.core import Pod, PodCondition
from kuberth.binding.cycle import BindingCycle
from kuberth.client.adaptive_limit import AdaptiveLimit
from kuberth.clock import Clock
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import Plugin, QueuedPod, Runner
from kuberth.holding import Hold
from kuberth.informers.store import Store
from kuberth.outcomes.failure_handling import FailureHandler
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.extended_cycle import ExtendedCycle
from kuberth.scheduling.loop import SchedulingLoop
from kuberth.testing import FakeClock
from tests.unit.framework.harness import Framework, framework
from tests.unit.queue.harness import make_context


@dataclass
class Written:
    """A status writer that notes instead of writing."""

    writes: list[tuple[str, PodCondition | None, str | None]] = field(default_factory=list)

    def is_writing(self, _uid: str) -> bool:
        return False

    async def finish(self, _uid: str) -> None:
        pass

    def write(self, pod: Pod, *, condition: PodCondition | None, nomination: str | None) -> bool:
        self.writes.append((pod.metadata.name, condition, nomination))
        return False


@dataclass
class CycleHarness:
    made: Framework
    queue: PriorityQueue
    pods: Store[Pod]
    written: Written
    cycle: SchedulingCycle
    failures: FailureHandler
    binding: BindingCycle
    loop: SchedulingLoop
    placements: list[Placement]
    hold: Hold

    @property
    def runner(self) -> Runner:
        return self.made.runner

    def add(self, *pods: Pod) -> None:
        """Pods arrive: in the API, in the store of the last versions, in the queue."""
        for pod in pods:
            stored = self.made.api.put(pod)
            self.pods.set(stored)
            self.queue.add(PodInfo(stored))

    def pop(self) -> QueuedPod:
        queued = self.queue.pop_nowait()
        assert queued is not None
        return queued

    def decide(self, pod: Pod) -> Placement | Rejection:
        """One scheduling cycle for a new pod."""
        self.add(pod)
        return self.cycle.run(self.pop(), self.runner)

    def place(self, pod: Pod) -> Placement:
        placement = self.decide(pod)
        assert isinstance(placement, Placement), placement
        return placement

    def reject(self, pod: Pod) -> Rejection:
        rejection = self.decide(pod)
        assert isinstance(rejection, Rejection), rejection
        return rejection

    def queues(self) -> dict[str, list[str]]:
        """The names of waiting pods by queue, without empty queues."""
        queues = self.queue.pending_pods().items()
        return {
            queue: [queued.pod.metadata.name for queued in waiting] for queue, waiting in queues if waiting
        }


def make_harness(
    *plugins: type[Plugin],
    clock: Clock | None = None,
    percentage_of_all: int | None = None,
    rng: random.Random | None = None,
    announce_nomination: bool = False,
    check_every: int = 0,
    **options: Any,
) -> CycleHarness:
    clock = FakeClock() if clock is None else clock
    made = framework(*plugins, clock=clock, **options)
    name = made.profile.scheduler_name
    queue = PriorityQueue(
        make_context(
            clock,
            sort=made.profile.queue_sort,
            cluster=made.cluster,
            nominator=made.nominator,
            metrics=made.metrics,
            stores=made.handle.stores,
            api=made.api,
            recorder=made.outside,
            spawn=made.outside.spawn,
            pre_enqueue=lambda pod, first: made.runner.run_pre_enqueue(pod, first=first),
            hints=made.profile.hints,
        )
    )
    written = Written()
    pods = made.handle.stores.of(Pod)
    cycle = SchedulingCycle(
        made.cluster,
        nominator=made.nominator,
        metrics=made.metrics,
        percentage_of_nodes_to_score=percentage_of_all,
        rng=random.Random(1) if rng is None else rng,
        check_every=check_every,
    )
    failures = FailureHandler(
        queue=queue,
        nominator=made.nominator,
        pods=pods,
        recorder=made.outside,
        writer=written,
        metrics=made.metrics,
    )
    hold = Hold()
    binding = BindingCycle(
        queue=queue,
        cluster=made.cluster,
        waiting_pods=made.waiting_pods,
        failures=failures,
        recorder=made.outside,
        writer=written,
        metrics=made.metrics,
        clock=clock,
        spawn=made.outside.spawn,
        announce_nomination=announce_nomination,
        limit=AdaptiveLimit(clock),
        hold=hold,
    )
    placements: list[Placement] = []
    loop = SchedulingLoop(
        queue=queue,
        cluster=made.cluster,
        runners={name: made.runner},
        cycle=cycle,
        failures=failures,
        recorder=made.outside,
        bind=placements.append,
        may_bind=lambda: True,
        extended=ExtendedCycle(
            cycle,
            cluster=made.cluster,
            nominator=made.nominator,
            stores=made.handle.stores,
            derive=PodInfo,
            metrics=made.metrics,
        ),
        spawn=made.outside.spawn,
    )
    return CycleHarness(made, queue, pods, written, cycle, failures, binding, loop, placements, hold)
