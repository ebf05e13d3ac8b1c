"""Owners and dependents: background, foreground, orphan."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kuberth.clock import LoopClock
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from tests.manifests import deployment_manifest
from tests.unit.local.hollow.harness import World, playing, virtual


def config_map(name: str, *owners: Obj, **metadata: Any) -> Obj:
    references = [
        {
            "apiVersion": owner.get("apiVersion", "v1"),
            "kind": owner.get("kind", "ConfigMap"),
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": references, **metadata},
    }


async def names(world: World) -> list[str]:
    return [one["metadata"]["name"] for one in await world.all("ConfigMap", namespace="default")]


def test_background_deletes_dependents_of_dependents() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=3))
            await world.status("Deployment", "web", availableReplicas=3)
            await world.delete("Deployment", "web", propagationPolicy="Background")
            assert not await world.there("Deployment", "web")
            await world.quiet()
            assert await world.all("ReplicaSet") == []
            assert await world.all("Pod") == []

    virtual(main)


def test_foreground_waits_for_dependents() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=3))
            await world.status("Deployment", "web", availableReplicas=3)
            await world.delete("Deployment", "web", propagationPolicy="Foreground")

            async def gone() -> bool:
                pods, sets = await world.all("Pod"), await world.all("ReplicaSet")
                present = await world.there("Deployment", "web")
                assert present or not (pods or sets)
                return not present

            await world.until(gone, seconds=10)

    virtual(main)


def test_orphan_leaves_dependents_alone() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=3))
            await world.status("Deployment", "web", availableReplicas=3)
            await world.delete("Deployment", "web", propagationPolicy="Orphan")
            await world.gone("Deployment", "web")
            await world.quiet(seconds=10)
            (replica_set,) = await world.all("ReplicaSet")
            assert not replica_set["metadata"].get("ownerReferences")
            assert len(await world.all("Pod")) == 3

    virtual(main)


def test_an_adopted_replica_set_goes_on_without_new_pods() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=3))
            await world.status("Deployment", "web", availableReplicas=3)
            before = {pod["metadata"]["uid"] for pod in await world.all("Pod")}
            await world.delete("Deployment", "web", propagationPolicy="Orphan")
            await world.gone("Deployment", "web")
            await world.create(deployment_manifest(replicas=3))
            await world.status("Deployment", "web", availableReplicas=3)
            await world.quiet()
            assert {pod["metadata"]["uid"] for pod in await world.all("Pod")} == before

    virtual(main)


def test_one_owner_left_is_enough() -> None:
    async def main() -> None:
        async with playing() as world:
            first, second = await world.create(config_map("first")), await world.create(config_map("second"))
            await world.create(config_map("child", first, second))
            await world.delete("ConfigMap", "first")
            await world.quiet()
            (reference,) = (await world.get("ConfigMap", "child"))["metadata"]["ownerReferences"]
            assert reference["name"] == "second"
            await world.delete("ConfigMap", "second")
            await world.quiet()
            assert await names(world) == []

    virtual(main)


def test_an_owner_that_never_was_is_absent() -> None:
    async def main() -> None:
        async with playing() as world:
            ghost = {"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}}
            await world.create(config_map("child", ghost))
            stranger = {"apiVersion": "example.com/v1", "kind": "Unknown", **ghost}
            await world.create(config_map("kept", stranger))
            await world.quiet()
            assert await names(world) == ["kept"]

    virtual(main)


def test_owners_deleted_while_no_collector_ran() -> None:
    async def main() -> None:
        async with playing(controllers=()) as world:
            owner = await world.create(config_map("owner"))
            await world.create(config_map("child", owner))
            await world.delete("ConfigMap", "owner")
            await world.quiet()
            assert await names(world) == ["child"]
            async with playing(world.core) as again:
                await again.gone("ConfigMap", "child", seconds=5)

    virtual(main)


def test_custom_resources_own_and_are_owned() -> None:
    async def main() -> None:
        async with playing() as world:
            schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            version = {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": schema},
            }
            await world.create(
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": "trees.example.com"},
                    "spec": {
                        "group": "example.com",
                        "scope": "Namespaced",
                        "names": {
                            "plural": "trees",
                            "singular": "tree",
                            "kind": "Tree",
                            "listKind": "TreeList",
                        },
                        "versions": [version],
                    },
                }
            )
            tree = {
                "apiVersion": "example.com/v1",
                "kind": "Tree",
                "metadata": {"name": "oak", "namespace": "default"},
            }
            created = await world.core.create("trees.example.com", tree, namespace="default")
            await world.create(config_map("leaf", {**tree, "metadata": created["metadata"]}))
            await world.quiet()
            assert await names(world) == ["leaf"]
            await world.core.delete("trees.example.com", "oak", namespace="default")
            await world.gone("ConfigMap", "leaf", seconds=5)

    virtual(main)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("policy", ["Foreground", "Background"])
def test_a_circle_of_owners_goes_as_a_whole(size: int, policy: str) -> None:
    async def main() -> None:
        async with playing(controllers=["garbagecollector"]) as world:
            await make_circle(world, size)
            await world.delete("ConfigMap", "c0", propagationPolicy=policy)
            await world.quiet(seconds=10)
            assert await names(world) == []

    virtual(main)


def test_a_circle_whose_parts_all_wait_is_undone_after_a_restart() -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        core = Core(store, clock=LoopClock(asyncio.get_running_loop()))
        async with playing(core, controllers=[]) as world:
            await make_circle(world, 2)
            for name in ("c0", "c1"):
                await world.delete("ConfigMap", name, propagationPolicy="Foreground")
            assert await names(world) == ["c0", "c1"]
        async with playing(core, controllers=["garbagecollector"]) as world:
            await world.quiet(seconds=10)
            assert await names(world) == []
        await store.close()

    virtual(main)


async def make_circle(world: World, size: int) -> None:
    """Config maps c0, c1 and so on, each the owner of the next and the last of the first."""
    made = [await world.create(config_map(f"c{number}")) for number in range(size)]
    for number in range(size):
        metadata = config_map("", made[number - 1])["metadata"]
        await world.patch(
            "ConfigMap", f"c{number}", {"metadata": {"ownerReferences": metadata["ownerReferences"]}}
        )
