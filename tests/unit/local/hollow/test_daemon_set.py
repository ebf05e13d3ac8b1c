"""Daemon sets: a pod a node, where node affinity and taints allow it."""

from __future__ import annotations

from typing import Any

import msgspec

from kuberth.local.apiserver.objects import Obj
from tests.manifests import template_manifest
from tests.unit.local.hollow.harness import World, playing, virtual

TAINT = {"key": "special", "value": "yes", "effect": "NoSchedule"}


def daemon_set(name: str = "logs", **spec: Any) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template_manifest(name), **spec},
    }


async def nodes_of(world: World) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in await world.all("Pod"))


async def node_names(world: World) -> list[str]:
    return sorted(node["metadata"]["name"] for node in await world.all("Node"))


def test_one_pod_a_node() -> None:
    async def main() -> None:
        async with playing(nodes=3) as world:
            await world.create(daemon_set())
            found = await world.status("DaemonSet", "logs", numberReady=3, desiredNumberScheduled=3)
            assert found["status"] == {
                "currentNumberScheduled": 3,
                "numberMisscheduled": 0,
                "desiredNumberScheduled": 3,
                "numberReady": 3,
                "observedGeneration": 1,
                "updatedNumberScheduled": 3,
                "numberAvailable": 3,
            }
            assert await nodes_of(world) == await node_names(world)
            pod = (await world.all("Pod"))[0]
            assert "controller-revision-hash" in pod["metadata"]["labels"]
            assert {
                "key": "node.kubernetes.io/unschedulable",
                "operator": "Exists",
                "effect": "NoSchedule",
            } in pod["spec"]["tolerations"]
            await world.delete("Pod", pod["metadata"]["name"])
            await world.gone("Pod", pod["metadata"]["name"])
            await world.quiet()
            await world.status("DaemonSet", "logs", numberReady=3)
            assert await nodes_of(world) == await node_names(world)

    virtual(main)


def test_taints_and_selectors_decide() -> None:
    async def main() -> None:
        async with playing(nodes=3) as world:
            first, second, third = await node_names(world)
            await world.patch("Node", first, {"metadata": {"labels": {"disk": "ssd"}}}, namespace="")
            await world.patch("Node", second, {"spec": {"taints": [TAINT]}}, namespace="")
            await world.create(daemon_set())
            await world.create(
                daemon_set("fast", template=template_manifest("fast", nodeSelector={"disk": "ssd"}))
            )
            tolerant = template_manifest("any", tolerations=[{"key": "special", "operator": "Exists"}])
            await world.create(daemon_set("any", template=tolerant))
            for name, count in (("logs", 2), ("fast", 1), ("any", 3)):
                await world.status("DaemonSet", name, numberReady=count, desiredNumberScheduled=count)
            # A label that comes brings a pod, one that goes takes it away; a taint lets running pods stay.
            await world.patch("Node", third, {"metadata": {"labels": {"disk": "ssd"}}}, namespace="")
            await world.status("DaemonSet", "fast", numberReady=2)
            await world.patch("Node", third, {"metadata": {"labels": {"disk": None}}}, namespace="")
            await world.status("DaemonSet", "fast", numberReady=1, desiredNumberScheduled=1)
            await world.patch("Node", third, {"spec": {"taints": [TAINT]}}, namespace="")
            await world.status("DaemonSet", "logs", desiredNumberScheduled=1, numberMisscheduled=1)
            await world.quiet()
            assert len(await world.all("Pod", labels="app=logs")) == 2
            await world.patch(
                "Node", third, {"spec": {"taints": [{**TAINT, "effect": "NoExecute"}]}}, namespace=""
            )
            await world.status("DaemonSet", "logs", desiredNumberScheduled=1, numberMisscheduled=0)

    virtual(main)


def test_a_new_template_rolls_out() -> None:
    async def main() -> None:
        async with playing(nodes=3) as world:
            await world.create(daemon_set())
            await world.status("DaemonSet", "logs", numberReady=3)
            await world.patch(
                "DaemonSet", "logs", {"spec": {"template": template_manifest("logs", annotations={"v": "2"})}}
            )

            async def done() -> bool:
                found = (await world.get("DaemonSet", "logs"))["status"]
                assert found["numberUnavailable"] <= 1 if "numberUnavailable" in found else True
                return bool(
                    found["observedGeneration"] == 2
                    and found.get("updatedNumberScheduled") == 3
                    and found.get("numberAvailable") == 3
                )

            await world.until(done, seconds=300)
            assert {pod["metadata"]["annotations"]["v"] for pod in await world.all("Pod")} == {"2"}

    virtual(main)


def test_new_pods_may_come_before_old_ones_go() -> None:
    async def main() -> None:
        async with playing(nodes=3) as world:
            rolling = {"maxSurge": 1, "maxUnavailable": 0}
            await world.create(daemon_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": rolling}))
            await world.status("DaemonSet", "logs", numberReady=3)
            await world.patch(
                "DaemonSet", "logs", {"spec": {"template": template_manifest("logs", annotations={"v": "2"})}}
            )

            async def done() -> bool:
                pods = [pod for pod in await world.all("Pod") if "deletionTimestamp" not in pod["metadata"]]
                ready = {
                    pod["spec"]["nodeName"] for pod in pods if pod.get("status", {}).get("phase") == "Running"
                }
                assert len(ready) == 3
                assert len(pods) <= 4
                return all("annotations" in pod["metadata"] for pod in pods) and len(pods) == 3

            await world.until(done, seconds=300)
            await world.status("DaemonSet", "logs", updatedNumberScheduled=3, numberAvailable=3)

    virtual(main)


def test_templates_are_remembered() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(daemon_set(revisionHistoryLimit=1))

            async def roll(version: str) -> None:
                new = template_manifest("logs", annotations={"v": version})
                await world.patch("DaemonSet", "logs", {"spec": {"template": new}})
                await world.status("DaemonSet", "logs", updatedNumberScheduled=1, numberAvailable=1)
                await world.quiet(seconds=60)

            async def known() -> dict[int, str]:
                found = await world.all("ControllerRevision")
                return {
                    each["revision"]: each["data"]["spec"]["template"]["metadata"]["annotations"]["v"]
                    for each in found
                }

            await roll("a")
            await roll("b")
            await roll("c")
            # The present one and one before it; numbers go on.
            assert await known() == {3: "b", 4: "c"}
            await roll("b")
            assert await known() == {4: "c", 5: "b"}

    virtual(main)


def test_a_pod_that_failed_is_replaced() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(daemon_set())
            await world.status("DaemonSet", "logs", numberReady=1)
            first = (await world.all("Pod"))[0]["metadata"]["name"]
            await world.quiet()
            await world.patch("Pod", first, {"status": {"phase": "Failed"}}, sub="status")
            await world.gone("Pod", first)
            await world.status("DaemonSet", "logs", numberReady=1)

    virtual(main)


def test_its_revisions_read_as_upstream_writes_them() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(daemon_set())
            await world.status("DaemonSet", "logs", numberReady=1)
            (revision,) = await world.all("ControllerRevision")
            data = msgspec.json.encode(revision["data"]).decode()
            assert data.startswith('{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":')
            container = revision["data"]["spec"]["template"]["spec"]["containers"][0]
            assert container["resources"] == {}
            assert list(container) == sorted(container)

    virtual(main)
