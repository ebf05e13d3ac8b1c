"""Three schedulers on clusters that change at random: one keeps rejections, one does not, one checks cycles.

All of them place the same pods on the same nodes, evict the same victims, and say the same of the others.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.core import Node, Pod
from kuberth.api.events import Event
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.wire import convert
from kuberth.clock import run_in_virtual_time
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.registry import Registry
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.plugins import in_tree_registry
from kuberth.plugins.default_preemption.plugin import DefaultPreemption
from kuberth.queue.observing import MoveCause
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import World, running

ZONE: Final = "topology.kubernetes.io/zone"
SAME: Final = {"matchLabels": {"app": "web"}}
SPREAD: Final = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": SAME,
}
APART: Final = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": SAME}]
    }
}
TEMPLATES: Final[Sequence[Mapping[str, Any]]] = (
    {"cpu": "3"},
    {"cpu": "3", "priority": 10},
    {"cpu": "2", "priority": 5, "preemptionPolicy": "Never"},
    {"cpu": "1", "priority": 5, "topologySpreadConstraints": [SPREAD]},
    {"cpu": "1", "affinity": APART},
    {"cpu": "1", "requests": {"example.com/gpu": "1"}},
    {"cpu": "1", "nodeSelector": {"disk": "ssd"}},
)


class Lazy(random.Random):
    """Every search for victims begins at the first row: an attempt that is not made draws no number."""

    def randrange(self, *_args: Any) -> int:
        return 0


class Diary:
    """Implements `SchedulerObserver`: what happened to each pod, and what is said of it."""

    def __init__(self) -> None:
        self.lines: dict[str, list[object]] = {}
        self.repeated = 0

    def _note(self, queued: QueuedPod, *line: object) -> None:
        self.lines.setdefault(queued.key, []).append(line)

    def pod_moved(self, queued: QueuedPod, queue: str, cause: MoveCause) -> None:
        self._note(queued, queue, cause.label, cause.plugin, queued.attempts, queued.unschedulable_count)

    def pod_popped(self, queued: QueuedPod) -> None: ...

    def pod_done(self, uid: str) -> None: ...

    def pod_deleted(self, uid: str) -> None: ...

    def pod_held(self, placement: Placement) -> None: ...

    def pod_bound(self, placement: Placement, seconds: float) -> None:
        self._note(placement.queued, "bound", placement.node_name)

    def pod_rejected(self, rejection: Rejection, seconds: float) -> None:
        self.repeated += rejection.is_repeated
        self._note(rejection.queued, rejection.status.message, rejection.nomination)


def _node(name: str, *, cpu: int = 4, zone: str = "a", disk: str = "", closed: bool = False) -> Node:
    return make_node(
        name,
        cpu=str(cpu),
        labels={ZONE: zone, "disk": disk},
        allocatable={"example.com/gpu": "1"},
        spec={"unschedulable": closed},
    )


class Script:
    """What happens to a cluster, the same for every scheduler; things happen at different moments."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    async def play(self, world: World) -> None:
        rng = random.Random(self._seed)
        for number in range(rng.randint(6, 14)):
            rng.choice((self._pods, self._pods, self._end, self._end, self._node, self._budget))(
                world, rng, number
            )
            await asyncio.sleep(rng.choice((0.05, 0.4, 3, 20, 400)) + rng.random() / 10)
        await asyncio.sleep(30)

    def _pods(self, world: World, rng: random.Random, number: int) -> None:
        template = rng.randrange(len(TEMPLATES))
        labels = {"app": "web" if template in (3, 4) else f"t{template}"}
        for each in range(rng.choice((1, 5, 30))):
            name = f"p{number}-{each}"
            world.api.put(make_pod(name, uid=name, labels=labels, **TEMPLATES[template]))

    def _end(self, world: World, rng: random.Random, _number: int) -> None:
        placed = [pod.metadata.name for pod in world.api.all(Pod) if pod.spec.node_name]
        for name in rng.sample(sorted(placed), min(len(placed), rng.randint(1, 3))):
            world.api.remove(Pod, f"default/{name}")

    def _node(self, world: World, rng: random.Random, _number: int) -> None:
        name = f"n{rng.randrange(4)}"
        cpu, zone, disk = rng.choice((2, 4, 8)), rng.choice("ab"), rng.choice(("ssd", ""))
        node = _node(name, cpu=cpu, zone=zone, disk=disk, closed=rng.random() < 0.2)
        if all(each.metadata.name != name for each in world.api.all(Node)):
            world.api.put(node)
        elif rng.random() < 0.3:
            world.api.remove(Node, name)
        else:
            world.api.replace(node)

    def _budget(self, world: World, rng: random.Random, _number: int) -> None:
        budget = {
            "metadata": {"name": "all", "namespace": "default"},
            "spec": {"selector": {}},
            "status": {"disruptionsAllowed": rng.randrange(3)},
        }
        if world.api.all(PodDisruptionBudget):
            world.api.remove(PodDisruptionBudget, "default/all")
        world.api.put(convert(PodDisruptionBudget, budget))


def played(seed: int, *, keeps: bool = True, check_every: int = 0) -> tuple[dict[str, Any], int]:
    """All that can be seen of a scheduler, and how many rejections repeated others."""
    in_tree = in_tree_registry()
    factories = {name: in_tree[name] for name in in_tree}
    factories["DefaultPreemption"] = lambda args, handle: DefaultPreemption(args, handle, rng=Lazy())
    seen: dict[str, Any] = {}
    diary = Diary()

    async def play() -> None:
        nodes = [_node(f"n{number}", zone="ab"[number % 2]) for number in range(3)]
        async with running(*nodes, registry=Registry(factories), check_plans_every=check_every) as world:
            scheduler = world.scheduler
            for runner in scheduler.runners.values():
                if not keeps and runner.plans is not None:
                    runner.plans.rejections.keep = lambda *_, **__: None  # type: ignore[method-assign]
            scheduler.observe(diary)
            await Script(seed).play(world)
            seen["queues"] = {
                queue: sorted((each.key, each.attempts, each.unschedulable_count) for each in pods)
                for queue, pods in scheduler.queue.pending_pods().items()
            }
            metrics = scheduler.metrics
            seen["attempts"] = dict(metrics.schedule_attempts.values)
            seen["preemption"] = dict(metrics.preemption_attempts.values)
            seen["differences"] = dict(metrics.plan_differences.values)
            seen["incoming"] = dict(metrics.queue_incoming_pods.values)
            seen["pods"] = sorted(map(_said, world.api.all(Pod)), key=str)
            await scheduler.recorder.drain()
            seen["events"] = Counter(
                (event.regarding.name, event.reason, event.note, event.series and event.series.count)
                for event in world.api.all(Event)
            )

    run_in_virtual_time(play)
    return seen | {"ways": diary.lines}, diary.repeated


def _said(pod: Pod) -> object:
    conditions = [(each.type, each.reason, each.message) for each in pod.status.conditions]
    return pod.metadata.name, pod.spec.node_name, pod.status.nominated_node_name, conditions


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_kept_changes_nothing_that_can_be_seen(seed: int) -> None:
    expected, _ = played(seed, keeps=False)
    assert played(seed)[0] == expected
    assert played(seed, check_every=1)[0] == expected


def test_rejections_are_repeated_in_these_clusters() -> None:
    assert sum(played(seed)[1] for seed in range(5)) > 50
