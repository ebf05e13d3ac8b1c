"""Gangs whose pods ask for devices: what one pod of an attempt was given, the others may use, too."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kuberth.api.core import Binding
from kuberth.api.resource import ResourceClaim
from kuberth.api.wire import to_builtins
from kuberth.clock import SystemClock, run_in_virtual_time
from kuberth.errors import ConflictError
from kuberth.informers.store import Store
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.plugins.devices.claims import KnownClaims
from kuberth.plugins.dynamic_resources.writing import ClaimWriter
from kuberth.testing import MemoryApi, make_node
from kuberth.testing.harness import World, running
from tests.integration.test_devices import claim_in, devices_of
from tests.integration.test_gangs import GATES, make_group, members
from tests.unit.plugins.device_objects import exactly, given, make_claim, make_class, make_slice


def sharing(claim: str) -> dict[str, Any]:
    return {"resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}


def users(claim: ResourceClaim) -> list[str]:
    return sorted(consumer.name for consumer in claim.status.reserved_for)


def assert_nothing_is_on_its_way(world: World) -> None:
    plugin = world.scheduler.runners["default-scheduler"].profile.plugins["DynamicResources"]
    assert plugin._inventory.claims.in_flight == {}  # type: ignore[attr-defined]  # only this shows a leak


def test_pods_of_a_gang_share_an_unallocated_claim() -> None:
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
            await world.in_queue("g-2", "backoff")
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


# Claims that are the group's


GROUP_GATES = {**GATES, "DRAWorkloadResourceClaims": True}
CLAIMS = [{"name": "gpu", "resourceClaimName": "c"}]
THE_GROUP = {
    "apiGroup": "scheduling.k8s.io",
    "resource": "podgroups",
    "name": "g",
    "uid": "group-g",
}


def test_a_claim_of_the_group_is_reserved_for_the_group() -> None:
    """Once, however many pods there are: those that come later need nothing written."""

    async def scenario() -> None:
        nodes = [make_node(name, cpu="8") for name in ("a", "b")]
        async with running(*nodes, make_class(), make_slice("b", 1), gates=GROUP_GATES) as world:
            world.api.put(make_claim("c", exactly()))
            world.api.put(make_group("g", min_count=3, resourceClaims=CLAIMS))
            for pod in members("g", 5, resourceClaims=CLAIMS):
                world.api.put(pod)
            await world.bound(*(f"g-{number}" for number in range(5)))
            claim = claim_in(world, "c")
            assert devices_of(claim) == [("b", "dev-0")]
            assert to_builtins(claim.status.reserved_for) == [THE_GROUP]
            assert {world.node_of(f"g-{number}") for number in range(5)} == {"b"}
            assert_nothing_is_on_its_way(world)
            (late,) = members("late", 1, resourceClaims=CLAIMS)
            world.api.put(replace(late, spec=replace(late.spec, scheduling_group=pod.spec.scheduling_group)))
            await world.bound("late-0")
            # Neither does one that calls the claim otherwise: it is among the consumers of the claim.
            otherwise = [{**CLAIMS[0], "name": "other"}]
            (last,) = members("last", 1, resourceClaims=otherwise)
            world.api.put(replace(last, spec=replace(last.spec, scheduling_group=pod.spec.scheduling_group)))
            await world.bound("late-0", "last-0")
            assert claim_in(world, "c") == claim

    run_in_virtual_time(scenario)


def test_a_pods_own_claim_is_reserved_for_the_pod() -> None:
    async def scenario() -> None:
        objects = make_node("a", cpu="8"), make_class(), make_slice("a", 2)
        async with running(*objects, gates=GROUP_GATES) as world:
            world.api.put(make_claim("c", exactly()))
            world.api.put(make_claim("mine", exactly()))
            world.api.put(make_group("g", min_count=1, resourceClaims=CLAIMS))
            mine = {"name": "own", "resourceClaimName": "mine"}
            for pod in members("g", 1, resourceClaims=[*CLAIMS, mine]):
                world.api.put(pod)
            await world.bound("g-0")
            assert users(claim_in(world, "c")) == ["g"]
            assert users(claim_in(world, "mine")) == ["g-0"]

    run_in_virtual_time(scenario)


def test_a_pod_that_is_not_bound_leaves_the_groups_claim_to_the_others() -> None:
    class Refusing(MemoryApi):
        refused = False

        async def bind(self, binding: Binding) -> None:
            if not self.refused:
                self.refused = True
                raise ConflictError("not now")
            await super().bind(binding)

    async def scenario() -> None:
        api = Refusing(feature_gates=GROUP_GATES)
        objects = make_node("a", cpu="8"), make_class(), make_slice("a", 1)
        async with running(*objects, gates=GROUP_GATES, api=api) as world:
            world.api.put(make_claim("c", exactly()))
            world.api.put(make_group("g", min_count=2, resourceClaims=CLAIMS))
            for pod in members("g", 2, resourceClaims=CLAIMS):
                world.api.put(pod)
            await world.bound("g-0", "g-1")
            assert api.refused
            assert to_builtins(claim_in(world, "c").status.reserved_for) == [THE_GROUP]
            assert_nothing_is_on_its_way(world)

    run_in_virtual_time(scenario)


def test_a_group_that_cannot_run_gets_other_devices() -> None:
    """Its claim is allocated on a node that is full: the group deallocates it, then it is allocated again."""

    async def scenario() -> None:
        nodes = make_node("a", cpu="1"), make_node("b", cpu="8")
        slices = make_slice("a", 1), make_slice("b", 1)
        async with running(*nodes, *slices, make_class(), gates=GROUP_GATES) as world:
            status = {**given("dev-0", node="a"), "reservedFor": [THE_GROUP]}
            world.api.put(make_claim("c", exactly(), status=status))
            world.api.put(make_group("g", min_count=2, resourceClaims=CLAIMS))
            for pod in members("g", 2, resourceClaims=CLAIMS):
                world.api.put(pod)
            await world.bound("g-0", "g-1", seconds=300)
            assert devices_of(claim_in(world, "c")) == [("b", "dev-0")]
            assert to_builtins(claim_in(world, "c").status.reserved_for) == [THE_GROUP]

    run_in_virtual_time(scenario)


def test_what_is_written_already_is_not_written_again() -> None:
    """Of pods that are bound at the same time, one writes for the group."""

    async def scenario() -> None:
        api = MemoryApi(feature_gates=GROUP_GATES)
        status = {**given("dev-0"), "reservedFor": [THE_GROUP]}
        claim = api.put(make_claim("c", exactly(), status=status))
        known = KnownClaims(Store[ResourceClaim](), SystemClock())
        writer = ClaimWriter(api, known, SystemClock(), metrics=SchedulerMetrics())
        (user,) = claim.status.reserved_for
        assert await writer.reserve(claim, None, user) == claim
        assert await writer.reserve(claim, claim.status.allocation, user) == claim
        assert api.read(ResourceClaim, "default/c") == claim

    run_in_virtual_time(scenario)
