"""What KEP-3521 promises beside holding pods back: own gates, scheduled pods, skew, and the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Pod
from kuberth.clock import run_in_virtual_time
from kuberth.framework import (
    Action,
    ClusterEvent,
    EnqueueExtensions,
    EventWithHint,
    PreEnqueuePlugin,
    Resource,
    Status,
)
from kuberth.testing import MemoryApi, make_node, make_pod
from kuberth.testing.harness import running

OFF = {"PodSchedulingReadiness": False}


class Approval(PreEnqueuePlugin, EnqueueExtensions):
    """A custom gate: pods wait for a label."""

    name = "Approval"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None if "approved" in pod.metadata.labels else Status.unresolvable("not approved")

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [EventWithHint(ClusterEvent(Resource.POD, Action.UPDATE_POD_LABEL))]


def approved(pod: Pod) -> Pod:
    replace = msgspec.structs.replace
    return replace(pod, metadata=replace(pod.metadata, labels={"approved": "yes"}))


def ungated(pod: Pod) -> Pod:
    replace = msgspec.structs.replace
    return replace(pod, spec=replace(pod.spec, scheduling_gates=()))


AT_ITS_POINT: Mapping[str, Any] = {"plugins": {"preEnqueue": {"enabled": [{"name": "Approval"}]}}}
AT_ALL_POINTS: Mapping[str, Any] = {"plugins": {"multiPoint": {"enabled": [{"name": "Approval"}]}}}


@pytest.mark.parametrize("profile", [AT_ITS_POINT, AT_ALL_POINTS], ids=["preEnqueue", "multiPoint"])
@pytest.mark.parametrize("gates", [{}, OFF], ids=["feature-on", "feature-off"])
def test_own_gates_hold_whatever_becomes_of_scheduling_gates(
    profile: Mapping[str, Any], gates: Mapping[str, bool]
) -> None:
    async def scenario() -> None:
        plugins = {"Approval": lambda _args, _handle: Approval()}
        async with running(make_node("n1"), profiles=[profile], plugins=plugins, gates=gates) as world:
            world.api.put(make_pod("p"))
            await world.in_queue("p", "gated")
            world.api.put(make_node("n2"))
            await world.quiet(seconds=400)
            queued = world.scheduler.queue.get("default/p")
            assert queued is not None
            assert (world.queue_of("p"), queued.gating_plugin, queued.attempts) == ("gated", "Approval", 0)
            world.api.change(Pod, "default/p", approved)
            await world.bound("p", seconds=1)

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("how", ["at start", "arrives", "bound elsewhere"])
def test_gates_of_a_scheduled_pod_mean_nothing(how: str) -> None:
    """No API server stores such a pod today; one with the feature off may have bound it."""

    async def scenario() -> None:
        scheduled = make_pod("p", cpu="1", node="n1", gates=["wait"])
        api = MemoryApi(feature_gates=OFF)
        objects = [make_node("n1", cpu="2"), *([scheduled] if how == "at start" else [])]
        async with running(*objects, api=api) as world:
            if how == "arrives":
                api.put(scheduled)
            elif how == "bound elsewhere":
                api.put(make_pod("p", cpu="1", gates=["wait"]))
                await world.in_queue("p", "gated")
                replace = msgspec.structs.replace
                api.change(Pod, "default/p", lambda pod: replace(pod, spec=replace(pod.spec, node_name="n1")))
            await world.quiet()
            assert world.queue_of("p") == ""
            assert int(world.scheduler.cluster.requested[0, 0]) == 1000
            assert world.scheduler.queue.waiting_count() == 0
            api.change(Pod, "default/p", ungated)
            await world.quiet()
            assert int(world.scheduler.cluster.requested[0, 0]) == 1000
            assert world.scheduler.metrics.schedule_attempts.values == {}

    run_in_virtual_time(scenario)


def test_a_scheduled_pod_with_gates_leaves_its_room_behind() -> None:
    async def scenario() -> None:
        scheduled = make_pod("p", cpu="1", node="n1", gates=["wait"])
        api = MemoryApi(feature_gates=OFF)
        async with running(make_node("n1", cpu="1"), scheduled, api=api) as world:
            api.put(make_pod("q", cpu="1"))
            await world.in_queue("q", "unschedulable")
            api.remove(Pod, "default/p")
            await world.bound("q", seconds=20)

    run_in_virtual_time(scenario)


def test_the_time_behind_a_gate_is_not_part_of_the_scheduling_sli() -> None:
    async def scenario() -> None:
        async with running(make_node("n1"), make_pod("p", gates=["wait"])) as world:
            await world.in_queue("p", "gated")
            await world.quiet(seconds=1000)
            world.api.change(Pod, "default/p", ungated)
            await world.bound("p", seconds=1)
            await world.quiet()
            sli = world.scheduler.metrics.pod_scheduling_sli_duration.values
            assert [(labels, value.count) for labels, value in sli.items()] == [(("1",), 1)]
            assert sli[("1",)].sum < 1

    run_in_virtual_time(scenario)


def test_with_the_feature_off_in_the_scheduler_alone_gated_pods_are_tried() -> None:
    """Version skew: an API server with the feature refuses to bind them, so they are retried."""

    async def scenario() -> None:
        async with running(make_node("n1"), api=MemoryApi(), gates=OFF) as world:
            world.api.put(make_pod("p", gates=["wait"]))
            await world.in_queue("p", "backoff")
            queued = world.scheduler.queue.get("default/p")
            assert queued is not None
            assert (queued.gated, queued.consecutive_errors) == (False, 1)
            assert any("non-empty .spec.schedulingGates" in note for note in world.events("FailedScheduling"))
            assert int(world.scheduler.cluster.pod_count.sum()) == 0, "its place is free meanwhile"
            world.api.put(make_pod("q"))
            await world.bound("q", seconds=1)
            world.api.change(Pod, "default/p", ungated)
            await world.bound("p", seconds=12)

    run_in_virtual_time(scenario)
