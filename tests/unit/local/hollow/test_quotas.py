"""What others write into the status of a quota does not last."""

from __future__ import annotations

import pytest

from kuberth.local.apiserver.objects import Obj
from tests.manifests import pod_manifest
from tests.unit.local.hollow.harness import playing, virtual

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "few", "namespace": "default"},
    "spec": {"hard": {"configmaps": "3", "cpu": "1"}},
}
COUNTED = {"hard": {"configmaps": "3", "cpu": "1"}, "used": {"configmaps": "1", "cpu": "0"}}


def test_a_status_written_by_another_client_is_corrected_within_five_minutes() -> None:
    async def main() -> None:
        async with playing(nodes=0, controllers=["resourcequota"]) as world:
            await world.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
            )
            await world.create(QUOTA)

            async def status() -> Obj:
                found: Obj = (await world.get("ResourceQuota", "few"))["status"]
                return found

            for wrong in ({"hard": {"cpu": "2"}}, {"used": {"configmaps": "7"}}):
                await world.patch("ResourceQuota", "few", {"status": wrong}, sub="status")
                assert (await status()) != COUNTED
                await world.quiet(seconds=301)
                assert await status() == COUNTED

    virtual(main)


def test_what_is_right_is_not_written_again() -> None:
    async def main() -> None:
        async with playing(nodes=0, controllers=["resourcequota"]) as world:
            await world.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}
            )
            await world.create(QUOTA)
            before = await world.get("ResourceQuota", "few")
            await world.quiet(seconds=1000)
            assert await world.get("ResourceQuota", "few") == before
            assert before["status"] == COUNTED

    virtual(main)


TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": pod_manifest()["spec"]}
SELECTED = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
ONCE = {"template": {"spec": {**pod_manifest()["spec"], "restartPolicy": "Never"}}}


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "component"),
    [
        ("apps/v1", "ReplicaSet", SELECTED, "replicaset-controller"),
        ("apps/v1", "StatefulSet", {**SELECTED, "serviceName": "x"}, "statefulset-controller"),
        ("apps/v1", "DaemonSet", SELECTED, "daemonset-controller"),
        ("batch/v1", "Job", ONCE, "job-controller"),
        ("v1", "ReplicationController", {**SELECTED, "selector": {"app": "x"}}, "replication-controller"),
    ],
    ids=["ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"],
)
def test_pods_that_a_quota_refuses_are_an_event_of_their_owner(
    api_version: str, kind: str, spec: Obj, component: str
) -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create({**QUOTA, "spec": {"hard": {"pods": "0"}}})
            metadata = {"name": "web", "namespace": "default"}
            await world.create({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})

            async def found() -> list[Obj]:
                return [each for each in await world.all("Event") if each["reason"] == "FailedCreate"]

            async def has_one() -> bool:
                return bool(await found())

            await world.until(has_one)
            event = (await found())[0]
            assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, "web")
            assert (event["type"], event["source"]["component"]) == ("Warning", component)
            assert event["message"].startswith('Error creating: pods "web-')
            assert "exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0" in event["message"]

    virtual(main)
