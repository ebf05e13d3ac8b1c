"""`python -m benchmarks.preemption`: what a preemptor costs in a cluster full of pods of lower priority.

In: a cluster table whose nodes are full, and preemptors, no API server. Out: CPU milliseconds a preemptor by
kind, from its first cycle to its node: search (PreFilter, Filter), making room (PostFilter), the evictions,
and the second cycle that places it; and how many that are in a second.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import gc
import random
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kuberth.api.core import Pod
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.wire import convert
from kuberth.assembly.profiles import assemble, full_registry
from kuberth.clock import SystemClock
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.config import FeatureGates, default_configuration
from kuberth.evaluation.evaluator import DryRunApi
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.handle import Handle, PodEvent
from kuberth.framework.nominator import Nominator
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.informers.store import Stores
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.testing import make_node, make_pod

PODS_PER_NODE: Final = 4
APPS: Final = 2000
"""Distinct labels of the pods that are there already, and budgets, where there are any."""
WARM_UP: Final = 20
PRIORITY: Final = 100
STARTED: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Kind(NamedTuple):
    """What the preemptors of a run have in common."""

    budgets: int = 0
    """How many disruption budgets there are; each allows one disruption, and then none."""
    replicas: bool = True
    """Whether all preemptors are of one template, so that one may profit from what another found."""
    linger: bool = False
    """Whether victims, and with them the nominations of preemptors, stay until the run ends."""
    cpu: str = "900m"
    hopeless: bool = False
    """Whether the pod would not fit if all pods of lower priority left."""


KINDS: Mapping[str, Kind] = {
    "replicas": Kind(),
    "2000 budgets": Kind(budgets=2000),
    "all different": Kind(replicas=False),
    "victims linger": Kind(linger=True),
    "hopeless": Kind(cpu="3900m", hopeless=True),
    "hopeless, different": Kind(cpu="3900m", hopeless=True, replicas=False),
}
PARTS: Final = ("search", "make room", "evict", "place")


def main() -> None:
    options = _parser().parse_args()
    print(f"{'CPU ms a preemptor':<22}" + "".join(f"{part:>12}" for part in (*PARTS, "all", "pods/s")))
    for name in options.kinds:
        seconds = _measure(KINDS[name], nodes=options.nodes, pods=options.pods)
        costs = [1e3 * seconds[part] / options.pods for part in PARTS]
        figures = (*costs, sum(costs), 1e3 / sum(costs))
        print(f"{name:<22}" + "".join(f"{figure:>12.2f}" for figure in figures), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preemption", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000, metavar="N")
    parser.add_argument("--pods", type=int, default=300, metavar="N", help="preemptors of each kind (300)")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    return parser


def _measure(kind: Kind, *, nodes: int, pods: int) -> Mapping[str, float]:
    """CPU seconds by part of the way, of all preemptors together."""
    with asyncio.Runner() as loop:
        cluster = _Cluster(kind, nodes, loop)
        waiting = [cluster.preemptor(number) for number in range(WARM_UP + pods)]
        for info in waiting[:WARM_UP]:
            cluster.schedule(info)
        cluster.seconds = dict.fromkeys(PARTS, 0.0)
        gc.collect()
        for info in waiting[WARM_UP:]:
            cluster.schedule(info)
        return cluster.seconds


class _Cluster:
    """A cluster without room, and the scheduler's parts over it."""

    def __init__(self, kind: Kind, nodes: int, loop: asyncio.Runner) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._kind = kind
        self._loop = loop
        self._table = ClusterTable()
        self._nominator = Nominator()
        self._stores = Stores()
        self._api = DryRunApi(self._stores)
        self._evictions: list[Coroutine[Any, Any, None]] = []
        metrics = SchedulerMetrics()
        handle = Handle(
            api=self._api,
            stores=self._stores,
            cluster=self._table,
            clock=SystemClock(),
            feature_gates=FeatureGates(),
            waiting_pods=WaitingPods(),
            nominator=self._nominator,
            activator=_Silent(),
            recorder=_Silent(),
            spawn=lambda work, *, name: self._evictions.append(work),
            metrics=metrics,
        )
        runners = assemble(default_configuration(), registry=full_registry(), handle=handle, metrics=metrics)
        self._runner = next(iter(runners.values()))
        self._cycle = SchedulingCycle(
            self._table, nominator=self._nominator, metrics=metrics, rng=random.Random(1)
        )
        self._fill(nodes)

    def _fill(self, nodes: int) -> None:
        for number in range(nodes):
            self._table.set_node(make_node(f"node-{number}", cpu="4", memory="32Gi"))
            if self._kind.hopeless:
                self._run(make_pod(f"vital-{number}", node=f"node-{number}", cpu="400m", priority=1000))
            for place in range(PODS_PER_NODE):
                identity = number * PODS_PER_NODE + place
                self._run(
                    make_pod(
                        f"low-{identity}",
                        node=f"node-{number}",
                        cpu="900m",
                        memory="500Mi",
                        priority=place % 2,
                        labels={"app": f"app-{identity % APPS}"},
                        status={"startTime": (STARTED + datetime.timedelta(seconds=identity)).isoformat()},
                    )
                )
        for number in range(self._kind.budgets):
            self._stores.of(PodDisruptionBudget).set(_budget(number))

    def _run(self, pod: Pod) -> None:
        self._stores.of(Pod).set(pod)
        self._table.add_pod(PodInfo(pod))

    def preemptor(self, number: int) -> PodInfo:
        memory = "500Mi" if self._kind.replicas else str(500 * 2**20 - number)
        pod = make_pod(f"preemptor-{number}", cpu=self._kind.cpu, memory=memory, priority=PRIORITY)
        self._stores.of(Pod).set(pod)
        return PodInfo(pod)

    def schedule(self, info: PodInfo) -> None:
        """From the first cycle to the node; the pods of the cluster are as full of pods as before."""
        state = CycleState(info)
        diagnosis = Diagnosis()
        with self._timed("search"):
            found = self._cycle.search(state, info.pod, self._runner, diagnosis)
        if not isinstance(found, tuple) or len(found[0]):
            raise SystemExit("a preemptor fits without preemption")
        with self._timed("make room"):
            result, status = self._cycle.run_post_filter(state, info.pod, self._runner, diagnosis)
        if self._kind.hopeless:
            return
        if result is None or not result.nominated_node:
            raise SystemExit(f"preemption does not help: {status.message}")
        with self._timed("evict"):
            self._nominator.nominate(info, result.nominated_node)
            self._loop.run(self._evict())
        self._notice_deletions()
        if not self._kind.linger:
            with self._timed("place"):
                self._place(info, result.nominated_node)

    async def _evict(self) -> None:
        while self._evictions:
            await self._evictions.pop()

    def _notice_deletions(self) -> None:
        pods = self._stores.of(Pod)
        for key in self._api.undo_deletions():
            pod = pods.get_by_key(key)
            assert pod is not None
            if self._kind.linger:
                leaving = replace(pod.metadata, deletion_timestamp=STARTED)
                self._run(replace(pod, metadata=leaving))
            else:
                pods.remove(pod)
                self._table.remove_pod(pod.metadata.uid)
            if self._kind.budgets:
                number = int(pod.metadata.labels["app"].removeprefix("app-"))
                self._stores.of(PodDisruptionBudget).set(_budget(number, allowed=0))

    def _place(self, info: PodInfo, node_name: str) -> None:
        pod = replace(info.pod, status=replace(info.pod.status, nominated_node_name=node_name))
        state = CycleState(info)
        found = self._cycle.search(state, pod, self._runner, Diagnosis())
        if not isinstance(found, tuple) or found[0].names() != [node_name]:
            raise SystemExit("a preemptor does not fit on the node that was cleared for it")
        self._table.assume_pod(info.placed_on(node_name))
        self._nominator.withdraw(pod)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.seconds[part] += time.process_time() - started


def _budget(number: int, *, allowed: int = 1) -> PodDisruptionBudget:
    return convert(
        PodDisruptionBudget,
        {
            "metadata": {"name": f"budget-{number}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": f"app-{number}"}}},
            "status": {"disruptionsAllowed": allowed},
        },
    )


class _Silent:
    """An activator and an event recorder that do nothing."""

    def activate(self, pods: Mapping[str, Pod]) -> None:
        pass

    def record(self, event: PodEvent) -> None:
        pass


if __name__ == "__main__":
    main()
