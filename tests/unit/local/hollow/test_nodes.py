"""Hollow nodes and the lives of pods on them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kuberth.clock import LoopClock
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from tests.manifests import pod_manifest
from tests.unit.local.hollow.harness import playing, virtual


def pod_to_run(name: str, **more: Any) -> Obj:
    return pod_manifest(name, restartPolicy="Never", **more)


def conditions(obj: Obj) -> dict[str, str]:
    return {one["type"]: one["status"] for one in obj["status"]["conditions"]}


def test_nodes_are_ready_and_spread_over_zones() -> None:
    async def main() -> None:
        async with playing(nodes=7) as world:
            nodes = await world.all("Node")
            assert [node["metadata"]["name"] for node in nodes] == [
                f"node-{number}" for number in range(1, 8)
            ]
            zones = [node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes]
            assert zones == ["a", "b", "c", "a", "b", "c", "a"]
            addresses = {node["status"]["addresses"][0]["address"] for node in nodes}
            assert len(addresses) == 7
            for node in nodes:
                assert conditions(node)["Ready"] == "True"
                assert node["status"]["allocatable"]["cpu"] == "8"
                assert node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"]

    virtual(main)


def test_leases_are_renewed_every_ten_seconds() -> None:
    async def main() -> None:
        async with playing(nodes=5, controllers=()) as world:

            async def renewals() -> list[str]:
                leases = await world.all("Lease", namespace="kube-node-lease")
                return [lease["spec"]["renewTime"] for lease in leases]

            await world.quiet(seconds=11)
            before = await renewals()
            assert len(before) == 5
            await world.quiet(seconds=10.5)
            after = await renewals()
            assert all(new > old for old, new in zip(before, after, strict=True))
            (lease, *_) = await world.all("Lease", namespace="kube-node-lease")
            assert lease["spec"]["leaseDurationSeconds"] == 40
            assert lease["spec"]["holderIdentity"] == lease["metadata"]["name"]

    virtual(main)


def test_a_bound_pod_runs() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            init = [{"name": "init", "image": "busybox"}]
            await world.create(pod_to_run("a", initContainers=init))
            await world.create(pod_to_run("b"))
            await world.create(pod_to_run("host", hostNetwork=True))
            for name in ("a", "b", "host"):
                await world.status("Pod", name, phase="Running")
            found = await world.get("Pod", "a")
            status = found["status"]
            expected = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            assert all(conditions(found)[type_] == "True" for type_ in expected)
            assert status["containerStatuses"][0]["ready"] is True
            assert "running" in status["containerStatuses"][0]["state"]
            assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
            assert status["hostIP"] == "172.16.0.1"
            assert status["startTime"]
            assert status["podIP"] != (await world.get("Pod", "b"))["status"]["podIP"]
            assert (await world.get("Pod", "host"))["status"]["podIP"] == status["hostIP"]

    virtual(main)


@pytest.mark.parametrize(
    ("exit_code", "phase", "reason"),
    [("0", "Succeeded", "Completed"), ("3", "Failed", "Error"), ("nonsense", "Succeeded", "Completed")],
)
def test_a_pod_ends_after_its_annotated_duration(exit_code: str, phase: str, reason: str) -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            notes = {"kuberth.dev/run-seconds": "30", "kuberth.dev/exit-code": exit_code}
            await world.create(pod_to_run("a", annotations=notes))
            await world.status("Pod", "a", phase="Running")
            await world.quiet(seconds=29)
            assert (await world.get("Pod", "a"))["status"]["phase"] == "Running"
            found = await world.status("Pod", "a", phase=phase, seconds=2)
            assert found["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == reason
            assert conditions(found)["Ready"] == "False"

    virtual(main)


def test_deletion_with_grace_is_finished_at_once() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod_to_run("a", terminationGracePeriodSeconds=3000))
            await world.status("Pod", "a", phase="Running")
            await world.delete("Pod", "a")
            await world.gone("Pod", "a", seconds=1)

    virtual(main)


def test_a_pod_with_finalizers_looks_finished_while_it_stays() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            body = pod_to_run("a")
            body["metadata"]["finalizers"] = ["example.com/wait"]
            await world.create(body)
            await world.status("Pod", "a", phase="Running")
            await world.delete("Pod", "a")
            await world.status("Pod", "a", phase="Failed")
            await world.patch("Pod", "a", {"metadata": {"finalizers": None}})
            await world.gone("Pod", "a", seconds=1)

    virtual(main)


def test_readiness_gates_hold_ready_back() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod_to_run("a", readinessGates=[{"conditionType": "example.com/lb"}]))
            found = await world.status("Pod", "a", phase="Running")
            assert conditions(found)["Ready"] == "False"
            gate = {"type": "example.com/lb", "status": "True"}
            listed = [*found["status"]["conditions"], gate]
            await world.patch("Pod", "a", {"status": {"conditions": listed}}, sub="status")
            await world.condition("Pod", "a", "Ready", seconds=2)

    virtual(main)


def test_pods_of_a_deleted_node_are_removed() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(pod_to_run("a"))
            await world.status("Pod", "a", phase="Running")
            await world.quiet(seconds=12)
            await world.delete("Node", "node-1", namespace="")
            await world.gone("Pod", "a", seconds=10)
            # Its lease is owned by it, and goes with it.
            await world.gone("Lease", "node-1", namespace="kube-node-lease", seconds=5)

    virtual(main)


def test_a_node_made_by_hand_is_played_if_it_says_so() -> None:
    async def main() -> None:
        async with playing(nodes=0) as world:
            for name, notes in (("mine", {"kuberth.dev/hollow": "true"}), ("real", {})):
                body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": notes}}
                await world.create(body)
                await world.create(pod_to_run(f"on-{name}", nodeName=name))
            await world.status("Pod", "on-mine", phase="Running", seconds=5)
            node = await world.core.get("nodes", "mine")
            assert conditions(node)["Ready"] == "True"
            assert node["status"]["capacity"]["pods"] == "110"
            await world.quiet()
            assert (await world.get("Pod", "on-real"))["status"]["phase"] == "Pending"

    virtual(main)


def test_after_a_restart_nodes_and_pods_go_on() -> None:
    async def main() -> None:
        store = await RevisionStore.open(None)
        clock = LoopClock(asyncio.get_running_loop(), epoch_ns=1_700_000_000 * 10**9)
        core = Core(store, clock=clock)
        async with playing(core, nodes=2) as world:
            await world.create(pod_to_run("a", annotations={"kuberth.dev/run-seconds": "60"}))
            await world.status("Pod", "a", phase="Running")
            await world.patch("Node", "node-1", {"metadata": {"labels": {"mine": "yes"}}}, namespace="")
        await asyncio.sleep(30)
        async with playing(core, nodes=3) as world:
            assert len(await world.all("Node")) == 3
            assert (await world.core.get("nodes", "node-1"))["metadata"]["labels"]["mine"] == "yes"
            await world.create(pod_to_run("b"))
            await world.status("Pod", "b", phase="Running")
            addresses = [one["status"]["podIP"] for one in await world.all("Pod")]
            assert len(set(addresses)) == 2
            await world.quiet(seconds=20)
            assert (await world.get("Pod", "a"))["status"]["phase"] == "Running"
            await world.status("Pod", "a", phase="Succeeded", seconds=12)
        await store.close()

    virtual(main)
