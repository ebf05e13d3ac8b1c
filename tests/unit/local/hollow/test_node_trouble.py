"""Nodes that are not ready, silent or tainted, and what becomes of their pods."""

from __future__ import annotations

import asyncio

import pytest

from tests.manifests import deployment_manifest, pod_manifest
from tests.unit.local.hollow.harness import World, playing, virtual

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


async def annotate(world: World, **notes: str | None) -> None:
    annotations = {f"kuberth.dev/{key}": value for key, value in notes.items()}
    await world.patch("Node", "node-1", {"metadata": {"annotations": annotations}}, namespace="")


async def taints(world: World) -> set[tuple[str, str]]:
    node = await world.get("Node", "node-1", namespace="")
    return {(taint["key"], taint["effect"]) for taint in node["spec"].get("taints", ())}


async def conditions(world: World) -> dict[str, tuple[str, str]]:
    node = await world.get("Node", "node-1", namespace="")
    return {one["type"]: (one["status"], one["reason"]) for one in node["status"]["conditions"]}


async def is_ready(world: World, name: str) -> bool:
    status = (await world.get("Pod", name))["status"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in status["conditions"])


async def messages(world: World, reason: str) -> list[str]:
    return [one["message"] for one in await world.all("Event") if one["reason"] == reason]


def test_a_node_that_says_it_is_not_ready_and_comes_back() -> None:
    async def main() -> None:
        async with playing(nodes=2, binder=False) as world:
            await world.create(pod_manifest("a", nodeName="node-1"))
            await world.status("Pod", "a", phase="Running")
            await annotate(world, ready="false")
            await world.quiet(seconds=2)
            assert (await conditions(world))["Ready"] == ("False", "KubeletNotReady")
            assert await taints(world) == {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}
            assert not await is_ready(world, "a")
            await annotate(world, ready=None)
            await world.quiet(seconds=2)
            assert (await conditions(world))["Ready"] == ("True", "KubeletReady")
            assert await taints(world) == set()
            assert await is_ready(world, "a")
            await world.quiet(seconds=400)
            assert await world.there("Pod", "a")
            assert await messages(world, "TaintManagerEviction") == ["Cancelling deletion of Pod default/a"]

    virtual(main)


def test_pods_of_a_node_that_is_not_ready_go_after_their_tolerance() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            patient = {"key": NOT_READY, "operator": "Exists", "effect": "NoExecute"}
            hasty = {**patient, "tolerationSeconds": 20}
            for name, tolerations in (("patient", [patient]), ("hasty", [hasty]), ("usual", [])):
                await world.create(pod_manifest(name, tolerations=tolerations, nodeName="node-1"))
                await world.status("Pod", name, phase="Running")
            await annotate(world, ready="false")
            await world.quiet(seconds=18)
            assert await world.there("Pod", "hasty")
            await world.gone("Pod", "hasty", seconds=4)
            await world.quiet(seconds=270)
            assert await world.there("Pod", "usual")
            await world.gone("Pod", "usual", seconds=20)
            await world.quiet(seconds=600)
            assert await world.there("Pod", "patient")
            assert sorted(await messages(world, "TaintManagerEviction")) == [
                "Marking for deletion Pod default/hasty",
                "Marking for deletion Pod default/usual",
            ]

    virtual(main)


def test_a_silent_node_is_found_out_and_its_pods_wait_for_it() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            await world.create(pod_manifest("a", nodeName="node-1"))
            await world.status("Pod", "a", phase="Running")
            await world.quiet(seconds=12)
            await annotate(world, heartbeat="stop")
            await world.quiet(seconds=38)
            assert (await conditions(world))["Ready"] == ("True", "KubeletReady")
            await world.quiet(seconds=15)
            assert set((await conditions(world)).values()) == {("Unknown", "NodeStatusUnknown")}
            assert await taints(world) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
            assert not await is_ready(world, "a")
            assert sorted(await messages(world, "NodeNotReady")) == [
                "Node is not ready",
                "Node node-1 status is now: NodeNotReady",
            ]
            # A pod that is bound now is not started, and a deleted one is not ended.
            await world.create(pod_manifest("late", nodeName="node-1"))
            await world.quiet(seconds=310)
            leaving = await world.get("Pod", "a")
            assert "deletionTimestamp" in leaving["metadata"]
            reasons = {one["type"]: one.get("reason") for one in leaving["status"]["conditions"]}
            assert reasons["DisruptionTarget"] == "DeletionByTaintManager"
            assert (await world.get("Pod", "late"))["status"]["phase"] == "Pending"
            await annotate(world, heartbeat=None)
            await world.gone("Pod", "a", seconds=3)
            await world.quiet(seconds=3)
            assert (await conditions(world))["Ready"] == ("True", "KubeletReady")
            assert await taints(world) == set()

    virtual(main)


def test_a_deployment_leaves_a_silent_node() -> None:
    async def main() -> None:
        async with playing(nodes=2) as world:
            body = deployment_manifest(replicas=4)
            body["spec"]["template"]["spec"]["tolerations"] = [
                {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
            ]
            await world.create(body)
            await world.status("Deployment", "web", readyReplicas=4)
            await world.quiet(seconds=12)
            await annotate(world, heartbeat="stop")
            await world.quiet(seconds=70)

            async def moved() -> bool:
                running = [one for one in await world.all("Pod") if one["status"]["phase"] == "Running"]
                here = [one for one in running if "deletionTimestamp" not in one["metadata"]]
                # The binder of these tests knows no taints: some replacements land on the node again.
                return any(one["spec"]["nodeName"] == "node-2" for one in here) and len(running) > 4

            await world.until(moved)

    virtual(main)


@pytest.mark.parametrize("effect", ["NoExecute", "NoSchedule"])
def test_only_no_execute_evicts(effect: str) -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            await world.create(pod_manifest("a", nodeName="node-1"))
            await world.status("Pod", "a", phase="Running")
            taint = {"key": "dedicated", "value": "x", "effect": effect}
            await world.patch("Node", "node-1", {"spec": {"taints": [taint]}}, namespace="")
            await world.quiet(seconds=2)
            assert await world.there("Pod", "a") == (effect == "NoSchedule")
            assert ("dedicated", effect) in await taints(world)

    virtual(main)


def test_a_cordoned_node_is_tainted() -> None:
    async def main() -> None:
        async with playing(nodes=1, binder=False) as world:
            key = ("node.kubernetes.io/unschedulable", "NoSchedule")
            for unschedulable, expected in ((True, {key}), (None, set())):
                patch = {"spec": {"unschedulable": unschedulable}}
                await world.patch("Node", "node-1", patch, namespace="")
                await world.quiet(seconds=1)
                assert await taints(world) == expected

    virtual(main)


def test_a_node_without_a_kubelet_keeps_its_status() -> None:
    async def main() -> None:
        async with playing(nodes=0, binder=False) as world:
            ready = {"type": "Ready", "status": "True", "reason": "Mine", "message": ""}
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "node-1"},
                "status": {"conditions": [ready]},
            }
            await world.create(body)
            await asyncio.sleep(200)
            assert (await conditions(world))["Ready"] == ("True", "Mine")
            assert await taints(world) == set()

    virtual(main)
