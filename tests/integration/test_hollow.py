"""The whole embedded cluster in one process: server, hollow nodes, controllers and the real scheduler."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import LoopClock
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.in_process import InProcessApi
from tests.manifests import deployment_manifest, pod_manifest, template_manifest
from tests.unit.local.hollow.harness import World, playing, virtual


@asynccontextmanager
async def whole_cluster(*, nodes: int) -> AsyncIterator[World]:
    store = await RevisionStore.open(None)
    clock = LoopClock(asyncio.get_running_loop(), epoch_ns=1_700_000_000 * 10**9)
    core = Core(store, clock=clock)
    scheduler = Scheduler(InProcessApi(core), clock=clock, rng=random.Random(1))
    async with playing(core, nodes=nodes, binder=False) as world, asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.run(), name="scheduler")
        await scheduler.wait_synced()
        try:
            yield world
        finally:
            scheduler.stop()
    await store.close()


def test_a_deployment_is_scheduled_over_the_zones_and_rolled() -> None:
    async def main() -> None:
        async with whole_cluster(nodes=6) as world:
            spread = {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": ["pod-template-hash"],
            }
            await world.create(
                deployment_manifest(
                    replicas=12, template=template_manifest(topologySpreadConstraints=[spread])
                )
            )
            await world.status("Deployment", "web", availableReplicas=12)
            zones = {
                node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"]
                for node in await world.all("Node")
            }
            counts = Counter(zones[pod["spec"]["nodeName"]] for pod in await world.all("Pod"))
            assert counts == {"a": 4, "b": 4, "c": 4}
            patch = {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}}
            await world.patch("Deployment", "web", patch)
            await world.status("Deployment", "web", updatedReplicas=12, availableReplicas=12, replicas=12)

    virtual(main)


def test_what_does_not_fit_waits_for_a_job_to_end() -> None:
    async def main() -> None:
        async with whole_cluster(nodes=2) as world:
            notes = {"kuberth.dev/run-seconds": "60"}
            containers = [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "5"}}}]
            await world.create(
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": "work", "namespace": "default"},
                    "spec": {
                        "completions": 4,
                        "parallelism": 4,
                        "template": template_manifest(
                            "work", annotations=notes, restartPolicy="Never", containers=containers
                        ),
                    },
                }
            )
            await world.status("Job", "work", active=4)
            await world.quiet(seconds=30)
            pods = await world.all("Pod")
            assert sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 2
            await world.condition("Job", "work", "Complete", seconds=200)

    virtual(main)


@pytest.mark.parametrize(("before", "after"), [("6", "2"), ("2", "6")], ids=["smaller", "larger"])
def test_a_resized_pod_counts_with_its_new_size(before: str, after: str) -> None:
    async def main() -> None:
        async with whole_cluster(nodes=1) as world:
            await world.create(pod_manifest("a", requests={"cpu": before}))
            await world.status("Pod", "a", phase="Running")
            if before > after:
                await world.create(pod_manifest("b", requests={"cpu": "5"}))
                await world.quiet()
                assert "nodeName" not in (await world.get("Pod", "b"))["spec"]
            size = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": after}}}]}}
            await world.patch("Pod", "a", size, sub="resize")
            if before < after:
                await world.create(pod_manifest("b", requests={"cpu": "5"}, nodeName="node-1"))
                found = await world.status("Pod", "b", phase="Failed")
                assert found["status"]["reason"] == "OutOfcpu"
            else:
                await world.status("Pod", "b", phase="Running")

    virtual(main)


def test_a_claim_waits_for_its_pod_and_gets_a_volume_where_the_pod_goes() -> None:
    async def main() -> None:
        async with whole_cluster(nodes=3) as world:
            await world.create(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": "data", "namespace": "default"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    },
                }
            )
            await world.quiet(seconds=5)
            assert (await world.get("PersistentVolumeClaim", "data"))["status"]["phase"] == "Pending"
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
            await world.create(deployment_manifest(replicas=1, template=template_manifest(volumes=volumes)))
            await world.status("PersistentVolumeClaim", "data", phase="Bound")
            await world.status("Deployment", "web", availableReplicas=1)

    virtual(main)


def test_a_preempting_pod_is_nominated_while_its_victim_stops() -> None:
    async def main() -> None:
        async with whole_cluster(nodes=1) as world:

            def filling(name: str, **spec: object) -> dict[str, object]:
                resources = {"requests": {"cpu": "6"}}
                containers = [{"name": "main", "image": "nginx", "resources": resources}]
                notes = {"kuberth.dev/stop-seconds": "20"}
                metadata = {"name": name, "namespace": "default", "annotations": notes}
                return {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": metadata,
                    "spec": {"containers": containers, **spec},
                }

            await world.create(filling("victim"))
            await world.status("Pod", "victim", phase="Running")
            await world.create(filling("urgent", priorityClassName="system-cluster-critical"))
            await world.status("Pod", "urgent", nominatedNodeName="node-1")
            await world.quiet(seconds=15)
            victim = await world.get("Pod", "victim")
            assert "deletionTimestamp" in victim["metadata"]
            reasons = {one["type"]: one.get("reason") for one in victim["status"]["conditions"]}
            assert reasons["DisruptionTarget"] == "PreemptionByScheduler"
            assert "nodeName" not in (await world.get("Pod", "urgent"))["spec"]
            found = await world.status("Pod", "urgent", phase="Running", seconds=20)
            assert found["spec"]["nodeName"] == "node-1"
            assert not await world.there("Pod", "victim")

    virtual(main)


def test_pods_leave_a_silent_node_for_another() -> None:
    async def main() -> None:
        async with whole_cluster(nodes=2) as world:
            body = deployment_manifest(replicas=4)
            unreachable = "node.kubernetes.io/unreachable"
            tolerated = {"key": unreachable, "operator": "Exists", "effect": "NoExecute"}
            body["spec"]["template"]["spec"]["tolerations"] = [{**tolerated, "tolerationSeconds": 10}]
            await world.create(body)
            await world.status("Deployment", "web", availableReplicas=4)
            await world.quiet(seconds=12)
            silent = {"metadata": {"annotations": {"kuberth.dev/heartbeat": "stop"}}}
            await world.patch("Node", "node-1", silent, namespace="")
            await world.status("Deployment", "web", availableReplicas=2, seconds=60)
            await world.status("Deployment", "web", availableReplicas=4, seconds=30)
            alive = [pod for pod in await world.all("Pod") if "deletionTimestamp" not in pod["metadata"]]
            assert {pod["spec"]["nodeName"] for pod in alive} == {"node-2"}

    virtual(main)
