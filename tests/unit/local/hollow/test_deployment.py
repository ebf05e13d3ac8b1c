"""Deployments, driven to availability by the controllers and a binder."""

from __future__ import annotations

from tests.manifests import deployment_manifest, template_manifest
from tests.unit.local.hollow.harness import World, playing, virtual


def test_a_deployment_becomes_available() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=20))
            found = await world.status(
                "Deployment", "web", readyReplicas=20, updatedReplicas=20, availableReplicas=20, replicas=20
            )
            assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
            conditions = {one["type"]: one for one in found["status"]["conditions"]}
            assert conditions["Available"]["reason"] == "MinimumReplicasAvailable"
            assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
            await world.status("Deployment", "web", unavailableReplicas=0)
            progressing = await world.condition("Deployment", "web", "Progressing")
            assert progressing["reason"] == "NewReplicaSetAvailable"
            (replica_set,) = await world.all("ReplicaSet")
            hash_ = replica_set["metadata"]["labels"]["pod-template-hash"]
            assert replica_set["metadata"]["name"] == f"web-{hash_}"
            pods = await world.all("Pod")
            assert len(pods) == 20
            for pod in pods:
                assert pod["metadata"]["name"].startswith(f"web-{hash_}-")
                assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": hash_}
                assert pod["status"]["phase"] == "Running"
            events = [event["message"] for event in await world.all("Event")]
            assert f"Scaled up replica set web-{hash_} from 0 to 20" in events

    virtual(main)


def test_scaling_up_and_down() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=2))
            await world.status("Deployment", "web", availableReplicas=2)
            for size in (7, 1, 0):
                await world.patch("Deployment", "web", {"spec": {"replicas": size}})
                await world.status("Deployment", "web", availableReplicas=size, replicas=size)
            await world.quiet()
            assert await world.all("Pod") == []

    virtual(main)


async def _roll(world: World, *, lowest: int, highest: int) -> None:
    """Change the template, and watch the counts while it is rolled out."""
    await world.patch(
        "Deployment", "web", {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}}
    )

    async def done() -> bool:
        pods = await world.all("Pod")
        ready = [
            pod
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") == "Running"
        ]
        active = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert lowest <= len(ready)
        assert len(active) <= highest
        new = [pod for pod in ready if pod["metadata"].get("annotations", {}).get("restarted")]
        return len(new) == len(pods) == 8

    await world.until(done)


def test_a_rolling_update_keeps_its_fenceposts() -> None:
    async def main() -> None:
        async with playing() as world:
            strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}}
            await world.create(deployment_manifest(replicas=8, strategy=strategy))
            await world.status("Deployment", "web", availableReplicas=8)
            await _roll(world, lowest=7, highest=10)
            found = await world.status(
                "Deployment", "web", updatedReplicas=8, replicas=8, availableReplicas=8
            )
            assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
            sets = await world.all("ReplicaSet")
            assert sorted(each["spec"]["replicas"] for each in sets) == [0, 8]

    virtual(main)


def test_recreate_ends_all_old_pods_first() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=4, strategy={"type": "Recreate"}))
            await world.status("Deployment", "web", availableReplicas=4)
            await world.patch(
                "Deployment", "web", {"spec": {"template": template_manifest(annotations={"v": "2"})}}
            )

            async def done() -> bool:
                pods = await world.all("Pod")
                versions = {pod["metadata"].get("annotations", {}).get("v") for pod in pods}
                assert len(versions) <= 1
                return versions == {"2"} and len(pods) == 4

            await world.until(done)

    virtual(main)


def test_going_back_takes_the_old_replica_set_with_a_new_revision() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=2))
            await world.status("Deployment", "web", availableReplicas=2)
            (first,) = await world.all("ReplicaSet")
            await world.patch(
                "Deployment", "web", {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
            )
            await world.status("Deployment", "web", updatedReplicas=2, replicas=2, availableReplicas=2)
            await world.patch(
                "Deployment", "web", {"spec": {"template": {"metadata": {"annotations": {"v": None}}}}}
            )

            async def back() -> bool:
                again = await world.get("ReplicaSet", first["metadata"]["name"])
                return again["status"].get("availableReplicas") == 2 and len(await world.all("Pod")) == 2

            await world.until(back)
            again = await world.get("ReplicaSet", first["metadata"]["name"])
            annotations = again["metadata"]["annotations"]
            assert annotations["deployment.kubernetes.io/revision"] == "3"
            assert annotations["deployment.kubernetes.io/revision-history"] == "1"
            assert len(await world.all("ReplicaSet")) == 2

    virtual(main)


def test_old_versions_are_cleaned_up() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=1, revisionHistoryLimit=1))
            for version in range(4):
                patch = {"spec": {"template": {"metadata": {"annotations": {"v": str(version)}}}}}
                await world.patch("Deployment", "web", patch)
                await world.status("Deployment", "web", updatedReplicas=1, replicas=1, availableReplicas=1)
                await world.quiet()
            assert len(await world.all("ReplicaSet")) == 2

    virtual(main)


def test_a_paused_deployment_does_not_roll() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=2))
            await world.status("Deployment", "web", availableReplicas=2)
            await world.patch(
                "Deployment",
                "web",
                {"spec": {"paused": True, "template": {"metadata": {"annotations": {"v": "2"}}}}},
            )
            await world.patch("Deployment", "web", {"spec": {"replicas": 3}})
            await world.status("Deployment", "web", availableReplicas=3, updatedReplicas=0)
            assert len(await world.all("ReplicaSet")) == 1
            await world.patch("Deployment", "web", {"spec": {"paused": False}})
            await world.status("Deployment", "web", availableReplicas=3, updatedReplicas=3, replicas=3)

    virtual(main)


def test_a_stuck_rollout_is_reported() -> None:
    async def main() -> None:
        async with playing(binder=False) as world:
            await world.create(deployment_manifest(replicas=1, progressDeadlineSeconds=30))

            async def late() -> bool:
                found = await world.get("Deployment", "web")
                conditions = found.get("status", {}).get("conditions", ())
                return any(one.get("reason") == "ProgressDeadlineExceeded" for one in conditions)

            await world.until(late, seconds=40)

    virtual(main)


def test_pods_the_server_refuses_are_reported() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(
                deployment_manifest(template=template_manifest(priorityClassName="no-such-class"))
            )
            condition = await world.condition("Deployment", "web", "ReplicaFailure")
            assert condition["reason"] == "FailedCreate"
            assert "no-such-class" in condition["message"]

    virtual(main)


def test_min_ready_seconds_delay_availability() -> None:
    async def main() -> None:
        async with playing() as world:
            await world.create(deployment_manifest(replicas=2, minReadySeconds=20))
            await world.status("Deployment", "web", readyReplicas=2, availableReplicas=0, seconds=5)
            await world.quiet(seconds=10)
            await world.status("Deployment", "web", availableReplicas=0, seconds=1)
            await world.status("Deployment", "web", availableReplicas=2, seconds=15)

    virtual(main)
