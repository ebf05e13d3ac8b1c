"""Stateful sets: one after the other, each with its claims."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kuberth.clock import LoopClock
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from tests.manifests import template_manifest
from tests.unit.local.hollow.harness import World, playing, virtual

REVISIONS = "controllerrevisions.apps"
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@asynccontextmanager
async def keeping_revisions() -> AsyncIterator[World]:
    """A cluster that serves ControllerRevisions, whether or not the catalogue has them."""
    store = await RevisionStore.open(None)
    core = Core(store, clock=LoopClock(asyncio.get_running_loop(), epoch_ns=1_700_000_000 * 10**9))
    if core.resources.by_id(REVISIONS) is None:
        core.resources.add(ServedResource("apps", "v1", "ControllerRevision", "controllerrevisions"))
    async with playing(core) as world:
        yield world
    await store.close()


async def versions(world: World) -> dict[str, str | None]:
    """The version in the template each pod was made from."""
    return {
        pod["metadata"]["name"]: pod["metadata"].get("annotations", {}).get("v")
        for pod in await world.all("Pod")
    }


async def revisions(world: World) -> dict[str, int]:
    items = (await world.core.list(REVISIONS))["items"]
    return {one["metadata"]["name"]: one["revision"] for one in items}


async def set_version(world: World, version: str | None) -> None:
    patch = {"spec": {"template": {"metadata": {"annotations": {"v": version}}}}}
    await world.patch("StatefulSet", "db", patch)


def stateful_set(name: str = "db", *, replicas: int = 3, **spec: Any) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template_manifest(name),
            **spec,
        },
    }


def test_pods_come_in_order_and_go_from_the_end() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(stateful_set())

            async def in_order() -> bool:
                pods = {pod["metadata"]["name"]: pod for pod in await world.all("Pod")}
                ready = [pod for pod in pods.values() if pod.get("status", {}).get("phase") == "Running"]
                assert len(pods) <= len(ready) + 1
                return len(ready) == 3

            await world.until(in_order)
            found = await world.status(
                "StatefulSet", "db", readyReplicas=3, currentReplicas=3, updatedReplicas=3
            )
            assert found["status"]["currentRevision"] == found["status"]["updateRevision"]
            second = await world.get("Pod", "db-1")
            assert second["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "db-1"
            assert (second["spec"]["hostname"], second["spec"]["subdomain"]) == ("db-1", "db")
            await world.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
            await world.status("StatefulSet", "db", replicas=1)
            assert [pod["metadata"]["name"] for pod in await world.all("Pod")] == ["db-0"]

    virtual(main)


def test_a_rolling_update_goes_down_to_the_partition() -> None:
    async def main() -> None:
        async with playing() as world:
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            await world.create(stateful_set(updateStrategy=strategy))
            await world.status("StatefulSet", "db", readyReplicas=3)
            await world.patch(
                "StatefulSet", "db", {"spec": {"template": template_manifest("db", annotations={"v": "2"})}}
            )
            await world.status("StatefulSet", "db", updatedReplicas=2, readyReplicas=3)
            await world.quiet()
            pods = {pod["metadata"]["name"]: pod for pod in await world.all("Pod")}
            versions = [
                pods[f"db-{number}"]["metadata"].get("annotations", {}).get("v") for number in range(3)
            ]
            assert versions == [None, "2", "2"]
            await world.patch(
                "StatefulSet", "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
            )
            found = await world.status("StatefulSet", "db", updatedReplicas=3, readyReplicas=3)
            assert found["status"]["currentRevision"] == found["status"]["updateRevision"]

    virtual(main)


def test_claims_from_templates_outlive_their_pods() -> None:
    async def main() -> None:
        async with playing() as world:
            claim = {
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
            await world.create(stateful_set(replicas=2, volumeClaimTemplates=[claim]))
            await world.status("StatefulSet", "db", readyReplicas=2)
            pod = await world.get("Pod", "db-1")
            (volume,) = [one for one in pod["spec"]["volumes"] if one["name"] == "data"]
            assert volume["persistentVolumeClaim"]["claimName"] == "data-db-1"
            await world.delete("StatefulSet", "db", propagationPolicy="Background")
            await world.gone("Pod", "db-1")
            claims = [one["metadata"]["name"] for one in await world.all("PersistentVolumeClaim")]
            assert claims == ["data-db-0", "data-db-1"]

    virtual(main)


def test_parallel_sets_do_not_wait() -> None:
    async def main() -> None:
        async with playing(binder=False) as world:
            await world.create(stateful_set(podManagementPolicy="Parallel"))
            await world.quiet()
            assert len(await world.all("Pod")) == 3

    virtual(main)


def test_a_pod_below_the_partition_comes_back_as_it_was() -> None:
    async def main() -> None:
        async with keeping_revisions() as world:
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
            await world.create(stateful_set(updateStrategy=strategy))
            await world.status("StatefulSet", "db", readyReplicas=3)
            await set_version(world, "2")
            await world.status("StatefulSet", "db", updatedReplicas=2, readyReplicas=3)
            await world.delete("Pod", "db-0")
            await world.quiet()
            found = await world.status("StatefulSet", "db", updatedReplicas=2, readyReplicas=3)
            assert await versions(world) == {"db-0": None, "db-1": "2", "db-2": "2"}
            status = found["status"]
            assert status["currentReplicas"] == 1
            numbers = await revisions(world)
            assert (numbers[status["currentRevision"]], numbers[status["updateRevision"]]) == (1, 2)
            first = await world.get("Pod", "db-0")
            assert first["metadata"]["labels"]["controller-revision-hash"] == status["currentRevision"]

    virtual(main)


def test_a_rollback_takes_up_the_earlier_revision() -> None:
    async def main() -> None:
        async with keeping_revisions() as world:
            await world.create(stateful_set(replicas=1))
            found = await world.status("StatefulSet", "db", readyReplicas=1, updatedReplicas=1)
            first = found["status"]["currentRevision"]
            for version in ("2", None):
                await set_version(world, version)
                await world.quiet()
                found = await world.status("StatefulSet", "db", readyReplicas=1, updatedReplicas=1)
            assert found["status"]["currentRevision"] == found["status"]["updateRevision"] == first
            assert sorted((await revisions(world)).values()) == [2, 3]

    virtual(main)


def test_old_revisions_are_forgotten() -> None:
    async def main() -> None:
        async with keeping_revisions() as world:
            await world.create(stateful_set(replicas=1, revisionHistoryLimit=1))
            for version in ("1", "2", "3", "4"):
                await set_version(world, version)
                await world.quiet()
            assert sorted((await revisions(world)).values()) == [4, 5]

    virtual(main)


def test_on_delete_waits_for_a_deletion() -> None:
    async def main() -> None:
        async with keeping_revisions() as world:
            await world.create(stateful_set(replicas=2, updateStrategy={"type": "OnDelete"}))
            await world.status("StatefulSet", "db", readyReplicas=2)
            await set_version(world, "2")
            await world.quiet(seconds=10)
            assert await versions(world) == {"db-0": None, "db-1": None}
            await world.delete("Pod", "db-0")
            await world.quiet()
            assert await versions(world) == {"db-0": "2", "db-1": None}

    virtual(main)


def test_an_update_gets_past_a_pod_that_never_became_ready() -> None:
    """With the Parallel policy: with the other one it is stuck, as upstream's is."""

    async def main() -> None:
        async with keeping_revisions() as world:
            await world.create(stateful_set(replicas=2, podManagementPolicy="Parallel"))
            await world.status("StatefulSet", "db", readyReplicas=2)
            broken = {"metadata": {"annotations": {"kuberth.dev/ready": "false"}}}
            await world.patch("StatefulSet", "db", {"spec": {"template": broken}})
            await world.quiet()
            await world.status("StatefulSet", "db", readyReplicas=1, updatedReplicas=1)
            mended = {"metadata": {"annotations": {"kuberth.dev/ready": None}}}
            await world.patch("StatefulSet", "db", {"spec": {"template": mended}})
            await world.status("StatefulSet", "db", readyReplicas=2, updatedReplicas=2)

    virtual(main)


@pytest.mark.parametrize(
    ("policy", "scaled", "deleted"),
    [
        ({"whenScaled": "Retain", "whenDeleted": "Retain"}, 2, 2),
        ({"whenScaled": "Delete", "whenDeleted": "Retain"}, 1, 1),
        ({"whenScaled": "Retain", "whenDeleted": "Delete"}, 2, 0),
        ({"whenScaled": "Delete", "whenDeleted": "Delete"}, 1, 0),
    ],
    ids=["keep", "scaled", "deleted", "both"],
)
def test_claims_go_as_the_retention_policy_says(policy: Obj, scaled: int, deleted: int) -> None:
    async def main() -> None:
        async with playing() as world:
            retention: Obj = {"persistentVolumeClaimRetentionPolicy": policy}
            await world.create(stateful_set(replicas=2, volumeClaimTemplates=[CLAIM], **retention))
            await world.status("StatefulSet", "db", readyReplicas=2)
            await world.quiet()
            assert len(await world.all("PersistentVolumeClaim")) == 2
            await world.patch("StatefulSet", "db", {"spec": {"replicas": 1}})
            await world.quiet(seconds=5)
            assert len(await world.all("PersistentVolumeClaim")) == scaled
            await world.delete("StatefulSet", "db", propagationPolicy="Background")
            await world.quiet(seconds=5)
            assert await world.all("Pod") == []
            assert len(await world.all("PersistentVolumeClaim")) == deleted

    virtual(main)


def test_a_revision_of_another_client_does_no_harm() -> None:
    async def main() -> None:
        async with keeping_revisions() as world:
            await world.create(stateful_set(replicas=1))
            await world.status("StatefulSet", "db", readyReplicas=1)
            strange = {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {"name": "db-strange", "labels": {"app": "db"}},
                "data": {"spec": "nothing"},
                "revision": 7,
            }
            await world.core.create(REVISIONS, strange, namespace="default")
            status = {"status": {"currentRevision": "db-strange"}}
            await world.patch("StatefulSet", "db", status, sub="status")
            await set_version(world, "2")
            await world.quiet()
            await world.status("StatefulSet", "db", readyReplicas=1, updatedReplicas=1)
            assert await versions(world) == {"db-0": "2"}

    virtual(main)
