"""Gangs on a whole scheduler in virtual time: all or nothing, whatever happens on the way."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.api.scheduling import PodGroup
from kuberth.api.wire import convert
from kuberth.clock import SystemClock, run_in_virtual_time
from kuberth.cluster.nodes import NodeRow
from kuberth.config.types import Extender, ExtenderManagedResource
from kuberth.extenders.extenders import Extenders
from kuberth.extenders.http_extender import HttpExtender, Passed
from kuberth.extenders.whole_objects import WholeObjects
from kuberth.framework import FilterPlugin, Status
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.queued_pod import QueuedPod
from kuberth.observe.metrics import Histogram
from kuberth.queue import PriorityQueue
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.groups.cycle import CARRIED_OUT_IN_A_TURN, TRIED_IN_A_TURN
from kuberth.scheduling.loop import SchedulingLoop
from kuberth.testing import MemoryApi, make_node, make_pod
from kuberth.testing.harness import World, running

GATES = {"GenericWorkload": True, "GangScheduling": True}


def make_group(name: str, *, min_count: int | None = None, **more: Any) -> PodGroup:
    policy: dict[str, Any] = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    return convert(
        PodGroup,
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"group-{name}", "generation": 1},
            "spec": {"schedulingPolicy": policy, **more},
        },
    )


def member(name: str, group: str, *, cpu: str = "1", **more: Any) -> Pod:
    return make_pod(name, cpu=cpu, schedulingGroup={"podGroupName": group}, **more)


def members(group: str, count: int, **more: Any) -> list[Pod]:
    return [member(f"{group}-{number}", group, **more) for number in range(count)]


def bound(world: World) -> Counter[str]:
    """How many pods of each group have a node."""
    return Counter(
        pod.spec.scheduling_group.pod_group_name or ""
        for pod in world.api.all(Pod)
        if pod.spec.node_name and pod.spec.scheduling_group is not None
    )


def condition(world: World, group: str) -> tuple[str, str, str] | None:
    found = world.api.read(PodGroup, f"default/{group}").status.conditions
    return (found[0].status, found[0].reason, found[0].message) if found else None


def message(world: World, pod: str) -> str:
    conditions = world.pod(pod).status.conditions
    return next((each.message for each in conditions if each.type == "PodScheduled"), "")


Scenario = Callable[[], Coroutine[Any, Any, None]]


def test_a_gang_that_fits_is_bound_and_its_group_says_so() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="4"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 3):
                world.api.put(pod)
            await world.bound("g-0", "g-1", "g-2")
            await world.until(lambda: condition(world, "g") is not None)
            assert condition(world, "g") == ("True", "Scheduled", "")
            stored = world.api.read(PodGroup, "default/g").status.conditions[0]
            assert (stored.observed_generation, stored.last_transition_time is not None) == (1, True)
            # No pod had to wait for another, so no pod has a nominated node.
            assert all(not pod.status.nominated_node_name for pod in world.api.all(Pod))
            assert len(world.scheduler.waiting_pods) == 0

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("cpu", ["1m", "900m"], ids=["fits", "does not fit"])
def test_what_comes_of_a_large_gang_is_carried_out_in_slices(
    cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_turn = [0]
    conclude, schedule_one = SchedulingLoop._conclude, SchedulingLoop.schedule_one

    def counting(loop: SchedulingLoop, outcome: Any) -> None:
        in_a_turn[-1] += 1
        conclude(loop, outcome)

    def turning(loop: SchedulingLoop) -> bool:
        in_a_turn.append(0)
        return schedule_one(loop)

    monkeypatch.setattr(SchedulingLoop, "_conclude", counting)
    monkeypatch.setattr(SchedulingLoop, "schedule_one", turning)

    async def scenario() -> None:
        async with running(make_node("n1", cpu="200", pods="500"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=250))
            for pod in members("g", 250, cpu=cpu):
                world.api.put(pod)
            world.api.put(make_pod("other"))
            await world.until(lambda: condition(world, "g") is not None)
            await world.bound("other")
            await world.until(lambda: bound(world)["g"] == (250 if cpu == "1m" else 0))
            assert max(in_a_turn) <= 2 + CARRIED_OUT_IN_A_TURN  # and an ordinary pod between slices
            assert sum(in_a_turn) >= 251

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("cpu", ["1m", "900m"], ids=["fits", "does not fit"])
def test_a_large_gang_is_tried_over_many_turns_and_nothing_changes_meanwhile(
    cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_a_turn, turn, seen = Counter[int](), [0], list[tuple[int, int]]()
    decide, take = SchedulingCycle.decide, SchedulingCycle.take

    def deciding(cycle: SchedulingCycle, *arguments: Any, **more: Any) -> Any:
        in_a_turn[turn[0]] += 1
        return decide(cycle, *arguments, **more)

    def taking(cycle: SchedulingCycle, *arguments: Any, **more: Any) -> Any:
        in_a_turn[turn[0]] += 1
        return take(cycle, *arguments, **more)

    monkeypatch.setattr(SchedulingCycle, "decide", deciding)
    monkeypatch.setattr(SchedulingCycle, "take", taking)

    async def scenario() -> None:
        async with running(make_node("n1", cpu="200", pods="500"), gates=GATES) as world:
            table = world.scheduler.cluster

            async def turning() -> None:
                while not seen or world.scheduler._hold.is_held:
                    await asyncio.sleep(0)
                    turn[0] += 1
                    if world.scheduler._hold.is_held:
                        if not seen:  # what comes during the pass
                            world.api.put(make_node("n2", cpu="200", pods="500"))
                            world.api.put(make_pod("other", cpu="1m"))
                            world.api.remove(Pod, "default/g-249")
                        seen.append((table.node_count, table.placed_count))

            world.api.put(make_group("g", min_count=250))
            for pod in members("g", 250, cpu=cpu):
                world.api.put(pod)
            await turning()
            await world.until(lambda: condition(world, "g") is not None)
            await world.bound("other")
            assert max(in_a_turn.values()) <= TRIED_IN_A_TURN + 1
            assert len(seen) >= 250 // TRIED_IN_A_TURN
            assert {nodes for nodes, _ in seen} == {1}, "a node that comes during the pass is not seen"
            assert [placed for _, placed in seen[: 250 // TRIED_IN_A_TURN]] == [0] * (250 // TRIED_IN_A_TURN)
            assert not world.scheduler._hold.is_held
            assert table.node_count == 2
            await world.until(lambda: bound(world)["g"] == (249 if cpu == "1m" else 0))

    run_in_virtual_time(scenario)


def test_a_stop_while_a_gang_is_tried_binds_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = SchedulingCycle.decide

    async def scenario() -> None:
        async with running(make_node("n1", cpu="200", pods="500"), gates=GATES) as world:

            def stopping(cycle: SchedulingCycle, *arguments: Any, **more: Any) -> Any:
                world.scheduler.loop.stop()
                return decide(cycle, *arguments, **more)

            monkeypatch.setattr(SchedulingCycle, "decide", stopping)
            world.api.put(make_group("g", min_count=250))
            for pod in members("g", 250, cpu="1m"):
                world.api.put(pod)
            await world.until(lambda: bound(world)["g"] == 250)
            assert not world.scheduler._hold.is_held

    run_in_virtual_time(scenario)


class Slow(HttpExtender):
    """Leaves all nodes to pods that ask for its resource, when it is allowed to answer."""

    def __init__(self) -> None:
        config = Extender(
            url_prefix="http://x",
            filter_verb="f",
            managed_resources=(ExtenderManagedResource(name="example.com/slow"),),
        )
        super().__init__(config, WholeObjects(MemoryApi()), index=0, clock=SystemClock())
        self.may_answer = asyncio.Event()

    async def filter(self, pod: Pod, names: Sequence[str]) -> Passed:
        await self.may_answer.wait()
        return Passed(names, True, {}, {})


def test_a_gang_is_tried_in_one_turn_while_a_cycle_waits_for_its_extender(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = list[bool]()
    schedule_one = SchedulingLoop.schedule_one

    def turning(loop: SchedulingLoop) -> bool:
        answer = schedule_one(loop)
        held.append(loop._is_deciding)
        return answer

    monkeypatch.setattr(SchedulingLoop, "schedule_one", turning)

    async def scenario() -> None:
        slow = Slow()
        node = make_node("n1", cpu="200", pods="500", allocatable={"example.com/slow": "1"})
        async with running(node, gates=GATES) as world:
            world.scheduler.runners["default-scheduler"].extenders = Extenders([slow])
            world.api.put(make_pod("slow", requests={"example.com/slow": "1"}))
            await world.until(lambda: world.scheduler.loop._overlapping.running == 1)
            world.api.put(make_group("g", min_count=250))
            for pod in members("g", 250, cpu="1m"):
                world.api.put(pod)
            await world.until(lambda: bound(world)["g"] == 250)
            assert not any(held)
            slow.may_answer.set()
            await world.bound("slow")

    run_in_virtual_time(scenario)


def test_a_stop_between_the_slices_of_a_gang_binds_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    conclude = SchedulingLoop._conclude

    def stopping(loop: SchedulingLoop, outcome: Any) -> None:
        loop.stop()
        conclude(loop, outcome)

    async def scenario() -> None:
        async with running(make_node("n1", cpu="200", pods="500"), gates=GATES) as world:
            monkeypatch.setattr(SchedulingLoop, "_conclude", stopping)
            world.api.put(make_group("g", min_count=250))
            for pod in members("g", 250, cpu="1m"):
                world.api.put(pod)
            await world.until(lambda: bound(world)["g"] == 250)

    run_in_virtual_time(scenario)


def test_a_gang_that_does_not_fit_waits_as_a_whole() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="2"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 3):
                world.api.put(pod)
            await world.until(lambda: condition(world, "g") is not None)
            assert condition(world, "g") == ("False", "Unschedulable", "pod group is unschedulable")
            assert not bound(world)
            reported = Counter(message(world, f"g-{number}").partition(".")[0] for number in range(3))
            assert reported == {
                "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
                "one or more plugins asked to wait and no plugin rejected pod": 2,
                "0/1 nodes are available: 1 Insufficient cpu": 1,
            }
            assert {world.queue_of(f"g-{number}") for number in range(3)} == {"backoff"}
            world.api.put(make_node("n2", cpu="2"))
            await world.bound("g-0", "g-1", "g-2")
            await world.until(lambda: condition(world, "g") == ("True", "Scheduled", ""))

    run_in_virtual_time(scenario)


class BreaksAtTheSecond(FilterPlugin):
    name = "BreaksAtTheSecond"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        self.asked.append(pod.metadata.name)
        if [pod.metadata.name] == self.asked[1:2]:
            raise RuntimeError("broken")
        return None


@asynccontextmanager
async def breaking(plugin: BreaksAtTheSecond) -> AsyncIterator[World]:
    """A gang of three that the plugin breaks, once all its pods have a message."""
    async with running(
        make_node("n1", cpu="4"),
        profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}],
        plugins={plugin.name: lambda _args, _handle: plugin},
        gates=GATES,
    ) as world:
        world.api.put(make_group("g", min_count=3))
        for pod in members("g", 3):
            world.api.put(pod)
        await world.until(lambda: all(message(world, f"g-{number}") for number in range(3)))
        yield world


def test_a_failure_is_reported_for_its_pod_and_quoted_for_the_others() -> None:
    """Whether they had found a node before it, or were not tried any more."""

    async def scenario() -> None:
        plugin = BreaksAtTheSecond()
        async with breaking(plugin) as world:
            own = "plugin 'BreaksAtTheSecond' at Filter: RuntimeError: broken"
            others = f"failed to schedule other pod from a pod group: {own}"
            tried, failed = plugin.asked[:2]
            (untried,) = {"g-0", "g-1", "g-2"} - {tried, failed}
            assert [message(world, name) for name in (tried, failed, untried)] == [others, own, others]
            group = condition(world, "g")
            assert group is not None
            assert group[:2] == ("False", "SchedulerError")
            assert not bound(world)
            sums = {
                value.sum
                for family in world.scheduler.metrics.families()
                if isinstance(family, Histogram) and family.name.endswith("attempt_duration_seconds")
                for value in family.values.values()
            }
            # Of durations, and not of clocks.
            assert len(sums) == 2
            assert all(0 < total < 60 for total in sums)

    run_in_virtual_time(scenario)


def test_the_search_for_a_gang_is_timed_once() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="4"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 3):
                world.api.put(pod)
            await world.bound("g-0", "g-1", "g-2")
            timed = {
                family.name: [value.count for value in family.values.values()]
                for family in world.scheduler.metrics.families()
                if isinstance(family, Histogram) and "podgroup_scheduling_algorithm" in family.name
            }
            assert timed == {"scheduler_podgroup_scheduling_algorithm_duration_seconds": [1]}

    run_in_virtual_time(scenario)


def test_pods_that_were_not_tried_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 1000.0)

    async def scenario() -> None:
        plugin = BreaksAtTheSecond()
        async with breaking(plugin) as world:
            took = world.scheduler.metrics.attempt_duration.values["error", "default-scheduler"]
            assert (took.count >= 3, took.sum) == (True, 0.0)

    run_in_virtual_time(scenario)


def test_of_a_hundred_gangs_sixty_run_and_none_in_part() -> None:
    async def scenario() -> None:
        nodes = [make_node(f"n{number}", cpu="20") for number in range(30)]  # room for 600 pods
        async with running(*nodes, gates=GATES) as world:
            for gang in range(100):
                world.api.put(make_group(f"g{gang}", min_count=10))
                for pod in members(f"g{gang}", 10):
                    world.api.put(pod)
            await world.until(lambda: sum(bound(world).values()) == 600)
            await world.quiet(seconds=120)
            assert sorted(bound(world).values()) == [10] * 60
            reported = Counter(condition(world, f"g{gang}") for gang in range(100))
            assert reported == {
                ("True", "Scheduled", ""): 60,
                ("False", "Unschedulable", "pod group is unschedulable"): 40,
            }
            assert_consistent(world)

    run_in_virtual_time(scenario)


def test_two_gangs_that_fit_one_at_a_time_both_finish() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="4"), gates=GATES) as world:
            for gang in ("a", "b"):
                world.api.put(make_group(gang, min_count=3))
            for pods in zip(members("a", 3), members("b", 3), strict=True):
                for pod in pods:
                    world.api.put(pod)
            await world.until(lambda: bool(bound(world)))
            await world.quiet(seconds=30)
            assert len(bound(world)) == 1
            (first,) = bound(world)
            second = "b" if first == "a" else "a"
            assert bound(world)[first] == 3
            for number in range(3):
                world.api.remove(Pod, f"default/{first}-{number}")
            await world.bound(*(f"{second}-{number}" for number in range(3)))
            assert_consistent(world)

    run_in_virtual_time(scenario)


def test_pods_that_arrive_one_by_one_wait_for_the_last() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="4"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 2):
                world.api.put(pod)
                await world.quiet(seconds=20)
                assert world.queue_of(pod.metadata.name) == "gated"
            queued = world.scheduler.queue.get("default/g-0")
            assert queued is not None
            assert queued.gating_plugin == "GangScheduling"
            world.api.put(member("g-2", "g"))
            await world.bound("g-0", "g-1", "g-2")

    run_in_virtual_time(scenario)


def test_pods_may_be_there_before_their_group() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="4"), gates=GATES) as world:
            for pod in members("g", 3):
                world.api.put(pod)
            await world.quiet(seconds=20)
            assert {world.queue_of(f"g-{number}") for number in range(3)} == {"gated"}
            world.api.put(make_group("other", min_count=1))
            await world.quiet(seconds=20)
            assert {world.queue_of(f"g-{number}") for number in range(3)} == {"gated"}
            world.api.put(make_group("g", min_count=3))
            await world.bound("g-0", "g-1", "g-2")

    run_in_virtual_time(scenario)


def test_pods_that_come_late_join_those_that_run() -> None:
    """More pods than minCount: enough of them are bound, the others follow when there is room."""

    async def scenario() -> None:
        async with running(make_node("n1", cpu="3"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 4):
                world.api.put(pod)
            await world.until(lambda: bound(world)["g"] == 3)
            await world.quiet(seconds=30)
            assert bound(world)["g"] == 3
            (left,) = [pod for pod in world.api.all(Pod) if not pod.spec.node_name]
            assert message(world, left.metadata.name).startswith(
                "0/1 nodes are available: 1 Insufficient cpu."
            )
            # The group was scheduled; that one pod of it does not fit is that pod's affair.
            assert condition(world, "g") == ("True", "Scheduled", "")
            world.api.put(make_node("n2", cpu="3"))
            await world.bound(left.metadata.name)
            world.api.put(member("late", "g"))
            await world.bound("late")

    run_in_virtual_time(scenario)


def test_a_group_that_is_deleted_gates_its_pods_again() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="1"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=2))
            for pod in members("g", 2):
                world.api.put(pod)
            await world.until(lambda: condition(world, "g") is not None)
            world.api.remove(PodGroup, "default/g")
            await world.until(lambda: {world.queue_of("g-0"), world.queue_of("g-1")} == {"gated"})
            world.api.put(make_node("n2", cpu="1"))
            await world.quiet(seconds=30)
            assert not bound(world)
            world.api.put(make_group("g", min_count=2))
            await world.bound("g-0", "g-1")

    run_in_virtual_time(scenario)


def test_a_group_that_is_recreated_with_another_count() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="2"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 3):
                world.api.put(pod)
            await world.until(lambda: condition(world, "g") is not None)
            world.api.remove(PodGroup, "default/g")
            world.api.put(make_group("g", min_count=2))
            await world.until(lambda: bound(world)["g"] == 2)
            await world.until(lambda: condition(world, "g") == ("True", "Scheduled", ""))

    run_in_virtual_time(scenario)


def test_a_basic_group_is_bound_as_far_as_it_fits() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="2"), gates=GATES) as world:
            world.api.put(make_group("g"))
            for pod in members("g", 3):
                world.api.put(pod)
            await world.until(lambda: bound(world)["g"] == 2)
            await world.until(lambda: condition(world, "g") == ("True", "Scheduled", ""))

    run_in_virtual_time(scenario)


def test_the_gang_of_higher_priority_goes_first() -> None:
    async def scenario() -> None:
        async with running(make_node("busy", cpu="1"), gates=GATES) as world:
            for gang, priority in (("low", 1), ("high", 9)):
                world.api.put(make_group(gang, min_count=3))
                for pod in members(gang, 3, priority=priority):
                    world.api.put(pod)
            await world.until(lambda: condition(world, "low") is not None)
            assert not bound(world)
            # Both wait out their backoff; the node requeues neither before that.
            world.api.put(make_node("n1", cpu="3", labels={"queue": "yes"}))
            await world.until(lambda: bool(bound(world)), seconds=120)
            await world.quiet(seconds=1)
            assert sum(bound(world).values()) == 3

    run_in_virtual_time(scenario)


def test_within_a_gang_pods_are_tried_by_priority() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="2"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=2))
            for number, priority in enumerate((1, 5, 9)):
                world.api.put(member(f"p{priority}", "g", priority=priority, uid=f"uid-{number}"))
            await world.bound("p9", "p5")
            assert world.node_of("p1") == ""

    run_in_virtual_time(scenario)


def test_a_gang_preempts_and_is_bound_when_its_victims_are_gone() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="4"), gates=GATES) as world:
            world.api.put(make_pod("low", cpu="2", priority=1))
            await world.bound("low")
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 4, priority=100):
                world.api.put(pod)
            await world.until(lambda: world.pod("low").metadata.deletion_timestamp is not None)
            await world.until(lambda: condition(world, "g") is not None)
            assert condition(world, "g") == (
                "False",
                "Unschedulable",
                "pod group is unschedulable, pod group is waiting for preemption to complete",
            )
            reported = Counter(message(world, f"g-{number}").partition(":")[0] for number in range(4))
            assert reported == {
                "pod group is unschedulable, pod group is waiting for preemption to complete": 2,
                "0/1 nodes are available": 2,
            }
            await world.until(lambda: all(world.pod(f"g-{n}").status.nominated_node_name for n in range(4)))
            assert not bound(world)
            world.api.remove(Pod, "default/low")
            await world.bound(*(f"g-{number}" for number in range(4)))
            await world.until(lambda: condition(world, "g") == ("True", "Scheduled", ""))

    run_in_virtual_time(scenario)


# With WorkloadAwarePreemption, room is made for the group as a whole or not at all

AS_A_WHOLE = {**GATES, "WorkloadAwarePreemption": True}


def test_a_gang_preempts_as_a_whole() -> None:
    async def scenario() -> None:
        nodes = [make_node(name, cpu="2") for name in ("n1", "n2")]
        async with running(*nodes, gates=AS_A_WHOLE) as world:
            for name in ("low-1", "low-2"):
                world.api.put(make_pod(name, cpu="2", priority=1))
            await world.bound("low-1", "low-2")
            world.api.put(make_group("g", min_count=2, priority=100))
            for pod in members("g", 2, cpu="2", priority=100):
                world.api.put(pod)
            await world.until(
                lambda: all(world.pod(name).metadata.deletion_timestamp for name in ("low-1", "low-2"))
            )
            await world.until(lambda: condition(world, "g") is not None)
            metrics = world.scheduler.metrics.groups
            assert metrics is not None
            assert ("waiting_on_preemption", "default-scheduler") in metrics.schedule_attempts.values
            assert not bound(world)
            for name in ("low-1", "low-2"):
                world.api.remove(Pod, f"default/{name}")
            await world.bound("g-0", "g-1")
            await world.until(lambda: condition(world, "g") == ("True", "Scheduled", ""))

    run_in_virtual_time(scenario)


def test_no_pod_is_evicted_for_a_gang_that_would_still_not_fit() -> None:
    async def scenario() -> None:
        nodes = [make_node(name, cpu="2") for name in ("n1", "n2")]
        async with running(*nodes, gates=AS_A_WHOLE) as world:
            world.api.put(make_pod("low", cpu="2", priority=1))
            world.api.put(make_pod("equal", cpu="2", priority=100))
            await world.bound("low", "equal")
            world.api.put(make_group("g", min_count=2, priority=100))
            for pod in members("g", 2, cpu="2", priority=100):
                world.api.put(pod)
            await world.until(lambda: condition(world, "g") is not None)
            reported = condition(world, "g")
            assert reported is not None
            assert reported[:2] == ("False", "Unschedulable")
            assert world.pod("low").metadata.deletion_timestamp is None

    run_in_virtual_time(scenario)


def message_without_preemption(*, gates: dict[str, bool], profile: dict[str, Any], **group: Any) -> str:
    """What a group's condition says where only a preemption could make room."""
    said: list[str] = []

    async def scenario() -> None:
        node = make_node("n1", cpu="2", labels={"zone": "z1"})
        async with running(node, gates=gates, profiles=[profile]) as world:
            world.api.put(make_pod("low", cpu="2", priority=1))
            await world.bound("low")
            world.api.put(make_group("g", min_count=2, priority=100, **group))
            for pod in members("g", 2, priority=100):
                world.api.put(pod)
            await world.until(lambda: condition(world, "g") is not None)
            assert world.pod("low").metadata.deletion_timestamp is None
            said.extend(condition(world, "g") or ())

    run_in_virtual_time(scenario)
    return said[2]


def test_preemption_is_refused_for_a_group_with_topology_constraints() -> None:
    gates = {**AS_A_WHOLE, "TopologyAwareWorkloadScheduling": True}
    by_zone = {"topology": [{"key": "zone"}]}
    assert message_without_preemption(gates=gates, profile={}, schedulingConstraints=by_zone) == (
        "0/1 placements are available, first placement status: pod group is unschedulable, "
        "workload aware preemption is not supported for pod groups with scheduling constraints"
    )


def test_a_group_reports_that_the_preemption_plugin_is_missing() -> None:
    profile = {"plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}}
    assert message_without_preemption(gates=AS_A_WHOLE, profile=profile) == (
        "pod group is unschedulable, "
        "default preemption plugin is not registered, workload aware preemption is disabled"
    )


class Turn(PriorityQueue):
    """A queue that pops pods in its own order only, as a custom queue may."""

    gives_out_of_order = False

    def take_nowait(self, pod: Pod) -> QueuedPod | None:
        raise AssertionError("this queue does not say that it can do that")


def test_a_queue_that_only_pops_schedules_gangs_too() -> None:
    async def scenario() -> None:
        nodes = [make_node(f"n{number}", cpu="4") for number in range(2)]
        async with running(*nodes, gates=GATES, queue=Turn) as world:
            for gang in ("a", "b", "c"):
                world.api.put(make_group(gang, min_count=3))
            singles = [make_pod(f"single-{number}", cpu="1") for number in range(2)]
            rows = zip(members("a", 3), members("b", 3), members("c", 3), strict=True)
            for pod in (singles[0], *(pod for row in rows for pod in row), singles[1]):
                world.api.put(pod)
            await world.bound("single-0", "single-1")
            await world.until(lambda: sum(bound(world).values()) == 6)
            await world.quiet(seconds=60)
            assert sorted(bound(world).values()) == [3, 3]
            left = next(gang for gang in ("a", "b", "c") if gang not in bound(world))
            world.api.put(make_node("n2", cpu="4"))
            await world.bound(*(f"{left}-{number}" for number in range(3)))
            assert_consistent(world)

    run_in_virtual_time(scenario)


def test_a_restarted_scheduler_counts_bound_pods_of_a_group() -> None:
    async def scenario() -> None:
        half = [member(f"g-{number}", "g", node="n1") for number in range(2)]
        rest = [member(f"g-{number}", "g") for number in range(2, 4)]
        objects = [make_node("n1", cpu="8"), make_group("g", min_count=4), *half, *rest]
        async with running(*objects, gates=GATES) as world:
            await world.bound("g-2", "g-3")
            await world.until(lambda: condition(world, "g") == ("True", "Scheduled", ""))

    run_in_virtual_time(scenario)


def test_permit_gives_up_after_five_minutes() -> None:
    """The plugin named in a configuration, without the gates: no group cycle, so each pod takes its place and
    waits for the others."""

    async def scenario() -> None:
        profile = {"plugins": {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}}
        async with running(make_node("n1", cpu="2"), profiles=[profile]) as world:
            world.api.put(make_group("g", min_count=3))
            for pod in members("g", 3):
                world.api.put(pod)
            await world.until(lambda: len(world.scheduler.waiting_pods) == 2)
            await world.quiet(seconds=290)
            assert len(world.scheduler.waiting_pods) == 2
            timeout = "rejected due to timeout after waiting 5m0s at plugin GangScheduling"

            def is_reported() -> bool:
                return any(timeout in message(world, f"g-{number}") for number in range(3))

            assert not is_reported()
            await world.until(is_reported, seconds=30)
            assert not bound(world)
            world.api.put(make_node("n2", cpu="2"))
            await world.bound("g-0", "g-1", "g-2", seconds=900)

    run_in_virtual_time(scenario)


def test_pods_of_two_schedulers_cannot_be_one_group() -> None:
    async def scenario() -> None:
        profiles = [{"schedulerName": "A"}, {"schedulerName": "B"}]
        async with running(make_node("n1"), profiles=profiles, gates=GATES) as world:
            world.api.put(make_group("g", min_count=2))
            world.api.put(member("g-0", "g", scheduler="A", priority=5))
            world.api.put(member("g-1", "g", scheduler="B"))
            await world.until(lambda: bool(message(world, "g-0")) and bool(message(world, "g-1")))
            assert message(world, "g-0") == (
                "all pods in a single pod group should have the same .spec.schedulerName set, "
                'got: "B" and "A"'
            )

    run_in_virtual_time(scenario)


def test_a_member_that_is_being_deleted_is_not_bound_with_its_gang() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="4"), gates=GATES) as world:
            leaving = member("leaving", "g", metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"})
            for pod in (*members("g", 2), leaving):
                world.api.put(pod)
            world.api.put(make_group("g", min_count=2))
            await world.bound("g-0", "g-1")
            await world.until(lambda: world.scheduler.queue.in_flight() == ())
            assert not world.pod("leaving").spec.node_name
            skipped = ["skip schedule deleting pod: default/leaving"]
            await world.until(lambda: world.events("FailedScheduling") == skipped)
            attempts = world.scheduler.metrics.schedule_attempts.values
            assert attempts == {("scheduled", "default-scheduler"): 2}, "there was no attempt to bind it"

    run_in_virtual_time(scenario)


def test_a_member_that_is_gone_is_left_out() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="1"), gates=GATES) as world:
            world.api.put(make_group("g", min_count=2))
            for pod in members("g", 3):
                world.api.put(pod)
            await world.until(lambda: condition(world, "g") is not None)
            world.api.remove(Pod, "default/g-0")
            world.api.put(make_node("n2", cpu="4"))
            await world.bound("g-1", "g-2")
            assert_consistent(world)

    run_in_virtual_time(scenario)


def test_nothing_changes_with_the_gates_off() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="1")) as world:
            world.api.put(make_group("g", min_count=2))
            for pod in members("g", 2):
                world.api.put(pod)
            await world.until(lambda: bound(world)["g"] == 1)
            await world.quiet(seconds=30)
            assert condition(world, "g") is None
            left = next(pod.metadata.name for pod in world.api.all(Pod) if not pod.spec.node_name)
            assert world.queue_of(left) == "unschedulable"
            assert not any("podgroup" in family.name for family in world.scheduler.metrics.families())

    run_in_virtual_time(scenario)


def assert_consistent(world: World) -> None:
    """No node holds more than it has, no pod is lost, and the table agrees with the API."""
    api, scheduler = world.api, world.scheduler
    waiting = {queued.key for pods in scheduler.queue.pending_pods().values() for queued in pods}
    in_flight = {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in scheduler.queue.in_flight()}
    for pod in api.all(Pod):
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        assert bool(pod.spec.node_name) != (key in waiting or key in in_flight), key
        placed = scheduler.cluster.placed(pod.metadata.uid)
        assert (placed is not None) == bool(pod.spec.node_name)
    cluster = scheduler.cluster
    assert not cluster.is_supposing
    assert (cluster.requested[:, : cluster.slots] <= cluster.allocatable[:, : cluster.slots]).all()


def test_a_defect_in_the_group_cycle_costs_no_pod() -> None:
    async def scenario() -> None:
        async with running(make_node("n1", cpu="4"), gates=GATES) as world:
            cycle = world.scheduler.loop.groups
            assert cycle is not None
            faults = {"_accept", "_record_outcome"}
            real = {name: getattr(cycle, name) for name in faults}

            def faulty(name: str) -> Callable[..., Any]:
                def method(*arguments: Any) -> Any:
                    if name in faults:
                        raise RuntimeError("a defect of ours")
                    return real[name](*arguments)

                return method

            for name in real:
                setattr(cycle, name, faulty(name))
            world.api.put(make_group("g", min_count=2))
            for pod in members("g", 2):
                world.api.put(pod)
            await world.until(lambda: world.queue_of("g-0") == world.queue_of("g-1") == "backoff")
            faults.remove("_accept")
            await world.bound("g-0", "g-1")
            assert condition(world, "g") is None
            assert_consistent(world)

    run_in_virtual_time(scenario)
