"""Claims and volumes find each other, or a hollow volume is made."""

from __future__ import annotations

from typing import Any

from kuberth.local.apiserver.objects import Obj
from tests.unit.local.hollow.harness import playing, virtual


def claim(name: str = "data", *, storage: str = "5Gi", annotations: Any = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}},
            **spec,
        },
    }


def volume(name: str, storage: str, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": storage},
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/{name}"},
            **spec,
        },
    }


def storage_class(name: str, *, mode: str = "Immediate", **fields: Any) -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kuberth.dev/hollow",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
        **fields,
    }


def test_the_smallest_volume_that_will_do() -> None:
    async def main() -> None:
        async with playing() as world:
            for name, size in (("huge", "1Ti"), ("small", "1Gi"), ("right", "6Gi")):
                await world.create(volume(name, size))
            await world.create(volume("other", "5Gi", storageClassName="fast"))
            await world.create(claim(storageClassName=""))
            found = await world.status("PersistentVolumeClaim", "data", phase="Bound")
            assert found["spec"]["volumeName"] == "right"
            assert found["status"]["capacity"] == {"storage": "6Gi"}
            bound = await world.core.get("persistentvolumes", "right")
            assert bound["status"]["phase"] == "Bound"
            assert bound["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]
            await world.quiet()
            assert (await world.core.get("persistentvolumes", "huge"))["status"]["phase"] == "Available"
            await world.delete("PersistentVolumeClaim", "data")
            await world.quiet()
            assert (await world.core.get("persistentvolumes", "right"))["status"]["phase"] == "Released"

    virtual(main)


def test_two_claims_never_share_a_volume() -> None:
    async def main() -> None:
        async with playing() as world:
            for number in range(5):
                await world.create(claim(f"data-{number}", storageClassName=""))
            for number in range(4):
                await world.create(volume(f"pv-{number}", "5Gi"))
            await world.quiet()
            claims = await world.all("PersistentVolumeClaim")
            names = [one["spec"].get("volumeName") for one in claims]
            assert sorted(filter(None, names)) == [f"pv-{number}" for number in range(4)]
            phases = sorted(one["status"]["phase"] for one in claims)
            assert phases == ["Bound"] * 4 + ["Pending"]

    virtual(main)


def test_a_hollow_class_makes_a_volume_and_takes_it_away() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(storage_class("fast"))
            await world.create(claim(storageClassName="fast"))
            found = await world.status("PersistentVolumeClaim", "data", phase="Bound")
            made = await world.core.get("persistentvolumes", found["spec"]["volumeName"])
            assert made["metadata"]["name"] == f"pvc-{found['metadata']['uid']}"
            assert made["spec"]["capacity"] == {"storage": "5Gi"}
            await world.delete("PersistentVolumeClaim", "data")
            await world.gone("PersistentVolume", made["metadata"]["name"], namespace="")

    virtual(main)


def test_waiting_for_the_first_consumer() -> None:
    async def main() -> None:
        async with playing(nodes=3) as world:
            zone = {"topologyKey": "topology.kubernetes.io/zone"}
            await world.create(storage_class("zonal", mode="WaitForFirstConsumer", parameters=zone))
            await world.create(claim(storageClassName="zonal"))
            await world.quiet(seconds=10)
            assert (await world.get("PersistentVolumeClaim", "data"))["status"]["phase"] == "Pending"
            note = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "gone"}}}
            await world.patch("PersistentVolumeClaim", "data", note)
            await world.quiet()
            found = await world.get("PersistentVolumeClaim", "data")
            assert "volume.kubernetes.io/selected-node" not in found["metadata"].get("annotations", {})
            note["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] = "node-2"
            await world.patch("PersistentVolumeClaim", "data", note)
            found = await world.status("PersistentVolumeClaim", "data", phase="Bound")
            made = await world.core.get("persistentvolumes", found["spec"]["volumeName"])
            (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            assert term["matchExpressions"][0]["values"] == ["b"]

    virtual(main)


def test_a_volume_the_scheduler_chose_is_bound() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(
                storage_class(
                    "local", mode="WaitForFirstConsumer", provisioner="kubernetes.io/no-provisioner"
                )
            )
            await world.create(volume("disk", "10Gi", storageClassName="local"))
            made = await world.create(claim(storageClassName="local"))
            await world.quiet()
            assert (await world.get("PersistentVolumeClaim", "data"))["status"]["phase"] == "Pending"
            reference = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "data",
                "uid": made["metadata"]["uid"],
            }
            await world.patch("PersistentVolume", "disk", {"spec": {"claimRef": reference}}, namespace="")
            found = await world.status("PersistentVolumeClaim", "data", phase="Bound")
            assert found["spec"]["volumeName"] == "disk"

    virtual(main)


def test_a_claim_without_a_class_gets_the_default_one() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(claim())
            await world.quiet()
            assert (await world.get("PersistentVolumeClaim", "data"))["spec"]["storageClassName"] == "hollow"

    virtual(main)


def test_a_claim_whose_volume_vanished_is_lost() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(volume("disk", "10Gi"))
            await world.create(claim(storageClassName=""))
            await world.status("PersistentVolumeClaim", "data", phase="Bound")
            await world.delete("PersistentVolume", "disk", namespace="")
            await world.status("PersistentVolumeClaim", "data", phase="Lost")

    virtual(main)
