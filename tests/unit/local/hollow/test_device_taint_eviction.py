"""Pods go when a device that they use gets a NoExecute taint that their claim does not tolerate."""

from __future__ import annotations

import asyncio
from typing import Any

from kuberth.clock import LoopClock
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from tests.unit.local.hollow.harness import World, playing, virtual

EPOCH_NS = 1_700_000_000 * 10**9
NO_EXECUTE = {"key": "broken", "effect": "NoExecute"}
RULES = "devicetaintrules.resource.k8s.io"


def slice_with(*taints: Obj, device: str = "gpu-0", generation: int = 1, name: str = "s") -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": generation, "resourceSliceCount": 1},
            "devices": [{"name": device, "taints": list(taints)}],
        },
    }


async def pod_with_device(world: World, name: str = "p", *tolerations: Obj) -> None:
    """A running pod whose claim has the device."""
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    await world.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"{name}-claim", "namespace": "default"},
            "spec": {"devices": {"requests": requests}},
        }
    )
    claims = [{"name": "gpu", "resourceClaimName": f"{name}-claim"}]
    made = await world.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "containers": [{"name": "main", "image": "x"}],
                "resourceClaims": claims,
                "terminationGracePeriodSeconds": 0,
            },
        }
    )
    result: Obj = {"request": "r", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}
    if tolerations:
        result["tolerations"] = list(tolerations)
    user = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    await world.patch("ResourceClaim", f"{name}-claim", {"status": status}, sub="status")
    await world.status("Pod", name, phase="Running")


def tolerating(seconds: int | None = None, **more: Any) -> Obj:
    toleration: Obj = {"key": "broken", "operator": "Exists", "effect": "NoExecute", **more}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


async def messages(world: World) -> list[str]:
    found = await world.all("Event")
    return [each["message"] for each in found if each["reason"] == "DeviceTaintManagerEviction"]


def test_a_new_taint_evicts_pods_that_do_not_tolerate_it() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(slice_with())
            await pod_with_device(world)
            await pod_with_device(world, "patient", tolerating())
            watch = world.core.watch(
                "pods", resource_version=(await world.get("Pod", "p"))["metadata"]["resourceVersion"]
            )
            await world.patch("ResourceSlice", "s", {"spec": slice_with(NO_EXECUTE)["spec"]}, namespace="")
            await world.gone("Pod", "p")
            async for _type, pod in watch:
                if pod["metadata"]["name"] == "p" and any(
                    one["type"] == "DisruptionTarget" for one in pod["status"].get("conditions", ())
                ):
                    break
            (condition,) = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
            assert condition["reason"] == "DeletionByDeviceTaintManager"
            assert condition["message"] == "Device Taint manager: deleting due to NoExecute taint"
            await world.quiet()
            assert await messages(world) == ["Marking for deletion"]
            assert await world.there("Pod", "patient")

    virtual(main)


def test_other_effects_and_other_devices_evict_no_pod() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(slice_with({"key": "broken", "effect": "NoSchedule"}))
            await world.create(slice_with(NO_EXECUTE, device="gpu-1", name="other"))
            # Of a generation that is over.
            await world.create(slice_with(NO_EXECUTE, generation=0, name="old"))
            await pod_with_device(world)
            await world.quiet()
            assert await world.there("Pod", "p")

    virtual(main)


def test_what_is_tolerated_for_a_while_is_tolerated_from_the_taint_on() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(slice_with(NO_EXECUTE))
            # For all effects is not enough, as upstream has it; and the shorter of two times counts.
            await pod_with_device(world, "p", tolerating(40), tolerating(20), tolerating(effect=""))
            await asyncio.sleep(15)
            assert await world.there("Pod", "p")
            await world.gone("Pod", "p", seconds=10)

    virtual(main)


def test_a_taint_that_goes_in_time_takes_the_decision_back() -> None:
    async def main() -> None:
        async with playing(nodes=1) as world:
            await world.create(slice_with(NO_EXECUTE))
            await pod_with_device(world, "p", tolerating(20))
            await world.quiet()
            await world.patch("ResourceSlice", "s", {"spec": slice_with()["spec"]}, namespace="")
            await asyncio.sleep(60)
            assert await world.there("Pod", "p")
            assert await messages(world) == ["Cancelling deletion"]

    virtual(main)


def rule(**selector: str) -> Obj:
    return {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "-".join(selector) or "all"},
        "spec": {"deviceSelector": selector, "taint": NO_EXECUTE},
    }


def test_rules_evict_with_their_gate_alone() -> None:
    async def evicted(*, gate: bool) -> bool:
        store = await RevisionStore.open(None)
        clock = LoopClock(asyncio.get_running_loop(), epoch_ns=EPOCH_NS)
        core = Core(store, clock=clock, feature_gates={"DRADeviceTaintRules": gate})
        async with playing(core, nodes=1) as world:
            await world.create(slice_with())
            await pod_with_device(world)
            await core.create(RULES, rule(driver="other.example.com"))
            await core.create(RULES, rule(driver="gpu.example.com", device="gpu-7"))
            await world.quiet()
            assert await world.there("Pod", "p"), "about other devices"
            await core.create(RULES, rule(driver="gpu.example.com", pool="node-1"))
            await world.quiet()
            there = await world.there("Pod", "p")
        await store.close()
        return not there

    assert virtual(lambda: evicted(gate=True))
    assert not virtual(lambda: evicted(gate=False))
