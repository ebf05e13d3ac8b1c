"""Elastic quotas: what is guaranteed, what may be borrowed, and who has to give it back."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.api import Pod, PodDisruptionBudget, convert
from kuberth.testing import (
    World,
    make_namespace,
    make_node,
    make_pod,
    profile,
    run_in_virtual_time,
    running,
)
from kuberth_plugins.capacity_scheduling import CapacityScheduling, elastic_quota_kind

ElasticQuota = elastic_quota_kind()


def quota(namespace: str, *, min: str | None = "4", max: str | None = "6") -> Any:  # noqa: A002 — their names
    bounds = {key: {"cpu": cpu} for key, cpu in (("min", min), ("max", max)) if cpu is not None}
    return ElasticQuota({"metadata": {"name": namespace, "namespace": namespace}, "spec": bounds})


def pod(namespace: str, name: str, **fields: Any) -> Pod:
    return make_pod(name, namespace=namespace, **{"cpu": "2", "terminationGracePeriodSeconds": 0, **fields})


def scheduler(*objects: Any) -> Any:
    return running(
        *map(make_namespace, ("quota1", "quota2", "free")),
        *objects,
        plugins={"CapacityScheduling": CapacityScheduling},
        profiles=[profile("NodeResourcesFit", "CapacityScheduling")],
    )


def running_in(world: World, namespace: str) -> set[str]:
    pods = [each for each in world.api.all(Pod) if each.metadata.namespace == namespace]
    return {each.metadata.name for each in pods if each.spec.node_name}


def test_the_documented_example() -> None:
    """8 CPUs, two quotas of min 4 and max 6: one borrows up to its max, the other gets its min back."""

    async def scenario() -> None:
        async with scheduler(make_node("n", cpu="8"), quota("quota1"), quota("quota2")) as world:
            for index in range(4):
                world.api.put(pod("quota1", f"a{index}"))
            await world.until(lambda: len(running_in(world, "quota1")) == 3)
            await world.quiet(seconds=60)
            assert len(running_in(world, "quota1")) == 3
            for index in range(2):
                world.api.put(pod("quota2", f"b{index}"))
            await world.until(lambda: len(running_in(world, "quota2")) == 2)
            assert len(running_in(world, "quota1")) == 2
            assert len(world.events("Preempted")) == 1
            world.api.put(pod("quota1", "again"))  # as a Deployment does
            await world.quiet(seconds=60)
            assert len(running_in(world, "quota1")) == 2
            assert len(running_in(world, "quota2")) == 2
            assert len(world.events("Preempted")) == 1

    run_in_virtual_time(scenario)


def test_all_namespaces_together_stay_within_the_sum_of_min() -> None:
    async def scenario() -> None:
        quotas = quota("quota1", max="20"), quota("quota2", max="20")
        async with scheduler(make_node("n", cpu="100"), *quotas) as world:
            for index in range(6):
                world.api.put(pod("quota1", f"a{index}"))
            await world.until(lambda: len(running_in(world, "quota1")) == 4)
            await world.quiet(seconds=60)
            assert len(running_in(world, "quota1")) == 4
            world.api.replace(quota("quota2", min="8", max="20"))
            await world.until(lambda: len(running_in(world, "quota1")) == 6)

    run_in_virtual_time(scenario)


def test_within_a_quota_higher_priorities_go_first() -> None:
    async def scenario() -> None:
        async with scheduler(make_node("n", cpu="8"), quota("quota1", max="4")) as world:
            world.api.put(pod("quota1", "low", priority=1))
            world.api.put(pod("quota1", "middle", priority=5))
            await world.until(lambda: len(running_in(world, "quota1")) == 2)
            world.api.put(pod("quota1", "high", priority=9))
            await world.until(lambda: running_in(world, "quota1") == {"middle", "high"})

    run_in_virtual_time(scenario)


def test_a_namespace_within_its_min_is_never_preempted() -> None:
    async def scenario() -> None:
        async with scheduler(make_node("n", cpu="4"), quota("quota1"), quota("quota2")) as world:
            world.api.put(pod("quota1", "a0"))
            world.api.put(pod("quota1", "a1"))
            await world.until(lambda: len(running_in(world, "quota1")) == 2)
            world.api.put(pod("quota2", "b0", priority=1000))
            await world.quiet(seconds=60)
            assert len(running_in(world, "quota1")) == 2
            assert running_in(world, "quota2") == set()

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("namespace", ["quota1", "free"])
def test_pods_without_a_quota_take_from_each_other_only(namespace: str) -> None:
    async def scenario() -> None:
        async with scheduler(make_node("n", cpu="2"), quota("quota1")) as world:
            world.api.put(pod(namespace, "low"))
            await world.until(lambda: running_in(world, namespace) == {"low"})
            world.api.put(pod("free", "high", priority=10))
            await world.quiet(seconds=60)
            assert running_in(world, "free") == ({"high"} if namespace == "free" else set())

    run_in_virtual_time(scenario)


def test_of_two_nodes_the_one_without_a_budget_loses_a_pod() -> None:
    async def scenario() -> None:
        tree = {
            "metadata": {"name": "b", "namespace": "quota1"},
            "spec": {"selector": {"matchLabels": {"app": "guarded"}}},
            "status": {"disruptionsAllowed": 0},
        }
        budget = convert(PodDisruptionBudget, tree)
        quotas = quota("quota1", min="0", max="8"), quota("quota2", min="4")
        guarded = pod("quota1", "guarded", node="n1", labels={"app": "guarded"})
        nodes = make_node("n1", cpu="2"), make_node("n2", cpu="2")
        async with scheduler(*nodes, *quotas, budget, guarded, pod("quota1", "plain", node="n2")) as world:
            world.api.put(pod("quota2", "owner"))
            await world.bound("owner", namespace="quota2")
            assert running_in(world, "quota1") == {"guarded"}

    run_in_virtual_time(scenario)


def test_a_preemption_policy_of_never_is_honoured() -> None:
    async def scenario() -> None:
        quotas = quota("quota1", min="0", max="8"), quota("quota2", min="4")
        async with scheduler(make_node("n", cpu="2"), *quotas, pod("quota1", "a", node="n")) as world:
            world.api.put(pod("quota2", "b", preemptionPolicy="Never"))
            await world.quiet(seconds=60)
            assert running_in(world, "quota1") == {"a"}

    run_in_virtual_time(scenario)


def test_while_a_victim_leaves_no_other_pod_is_evicted() -> None:
    async def scenario() -> None:
        quotas = quota("quota1", min="0", max="8"), quota("quota2", min="4")
        slow = [pod("quota1", name, node="n", terminationGracePeriodSeconds=30) for name in ("a", "b")]
        async with scheduler(make_node("n", cpu="4"), *quotas, *slow) as world:
            world.api.put(pod("quota2", "owner"))
            await world.until(lambda: bool(world.pod("owner", namespace="quota2").status.nominated_node_name))
            world.api.put(make_node("elsewhere", cpu="1"))  # an event that has the pod tried again
            await world.quiet(seconds=20)
            assert len(world.events("Preempted")) == 1
            (leaving,) = [each for each in world.api.all(Pod) if each.metadata.deletion_timestamp]
            world.api.remove(Pod, f"quota1/{leaving.metadata.name}")
            await world.bound("owner", namespace="quota2")

    run_in_virtual_time(scenario)
