"""Gangs whose pods ask for devices: what one pod of an attempt was given, the others may use, too."""

from __future__ import annotations

from typing import Any

from kuberth.api.resource import ResourceClaim
from kuberth.clock import run_in_virtual_time
from kuberth.testing import make_node
from kuberth.testing.harness import World, running
from tests.integration.test_devices import claim_in, devices_of
from tests.integration.test_gangs import GATES, make_group, members
from tests.unit.plugins.device_objects import exactly, make_claim, make_class, make_slice


def sharing(claim: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}


def users(claim: ResourceClaim) -> list[str]:
    return sorted(consumer.name for consumer in claim.status.reserved_for)


def assert_nothing_is_on_its_way(world: World) -> None:
    plugin = world.scheduler.runners["default-scheduler"].profile.plugins["DynamicResources"]
    assert plugin._inventory.claims.in_flight == {}  # type: ignore[attr-defined]  # nobody else sees a leak


def test_pods_of_a_gang_share_a_claim_that_nobody_had() -> None:
    async def scenario() -> None:
        nodes = [make_node(name, cpu="4") for name in ("a", "b")]
        async with running(*nodes, make_class(), make_slice("b", 1), gates=GATES) as world:
            world.api.put(make_claim("c", exactly()))
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 3, **sharing("c")):
                world.api.put(pod)
            await world.bound("g-0", "g-1", "g-2")
            assert {world.node_of(f"g-{number}") for number in range(3)} == {"b"}
            claim = claim_in(world, "c")
            assert devices_of(claim) == [("b", "dev-0")]
            assert users(claim) == ["g-0", "g-1", "g-2"]
            assert_nothing_is_on_its_way(world)

    run_in_virtual_time(scenario)


def test_a_gang_that_does_not_fit_takes_no_device() -> None:
    async def scenario() -> None:
        small = make_node("a", cpu="2")
        async with running(small, make_class(), make_slice("a", 1), gates=GATES) as world:
            world.api.put(make_claim("c", exactly()))
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 3, **sharing("c")):
                world.api.put(pod)
            await world.in_room("g-2", "backoff")
            assert_nothing_is_on_its_way(world)
            assert claim_in(world, "c").status.allocation is None
            world.api.replace(make_node("a", cpu="4"))
            await world.bound("g-0", "g-1", "g-2")
            assert users(claim_in(world, "c")) == ["g-0", "g-1", "g-2"]

    run_in_virtual_time(scenario)


def test_pods_of_a_group_that_is_no_gang_share_too() -> None:
    async def scenario() -> None:
        async with running(make_node("a", cpu="4"), make_class(), make_slice("a", 1), gates=GATES) as world:
            world.api.put(make_claim("c", exactly()))
            for pod in members("lone", 3, **sharing("c")):
                world.api.put(pod)
            world.api.put(make_group("lone"))
            await world.bound("lone-0", "lone-1", "lone-2")
            assert devices_of(claim_in(world, "c")) == [("a", "dev-0")]
            assert users(claim_in(world, "c")) == ["lone-0", "lone-1", "lone-2"]
            assert_nothing_is_on_its_way(world)

    run_in_virtual_time(scenario)
