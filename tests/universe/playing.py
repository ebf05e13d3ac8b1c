"""Plays a universe: real schedulers over a recorded cluster, on virtual time.

In: a `Universe`. Out: its story. All randomness comes from the seed, so that a universe has one story.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec

from kuberth.api.coordination import Lease
from kuberth.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.kinds import REGISTRY
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kuberth.api.scheduling import PodGroup
from kuberth.api.storage import CSINode, StorageClass
from kuberth.api.wire import convert, to_builtins
from kuberth.assembly.profiles import full_registry
from kuberth.assembly.scheduler import Scheduler
from kuberth.client.fencing import FencedApi
from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.config import load
from kuberth.config.types import LeaderElectionConfiguration
from kuberth.errors import ApiError, KuberthError, LeadershipLost, NotFoundError
from kuberth.framework.handle import Handle
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.registry import Registry
from kuberth.programs.run.leader_election import LeaderElector
from kuberth.queue import slices
from kuberth.testing import make_namespace
from tests.universe.cluster import Cluster, JumpingClock, Story
from tests.universe.controllers import Controllers
from tests.universe.extending import PlayedExtender
from tests.universe.network import Network, PostingNetwork, pause
from tests.universe.parts import SPAN_SECONDS, Fault, Step, Universe
from tests.universe.plugins import (
    Activating,
    Failing,
    Holding,
    License,
    Licensing,
    Sealed,
    Witness,
    WitnessedPreemption,
    WitnessedRepetitions,
)

GANG_GATES: Final = {"GenericWorkload": True, "GangScheduling": True}
KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        CSINode,
        DeviceClass,
        License,
        PersistentVolume,
        PersistentVolumeClaim,
        PodDisruptionBudget,
        PodGroup,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
        StorageClass,
    )
}
LOOK_SECONDS: Final = (0.5, 3.0)
CALM_LOOK_SECONDS: Final = (5.0, 20.0)
MAX_SKEW_SECONDS: Final = 3600.0
MAX_LOOKS: Final = 1000
"""How often the end looks for a moment at which no pod is being tried."""
PROFILES: Final = ("default-scheduler", "second")
RESTART_SECONDS: Final = (0.2, 15.0)
MAX_KILL_TURNS: Final = 60
"""A process is killed up to this many turns of the event loop after its time has come: at any await."""


def play(universe: Universe) -> list[dict[str, Any]]:
    """The story of a universe."""

    async def main() -> list[dict[str, Any]]:
        played = _Play(universe)
        with _logged(played.story), suppress(asyncio.CancelledError):
            await played.run()
        return played.story.entries

    with _seeded(universe.seed), _hurried(universe):
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
def _hurried(universe: Universe) -> Iterator[None]:
    """Events of the queue are dealt with in small portions in some universes."""
    before = slices.WORK_AT_ONCE
    slices.WORK_AT_ONCE = universe.work_at_once or before  # type: ignore[misc]  # for as long as the universe lasts
    try:
        yield
    finally:
        slices.WORK_AT_ONCE = before  # type: ignore[misc]  # as before


class _Logging(logging.Handler):
    """Writes errors that the scheduler logs into the story."""

    def __init__(self, story: Story) -> None:
        super().__init__(logging.ERROR)
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        about = str(record.args[0]) if isinstance(record.args, tuple) and record.args else ""
        self._story.note("log", what=record.msg, about=about, cause="" if cause is None else repr(cause))


@contextmanager
def _logged(story: Story) -> Iterator[None]:
    """The scheduler logs every fault; the story has the errors alone."""
    logger = logging.getLogger("kuberth")
    before = logger.level, logger.propagate
    handler = _Logging(story)
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


class _Play:
    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.clock = LoopClock(asyncio.get_running_loop())
        self.story = Story(self.clock)
        self.server_clock = JumpingClock(self.clock)
        gates = GANG_GATES if universe.gangs else {}
        self.cluster = Cluster(self.story, clock=self.server_clock, feature_gates=gates)
        self.rng = random.Random(f"play {universe.seed}")
        self.replicas = [Replica(self, name) for name in "ab"[: universe.replicas]]
        self.story.look = self._look
        main = asyncio.current_task()
        if main is not None:
            self.story.give_up = main.cancel

    async def run(self) -> list[dict[str, Any]]:
        universe, story = self.universe, self.story
        story.note(
            "begin",
            seed=universe.seed,
            replicas=universe.replicas,
            extender=universe.extender,
            patient=universe.patient,
            flush_seconds=universe.max_unschedulable_seconds,
        )
        users = Users(self.cluster, self.rng)
        for name in ("default", "other", "kube-system"):
            self.cluster.put(make_namespace(name))
        for tree in universe.nodes:
            users.add_node(tree)
        for tree in universe.objects:
            users.create(tree)
        controllers = Controllers(self.cluster, random.Random(f"controllers {universe.seed}"))
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(users.reap(), name="kubelets"),
                tasks.create_task(controllers.run(), name="controllers"),
                tasks.create_task(self._look_around(), name="looks"),
                *(tasks.create_task(each.live(), name=f"replica {each.name}") for each in self.replicas),
                *(tasks.create_task(self._strike(fault), name=fault.kind) for fault in universe.faults),
            ]
            for step in universe.steps:
                await asyncio.sleep(max(0.0, step.at - loop.time()))
                users.carry_out(step)
            await asyncio.sleep(max(0.0, SPAN_SECONDS - loop.time()))
            story.note("calm")
            await asyncio.sleep(universe.calm_seconds)
            for _ in range(MAX_LOOKS):
                # Cycles that wait for the extender are under way at most moments.
                if not any(each.is_trying for each in self.replicas):
                    break
                await asyncio.sleep(0.01)
            self._note_end()
            for replica in self.replicas:
                replica.ends = True
                replica.stop()
            for task in background:
                task.cancel()
        return story.entries

    async def _look_around(self) -> None:
        """Look now and then."""
        rng = random.Random(f"looks {self.universe.seed}")
        while True:
            seconds = rng.choice(LOOK_SECONDS if self.story.now < SPAN_SECONDS else CALM_LOOK_SECONDS)
            await asyncio.sleep(seconds * rng.random())
            self._look()

    def _look(self) -> None:
        for replica in self.replicas:
            if (kept := replica.kept()) is not None:
                self.story.note("books", profiles=list(PROFILES[: self.universe.profiles]), **kept)

    async def _strike(self, fault: Fault) -> None:
        """Carry out a fault that is no property of the network or of a plugin."""
        if fault.kind not in ("kill", "evicted plans", "reload", "clock jump", "pause"):
            return
        rng = random.Random(f"{fault.kind} {fault.start} {self.universe.seed}")
        await asyncio.sleep(fault.start)
        if fault.kind == "clock jump":
            self._jump(fault)
            return
        if fault.kind == "pause":
            pause(self.story, fault)
            return
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
                        await replica.reload(percentage=rng.choice((0, 30, 100)), sealed=rng.random() < 0.5)
                    else:
                        replica.evict_plans()
                    await asyncio.sleep(rng.uniform(0.001, 3.0))
                if fault.kind == "reload":
                    await self._unseal(replica)

    async def _unseal(self, replica: Replica) -> None:
        """Go back to the first configuration."""
        for _ in range(MAX_LOOKS):
            if await replica.reload(percentage=0, sealed=False):
                return
            await asyncio.sleep(1.0)

    def _jump(self, fault: Fault) -> None:
        """A scheduler's clock never runs backwards; the server's may."""
        self.story.note("fault", by=fault.subject, fault="clock jumps", what="")
        if fault.subject == "server":
            self.server_clock.ahead_seconds = (fault.share - 0.5) * MAX_SKEW_SECONDS
        for replica in self.replicas if fault.subject == "scheduler" else ():
            replica.clock.ahead_seconds += fault.share * MAX_SKEW_SECONDS

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
        self.clock = JumpingClock(play.clock)

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
        if universe.skewed:
            self.clock = JumpingClock(self._play.clock, ahead_seconds=self._rng.random() * MAX_SKEW_SECONDS)
        network = self._network = self._connect(PostingNetwork if universe.posts else Network, by, "requests")
        elector = None
        if universe.replicas > 1:
            elector = LeaderElector(
                self._connect(Network, by, "lease"),
                settings=LeaderElectionConfiguration(),
                identity=by,
                clock=self.clock,
                rng=random.Random(f"elector {seed}"),
            )
        self._elector = elector
        scheduler = self._scheduler = Scheduler(
            network if elector is None else FencedApi(network, elector.may_write),
            events_api=self._connect(Network, by, "events"),
            config=load(_configuration(universe)),
            registry=self._registry(network, seed),
            clock=self.clock,
            rng=random.Random(f"scheduler {seed}"),
            max_unschedulable_seconds=universe.max_unschedulable_seconds,
        )
        scheduler.observe(WitnessedRepetitions(story, network))
        for extender in scheduler.extenders:
            extender._pool = PlayedExtender(story, by, universe.faults, seed=seed)  # type: ignore[assignment]  # it needs no connections
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
            self._play.cluster,
            by,
            faults=list(universe.faults),
            seed=f"{purpose} {by} {universe.seed}",
            purpose=purpose,
        )

    def _registry(self, network: Network, seed: str) -> Registry:
        universe, story = self._play.universe, self._play.story
        known = full_registry()
        factories = {name: known[name] for name in known}
        factories["DefaultPreemption"] = partial(
            WitnessedPreemption, story=story, network=network, seed=f"preemption {seed}"
        )
        factories["Witness"] = lambda _args, _handle: Witness(story, network)

        def activating(handle: Handle) -> Activating:
            return Activating(handle, story, network, seed=seed, on=universe.activates)

        factories["Failing"] = lambda _args, handle: Failing(
            activating(handle), story, network, universe.faults, seed=seed
        )
        factories["Licensing"] = lambda _args, handle: Licensing(handle, story=story, seed=seed)
        factories["Sealed"] = lambda _args, _handle: Sealed()
        factories["Holding"] = lambda _args, handle: Holding(
            handle, activating(handle), story=story, seed=seed
        )
        return Registry(factories)

    @property
    def is_trying(self) -> bool:
        return self._scheduler is not None and bool(self._scheduler.queue.in_flight())

    def kill(self) -> None:
        """The process ends here and now; what it has sent may still arrive."""
        if self._task is not None and self._network is not None and not self._task.done():
            self._network.dead = True
            self._task.cancel()

    def stop(self) -> None:
        if self._scheduler is not None:
            self._scheduler.stop()

    async def reload(self, *, percentage: int, sealed: bool) -> bool:
        """Give the scheduler another configuration; False: it was refused.

        One that has ended starts with its own.
        """
        if self._scheduler is None or self._network is None or self._network.dead:
            return True
        tree = _configuration(self._play.universe, sealed=sealed)
        self._play.story.note("process", by=self._network.by, what="reloads")
        try:
            await self._scheduler.reconfigure(load({**tree, "percentageOfNodesToScore": percentage}))
        except KuberthError:
            return False
        return True

    def evict_plans(self) -> None:
        for runner in () if self._scheduler is None else self._scheduler.runners.values():
            if runner.plans is not None:
                runner.plans.clear()

    def kept(self) -> dict[str, Any] | None:
        """What the scheduler keeps; None while it follows nothing, or holds changes back."""
        scheduler, network = self._scheduler, self._network
        if scheduler is None or network is None or network.dead or scheduler._hold.is_held:
            return None
        if not {"Pod", "Node"} <= set(network.seen):
            return None
        queue, cluster = scheduler.queue, scheduler.cluster
        placed = list(cluster.placed_pods())
        nodes = [cluster.node_at(row) for row in cluster.order()]
        return {
            "by": network.by,
            "seen": dict(network.seen),
            "leads": self.leads and scheduler.synced,
            "queues": {
                name: [
                    {
                        "key": queued.key,
                        "uid": queued.uid,
                        "version": queued.pod.metadata.resource_version,
                        "attempts": queued.attempts,
                        "gate": queued.gating_plugin,
                        "why": sorted(queued.rejectors),
                    }
                    for queued in pods
                ]
                for name, pods in queue.pending_pods().items()
            },
            "in flight": sorted(pod.metadata.uid for pod in queue.in_flight()),
            "nodes": {node.metadata.name: node.metadata.resource_version for node in nodes},
            "placed": {info.uid: info.node_name for info in placed},
            "versions": {info.uid: info.pod.metadata.resource_version for info in placed},
            "assumed": sorted(info.uid for info in cluster.assumed_pods()),
            "filed": sorted(_pods_in(vars(queue._queue._unschedulable))),  # type: ignore[attr-defined]  # the queue's own
            "nominations": {uid: node for node, pods in scheduler.nominator.by_node.items() for uid in pods},
        }

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


def _pods_in(kept: object) -> Iterator[str]:
    """The UIDs of all queued pods in containers of containers."""
    if isinstance(kept, QueuedPod):
        yield kept.uid
    elif isinstance(kept, Mapping):
        for each in kept.values():
            yield from _pods_in(each)


class _Wait:
    """Waits for an event when it is awaited, and needs not be."""

    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._event.wait().__await__()


def _configuration(universe: Universe, *, sealed: bool = False) -> dict[str, Any]:
    enabled = ["Witness"]
    if sealed:
        enabled.append("Sealed")
    if any(fault.kind == "plugin" for fault in universe.faults):
        enabled.append("Failing")
    if universe.permits:
        enabled.append("Holding")
    if universe.licenses:
        enabled.append("Licensing")
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in enabled]}}
    extender = {
        "urlPrefix": "http://extender.example.com",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 1,
        "nodeCacheCapable": True,
        "ignorable": universe.extender == "ignorable",
        "httpTimeout": "5s",
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "featureGates": {
            "SchedulerPopFromBackoffQ": not universe.patient,
            **(GANG_GATES if universe.gangs else {}),
        },
        "extenders": [extender] if universe.extender else [],
        "percentageOfNodesToScore": universe.percentage_of_nodes_to_score,
        "profiles": [{"schedulerName": name, "plugins": plugins} for name in PROFILES[: universe.profiles]],
    }


def _object(tree: dict[str, Any]) -> Any:
    kind = KINDS[tree["kind"]]
    version = {"apiVersion": REGISTRY.of(kind).api_version}
    return convert(kind, {**tree, **version})


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

    def create(self, tree: dict[str, Any]) -> None:
        self._cluster.put(_object(tree))

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
            case "tolerate pod":
                pod = to_builtins(cluster.read(Pod, name))
                if not pod["spec"].get("nodeName"):
                    # The API server allows that tolerations are added, and no other change of them.
                    kept = pod["spec"].get("tolerations", [])
                    self._change(Pod, name, {"spec": {"tolerations": [*kept, *tree["tolerations"]]}})
            case "take lease":
                # An administrator, or a scheduler of another kind.
                lease = to_builtins(cluster.read(Lease, name))
                transitions = lease["spec"].get("leaseTransitions", 0) + 1
                lease["spec"] |= {"holderIdentity": "intruder", "leaseTransitions": transitions}
                cluster.replace(convert(Lease, lease))
            case "add node":
                self.add_node(tree)
            case "drain node":
                self._change(Node, name, {"spec": {"unschedulable": True}})
                for pod in cluster.all(Pod):
                    if pod.spec.node_name == name:
                        self._delete(f"{pod.metadata.namespace}/{pod.metadata.name}")
            case "create object":
                self.create(tree)
            case "replace object":
                cluster.replace(_object(tree))
            case "remove object":
                cluster.remove(KINDS[tree["kind"]], name)
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
