"""Gangs are bound whole or not at all, and never block each other for good."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from kuberth.api import Pod
from kuberth.testing import (
    World,
    make_node,
    make_pod,
    profile,
    run_in_virtual_time,
    running,
)
from kuberth_plugins.coscheduling import LABEL, Coscheduling, pod_group_kind

PodGroup = pod_group_kind()


def group(name: str, *, min_member: int, created: str = "1970-01-01T00:00:00Z", **spec: Any) -> Any:
    metadata = {"name": name, "namespace": "default", "creationTimestamp": created}
    return PodGroup({"metadata": metadata, "spec": {"minMember": min_member, **spec}})


def member(gang: str, index: int, **fields: Any) -> Pod:
    return make_pod(f"{gang}-{index}", labels={LABEL: gang}, **{"cpu": "1", **fields})


def gang(name: str, size: int, **fields: Any) -> list[Pod]:
    return [member(name, index, **fields) for index in range(size)]


def scheduler(*objects: Any, **args: Any) -> Any:
    config = [{"name": "Coscheduling", "args": args}] if args else []
    plugins = profile("NodeResourcesFit", "Coscheduling", sort="Coscheduling", pluginConfig=config)
    return running(*objects, plugins={"Coscheduling": Coscheduling}, profiles=[plugins])


def bound_by_gang(world: World) -> Counter[str]:
    return Counter(pod.metadata.labels[LABEL] for pod in world.api.all(Pod) if pod.spec.node_name)


def finish(world: World, pods: Iterable[Pod]) -> None:
    for pod in pods:
        world.api.remove(Pod, f"default/{pod.metadata.name}")


@pytest.mark.parametrize("seed", range(5))
def test_as_many_gangs_run_as_fit_and_none_in_part(seed: int) -> None:
    """100 gangs of 10 whose pods arrive mixed, on nodes for 600 pods."""

    async def scenario() -> None:
        pods = [pod for index in range(100) for pod in gang(f"g{index}", 10)]
        random.Random(seed).shuffle(pods)
        nodes = [make_node(f"n{index}", cpu="8") for index in range(75)]
        groups = [group(f"g{index}", min_member=10) for index in range(100)]
        async with scheduler(*nodes, *groups) as world:
            for pod in pods:
                world.api.put(pod)
            await world.until(lambda: bound_by_gang(world).total() == 600, seconds=3600)
            assert Counter(bound_by_gang(world).values()) == {10: 60}
            await world.quiet(seconds=900)
            assert Counter(bound_by_gang(world).values()) == {10: 60}
            assert not len(world.scheduler.waiting_pods)

    run_in_virtual_time(scenario)


def test_two_gangs_that_fit_one_at_a_time_both_finish() -> None:
    async def scenario() -> None:
        first, second = gang("a", 6), gang("b", 6)
        mixed = [pod for pair in zip(first, second, strict=True) for pod in pair]
        groups = [group("a", min_member=6), group("b", min_member=6)]
        async with scheduler(make_node("n", cpu="8"), *groups) as world:
            for pod in mixed:
                world.api.put(pod)
            await world.until(lambda: bound_by_gang(world).total() == 6, seconds=600)
            (winner,) = bound_by_gang(world)
            await world.quiet(seconds=120)
            assert bound_by_gang(world) == {winner: 6}
            finish(world, first if winner == "a" else second)
            loser = "b" if winner == "a" else "a"
            await world.until(lambda: bound_by_gang(world) == {loser: 6}, seconds=600)

    run_in_virtual_time(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_gangs_of_all_sizes_run_one_after_the_other(seed: int) -> None:
    """Room for some of 30 gangs, whose pods arrive mixed. Whenever a gang ends, others can run."""

    async def scenario() -> None:
        rng = random.Random(seed)
        sizes = {f"g{index}": rng.randint(2, 8) for index in range(30)}
        pods = [pod for name, size in sizes.items() for pod in gang(name, size + rng.choice((0, 0, 1)))]
        rng.shuffle(pods)
        node = make_node("n", cpu=str(rng.randint(9, 30)))
        async with scheduler(node, *(group(name, min_member=size) for name, size in sizes.items())) as world:
            for pod in pods:
                world.api.put(pod)
                await world.quiet(seconds=rng.choice((0, 0, 0, 1)))
            for _ in range(30):
                await world.quiet(seconds=20)
                running_now = bound_by_gang(world)
                assert running_now, "every gang fits alone"
                assert all(count >= sizes[name] for name, count in running_now.items())
                ended = rng.choice(sorted(running_now))
                finish(world, [pod for pod in world.api.all(Pod) if pod.metadata.labels[LABEL] == ended])
            assert not world.api.all(Pod)

    run_in_virtual_time(scenario)


def test_pods_wait_until_the_gang_is_there() -> None:
    async def scenario() -> None:
        async with scheduler(make_node("n", cpu="8")) as world:
            world.api.put(member("g", 0))
            await world.in_queue("g-0", "unschedulable")
            (note,) = world.events("FailedScheduling")
            assert note.count("PodGroup default/g not found") == 2, "from PreFilter and from PostFilter"
            assert "no gang" not in note
            world.api.put(group("h", min_member=2))
            world.api.put(member("h", 0))
            await world.quiet(seconds=60)
            notes = world.events("FailedScheduling")
            assert any("PodGroup default/h has 1 pod, and its minMember is 2" in note for note in notes)
            world.api.put(group("g", min_member=3))
            world.api.put(member("g", 1))
            await world.quiet(seconds=60)
            assert bound_by_gang(world) == {}
            notes = world.events("FailedScheduling")
            assert any("PodGroup default/g not found" in note for note in notes)
            assert any("PodGroup default/g has 2 pods, and its minMember is 3" in note for note in notes)
            world.api.put(member("g", 2))
            await world.bound("g-0", "g-1", "g-2")

    run_in_virtual_time(scenario)


def test_a_smaller_minmember_lets_the_gang_start() -> None:
    async def scenario() -> None:
        async with scheduler(make_node("n", cpu="8"), group("g", min_member=3), *gang("g", 2)) as world:
            await world.in_queue("g-1", "unschedulable")
            world.api.replace(group("g", min_member=2))
            await world.bound("g-0", "g-1")

    run_in_virtual_time(scenario)


def test_after_the_timeout_the_whole_gang_gives_its_nodes_back() -> None:
    """One pod of ten is missing and there are two that could be it, so that the others wait."""

    async def scenario() -> None:
        pods = [*gang("g", 9), *(make_pod(f"g-big{n}", labels={LABEL: "g"}, cpu="64") for n in range(2))]
        groups = [group("g", min_member=10, scheduleTimeoutSeconds=20)]
        async with scheduler(make_node("n", cpu="10"), *groups, *pods) as world:
            await world.until(lambda: len(world.scheduler.waiting_pods) == 9, seconds=10)
            await world.quiet(seconds=10)
            assert len(world.scheduler.waiting_pods) == 9
            await world.until(lambda: not len(world.scheduler.waiting_pods), seconds=15)
            await world.until(lambda: world.scheduler.cluster.placed_count == 0, seconds=1)
            assert bound_by_gang(world) == {}

    run_in_virtual_time(scenario)


def test_minresources_keep_a_gang_from_starting() -> None:
    async def scenario() -> None:
        groups = [group("g", min_member=2, minResources={"cpu": "4"})]
        async with scheduler(make_node("n", cpu="3"), *groups, *gang("g", 4)) as world:
            await world.in_queue("g-3", "unschedulable")
            assert not len(world.scheduler.waiting_pods)
            assert any(
                "needs more cpu than the cluster has left" in note
                for note in world.events("FailedScheduling")
            )
            world.api.put(make_node("m", cpu="1"))
            await world.bound(*(f"g-{index}" for index in range(4)))

    run_in_virtual_time(scenario)


def test_the_queue_holds_a_gang_together_behind_higher_priorities() -> None:
    async def scenario() -> None:
        old, new = "1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z"
        groups = [group("late", min_member=1, created=new), group("early", min_member=1, created=old)]
        order: list[str] = []
        async with scheduler(*groups) as world:
            queue = world.scheduler.queue
            world.scheduler.activate({})
            for pod in (member("late", 0), member("early", 0), member("late", 1), member("early", 1)):
                world.api.put(pod)
            world.api.put(make_pod("urgent", cpu="1", priority=5))
            await world.quiet(seconds=5)
            waiting = [queued for pods in queue.pending_pods().values() for queued in pods]
            sort = world.scheduler.runners["default-scheduler"].profile.queue_sort
            order = [queued.pod.metadata.name for queued in sorted(waiting, key=sort.sort_key)]
        assert order[0] == "urgent"
        assert [name.partition("-")[0] for name in order[1:]] == ["early", "early", "late", "late"]

    run_in_virtual_time(scenario)


def test_a_backoff_of_the_gang_spares_attempts() -> None:
    async def scenario() -> None:
        groups = [group("g", min_member=3)]
        async with scheduler(
            make_node("n", cpu="2"), *groups, *gang("g", 3), podGroupBackoffSeconds=100
        ) as world:
            await world.until(lambda: bool(world.events("FailedScheduling")))
            await world.quiet(seconds=5)
            world.api.put(make_node("m", cpu="2"))
            await world.quiet(seconds=50)
            assert bound_by_gang(world) == {}
            await world.bound("g-0", "g-1", "g-2", seconds=600)

    run_in_virtual_time(scenario)


def test_deleted_gangs_are_forgotten() -> None:
    async def scenario() -> None:
        async with scheduler(make_node("n", cpu="1")) as world:
            plugin = world.scheduler.runners["default-scheduler"].profile.plugins["Coscheduling"]
            for index in range(200):
                name = f"g{index}"
                world.api.put(group(name, min_member=2))
                for pod in gang(name, 2):
                    world.api.put(pod)
                await world.quiet(seconds=1)
                finish(world, gang(name, 2))
                world.api.remove(PodGroup, f"default/{name}")
                await world.quiet(seconds=1)
            assert isinstance(plugin, Coscheduling)
            assert 0 < len(plugin._failures) <= 70
            assert 0 < len(plugin._released) <= 70

    run_in_virtual_time(scenario)
