"""Pods that ask for devices, through a whole scheduler; and input that makes no sense: the pod gets a clear
reason, the scheduler goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from kuberth.api.core import Binding, Pod, PodSchedulingGroup
from kuberth.api.resource import ResourceClaim
from kuberth.api.scheduling import PodGroup
from kuberth.api.wire import convert, to_builtins
from kuberth.clock import run_in_virtual_time
from kuberth.errors import AnswerLostError, ConflictError, UnreachableError
from kuberth.framework import CycleState, ReservePlugin, Status
from kuberth.testing import MemoryApi, make_node, make_pod
from kuberth.testing.harness import World, running
from tests.unit.plugins.device_objects import (
    all_devices,
    exactly,
    first_of,
    given,
    make_claim,
    make_class,
    make_slice,
)

T = TypeVar("T")

PROTECTION = "resource.kubernetes.io/delete-protection"


def asking(name: str, *claims: str, **spec: Any) -> Pod:
    return make_pod(
        name,
        uid=f"uid-of-{name}",
        resourceClaims=[{"name": each, "resourceClaimName": each} for each in claims],
        **spec,
    )


def claim_in(world: World, name: str) -> ResourceClaim:
    return world.api.read(ResourceClaim, f"default/{name}")


def devices_of(claim: ResourceClaim) -> list[tuple[str, str]]:
    assert claim.status.allocation is not None
    return [(result.pool, result.device) for result in claim.status.allocation.devices.results]


def all_taken(world: World) -> list[tuple[str, str]]:
    return [
        device
        for claim in world.api.all(ResourceClaim)
        if claim.status.allocation is not None
        for device in devices_of(claim)
    ]


def message_of(world: World, name: str) -> str:
    return "".join(each.message for each in world.pod(name).status.conditions if each.type == "PodScheduled")


def test_pods_get_their_devices_and_pods_without_wait() -> None:
    async def scenario() -> None:
        async with running(make_node("a"), make_node("b"), make_class(), make_slice("a", 2)) as world:
            for number in range(3):
                world.api.put(make_claim(f"c{number}", exactly()))
                world.api.put(asking(f"p{number}", f"c{number}"))
            await world.bound("p0", "p1")
            await world.in_queue("p2", "unschedulable")
            assert sorted(all_taken(world)) == [("a", "dev-0"), ("a", "dev-1")]
            assert "2 cannot allocate all claims" in message_of(world, "p2")
            claim = claim_in(world, "c0")
            assert claim.metadata.finalizers == (PROTECTION,)
            assert [consumer.name for consumer in claim.status.reserved_for] == ["p0"]
            # The first pod ends, and the controller of claims takes its devices back.
            world.api.change(
                ResourceClaim, "default/c0", lambda each: replace(each, status=type(each.status)())
            )
            await world.bound("p2")

    run_in_virtual_time(scenario)


def test_a_pod_waits_for_the_claim_of_its_template() -> None:
    async def scenario() -> None:
        async with running(make_node("a"), make_class(), make_slice("a")) as world:
            claims = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
            world.api.put(make_pod("p", uid="me", resourceClaims=claims))
            await world.in_queue("p", "gated")
            world.api.put(make_claim("made", exactly(), owner="me"))

            def resolved(pod: Pod) -> Pod:
                tree = to_builtins(pod)
                statuses = [{"name": "gpu", "resourceClaimName": "made"}]
                tree["status"] = {**tree.get("status", {}), "resourceClaimStatuses": statuses}
                return convert(Pod, tree)

            world.api.change(Pod, "default/p", resolved)
            await world.bound("p")

    run_in_virtual_time(scenario)


def test_an_idle_claim_of_another_node_is_released() -> None:
    """The claim has a device of a node that is full; no pod uses it."""

    async def scenario() -> None:
        idle = make_claim("c", exactly(), status=given("dev-0", node="full"))
        holder = make_pod("holder", cpu="4", node="full")
        async with running(
            make_node("full"),
            make_node("free"),
            make_class(),
            make_slice("full"),
            make_slice("free"),
            idle,
            holder,
        ) as world:
            world.api.put(asking("p", "c", cpu="2"))
            await world.bound("p")
            assert world.node_of("p") == "free"
            assert devices_of(claim_in(world, "c")) == [("free", "dev-0")]

    run_in_virtual_time(scenario)


def test_extended_resources_are_given_as_devices() -> None:
    async def scenario() -> None:
        device_class = make_class(extendedResourceName="example.com/gpu")
        async with running(make_node("a"), device_class, make_slice("a", 3)) as world:
            requests = {"example.com/gpu": "2"}
            container = {"name": "main", "image": "i", "resources": {"requests": requests}}
            world.api.put(make_pod("p", containers=[container]))
            await world.bound("p")
            status = world.pod("p").status.extended_resource_claim_status
            assert status is not None
            made = claim_in(world, status.resource_claim_name)
            assert devices_of(made) == [("a", "dev-0"), ("a", "dev-1")]
            assert [mapping.request_name for mapping in status.request_mappings] == ["container-0-request-0"]
            world.api.put(make_pod("q", containers=[container]))
            await world.in_queue("q", "unschedulable")

    run_in_virtual_time(scenario)


class RefusesP(ReservePlugin):
    """Refuses one pod after its devices are reserved."""

    name = "RefusesP"

    def reserve(self, _state: CycleState, pod: Pod, _node_name: str) -> Status | None:
        return Status.unschedulable("not p") if pod.metadata.name == "p" else None

    def unreserve(self, _state: CycleState, _pod: Pod, _node_name: str) -> None:
        pass


def test_devices_for_a_resource_are_free_again_when_the_pod_is_refused() -> None:
    async def scenario() -> None:
        gpus = make_class(extendedResourceName="example.com/gpu")
        async with running(
            make_node("a"),
            make_slice("a", 1),
            gpus,
            profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": RefusesP.name}]}}}],
            plugins={RefusesP.name: lambda _args, _handle: RefusesP()},
        ) as world:
            container = {"name": "m", "image": "i", "resources": {"requests": {"example.com/gpu": "1"}}}
            world.api.put(make_pod("p", containers=[container]))
            await world.in_queue("p", "unschedulable")
            world.api.put(make_pod("q", containers=[container]))
            await world.bound("q")

    run_in_virtual_time(scenario)


def test_a_resource_that_comes_to_be_given_as_devices_helps() -> None:
    """No plan of pods that were rejected before keeps them from it."""

    async def scenario() -> None:
        async with running(make_node("a"), make_slice("a", 3)) as world:
            container = {"name": "m", "image": "i", "resources": {"requests": {"example.com/gpu": "1"}}}
            for number in range(3):
                world.api.put(make_pod(f"p{number}", containers=[container]))
                await world.in_queue(f"p{number}", "unschedulable")
            world.api.put(make_class(extendedResourceName="example.com/gpu"))
            await world.bound("p0", "p1", "p2")
            assert world.scheduler.metrics.resource_claim_creates.values == {("success",): 3}

    run_in_virtual_time(scenario)


def test_devices_that_are_ready_are_not_waited_for() -> None:
    async def scenario() -> None:
        async with running(make_node("a"), make_class(), make_slice("a", 1)) as world:
            world.api.put(make_claim("c", exactly()))
            world.api.put(asking("p", "c"))
            await world.bound("p")
            assert world.events("BindingConditionsPending") == []
            assert world.scheduler.metrics.binding_conditions_wait.values == {}

    run_in_virtual_time(scenario)


def test_devices_that_have_to_be_made_ready_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(time, "perf_counter", lambda: loop.time() + 1000)
        conditions = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}
        slow = make_slice("a", [{"name": "dev-0", "bindsToNode": True, **conditions}])
        async with running(make_node("a"), make_class(), slow, make_claim("c", exactly())) as world:
            world.api.put(asking("p", "c"))
            await world.until(lambda: claim_in(world, "c").status.allocation is not None)
            await world.quiet(seconds=30)
            assert not world.node_of("p")
            assert world.events("BindingConditionsPending")

            def ready(claim: ResourceClaim) -> ResourceClaim:
                tree = to_builtins(claim)
                device = {"driver": "gpu.example.com", "pool": "a", "device": "dev-0"}
                tree["status"]["devices"] = [{**device, "conditions": [{"type": "Ready", "status": "True"}]}]
                return convert(ResourceClaim, tree)

            world.api.change(ResourceClaim, "default/c", ready)
            await world.bound("p", seconds=20)
            labels = ("default-scheduler", "gpu.example.com", "success")
            metrics = world.scheduler.metrics
            assert metrics.binding_conditions_allocations.values == {labels: 1}
            assert list(metrics.binding_conditions_wait.values) == [labels]
            assert 30 <= metrics.binding_conditions_wait.values[labels].sum <= 50

    run_in_virtual_time(scenario)


@pytest.mark.parametrize(
    ("condition", "status"), [("Broken", "failure"), ("", "timeout")], ids=["broken", "too late"]
)
def test_devices_that_do_not_become_ready_are_counted(condition: str, status: str) -> None:
    async def scenario() -> None:
        conditions = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}
        slow = make_slice("a", [{"name": "dev-0", "bindsToNode": True, **conditions}])
        async with running(make_node("a"), make_class(), slow, make_claim("c", exactly())) as world:
            world.api.put(asking("p", "c"))
            await world.until(lambda: claim_in(world, "c").status.allocation is not None)

            def broken(claim: ResourceClaim) -> ResourceClaim:
                tree = to_builtins(claim)
                device = {"driver": "gpu.example.com", "pool": "a", "device": "dev-0"}
                reported = [{"type": condition, "status": "True"}]
                tree["status"]["devices"] = [{**device, "conditions": reported}]
                return convert(ResourceClaim, tree)

            if condition:
                world.api.change(ResourceClaim, "default/c", broken)
            counted = world.scheduler.metrics.binding_conditions_allocations.values
            await world.until(lambda: bool(counted), seconds=700)
            assert set(counted) == {("default-scheduler", "gpu.example.com", status)}

    run_in_virtual_time(scenario)


# Input that makes no sense

ABSURD: dict[str, Any] = {"sharedCounters": [{"name": "s", "counters": {"m": {"value": "a lot"}}}]}


@pytest.mark.parametrize(
    ("claim", "objects", "reported"),
    [
        pytest.param(
            make_claim("c", exactly(selectors=[{"cel": {"expression": "device.driver =="}}])),
            [],
            "CEL compile error",
            id="a selector that cannot be read",
        ),
        pytest.param(
            make_claim("c", exactly(selectors=[{"cel": {"expression": 'device.attributes["x"].y == 1'}}])),
            [],
            "CEL runtime error",
            id="a selector without an answer",
        ),
        pytest.param(
            make_claim("c", exactly(of="broken")),
            [make_class("broken", selectors=["1 +"])],
            "class broken: selector #0: CEL compile error",
            id="a class that cannot be read",
        ),
        pytest.param(
            make_claim("c", exactly(of="none")), [], "device class none does not exist", id="no class"
        ),
        pytest.param(
            make_claim("c", exactly(count=2**63 - 1)), [], "exceeds the claim limit of 32", id="absurd count"
        ),
        pytest.param(make_claim("c", {"name": "q"}), [], "unknown request type", id="a request for nothing"),
        pytest.param(
            make_claim("c", exactly(count=3)),
            [make_slice("a", 0, name="absurd", pool="absurd", **ABSURD)],
            "invalid resource pools were encountered",
            id="a counter that cannot be read",
        ),
        pytest.param(
            make_claim("c", all_devices()),
            [make_slice("a", 1, name="part", pool="part", count=2)],
            "asks for all devices, but resource pool gpu.example.com/part is currently being updated",
            id="all devices, while some are missing",
        ),
        pytest.param(
            make_claim("c", exactly(), constraints=[{"matchAttribute": "no-domain"}]),
            [],
            "cannot allocate all claims",
            id="an attribute that no device has",
        ),
    ],
)
def test_a_problem_with_a_claim_is_reported_and_others_are_scheduled(
    claim: ResourceClaim, objects: Sequence[Any], reported: str
) -> None:
    async def scenario() -> None:
        async with running(make_node("a"), make_class(), make_slice("a", 2), claim, *objects) as world:
            world.api.put(asking("p", "c"))
            await world.until(lambda: reported in message_of(world, "p"))
            world.api.put(make_claim("fine", exactly()))
            world.api.put(asking("q", "fine"))
            world.api.put(make_pod("plain"))
            await world.bound("q", "plain")
            assert not world.node_of("p")

    run_in_virtual_time(scenario)


def test_thousands_of_devices_on_a_node() -> None:
    async def scenario() -> None:
        slices = [
            make_slice(
                "a", [{"name": f"dev-{part}-{n}"} for n in range(128)], name=f"s{part}", pool="p", count=40
            )
            for part in range(40)
        ]
        listed = first_of("q", exactly("all", 33), exactly("most", 32))
        async with running(make_node("a"), make_class(), *slices) as world:
            for number in range(4):
                world.api.put(make_claim(f"c{number}", exactly(count=32), listed))
                world.api.put(make_claim(f"d{number}", exactly(count=32)))
                world.api.put(asking(f"p{number}", f"c{number}"))
                world.api.put(asking(f"q{number}", f"d{number}"))
            await world.bound(*(f"q{number}" for number in range(4)))
            assert "number of requested devices 64 exceeds" in message_of(world, "p0")

    run_in_virtual_time(scenario)


class Interfering(MemoryApi):
    """An API whose writes to claims fail on request."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[Callable[[str], Exception | None]] = []
        self.happens_anyway = False
        self.patches = 0

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        if kind is not ResourceClaim:
            return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)
        self.patches += 1
        failure = self.faults.pop(0)(name) if self.faults else None
        if failure is None or self.happens_anyway:
            answer = await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)
            if failure is None:
                return answer
        raise failure


def lost(_name: str) -> Exception:
    return AnswerLostError("the connection ended")


def fine(_name: str) -> None:
    return None


@pytest.mark.parametrize("happens_anyway", [False, True], ids=["not written", "written"])
@pytest.mark.parametrize("before", [0, 1], ids=["the finalizer", "the allocation"])
@pytest.mark.parametrize("times", [1, 4, 9])
def test_lost_answers_leak_nothing(times: int, before: int, happens_anyway: bool) -> None:
    async def scenario() -> None:
        api = Interfering()
        api.faults = [fine] * before + [lost] * times
        api.happens_anyway = happens_anyway
        world_of = running(make_node("a"), make_class(), make_slice("a", 2), api=api)
        async with world_of as world:
            for number in range(2):
                world.api.put(make_claim(f"c{number}", exactly()))
                world.api.put(asking(f"p{number}", f"c{number}"))
            await world.bound("p0", "p1", seconds=300)
            assert sorted(all_taken(world)) == [("a", "dev-0"), ("a", "dev-1")]

    run_in_virtual_time(scenario)


def test_what_is_in_doubt_stays_taken_until_the_api_can_be_asked() -> None:
    """The only device may have been allocated: no other pod gets it before that is known."""

    class Silent(Interfering):
        silent = False

        async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
            if self.silent and kind is ResourceClaim:
                raise UnreachableError("not now")
            return await super().get(kind, name, namespace=namespace)

    async def scenario() -> None:
        api = Silent()
        api.faults, api.happens_anyway, api.silent = [fine, lost], False, True
        async with running(make_node("a"), make_class(), make_slice("a", 1), api=api) as world:
            world.api.put(make_claim("c0", exactly()))
            world.api.put(asking("p0", "c0"))
            await world.until(lambda: api.patches >= 2)
            await world.quiet(seconds=1)
            world.api.put(make_claim("c1", exactly()))
            world.api.put(asking("p1", "c1"))
            await world.until(lambda: "cannot allocate all claims" in message_of(world, "p1"))
            assert not all_taken(world)
            api.silent = False
            await world.bound("p0", seconds=400)
            assert all_taken(world) == [("a", "dev-0")]
            assert not world.node_of("p1")

    run_in_virtual_time(scenario)


def test_conflicts_are_tried_again_with_what_is_there_now() -> None:
    async def scenario() -> None:
        api = Interfering()
        async with running(make_node("a"), make_class(), make_slice("a", 1), api=api) as world:

            def touched(name: str) -> Exception:
                key = f"default/{name}"
                labels = {"touched": "yes"}
                world.api.change(
                    ResourceClaim,
                    key,
                    lambda claim: replace(claim, metadata=replace(claim.metadata, labels=labels)),
                )
                return ConflictError("changed meanwhile")

            api.faults = [touched, fine, touched, touched]
            world.api.put(make_claim("c", exactly()))
            world.api.put(asking("p", "c"))
            await world.bound("p")
            claim = claim_in(world, "c")
            assert claim.metadata.labels == {"touched": "yes"}
            assert devices_of(claim) == [("a", "dev-0")]

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("patches", [0, 1], ids=["before it is touched", "after its finalizer"])
def test_a_claim_that_is_deleted_while_it_is_allocated(patches: int) -> None:
    async def scenario() -> None:
        api = Interfering()
        async with running(make_node("a"), make_class(), make_slice("a", 1), api=api) as world:

            def gone(name: str) -> None:
                world.api.remove(ResourceClaim, f"default/{name}")

            api.faults = [fine] * patches + [gone]
            world.api.put(make_claim("c", exactly()))
            world.api.put(asking("p", "c"))
            await world.until(
                lambda: "not found" in message_of(world, "p") or "ind" in message_of(world, "p")
            )
            world.api.put(make_claim("d", exactly()))
            world.api.put(asking("q", "d"))
            await world.bound("q")
            assert not world.node_of("p")

    run_in_virtual_time(scenario)


# Devices that take something of their node


NODE_RESOURCES = {"DRANodeAllocatableResources": True}
CORES = [
    {"name": f"cores-{number}", "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "2"}}}
    for number in range(4)
]


def using(name: str, *claims: str, cpu: str = "1") -> Pod:
    used = [{"name": each} for each in claims]
    resources = {"requests": {"cpu": cpu}, "claims": used}
    return asking(name, *claims, containers=[{"name": "main", "image": "x", "resources": resources}])


def taken_by(world: World, name: str) -> Any:
    return to_builtins(world.pod(name).status.node_allocatable_resource_claim_statuses)


def test_what_devices_take_of_a_node_counts_there_and_stands_in_the_pods_status() -> None:
    async def scenario() -> None:
        node = make_node("a", cpu="7")
        async with running(node, make_class(), make_slice("a", CORES), gates=NODE_RESOURCES) as world:
            for number in range(3):
                world.api.put(make_claim(f"c{number}", exactly()))
            world.api.put(using("p0", "c0"))
            world.api.put(using("p1", "c1"))
            await world.bound("p0", "p1")
            status = {"resourceClaimName": "c0", "containers": ["main"], "resources": {"cpu": "2"}}
            assert taken_by(world, "p0") == [status]
            table = world.scheduler.cluster
            assert table.requested[0, 0] == 6000
            # One core is left: enough for a pod, but not for the devices of another.
            world.api.put(using("p2", "c2"))
            await world.in_queue("p2", "unschedulable")
            assert "Insufficient cpu" in message_of(world, "p2")
            world.api.put(make_pod("plain", cpu="1"))
            await world.bound("plain")
            world.api.put(make_pod("late", cpu="1"))
            await world.in_queue("late", "unschedulable")
            # The kubelet reports, and everything counts as before.
            world.api.change(
                Pod, "default/p0", lambda pod: replace(pod, status=replace(pod.status, phase="Running"))
            )
            await world.quiet()
            assert table.requested[0, 0] == 7000
            assert set(table.device_claims) == {"default/c0", "default/c1"}
            world.api.remove(Pod, "default/p0")
            await world.bound("late")
            assert set(table.device_claims) == {"default/c1"}

    run_in_virtual_time(scenario)


def test_a_pod_that_is_not_bound_takes_nothing() -> None:
    class Refusing(MemoryApi):
        reported: Any = None

        async def bind(self, binding: Binding) -> None:
            if self.reported is None:
                self.reported = self.read(Pod, "default/p").status.node_allocatable_resource_claim_statuses
                raise ConflictError("not now")
            await super().bind(binding)

    async def scenario() -> None:
        api = Refusing(feature_gates=NODE_RESOURCES)
        objects = make_node("a", cpu="7"), make_class(), make_slice("a", CORES)
        async with running(*objects, gates=NODE_RESOURCES, api=api) as world:
            world.api.put(make_claim("c", exactly()))
            world.api.put(using("p", "c"))
            await world.until(lambda: api.reported is not None)
            assert [dict(each.resources) for each in api.reported] == [{"cpu": "2"}]
            await world.until(lambda: not taken_by(world, "p"))
            assert world.scheduler.cluster.requested[0, 0] == 0
            # Its claim is allocated by now, and what was allocated before is not reported again: as upstream.
            await world.bound("p")
            assert not taken_by(world, "p")

    run_in_virtual_time(scenario)


def test_a_pod_is_bound_after_the_release_of_its_last_attempt_and_reserves_its_claim_again() -> None:
    class Slow(MemoryApi):
        refusals = 1

        async def bind(self, binding: Binding) -> None:
            if self.refusals:
                self.refusals -= 1
                raise ConflictError("not now")
            await super().bind(binding)

        async def patch(
            self,
            kind: type[T],
            name: str,
            patch: Mapping[str, Any],
            *,
            namespace: str = "",
            subresource: str = "",
        ) -> T:
            if "$patch" in str(patch.get("status", {}).get("reservedFor")):
                await asyncio.sleep(5.0)  # longer than the backoff
            return await super().patch(kind, name, patch, namespace=namespace, subresource=subresource)

    async def scenario() -> None:
        async with running(make_node("a"), make_class(), make_slice("a", 1), api=Slow()) as world:
            world.api.put(make_claim("c", exactly()))
            world.api.put(asking("p", "c"))
            await world.bound("p", seconds=20)
            await world.quiet(seconds=10)
            assert [consumer.name for consumer in claim_in(world, "c").status.reserved_for] == ["p"]

    run_in_virtual_time(scenario)


def gang_of(world: World, *pods: Pod) -> None:
    spec = {"schedulingPolicy": {"gang": {"minCount": len(pods)}}}
    world.api.put(convert(PodGroup, {"metadata": {"name": "g", "namespace": "default"}, "spec": spec}))
    for pod in pods:
        grouped = replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name="g"))
        world.api.put(replace(pod, spec=grouped))


GANGS = {"GenericWorkload": True, "GangScheduling": True}


def test_the_pods_of_a_gang_leave_queue_for_each_others_devices() -> None:
    async def scenario() -> None:
        nodes = make_node("a", cpu="4"), make_node("b", cpu="4")
        slices = make_slice("a", CORES), make_slice("b", CORES)
        async with running(*nodes, *slices, make_class(), gates={**NODE_RESOURCES, **GANGS}) as world:
            for number in range(2):
                world.api.put(make_claim(f"c{number}", exactly()))
            gang_of(world, using("p0", "c0"), using("p1", "c1"))
            await world.bound("p0", "p1")
            assert {world.node_of("p0"), world.node_of("p1")} == {"a", "b"}
            assert taken_by(world, "p0")
            assert taken_by(world, "p1")

    run_in_virtual_time(scenario)


@pytest.mark.parametrize(("cpu", "fits"), [("6", True), ("5", False)])
def test_each_pod_of_a_gang_takes_by_a_claim_that_they_share(cpu: str, fits: bool) -> None:
    async def scenario() -> None:
        objects = make_node("a", cpu=cpu), make_slice("a", CORES), make_class()
        async with running(*objects, gates={**NODE_RESOURCES, **GANGS}) as world:
            world.api.put(make_claim("c", exactly()))
            gang_of(world, using("p0", "c"), using("p1", "c"))
            if fits:
                await world.bound("p0", "p1")
                assert taken_by(world, "p0") == taken_by(world, "p1") != []
                assert world.scheduler.cluster.requested[0, 0] == 6000
            else:
                await world.in_queue("p1", "backoff")
                reported = {message_of(world, name).partition(".")[0] for name in ("p0", "p1")}
                assert "0/1 nodes are available: 1 Insufficient cpu" in reported
                assert claim_in(world, "c").status.allocation is None

    run_in_virtual_time(scenario)
