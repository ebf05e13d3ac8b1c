"""A node is prepared first, and the pod bound when that is done."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kuberth.api import Node, Pod
from kuberth.testing import (
    World,
    make_node,
    make_pod,
    profile,
    run_in_virtual_time,
    running,
)
from kuberth_plugins.two_step_binding import ANNOTATION, TwoStepBinding, node_preparation_kind

NodePreparation = node_preparation_kind()


def demanding(name: str) -> Pod:
    pod = make_pod(name)
    metadata = msgspec.structs.replace(pod.metadata, annotations={ANNOTATION: "a disk"})
    return msgspec.structs.replace(pod, metadata=metadata)


def scheduler(*objects: Any) -> Any:
    plugins = {"TwoStepBinding": TwoStepBinding}
    no_early_pop = {"SchedulerPopFromBackoffQ": False}  # so that a backoff would be seen
    return running(*objects, plugins=plugins, profiles=[profile("TwoStepBinding")], gates=no_early_pop)


async def requested(world: World, name: str) -> Any:
    await world.until(lambda: any(each.metadata.name == name for each in world.api.all(NodePreparation)))
    return world.api.read(NodePreparation, f"default/{name}")


def report(world: World, found: Any, phase: str) -> None:
    metadata = {"name": found.metadata.name, "namespace": "default"}
    world.api.replace(
        NodePreparation({"metadata": metadata, "spec": found["spec"], "status": {"phase": phase}})
    )


def test_the_pod_is_bound_without_a_backoff_where_its_node_is_ready() -> None:
    async def scenario() -> None:
        async with scheduler(make_node("n1"), make_node("n2"), demanding("p"), make_pod("plain")) as world:
            await world.bound("plain")
            found = await requested(world, "p")
            assert found["spec"]["prepare"] == "a disk"
            await world.quiet(seconds=60)
            assert world.queue_of("p") == "unschedulable"
            report(world, found, "Ready")
            await world.bound("p", seconds=0.5)
            assert world.node_of("p") == found["spec"]["nodeName"]

    run_in_virtual_time(scenario)


def test_a_preparation_that_failed_is_tried_again_when_it_is_deleted() -> None:
    async def scenario() -> None:
        async with scheduler(make_node("n1"), demanding("p")) as world:
            report(world, await requested(world, "p"), "Failed")
            await world.until(lambda: "node n1 failed" in world.pod("p").status.conditions[0].message)
            await world.quiet(seconds=60)
            assert not world.node_of("p")
            world.api.remove(NodePreparation, "default/p")
            await world.quiet(seconds=30)
            report(world, await requested(world, "p"), "Ready")
            await world.bound("p")

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("uid", ["another", "pod-1"], ids=["of-an-earlier-pod", "on-a-node-that-is-gone"])
def test_a_preparation_of_no_use_is_replaced(uid: str) -> None:
    async def scenario() -> None:
        async with scheduler(make_node("n1")) as world:
            pod = demanding("p")
            spec = {"nodeName": "gone", "podUID": uid if uid == "another" else pod.metadata.uid}
            world.api.put(NodePreparation({"metadata": {"name": "p", "namespace": "default"}, "spec": spec}))
            await world.quiet(seconds=1)
            world.api.put(pod)

            def is_replaced() -> bool:
                found = world.api.all(NodePreparation)
                return bool(found) and found[0]["spec"]["nodeName"] == "n1"

            await world.until(is_replaced)
            report(world, world.api.all(NodePreparation)[0], "Ready")
            await world.bound("p")
            assert {each.metadata.name for each in world.api.all(Node)} == {"n1"}

    run_in_virtual_time(scenario)
