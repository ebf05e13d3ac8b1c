"""A pod's way through both cycles, and what happens when the pod changes on it."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Binding, Pod
from kuberth.clock import run_in_virtual_time
from kuberth.errors import ApiError, ConflictError
from kuberth.framework import PermitResult
from kuberth.framework.status import Status
from kuberth.testing import MemoryApi, make_node, make_pod
from kuberth.testing.harness import World, profile, running, running_with
from tests.integration.recording import Recording

Scenario = Callable[[], Coroutine[Any, Any, None]]


def in_virtual_time(scenario: Scenario) -> None:
    run_in_virtual_time(scenario)


def with_label(pod: Pod, **labels: str) -> Pod:
    replace = msgspec.structs.replace
    return replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, **labels}))


def being_deleted(pod: Pod) -> Pod:
    replace = msgspec.structs.replace
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=moment))


def test_a_pod_passes_every_point_in_order_and_is_bound() -> None:
    async def scenario() -> None:
        plugin = Recording()
        async with running_with(
            plugin,
            make_node("n1"),
            make_node("n2"),
        ) as world:
            world.api.put(make_pod("p"))
            await world.bound("p")
            await world.until(lambda: "PostBind p" in plugin.calls)
            points = list(dict.fromkeys(call.split()[0] for call in plugin.calls))
            assert points == [
                "PreEnqueue",
                "PreFilter",
                "Filter",
                "PreScore",
                "Score",
                "NormalizeScore",
                "Reserve",
                "Permit",
                "PreBindPreFlight",
                "PreBind",
                "Bind",
                "PostBind",
            ]
            assert plugin.calls.count("Filter p") == 2
            assert world.queue_of("p") == ""
            assert world.events("Scheduled") == [f"Successfully assigned default/p to {world.node_of('p')}"]
            placed = world.scheduler.cluster.placed(world.pod("p").metadata.uid)
            assert placed is not None
            assert not world.scheduler.cluster.is_assumed(placed.uid)

    in_virtual_time(scenario)


def test_a_rejected_pod_comes_back_at_the_right_event_and_at_no_other() -> None:
    async def scenario() -> None:
        plugin = Recording()
        plugin.behave["Filter"] = lambda _pod: Status.unschedulable("not here")
        async with running_with(
            plugin,
            make_node("n1"),
            make_pod("p"),
        ) as world:
            await world.in_queue("p", "unschedulable")
            assert world.events("FailedScheduling") == [
                "0/1 nodes are available: 1 not here. no room can be made"
            ]
            condition = world.pod("p").status.conditions[0]
            assert (condition.type, condition.status, condition.reason) == (
                "PodScheduled",
                "False",
                "Unschedulable",
            )
            tries = plugin.calls.count("PreFilter p")
            world.api.change(type(make_node("n1")), "n1", lambda node: node)
            world.api.put(make_pod("other", node="n1"))
            await world.quiet(seconds=5)
            assert plugin.calls.count("PreFilter p") == tries
            plugin.behave.clear()
            world.api.put(make_node("n2"))
            await world.bound("p", seconds=5)
            assert plugin.calls.count("PreFilter p") == tries + 1

    in_virtual_time(scenario)


def test_a_gated_pod_waits_and_is_scheduled_when_the_last_gate_goes() -> None:
    async def scenario() -> None:
        async with running(make_node("n1"), make_pod("p", gates=["a", "b"])) as world:
            await world.in_queue("p", "gated")
            await world.quiet(seconds=400)
            assert world.queue_of("p") == "gated"
            assert world.pod("p").status.conditions == ()

            def without_gates(count: int) -> Callable[[Pod], Pod]:
                replace = msgspec.structs.replace
                return lambda pod: replace(
                    pod, spec=replace(pod.spec, scheduling_gates=pod.spec.scheduling_gates[count:])
                )

            world.api.change(Pod, "default/p", without_gates(1))
            await world.quiet()
            assert world.queue_of("p") == "gated"
            world.api.change(Pod, "default/p", without_gates(1))
            await world.bound("p", seconds=2)

    in_virtual_time(scenario)


def waiting_pod(world: World) -> Any:
    (waiting,) = world.scheduler.waiting_pods
    return waiting


@pytest.mark.parametrize("verdict", ["allow", "reject", "timeout"])
def test_permit_holds_a_pod_until_its_fate_is_decided(verdict: str) -> None:
    async def scenario() -> None:
        plugin = Recording()
        plugin.behave["Permit"] = lambda _pod: PermitResult.wait(10)
        async with running_with(
            plugin,
            make_node("n1"),
            make_pod("p"),
        ) as world:
            await world.until(lambda: len(world.scheduler.waiting_pods) == 1)
            assert world.queue_of("p") == "in flight"
            assert world.scheduler.cluster.pod_count[0] == 1
            del plugin.behave["Permit"]
            if verdict == "allow":
                waiting_pod(world).allow("Recording")
                await world.bound("p", seconds=1)
                assert "Unreserve p" not in plugin.calls
                return
            if verdict == "reject":
                waiting_pod(world).reject("Recording", "not today")
            await world.in_queue("p", "unschedulable", seconds=12)
            why = "not today" if verdict == "reject" else "rejected due to timeout after waiting 10s"
            assert any(why in note for note in world.events("FailedScheduling"))
            assert "Unreserve p" in plugin.calls
            assert world.scheduler.cluster.pod_count[0] == 0

    in_virtual_time(scenario)


class Phases:
    """Stops a pod in a chosen phase until the test lets it go on."""

    def __init__(self, phase: str) -> None:
        self.plugin = Recording()
        self.reached = asyncio.Event()
        self.resume = asyncio.Event()
        if phase == "Permit":
            self.plugin.behave["Permit"] = self._permit
        elif phase in ("PreBind", "Bind"):
            self.plugin.behave[phase] = self._hold

    def _permit(self, _pod: Pod) -> PermitResult:
        self.reached.set()
        return PermitResult.wait(100)

    async def _hold(self, _pod: Pod) -> Status | None:
        self.reached.set()
        await self.resume.wait()
        return Status.error("held up for too long")

    def release(self) -> None:
        self.plugin.behave.clear()
        self.resume.set()


@pytest.mark.parametrize("phase", ["Permit", "PreBind", "Bind"])
@pytest.mark.parametrize("how", ["deletion begins", "gone"])
def test_a_pod_deleted_while_it_is_bound_frees_its_place_and_is_not_queued(phase: str, how: str) -> None:
    async def scenario() -> None:
        phases = Phases(phase)
        async with running_with(
            phases.plugin,
            make_node("n1"),
            make_pod("p"),
        ) as world:
            await world.until(phases.reached.is_set)
            await world.quiet(seconds=0.1)
            if how == "gone":
                world.api.remove(Pod, "default/p")
            else:
                world.api.change(Pod, "default/p", being_deleted)
            await world.until(lambda: world.scheduler.cluster.pod_count[0] == 0, seconds=1)
            phases.release()
            await world.quiet(seconds=30)
            if how == "gone":
                assert world.queue_of("p") == ""
            else:
                assert world.node_of("p") == ""
            assert world.scheduler.cluster.placed_count == 0
            assert "Unreserve p" in phases.plugin.calls

    in_virtual_time(scenario)


@pytest.mark.parametrize("phase", ["Permit", "PreBind", "Bind"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same node", "another node"])
def test_a_pod_bound_by_someone_else_while_it_is_bound_is_left_alone(phase: str, elsewhere: bool) -> None:
    async def scenario() -> None:
        phases = Phases(phase)
        async with running_with(
            phases.plugin,
            make_node("n1"),
            make_pod("p"),
        ) as world:
            await world.until(phases.reached.is_set)
            node = "n2" if elsewhere else "n1"
            if elsewhere:
                world.api.put(make_node("n2"))
            pod = world.pod("p")
            binding = msgspec.convert(
                {"metadata": {"name": "p", "namespace": "default"}, "target": {"name": node}}, Binding
            )
            await world.api.bind(binding)
            await world.quiet(seconds=1)
            phases.release()
            for waiting in world.scheduler.waiting_pods:
                waiting.allow("Recording")
            await world.quiet(seconds=30)
            placed = world.scheduler.cluster.placed(pod.metadata.uid)
            assert placed is not None
            assert placed.node_name == node
            assert world.queue_of("p") == ""
            assert not world.scheduler.queue.in_flight()
            assert int(world.scheduler.cluster.pod_count.sum()) == 1

    in_virtual_time(scenario)


def test_a_pod_updated_while_in_flight_comes_back_with_its_new_version() -> None:
    async def scenario() -> None:
        phases = Phases("Permit")
        async with running_with(
            phases.plugin,
            make_node("n1"),
            make_pod("p"),
        ) as world:
            await world.until(phases.reached.is_set)
            world.api.change(Pod, "default/p", lambda pod: with_label(pod, new="yes"))
            await world.quiet(seconds=0.1)
            phases.release()
            waiting_pod(world).reject("Recording", "try again")
            await world.in_queue("p", "unschedulable")
            queued = world.scheduler.queue.get("default/p")
            assert queued is not None
            assert queued.pod.metadata.labels == {"new": "yes"}

    in_virtual_time(scenario)


class FailingApi(MemoryApi):
    """Refuses the first bindings."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self.errors = list(errors)

    async def bind(self, binding: Binding) -> None:
        if self.errors:
            raise self.errors.pop(0)
        await super().bind(binding)


def test_a_binding_that_fails_is_undone_and_tried_again_after_the_error_backoff() -> None:
    async def scenario() -> None:
        plugin = Recording()
        api = FailingApi(ApiError("etcd is away", code=500), ConflictError("changed"))
        async with running_with(
            plugin,
            make_node("n1"),
            make_pod("p"),
            api=api,
        ) as world:
            await world.in_queue("p", "backoff")
            queued = world.scheduler.queue.get("default/p")
            assert queued is not None
            assert queued.consecutive_errors == 1
            assert world.scheduler.cluster.pod_count[0] == 0
            await world.bound("p", seconds=10)
            assert plugin.calls.count("Unreserve p") == 2
            condition = next(c for c in world.pod("p").status.conditions if c.type == "PodScheduled")
            assert condition.status == "True"
            assert any("etcd is away" in note for note in world.events("FailedScheduling"))

    in_virtual_time(scenario)


def test_pods_to_activate_come_back_without_an_event() -> None:
    async def scenario() -> None:
        plugin = Recording()
        plugin.behave["PreFilter"] = lambda pod: (
            Status.unschedulable("wait for the leader") if pod.metadata.name == "follower" else None
        )
        async with running_with(
            plugin,
            make_node("n1"),
            make_pod("follower"),
        ) as world:
            await world.in_queue("follower", "unschedulable")
            del plugin.behave["PreFilter"]
            original = plugin.reserve

            def reserve(state: Any, pod: Pod, node_name: str) -> Any:
                state.pods_to_activate["default/follower"] = world.pod("follower")
                return original(state, pod, node_name)

            plugin.reserve = reserve  # type: ignore[method-assign]  # the leader calls its followers
            world.api.put(make_pod("leader"))
            await world.bound("leader", "follower", seconds=3)

    in_virtual_time(scenario)


def test_without_nodes_a_pod_waits_and_is_placed_when_one_comes() -> None:
    async def scenario() -> None:
        async with running(make_pod("p")) as world:
            await world.until(lambda: bool(world.events("FailedScheduling")))
            assert world.events("FailedScheduling")[0] == "no nodes available to schedule pods"
            world.api.put(make_node("n1"))
            await world.bound("p", seconds=15)

    in_virtual_time(scenario)


def test_each_profile_schedules_its_own_pods_and_no_one_elses() -> None:
    async def scenario() -> None:
        async with running(
            make_node("n1"),
            profiles=[profile(), profile("NodeName", name="second")],
        ) as world:
            world.api.put(make_pod("first"))
            world.api.put(make_pod("other", scheduler="second"))
            world.api.put(make_pod("foreign", scheduler="someone-else"))
            await world.bound("first", "other")
            await world.quiet(seconds=10)
            assert world.node_of("foreign") == ""
            assert world.queue_of("foreign") == ""

    in_virtual_time(scenario)


def test_higher_priority_goes_first_and_finished_pods_free_their_resources() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="1"), make_pod("old", cpu="1", node="n1")) as world:
            world.api.put(make_pod("low", cpu="1", priority=0))
            await world.in_queue("low", "unschedulable")
            world.api.put(make_pod("high", cpu="1", priority=0))
            await world.in_queue("high", "unschedulable")

            def finished(pod: Pod) -> Pod:
                replace = msgspec.structs.replace
                return replace(pod, status=replace(pod.status, phase="Succeeded"))

            world.api.change(Pod, "default/old", finished)
            await world.until(lambda: bool(world.node_of("low")) != bool(world.node_of("high")), seconds=30)
            await world.quiet(seconds=20)
            assert bool(world.node_of("low")) != bool(world.node_of("high"))

    in_virtual_time(scenario)


def test_a_rejection_after_permit_is_a_failure_with_an_error_backoff() -> None:
    async def scenario() -> None:
        plugin = Recording()
        plugin.behave["PreBind"] = lambda _pod: Status.unschedulable("the disk is gone")
        async with running_with(
            plugin,
            make_node("n1"),
            make_pod("p"),
        ) as world:
            await world.in_queue("p", "backoff")
            await world.quiet(seconds=0.9)
            # An ordinary backoff would have been cut short, since no other pod is ready.
            assert plugin.calls.count("PreBind p") == 1
            condition = next(c for c in world.pod("p").status.conditions if c.type == "PodScheduled")
            assert (condition.reason, condition.message) == ("Unschedulable", "the disk is gone")
            plugin.behave.clear()
            await world.bound("p", seconds=5)

    in_virtual_time(scenario)
