"""Runs a whole scheduler over an API in memory, on virtual time.

def test_my_rule() -> None:
    async def scenario() -> None:
        async with running(make_node("n1"), plugins={"Mine": Mine}, profiles=[profile("Mine")]) as world:
            world.api.put(make_pod("p"))
            await world.bound("p")

    run_in_virtual_time(scenario)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from kuberth.api.core import Pod
from kuberth.api.events import Event
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import LoopClock
from kuberth.config import FeatureGates, load
from kuberth.framework.extension_points import Plugin
from kuberth.framework.registry import PluginFactory
from kuberth.local.memory_api import MemoryApi
from kuberth.testing.factories import make_namespace

API_VERSION = "kubescheduler.config.k8s.io/v1"


def profile(
    *plugins: str, name: str = "default-scheduler", sort: str = "PrioritySort", **more: Any
) -> dict[str, Any]:
    """A profile with only these plugins and the two that every profile needs; `sort` is one of them."""
    enabled = [sort, *(each for each in plugins if each not in (sort, "DefaultBinder")), "DefaultBinder"]
    return {
        "schedulerName": name,
        "plugins": {
            "multiPoint": {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": plugin} for plugin in enabled],
            }
        },
        **more,
    }


def configuration(profile: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with one profile, as in YAML."""
    return {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


class World:
    """The API and the scheduler under test, with methods to inspect and await them."""

    def __init__(self, api: MemoryApi, scheduler: Scheduler) -> None:
        self.api = api
        """The in-memory cluster: put, change and remove objects here."""
        self.scheduler = scheduler
        """The scheduler under test: its `queue`, `cluster`, `metrics`."""

    def pod(self, name: str, *, namespace: str = "default") -> Pod:
        """The pod's current version in the API."""
        return self.api.read(Pod, f"{namespace}/{name}")

    def node_of(self, name: str, *, namespace: str = "default") -> str:
        """The node to which the pod is bound, or ""."""
        return self.pod(name, namespace=namespace).spec.node_name

    def queue_of(self, name: str, *, namespace: str = "default") -> str:
        """The pod's queue, "in flight", or "" if the queue does not know the pod."""
        queue = self.scheduler.queue
        in_flight = {(pod.metadata.namespace, pod.metadata.name) for pod in queue.in_flight()}
        flies = (namespace, name) in in_flight
        return queue.queue_of(f"{namespace}/{name}") or ("in flight" if flies else "")

    def events(self, reason: str) -> list[str]:
        """The notes of the events with this reason."""
        return [event.note for event in self.api.all(Event) if event.reason == reason]

    async def until(self, predicate: Callable[[], bool], *, seconds: float = 60.0) -> None:
        """Advance virtual time until a condition is true."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not predicate():
            assert loop.time() < deadline, f"not within {seconds} virtual seconds; queues: {self._queues()}"
            await asyncio.sleep(0.01)

    async def bound(self, *names: str, namespace: str = "default", seconds: float = 60.0) -> None:
        """Return when these pods are bound."""
        await self.until(
            lambda: all(self.node_of(name, namespace=namespace) for name in names), seconds=seconds
        )

    async def in_queue(
        self, name: str, queue: str, *, namespace: str = "default", seconds: float = 60.0
    ) -> None:
        """Return when the pod is in this queue."""
        await self.until(lambda: self.queue_of(name, namespace=namespace) == queue, seconds=seconds)

    async def quiet(self, *, seconds: float = 0.5) -> None:
        """Advance virtual time."""
        await asyncio.sleep(seconds)

    def _queues(self) -> dict[str, list[str]]:
        return {
            queue: [queued.key for queued in pods]
            for queue, pods in self.scheduler.queue.pending_pods().items()
        }


@asynccontextmanager
async def running(
    *objects: Any,
    profiles: Sequence[Mapping[str, Any]] | None = None,
    plugins: Mapping[str, PluginFactory] | None = None,
    gates: Mapping[str, bool] | None = None,
    extenders: Sequence[Mapping[str, Any]] = (),
    api: MemoryApi | None = None,
    **options: Any,
) -> AsyncIterator[World]:
    """A scheduler that has synced with `objects` and runs until the block ends."""
    api = MemoryApi(feature_gates=gates) if api is None else api
    api.put(make_namespace("default"))
    for obj in objects:
        api.put(obj)
    feature_gates = FeatureGates(gates or {})
    config = None
    if profiles is not None or extenders:
        tree = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", "extenders": extenders}
        if profiles is not None:
            tree["profiles"] = profiles
        config = load(tree, feature_gates=feature_gates.explicit)
    scheduler = Scheduler(
        api,
        config=config,
        plugins=plugins,
        feature_gates=feature_gates,
        clock=LoopClock(asyncio.get_running_loop()),
        rng=random.Random(1),
        **options,
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.run(), name="scheduler")
        await scheduler.wait_synced()
        try:
            yield World(api, scheduler)
        finally:
            scheduler.stop()


def running_with(plugin: Plugin, *objects: Any, **options: Any) -> AbstractAsyncContextManager[World]:
    """Like `running`, with a profile of only this plugin instance."""
    return running(
        *objects,
        profiles=[profile(plugin.name)],
        plugins={plugin.name: lambda _args, _handle: plugin},
        **options,
    )
