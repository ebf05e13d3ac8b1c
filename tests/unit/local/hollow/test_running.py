"""The whole of it: choosing controllers, restarts in the middle, conflicts all the time."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kuberth.clock import LoopClock
from kuberth.errors import ConfigError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.nodes import HollowNodes
from kuberth.local.hollow.running import CONTROLLERS, HollowCluster
from tests.manifests import deployment_manifest
from tests.unit.local.hollow.harness import playing, virtual


def clock() -> LoopClock:
    return LoopClock(asyncio.get_running_loop(), epoch_ns=1_700_000_000 * 10**9)


@pytest.mark.parametrize("off", CONTROLLERS)
def test_each_controller_can_be_turned_off(off: str) -> None:
    async def main() -> None:
        async with playing(controllers=set(CONTROLLERS) - {off}) as world:
            await world.create(deployment_manifest(replicas=2))
            await world.quiet(seconds=10)
            sets, pods = len(await world.all("ReplicaSet")), len(await world.all("Pod"))
            assert (sets, pods) == {"deployment": (0, 0), "replicaset": (1, 0)}.get(off, (1, 2))

    virtual(main)


def test_an_unknown_controller_is_refused() -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        core = Core(store, clock=clock())
        with pytest.raises(ConfigError, match="no controller teleporter; known are deployment"):
            HollowCluster(core, clock=clock(), controllers=["teleporter"])
        await store.close()

    virtual(main)


def test_nodes_alone() -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        core = Core(store, clock=clock())
        informers = Informers(core)
        nodes = HollowNodes(informers, count=4, clock=clock())
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each.run()) for each in (informers, nodes)]
            await nodes.registered.wait()
            assert len((await core.list("nodes"))["items"]) == 4
            for task in running:
                task.cancel()
        await store.close()

    virtual(main)


class TroubledCore(Core):
    """Refuses every third write, as if another client had written first."""

    rng = random.Random(7)

    async def update(self, resource: Any, name: str, body: Any, **options: Any) -> Obj:
        if self.rng.random() < 0.33:
            raise StatusError(409, "Conflict", "the object has been modified")
        return await super().update(resource, name, body, **options)

    async def create(self, resource: Any, body: Any, **options: Any) -> Obj:
        if resource == "pods" and self.rng.random() < 0.1:
            raise StatusError(500, "InternalError", "a bad day")
        return await super().create(resource, body, **options)


def test_conflicts_and_refusals_are_survived() -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        core = TroubledCore(store, clock=clock())
        async with playing(core, binder=False) as world:
            await world.create(deployment_manifest(replicas=10))
            for number in (1, 2, 3):
                patch = {"spec": {"template": {"metadata": {"annotations": {"v": str(number)}}}}}
                await world.patch("Deployment", "web", patch)

                async def bound(number: int = number) -> bool:
                    status = (await world.get("Deployment", "web")).get("status", {})
                    for pod in await world.all("Pod"):
                        if not pod["spec"].get("nodeName"):
                            await _bind(core, pod)
                    pods = await world.all("Pod")
                    new = [
                        pod for pod in pods if pod["metadata"].get("annotations", {}).get("v") == str(number)
                    ]
                    return bool(status.get("availableReplicas") == len(new) == len(pods) == 10)

                await world.until(bound, seconds=300)
            await world.delete("Deployment", "web", propagationPolicy="Foreground")
            await world.gone("Deployment", "web", seconds=120)
            assert await world.all("Pod") == []
        await store.close()

    virtual(main)


async def _bind(core: Core, pod: Obj) -> None:
    metadata = pod["metadata"]
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "namespace": "default", "uid": metadata["uid"]},
        "target": {"kind": "Node", "name": "node-1"},
    }
    try:
        await Core.create(
            core, "pods", body, namespace="default", name=metadata["name"], subresource="binding"
        )
    except StatusError as error:
        if error.code not in (404, 409):
            raise


def test_a_rollout_goes_on_after_restarts_at_any_moment() -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        core = Core(store, clock=clock())
        async with playing(core) as world:
            await world.create(deployment_manifest(replicas=10))
            await world.status("Deployment", "web", availableReplicas=10)
            await world.patch(
                "Deployment", "web", {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
            )
        for _ in range(30):
            async with playing(core):
                await asyncio.sleep(0.03)
        async with playing(core) as world:
            await world.status("Deployment", "web", updatedReplicas=10, availableReplicas=10, replicas=10)
            await world.quiet()
            pods = await world.all("Pod")
            assert len(pods) == 10
            assert {pod["metadata"]["annotations"]["v"] for pod in pods} == {"2"}
        await store.close()

    virtual(main)
