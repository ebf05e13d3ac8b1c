"""Each feature gate off in turn: a whole scheduler still places what fits and brings back what may fit."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Node, Pod
from kuberth.clock import run_in_virtual_time
from kuberth.config.feature_gates import GATES
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import World, running

ON_BY_DEFAULT = [name for name, gate in GATES.items() if gate.default and not gate.locked]
TAINT = [{"key": "k", "effect": "NoSchedule"}]


def with_spec(pod: Pod, **changes: Any) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **changes))


def attempts(world: World, name: str) -> int:
    queued = world.scheduler.queue.get(f"default/{name}")
    assert queued is not None
    return queued.attempts


def leaving(world: World) -> list[str]:
    return [pod.metadata.name for pod in world.api.all(Pod) if pod.metadata.deletion_timestamp is not None]


async def _a_day(world: World) -> None:
    """A pod that fits; others that wait for queue, for a taint to go, for a label, for their gates."""
    api = world.api
    api.put(make_pod("fits", cpu="1"))
    await world.bound("fits")
    api.put(make_pod("large", cpu="16"))
    api.put(make_pod("elsewhere", cpu="1", nodeSelector={"zone": "b"}))
    port: dict[str, Any] = {"containers": [{"name": "c", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
    api.put(make_pod("first", **port))
    await world.bound("first")
    api.put(make_pod("second", **port))
    api.put(make_pod("gated", cpu="1", gates=["wait"]))
    for name in ("large", "elsewhere", "second"):
        await world.in_queue(name, "unschedulable")
    await world.quiet(seconds=15)
    assert {attempts(world, name) for name in ("large", "elsewhere", "second")} == {1}, "nothing happened"
    api.put(make_node("n2", cpu="32", taints=TAINT))
    await world.quiet(seconds=15)
    for name in ("large", "elsewhere", "second"):
        assert world.queue_of(name) == "unschedulable", name
    api.replace(make_node("n2", cpu="32"))
    await world.bound("large", "second", seconds=30)
    api.replace(make_node("n2", cpu="32", labels={"zone": "b"}))
    await world.bound("elsewhere", seconds=30)
    if not world.node_of("gated"):
        api.change(Pod, "default/gated", lambda pod: with_spec(pod, scheduling_gates=()))
    await world.bound("gated", seconds=30)
    api.put(make_pod("vip", cpu="31", priority=1000))
    await world.until(lambda: bool(leaving(world)))
    await world.quiet(seconds=1)
    for name in leaving(world):
        api.remove(Pod, f"default/{name}")  # as its kubelet does
    await world.bound("vip", seconds=60)
    assert world.node_of("vip") == "n2"
    assert [node.metadata.name for node in api.all(Node)] == ["n1", "n2"]


@pytest.mark.parametrize("gate", ["", *ON_BY_DEFAULT])
def test_a_day_with_a_gate_off(gate: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with running(make_node("n1"), gates={gate: False} if gate else {}) as world:
            await _a_day(world)

    with caplog.at_level(logging.WARNING):
        run_in_virtual_time(scenario)
    assert [record.message for record in caplog.records] == []


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_old_scheduling_gates_hold_only_while_the_feature_is_on(*, on: bool) -> None:
    async def scenario() -> None:
        async with running(make_node("n1"), gates={"PodSchedulingReadiness": on}) as world:
            world.api.put(make_pod("old", gates=["wait"]))
            if on:
                await world.in_queue("old", "gated")
                await world.quiet(seconds=10)
                assert world.node_of("old") == ""
            else:
                await world.bound("old", seconds=5)

    run_in_virtual_time(scenario)


@pytest.mark.parametrize(("on", "bound"), [(True, False), (False, True)], ids=["on", "off"])
def test_pod_level_requests_take_queue_only_while_the_feature_is_on(*, on: bool, bound: bool) -> None:
    """Placed and pending pods alike: two pods that ask for three CPUs as pods and for one as containers."""

    async def scenario() -> None:
        more = {"requests": {"cpu": "3"}}
        placed = make_pod("placed", cpu="1", node="n1", resources=more)
        async with running(make_node("n1", cpu="4"), placed, gates={"PodLevelResources": on}) as world:
            world.api.put(make_pod("p", cpu="1", resources=more))
            await world.quiet(seconds=5)
            assert bool(world.node_of("p")) is bound
            assert world.queue_of("p") == ("" if bound else "unschedulable")
            assert int(world.scheduler.cluster.requested[0, 0]) == (3000 if on else 2000)

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("on", [True, False], ids=["hints", "without-hints"])
def test_the_longest_wait_is_the_one_that_was_asked_for(*, on: bool) -> None:
    async def scenario() -> None:
        async with running(
            make_node("n1"), gates={"SchedulerQueueingHints": on}, max_unschedulable_seconds=60.0
        ) as world:
            world.api.put(make_pod("p", cpu="64"))
            await world.in_queue("p", "unschedulable")
            await world.quiet(seconds=50)
            assert attempts(world, "p") == 1
            await world.quiet(seconds=50)
            assert attempts(world, "p") == 2

    run_in_virtual_time(scenario)
