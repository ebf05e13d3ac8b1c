"""Stateful sets: one after the other, each with its claims."""

from __future__ import annotations

from typing import Any

from kuberth.local.apiserver.objects import Obj
from tests.unit.local.hollow.harness import playing, template, virtual


def stateful_set(name: str = "db", *, replicas: int = 3, **spec: Any) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": template(name),
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
                "StatefulSet", "db", {"spec": {"template": template("db", annotations={"v": "2"})}}
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
