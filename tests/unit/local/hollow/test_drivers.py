"""Drivers publish what the file says, for the nodes that are there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kuberth.clock import SystemClock
from kuberth.errors import ConfigError
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.devices import check_drivers, load_devices
from tests.unit.local.hollow.harness import World, playing, virtual

DRIVER = "gpu.example.com"


def file_of(*pools: Any, **fields: Any) -> dict[str, Any]:
    return {"drivers": [{"name": DRIVER, "pools": list(pools), **fields}]}


GPUS = {"devices": [{"name": "gpu", "count": 4}]}


async def published(world: World) -> dict[str, Obj]:
    await world.quiet()
    return {name_of(each): each["spec"] for each in await world.all("ResourceSlice")}


def test_every_node_has_its_pool_and_the_network_has_one() -> None:
    async def main() -> None:
        fabric = {"name": "fabric", "allNodes": True, "devices": [{"name": "nic"}]}
        tree = file_of(GPUS, fabric, classes=[{"name": "gpu", "extendedResourceName": "example.com/gpu"}])
        async with playing(nodes=2, drivers=load_devices(tree)) as world:
            found = await published(world)
            assert sorted(found) == [f"{pool}-{DRIVER}-0" for pool in ("fabric", "node-1", "node-2")]
            first = found[f"node-1-{DRIVER}-0"]
            assert (first["nodeName"], first["pool"]["name"]) == ("node-1", "node-1")
            assert [device["name"] for device in first["devices"]] == [f"gpu-{n}" for n in range(4)]
            assert found[f"fabric-{DRIVER}-0"]["allNodes"] is True
            slice_ = await world.get("ResourceSlice", f"node-1-{DRIVER}-0", namespace="")
            node = await world.get("Node", "node-1", namespace="")
            (owner,) = slice_["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["uid"]) == ("Node", node["metadata"]["uid"])
            made = await world.get("DeviceClass", "gpu", namespace="")
            assert made["spec"]["extendedResourceName"] == "example.com/gpu"

    virtual(main)


@pytest.mark.parametrize("controllers", [None, set()], ids=["all controllers", "no controllers"])
def test_slices_follow_nodes(controllers: set[str] | None) -> None:
    async def main() -> None:
        drivers = load_devices(file_of({"nodes": {"labels": {"gpus": "yes"}}, **GPUS}))
        async with playing(nodes=2, drivers=drivers, controllers=controllers) as world:
            assert not await published(world)
            for name in ("node-1", "node-2"):
                patch = {"metadata": {"labels": {"gpus": "yes"}}}
                await world.patch("Node", name, patch, namespace="")
            assert len(await published(world)) == 2
            await world.patch("Node", "node-1", {"metadata": {"labels": {"gpus": None}}}, namespace="")
            assert list(await published(world)) == [f"node-2-{DRIVER}-0"]
            await world.delete("Node", "node-2", namespace="")
            assert not await published(world)
            metadata = {
                "name": "node-2",
                "labels": {"gpus": "yes"},
                "annotations": {"kuberth.dev/hollow": "true"},
            }
            await world.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
            assert list(await published(world)) == [f"node-2-{DRIVER}-0"]
            assert "gpus" not in (await world.get("Node", "node-1", namespace=""))["metadata"]["labels"]

    virtual(main)


def test_a_node_that_is_not_played_has_no_devices() -> None:
    async def main() -> None:
        async with playing(nodes=0, drivers=load_devices(file_of(GPUS))) as world:
            await world.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real"}})
            assert not await published(world)

    virtual(main)


def test_a_changed_file_raises_the_generation_and_the_same_file_does_not() -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        core = Core(store, clock=SystemClock())

        async def generations(tree: dict[str, Any] | None) -> dict[str, tuple[int, int]]:
            drivers = None if tree is None else load_devices(tree)
            async with playing(core, nodes=1, drivers=drivers) as world:
                return {
                    name: (spec["pool"]["generation"], len(spec["devices"]))
                    for name, spec in (await published(world)).items()
                }

        name = f"node-1-{DRIVER}-0"
        assert await generations(file_of(GPUS)) == {name: (1, 4)}
        assert await generations(file_of(GPUS)) == {name: (1, 4)}
        more = file_of({"devices": [{"name": "gpu", "count": 6}]})
        assert await generations(more) == {name: (2, 6)}
        assert await generations(None) == {name: (2, 6)}
        many = await generations(file_of({"devices": [{"name": "gpu", "count": 130}]}))
        assert many == {name: (3, 128), f"node-1-{DRIVER}-1": (3, 2)}
        assert await generations(file_of(GPUS)) == {name: (4, 4)}
        # The pool moves from the node to the network, under its name.
        moved = {"name": "node-1", "allNodes": True, **GPUS}
        assert await generations(file_of(moved)) == {name: (5, 4)}
        assert await generations({"drivers": []}) == {}
        await store.close()

    virtual(main)


def test_what_people_change_stays_and_what_they_delete_comes_back() -> None:
    async def main() -> None:
        async with playing(nodes=1, drivers=load_devices(file_of(GPUS))) as world:
            (name,) = await published(world)
            slice_ = await world.get("ResourceSlice", name, namespace="")
            devices = slice_["spec"]["devices"]
            taint = {"key": "example.com/broken", "effect": "NoSchedule"}
            changed = {"spec": {"devices": [{**devices[0], "taints": [taint]}, *devices[1:]]}}
            await world.patch("ResourceSlice", name, changed, namespace="")
            assert (await published(world))[name]["devices"][0]["taints"][0]["key"] == taint["key"]
            await world.delete("ResourceSlice", name, namespace="")
            assert list(await published(world)) == [name]

    virtual(main)


def test_slices_of_other_drivers_are_left_alone() -> None:
    async def main() -> None:
        async with playing(nodes=1, drivers=[]) as world:
            await world.create(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceSlice",
                    "metadata": {"name": "mine"},
                    "spec": {
                        "driver": DRIVER,
                        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                        "allNodes": True,
                    },
                }
            )
            assert list(await published(world)) == ["mine"]

    virtual(main)


@pytest.mark.parametrize(
    "tree, problem",
    [
        (file_of({"devices": [{"name": "Bad_Name"}]}), "drivers[0].pools[0]: ResourceSlice"),
        (
            file_of(GPUS, classes=[{"name": "g", "selectors": [{"cel": {"expression": "device."}}]}]),
            "classes[0]: ",
        ),
        (file_of({**GPUS, "name": "n", "nodeSelector": {}}), "drivers[0].pools[0]: ResourceSlice"),
        ({"drivers": [{"name": "a b", "pools": [GPUS]}]}, "spec.driver: Invalid value"),
    ],
)
def test_slices_that_the_server_would_refuse_are_reported_with_their_place(
    tree: dict[str, Any], problem: str
) -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        core = Core(store, clock=SystemClock())
        with pytest.raises(ConfigError) as error:
            await check_drivers(core, load_devices(tree), Path("devices.yaml"))
        assert str(error.value).startswith("devices.yaml: ")
        assert problem in str(error.value)
        assert not (await core.list("resourceslices.resource.k8s.io"))["items"]
        await store.close()

    asyncio.run(main())
