"""Devices on the embedded cluster: drivers that publish, claims from templates, pods that get their share."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import LoopClock
from kuberth.config import FeatureGates
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.devices import load_devices
from kuberth.local.in_process import InProcessApi
from tests.manifests import deployment_manifest, template_manifest
from tests.unit.local.hollow.harness import World, playing, virtual

DRIVER = "gpu.example.com"
DEVICES: dict[str, Any] = {
    "drivers": [
        {
            "name": DRIVER,
            "classes": [{"name": "gpu", "extendedResourceName": "example.com/gpu"}],
            "pools": [{"devices": [{"name": "gpu", "count": 4, "attributes": {"model": "h200"}}]}],
        }
    ]
}
TEMPLATE: Obj = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}},
}


@asynccontextmanager
async def gpu_cluster(
    *,
    nodes: int = 3,
    database: Path | None = None,
    gates: Mapping[str, bool] | None = None,
    devices: Mapping[str, Any] = DEVICES,
) -> AsyncIterator[World]:
    store = await RevisionStore.open(database)
    clock = LoopClock(asyncio.get_running_loop(), epoch_ns=1_700_000_000 * 10**9)
    core = Core(store, clock=clock, feature_gates=gates)
    feature_gates = FeatureGates(gates or {})
    scheduler = Scheduler(InProcessApi(core), clock=clock, rng=random.Random(1), feature_gates=feature_gates)
    drivers = load_devices(devices)
    async with (
        playing(core, nodes=nodes, binder=False, drivers=drivers) as world,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(scheduler.run(), name="scheduler")
        await scheduler.wait_synced()
        try:
            yield world
        finally:
            scheduler.stop()
    await store.close()


def gpu_deployment(replicas: int) -> Obj:
    containers = [{"name": "main", "image": "trainer", "resources": {"claims": [{"name": "gpu"}]}}]
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    return deployment_manifest(
        "train",
        replicas=replicas,
        template=template_manifest("train", containers=containers, resourceClaims=claims),
    )


async def running(world: World) -> list[Obj]:
    return [pod for pod in await world.all("Pod") if pod["status"]["phase"] == "Running"]


async def until_running(world: World, number: int) -> None:
    async def reached() -> bool:
        return len(await running(world)) == number

    await world.until(reached)


async def devices_in_use(world: World) -> list[tuple[str, str]]:
    """Each once, if nothing was given away twice."""
    return [
        (result["pool"], result["device"])
        for claim in await world.all("ResourceClaim")
        for result in claim["status"].get("allocation", {}).get("devices", {}).get("results", ())
    ]


def test_twelve_devices_run_twelve_pods_and_each_that_ends_frees_one_for_the_next() -> None:
    async def main() -> None:
        async with gpu_cluster() as world:
            await world.create(TEMPLATE)
            await world.create(gpu_deployment(15))
            await until_running(world, 12)
            await world.quiet(seconds=30)
            pods = await running(world)
            assert len(pods) == 12
            assert Counter(pod["spec"]["nodeName"] for pod in pods) == {f"node-{i}": 4 for i in (1, 2, 3)}
            used = await devices_in_use(world)
            assert len(used) == len(set(used)) == 12
            waiting = [pod for pod in await world.all("Pod") if pod["status"]["phase"] == "Pending"]
            assert len(waiting) == 3
            for pod in waiting:
                (condition,) = pod["status"]["conditions"]
                assert condition["reason"] == "Unschedulable"
                assert condition["message"].startswith(
                    "0/3 nodes are available: 3 cannot allocate all claims."
                )
                assert pod["status"]["resourceClaimStatuses"][0]["name"] == "gpu"
            names = {name_of(pod) for pod in waiting}
            await world.delete("Pod", name_of(pods[0]))

            async def next_runs() -> bool:
                return len(await running(world)) == 12 and any(
                    name_of(pod) in names for pod in await running(world)
                )

            await world.until(next_runs)
            claim = pods[0]["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
            await world.gone("ResourceClaim", claim)

            async def one_claim_a_pod() -> bool:
                return len(await world.all("ResourceClaim")) == len(await world.all("Pod")) == 15

            await world.until(one_claim_a_pod)  # the waiting ones included
            await world.patch("Deployment", "train", {"spec": {"replicas": 0}})

            async def all_gone() -> bool:
                return not await world.all("ResourceClaim") and not await world.all("Pod")

            await world.until(all_gone)

    virtual(main)


def test_an_extended_resource_is_served_by_the_devices_of_a_class() -> None:
    async def main() -> None:
        async with gpu_cluster(nodes=1) as world:
            resources = {"requests": {"example.com/gpu": "3"}, "limits": {"example.com/gpu": "3"}}
            containers = [{"name": "main", "image": "trainer", "resources": resources}]
            for name in ("first", "second"):
                await world.create(
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "metadata": {"name": name, "namespace": "default"},
                        "spec": {"containers": containers},
                    }
                )
            await until_running(world, 1)
            await world.quiet(seconds=5)
            (pod,) = await running(world)
            claim = pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
            assert len(await devices_in_use(world)) == 3
            await world.delete("Pod", name_of(pod))
            await world.gone("ResourceClaim", claim)
            await until_running(world, 1)
            assert name_of((await running(world))[0]) != name_of(pod)

    virtual(main)


def test_what_is_kept_across_a_restart_is_neither_published_nor_allocated_again(tmp_path: Path) -> None:
    async def life(replicas: int) -> tuple[set[str], list[tuple[str, str]], list[int]]:
        async with gpu_cluster(nodes=2, database=tmp_path / "cluster.sqlite") as world:
            if not await world.there("ResourceClaimTemplate", "one-gpu"):
                await world.create(TEMPLATE)
                await world.create(gpu_deployment(replicas))
            await until_running(world, replicas)
            await world.quiet(seconds=5)
            return (
                {name_of(claim) for claim in await world.all("ResourceClaim")},
                sorted(await devices_in_use(world)),
                [each["spec"]["pool"]["generation"] for each in await world.all("ResourceSlice")],
            )

    first, second = virtual(lambda: life(5)), virtual(lambda: life(5))
    assert first == second
    assert len(first[0]) == len(first[1]) == 5
    assert first[2] == [1, 1]


def test_devices_that_take_cores_of_their_node_leave_fewer_to_others() -> None:
    """Four devices of three cores each on a node of eight: two of them can be used."""

    async def main() -> None:
        gates = {"DRANodeAllocatableResources": True}
        mapped = {"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "3"}}}
        driver = DEVICES["drivers"][0]
        pools = [{"devices": [{"name": "gpu", "count": 4, **mapped}]}]
        async with gpu_cluster(
            nodes=1, gates=gates, devices={"drivers": [{**driver, "pools": pools}]}
        ) as world:
            await world.create(TEMPLATE)
            await world.create(gpu_deployment(3))
            await until_running(world, 2)
            await world.quiet(seconds=30)
            assert len(await running(world)) == 2
            for pod in await running(world):
                (taken,) = pod["status"]["nodeAllocatableResourceClaimStatuses"]
                (claim,) = pod["status"]["resourceClaimStatuses"]
                assert taken == {
                    "resourceClaimName": claim["resourceClaimName"],
                    "containers": ["main"],
                    "resources": {"cpu": "3"},
                }
            (waiting,) = [pod for pod in await world.all("Pod") if pod["status"]["phase"] == "Pending"]
            message = waiting["status"]["conditions"][0]["message"]
            assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")

    virtual(main)


def test_a_gang_shares_a_claim_that_is_made_for_it_and_goes_with_it() -> None:
    async def main() -> None:
        gates = {"GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": True}
        async with gpu_cluster(gates=gates) as world:
            await world.create(TEMPLATE)
            claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
            policy = {"gang": {"minCount": 3}}
            group = await world.create(
                {
                    "apiVersion": "scheduling.k8s.io/v1alpha2",
                    "kind": "PodGroup",
                    "metadata": {"name": "team", "namespace": "default"},
                    "spec": {"schedulingPolicy": policy, "resourceClaims": claims},
                }
            )
            containers = [{"name": "main", "image": "x", "resources": {"claims": [{"name": "gpu"}]}}]
            for number in range(3):
                await world.create(
                    {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "metadata": {"name": f"worker-{number}", "namespace": "default"},
                        "spec": {
                            "containers": containers,
                            "resourceClaims": claims,
                            "schedulingGroup": {"podGroupName": "team"},
                        },
                    }
                )
            await until_running(world, 3)
            assert len(await devices_in_use(world)) == 1
            assert len({pod["spec"]["nodeName"] for pod in await running(world)}) == 1
            (claim,) = await world.all("ResourceClaim")
            assert [(each["resource"], each["uid"]) for each in claim["status"]["reservedFor"]] == [
                ("podgroups", group["metadata"]["uid"])
            ]
            for number in range(3):
                await world.delete("Pod", f"worker-{number}")
            await world.quiet(seconds=60)
            assert await devices_in_use(world)
            await world.delete("PodGroup", "team")
            await world.gone("ResourceClaim", name_of(claim))
            assert not await devices_in_use(world)

    virtual(main)
