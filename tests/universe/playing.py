"""Plays a universe: real schedulers over a recorded cluster, on virtual time.

In: a `Universe`. Out: its story. All randomness comes from the seed, so that a universe has one story.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec

from kuberth.api.core import Node, Pod
from kuberth.api.wire import convert, to_builtins
from kuberth.assembly.profiles import full_registry
from kuberth.assembly.scheduler import Scheduler
from kuberth.client.fencing import FencedApi
from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.config import load
from kuberth.config.types import LeaderElectionConfiguration
from kuberth.errors import ApiError, KuberthError, LeadershipLost, NotFoundError
from kuberth.framework.registry import Registry
from kuberth.programs.run.leader_election import LeaderElector
from kuberth.testing import make_namespace
from tests.universe.cluster import Cluster, Story
from tests.universe.drawing import SPAN_SECONDS, Fault, Step, Universe
from tests.universe.network import Network, PostingNetwork
from tests.universe.plugins import Failing, Holding, Witness, WitnessedPreemption

GATES: Final[dict[str, bool]] = {}
PROFILES: Final = ("default-scheduler", "second")
RESTART_SECONDS: Final = (0.2, 15.0)
MAX_KILL_TURNS: Final = 60
"""A process is killed up to this many turns of the event loop after its time has come: at any await."""


def play(universe: Universe) -> list[dict[str, Any]]:
    """The story of a universe."""

    async def main() -> list[dict[str, Any]]:
        return await _Play(universe).run()

    with _seeded(universe.seed), _quiet():
        return run_in_virtual_time(main)


def digest(story: Sequence[dict[str, Any]]) -> str:
    """A short text that is equal for equal stories alone."""
    return hashlib.sha256(json.dumps(story, sort_keys=True).encode()).hexdigest()[:16]


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Generators without a seed of their own are seeded from the universe, too."""
    seeds = random.Random(f"unseeded {seed}")
    plain = random.Random

    class Seeded(plain):  # type: ignore[misc,valid-type]  # a class that is a variable
        def __init__(self, given: Any = None) -> None:
            super().__init__(seeds.random() if given is None else given)

    random.Random = Seeded  # type: ignore[misc,assignment]  # for as long as the universe lasts
    try:
        yield
    finally:
        random.Random = plain  # type: ignore[misc]


@contextmanager
def _quiet() -> Iterator[None]:
    """The scheduler logs every fault; the story has them."""
    logger = logging.getLogger("kuberth")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Play:
    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.clock = LoopClock(asyncio.get_running_loop())
        self.story = Story(self.clock)
        self.cluster = Cluster(self.story, clock=self.clock, feature_gates=GATES)
        self.rng = random.Random(f"play {universe.seed}")
        self.replicas = [Replica(self, name) for name in "ab"[: universe.replicas]]

    async def run(self) -> list[dict[str, Any]]:
        universe, story = self.universe, self.story
        story.note("begin", seed=universe.seed, replicas=universe.replicas)
        users = Users(self.cluster, self.rng)
        for name in ("default", "other", "kube-system"):
            self.cluster.put(make_namespace(name))
        for tree in universe.nodes:
            users.add_node(tree)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(users.reap(), name="kubelets"),
                *(tasks.create_task(each.live(), name=f"replica {each.name}") for each in self.replicas),
                *(tasks.create_task(self._strike(fault), name=fault.kind) for fault in universe.faults),
            ]
            for step in universe.steps:
                await asyncio.sleep(max(0.0, step.at - loop.time()))
                users.carry_out(step)
            await asyncio.sleep(max(0.0, SPAN_SECONDS - loop.time()))
            story.note("calm")
            await asyncio.sleep(universe.calm_seconds)
            self._note_end()
            for replica in self.replicas:
                replica.ends = True
                replica.stop()
            for task in background:
                task.cancel()
        return story.entries

    async def _strike(self, fault: Fault) -> None:
        """Carry out a fault that is no property of the network or of a plugin."""
        if fault.kind not in ("kill", "evicted plans", "reload"):
            return
        rng = random.Random(f"{fault.kind} {fault.start} {self.universe.seed}")
        await asyncio.sleep(fault.start)
        for replica in self.replicas:
            if fault.replica not in ("", replica.name):
                continue
            if fault.kind == "kill":
                for _ in range(rng.randrange(MAX_KILL_TURNS)):
                    await asyncio.sleep(0)
                replica.kill()
            else:
                while self.story.now < fault.end:
                    if fault.kind == "reload":
                        await replica.reload(percentage=rng.choice((0, 30, 100)))
                    else:
                        replica.evict_plans()
                    await asyncio.sleep(rng.uniform(0.001, 1.0))

    def _note_end(self) -> None:
        books = [each.books() for each in self.replicas if each.leads]
        profiles = list(PROFILES[: self.universe.profiles])
        self.story.note("end", profiles=profiles, leader=books[0] if len(books) == 1 else None)


class Replica:
    """A scheduler that is started again whenever it ends."""

    def __init__(self, play: _Play, name: str) -> None:
        self.name = name
        self.ends = False
        self._play = play
        self._rng = random.Random(f"replica {name} {play.universe.seed}")
        self._starts = 0
        self._network: Network | None = None
        self._scheduler: Scheduler | None = None
        self._elector: LeaderElector | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def leads(self) -> bool:
        return self._scheduler is not None and (self._elector is None or self._elector.may_write())

    async def live(self) -> None:
        while not self.ends:
            self._starts += 1
            async with asyncio.TaskGroup() as tasks:
                self._task = tasks.create_task(self._process(f"scheduler-{self.name}-{self._starts}"))
            self._scheduler = None
            await asyncio.sleep(self._rng.uniform(*RESTART_SECONDS))

    async def _process(self, by: str) -> None:
        universe, story = self._play.universe, self._play.story
        story.note("process", by=by, what="starts")
        seed = f"{by} {universe.seed}"
        network = self._network = self._connect(PostingNetwork if universe.posts else Network, by, "requests")
        elector = None
        if universe.replicas > 1:
            elector = LeaderElector(
                self._connect(Network, by, "lease"),
                settings=LeaderElectionConfiguration(),
                identity=by,
                clock=self._play.clock,
                rng=random.Random(f"elector {seed}"),
            )
        self._elector = elector
        scheduler = self._scheduler = Scheduler(
            network if elector is None else FencedApi(network, elector.may_write),
            events_api=self._connect(Network, by, "events"),
            config=load(_configuration(universe)),
            registry=self._registry(network, seed),
            clock=self._play.clock,
            rng=random.Random(f"scheduler {seed}"),
            max_unschedulable_seconds=universe.max_unschedulable_seconds,
        )
        leading = asyncio.Event()
        what = "ends"
        try:
            async with asyncio.TaskGroup() as tasks:
                running = tasks.create_task(scheduler.run(begin=_Wait(leading)), name="scheduler")
                if elector is None:
                    leading.set()
                else:
                    tasks.create_task(self._lead(elector, leading, running), name="leader election")
                    running.add_done_callback(lambda _: self._task and self._task.cancel())
        except asyncio.CancelledError:
            what = "ends" if not network.dead else "is killed"
        except BaseExceptionGroup as group:
            _, rest = group.split(LeadershipLost)
            what = "loses the lease"
            if rest is not None:
                story.note("error", by=by, what=repr(rest.exceptions[0]))
        finally:
            network.dead = True
            if not self.ends:
                story.note("process", by=by, what=what)
        if current := asyncio.current_task():
            current.uncancel()

    async def _lead(
        self, elector: LeaderElector, leading: asyncio.Event, running: asyncio.Task[None]
    ) -> None:
        await elector.acquire()
        self._play.story.note("process", by=elector.identity, what="leads")
        leading.set()
        await elector.hold()

    def _connect(self, kind: type[Network], by: str, purpose: str) -> Network:
        universe = self._play.universe
        return kind(
            self._play.cluster, by, faults=list(universe.faults), seed=f"{purpose} {by} {universe.seed}"
        )

    def _registry(self, network: Network, seed: str) -> Registry:
        universe, story = self._play.universe, self._play.story
        known = full_registry()
        factories = {name: known[name] for name in known}
        factories["DefaultPreemption"] = partial(
            WitnessedPreemption, story=story, network=network, seed=f"preemption {seed}"
        )
        factories["Witness"] = lambda _args, _handle: Witness(story, network)
        factories["Failing"] = lambda _args, _handle: Failing(story, network, universe.faults, seed=seed)
        factories["Holding"] = lambda _args, handle: Holding(handle, story=story, seed=seed)
        return Registry(factories)

    def kill(self) -> None:
        """The process ends here and now; what it has sent may still arrive."""
        if self._task is not None and self._network is not None and not self._task.done():
            self._network.dead = True
            self._task.cancel()

    def stop(self) -> None:
        if self._scheduler is not None:
            self._scheduler.stop()

    async def reload(self, *, percentage: int) -> None:
        """Give the scheduler another configuration; one that has ended keeps its own."""
        if self._scheduler is None or self._network is None or self._network.dead:
            return
        tree = {**_configuration(self._play.universe), "percentageOfNodesToScore": percentage}
        self._play.story.note("process", by=self._network.by, what="reloads")
        with suppress(KuberthError):
            await self._scheduler.reconfigure(load(tree))

    def evict_plans(self) -> None:
        for runner in () if self._scheduler is None else self._scheduler.runners.values():
            if runner.plans is not None:
                runner.plans.clear()

    def books(self) -> dict[str, Any]:
        """What the scheduler keeps, as counts."""
        scheduler = self._scheduler
        assert scheduler is not None
        queue, cluster = scheduler.queue, scheduler.cluster
        return {
            "nodes": cluster.node_count,
            "placed pods": cluster.placed_count,
            "assumed pods": cluster.assumed_count,
            "in flight": sorted(pod.metadata.name for pod in queue.in_flight()),
            "waiting on Permit": len(scheduler.waiting_pods),
            "bindings under way": len(scheduler._binding.under_way),
            "queued": sorted(queued.key for pods in queue.pending_pods().values() for queued in pods),
            "nominations": sorted(uid for pods in scheduler.nominator.by_node.values() for uid in pods),
        }


class _Wait:
    """Waits for an event when it is awaited, and needs not be."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._event.wait().__await__()


def _configuration(universe: Universe) -> dict[str, Any]:
    enabled = ["Witness"]
    if any(fault.kind == "plugin" for fault in universe.faults):
        enabled.append("Failing")
    if universe.permits:
        enabled.append("Holding")
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in enabled]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": universe.percentage_of_nodes_to_score,
        "profiles": [{"schedulerName": name, "plugins": plugins} for name in PROFILES[: universe.profiles]],
    }


class Users:
    """Users, kubelets and node controllers: whatever changes the cluster besides the scheduler."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._pods = 0

    def carry_out(self, step: Step) -> None:
        """Do it, unless what it changes is not there."""
        with suppress(ApiError):
            self._carry_out(step)

    def add_node(self, tree: dict[str, Any]) -> None:
        self._cluster.put(convert(Node, tree))

    def _carry_out(self, step: Step) -> None:
        cluster, name, tree = self._cluster, step.name, step.tree
        match step.verb:
            case "create pod":
                cluster.put(convert(Pod, tree))
            case "delete pod":
                self._delete(name)
            case "recreate pod":
                old = to_builtins(cluster.read(Pod, name))
                cluster.remove(Pod, name)
                old["metadata"] = {part: old["metadata"][part] for part in ("name", "namespace", "labels")}
                old["spec"].pop("nodeName", None)
                cluster.put(convert(Pod, {**old, "status": {"phase": "Pending"}}))
            case "finish pod":
                if cluster.read(Pod, name).spec.node_name:
                    self._change(Pod, name, {"status": {"phase": "Succeeded"}})
            case "ungate pod":
                pod = cluster.read(Pod, name)
                cluster.change(
                    Pod,
                    name,
                    lambda _: msgspec.structs.replace(
                        pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=())
                    ),
                )
            case "relabel pod" | "relabel node":
                self._change(Pod if step.verb == "relabel pod" else Node, name, {"metadata": tree})
            case "taint node" | "cordon node":
                self._change(Node, name, {"spec": tree})
            case "resize node":
                self._change(Node, name, {"status": tree})
            case "remove node":
                cluster.remove(Node, name)
                delay = self._rng.uniform(1.0, 20.0)
                asyncio.get_running_loop().call_later(delay, self._collect_pods, name)
            case "add node":
                self.add_node(tree)
            case "drain node":
                self._change(Node, name, {"spec": {"unschedulable": True}})
                for pod in cluster.all(Pod):
                    if pod.spec.node_name == name:
                        self._delete(f"{pod.metadata.namespace}/{pod.metadata.name}")
            case verb:
                raise ValueError(verb)

    def _change(self, kind: type[Any], key: str, changes: dict[str, dict[str, Any]]) -> None:
        tree = to_builtins(self._cluster.read(kind, key))
        for part, fields in changes.items():
            for name, value in fields.items():
                keeps = name == "labels" and kind is Pod
                tree.setdefault(part, {})[name] = {**tree[part].get(name, {}), **value} if keeps else value
        self._cluster.replace(convert(kind, tree))

    def _delete(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        work = self._cluster.delete(Pod, name, namespace=namespace)
        with suppress(StopIteration):
            work.send(None)

    def _collect_pods(self, node_name: str) -> None:
        """The garbage collector of pods: those of a node that has not come back are removed."""
        if all(node.metadata.name != node_name for node in self._cluster.all(Node)):
            for pod in self._cluster.all(Pod):
                if pod.spec.node_name == node_name:
                    self._remove(f"{pod.metadata.namespace}/{pod.metadata.name}", pod.metadata.uid)

    async def reap(self) -> None:
        """Kubelets: a pod that was marked is removed some time later."""
        removals: set[str] = set()
        loop = asyncio.get_running_loop()
        async for event in self._cluster.watch(Pod, resource_version="0"):
            pod = event.object
            if pod is None or pod.metadata.deletion_timestamp is None or pod.metadata.uid in removals:
                continue
            removals.add(pod.metadata.uid)
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            loop.call_later(self._rng.uniform(0.01, 20.0), self._remove, key, pod.metadata.uid)

    def _remove(self, key: str, uid: str) -> None:
        with suppress(NotFoundError):
            if self._cluster.read(Pod, key).metadata.uid == uid:
                self._cluster.remove(Pod, key)
