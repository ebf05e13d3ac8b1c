"""The overview of a whole scheduler: what each subscriber receives, and that it adds up."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Node, Pod
from kuberth.clock import LoopClock, run_in_virtual_time
from kuberth.framework import CycleState, PermitPlugin, PermitResult
from kuberth.overview import overview as overview_module
from kuberth.overview import pending
from kuberth.overview.node_rows import NodeRows
from kuberth.overview.overview import MAX_SUBSCRIBERS, TooManySubscribers
from kuberth.overview.pending import PendingPods
from kuberth.queue import PriorityQueue
from kuberth.testing import make_node, make_pod
from tests.unit.overview.harness import Reader, Watched, watching
from tests.unit.queue.harness import ungated

ZONE = "topology.kubernetes.io/zone"


def cordoned(node: Node) -> Node:
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, unschedulable=True))


def queue_in(reader: Reader, name: str) -> str:
    return next((row[3] for row in reader.seen.pods.values() if row[2] == name), "")


# What is sent


def test_everything_at_first_in_order() -> None:
    async def scenario() -> None:
        node = make_node(
            "n1",
            cpu="1500m",
            labels={ZONE: "a", "agentpool": "blue", "node.kubernetes.io/instance-type": "large"},
            taints=[{"key": "k", "effect": "NoSchedule"}],
            conditions=[{"type": "Ready", "status": "False"}],
            unschedulable=True,
            allocatable={"nvidia.com/gpu": "8"},
        )
        running = make_pod("r", node="n1", cpu="250m", requests={"nvidia.com/gpu": "2"})
        async with watching(node, running, make_pod("p", gates=["one", "two"], priority=7)) as watched:
            await watched.world.in_queue("p", "gated")
            reader = Reader(watched.overview)
            events = reader.read()
            assert [name for name, _ in events] == ["hello", "nodes", "queues", "pods", "throughput"]
            hello, nodes, queues, pods, _throughput = (tree for _, tree in events)
            assert hello["resources"] == ["cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu"]
            assert (hello["program"], hello["writable"], hello["profiles"]) == (
                "up",
                True,
                ["default-scheduler"],
            )
            assert nodes == {
                "all": True,
                "gone": [],
                "set": [["n1", "a", "large", 7, [1.5, 8 << 30, 110, 0, 8], [0.25, 0, 1, 0, 2]]],
            }
            assert queues == dict.fromkeys(pending.QUEUES, 0) | {"gated": 1, "placed": 1}
            [row] = pods["set"]
            assert row[1:6] == ["default", "p", "gated", 7, 0]
            assert row[7:] == ["one, two", "default-scheduler", []]

    run_in_virtual_time(scenario)


def test_every_move_is_reported() -> None:
    async def scenario() -> None:
        async with watching(make_node("n1", cpu="2")) as watched:
            world, reader = watched.world, Reader(watched.overview)
            world.api.put(make_pod("gated", gates=["wait"]))
            world.api.put(make_pod("large", cpu="3"))
            world.api.put(make_pod("small", cpu="1"))
            await world.bound("small")
            await world.quiet(seconds=1)
            reader.read()
            assert (queue_in(reader, "gated"), queue_in(reader, "large")) == ("gated", "unschedulable")
            assert reader.seen.queues["placed"] == 1
            assert reader.seen.nodes["n1"][5][:3] == [1.0, 0, 1]
            large = next(row for row in reader.seen.pods.values() if row[2] == "large")
            assert (large[5], large[7]) == (1, "NodeResourcesFit")

            world.api.remove(Pod, "default/small")
            world.api.change(Pod, "default/gated", ungated)
            world.api.replace(make_node("n1", cpu="4"))
            await world.bound("gated", "large")
            await world.quiet(seconds=1)
            [gone] = [tree["gone"] for name, tree in reader.read() if name == "pods"]
            assert sorted(where for _, where in gone) == ["placed:n1", "placed:n1"]
            assert reader.seen.pods == {}

            world.api.put(make_pod("late", cpu="9"))
            await world.in_queue("late", "unschedulable")
            await world.quiet(seconds=1)
            reader.read()
            world.api.remove(Pod, "default/late")
            await world.quiet(seconds=1)
            [gone] = [tree["gone"] for name, tree in reader.read() if name == "pods"]
            assert [where for _, where in gone] == ["deleted"]

    run_in_virtual_time(scenario)


class _Hold(PermitPlugin):
    name = "Hold"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult:
        return PermitResult.wait(30.0)


def test_attempts_of_a_pod_that_was_held_before_anybody_looked() -> None:
    async def scenario() -> None:
        plugins = {"Hold": lambda _args, _handle: _Hold()}
        profiles = [{"plugins": {"multiPoint": {"enabled": [{"name": "Hold"}]}}}]
        async with watching(make_node("n1", cpu="1"), plugins=plugins, profiles=profiles) as watched:
            world = watched.world
            world.api.put(make_pod("p", cpu="2"))
            await world.in_queue("p", "unschedulable")
            world.api.put(make_node("n2", cpu="4"))
            await world.until(lambda: len(world.scheduler.waiting_pods) == 1)
            reader = Reader(watched.overview)
            reader.read()
            [row] = reader.seen.pods.values()
            assert (row[3], row[5]) == ("permit", 2)

    run_in_virtual_time(scenario)


def test_a_pod_held_at_permit_is_shown_as_waiting() -> None:
    async def scenario() -> None:
        plugins = {"Hold": lambda _args, _handle: _Hold()}
        profiles = [{"plugins": {"multiPoint": {"enabled": [{"name": "Hold"}]}}}]
        async with watching(make_node("n1"), plugins=plugins, profiles=profiles) as watched:
            world, reader = watched.world, Reader(watched.overview)
            world.api.put(make_pod("p"))
            await world.until(lambda: len(world.scheduler.waiting_pods) == 1)
            await world.quiet(seconds=1)
            reader.read()
            [row] = reader.seen.pods.values()
            assert (row[3], row[5], row[7]) == ("permit", 1, "Hold")
            [[plugin, since, until]] = row[9]
            assert (plugin, until - since) == ("Hold", pytest.approx(30))
            assert since == row[6]
            late = Reader(watched.overview)
            late.read()
            assert list(late.seen.pods.values()) == [row], "also for those that came later"
            assert (reader.seen.queues["permit"], reader.seen.queues["placed"]) == (1, 0)
            for held in world.scheduler.waiting_pods:
                held.allow("Hold")
            await world.bound("p")
            await world.quiet(seconds=1)
            reader.read()
            assert reader.seen.pods == {}
            assert [queue for queue, _ in watched.moves("p")] == ["active", "inflight", "permit", "placed"]

    run_in_virtual_time(scenario)


def test_a_new_resource_sends_another_hello_and_all_nodes() -> None:
    async def scenario() -> None:
        async with watching(make_node("n1"), make_node("n2")) as watched:
            reader = Reader(watched.overview)
            reader.read()
            watched.world.api.put(make_node("n3", allocatable={"example.com/fpga": "2"}))
            await watched.world.quiet(seconds=1)
            names = [name for name, _ in reader.read()]
            assert names[:2] == ["hello", "nodes"]
            assert reader.seen.hello["resources"][-1] == "example.com/fpga"
            assert {name: row[4][-1] for name, row in reader.seen.nodes.items()} == {
                "n1": 0,
                "n2": 0,
                "n3": 2,
            }
            watched.world.api.remove(Node, "n3")
            await watched.world.quiet(seconds=1)
            reader.read()
            assert "example.com/fpga" not in reader.seen.hello["resources"]
            assert sorted(reader.seen.nodes) == ["n1", "n2"]

    run_in_virtual_time(scenario)


def test_throughput_has_one_row_per_second_for_ten_minutes() -> None:
    async def scenario() -> None:
        async with watching(make_node("n1", cpu="2")) as watched:
            world = watched.world
            await world.quiet(seconds=700)
            reader = Reader(watched.overview)
            reader.read()
            assert len(reader.seen.throughput) == 600
            world.api.put(make_pod("small", cpu="1"))
            world.api.put(make_pod("large", cpu="3"))
            await world.bound("small")
            await world.quiet(seconds=2.5)
            [rows] = [tree["rows"] for name, tree in reader.read() if name == "throughput"]
            assert [row[0] for row in rows] == list(range(rows[0][0], rows[0][0] + len(rows)))
            busy = [row for row in rows if row[1]]
            assert [row[1:4] for row in busy] == [[1, 1, 0]]
            assert all(value is not None for value in busy[0][4:6])
            assert rows[-1][1:] == [0, 0, 0, None, None, 1]

    run_in_virtual_time(scenario)


def test_nothing_is_sent_while_nothing_happens() -> None:
    async def scenario() -> None:
        async with watching(make_node("n1"), make_pod("p", cpu="99")) as watched:
            await watched.world.in_queue("p", "unschedulable")
            reader = Reader(watched.overview)
            reader.read()
            # A node that is written without being another is no news either.
            watched.world.api.replace(make_node("n1"))
            await watched.world.quiet(seconds=3)
            assert {name for name, _ in reader.read()} == {"throughput"}

    run_in_virtual_time(scenario)


# Subscribers


def test_a_slow_reader_receives_the_current_state_without_steps_between() -> None:
    async def scenario() -> None:
        async with watching(*(make_node(f"n{i}", cpu="64") for i in range(3))) as watched:
            world, quick, slow = watched.world, Reader(watched.overview), Reader(watched.overview)
            quick.read()
            slow.read()
            for number in range(40):
                world.api.put(make_pod(f"p{number}", cpu="1" if number % 2 else "99"))
                await world.quiet(seconds=0.5)
                quick.read()
                if number > 20:
                    world.api.remove(Pod, f"default/p{number - 20}")
            await world.quiet(seconds=2)
            quick.read()
            events = slow.read()
            assert len(events) == len({name for name, _ in events}), (
                "one event of a kind, however long it was"
            )
            assert len(quick.events) > 40
            assert (slow.seen.nodes, slow.seen.queues) == (quick.seen.nodes, quick.seen.queues)
            assert slow.seen.pods == quick.seen.pods

    run_in_virtual_time(scenario)


def test_a_reader_that_misses_many_deletions_receives_everything_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kuberth.overview.overview.MAX_GONE", 3)

    async def scenario() -> None:
        async with watching(make_node("n1")) as watched:
            world, slow = watched.world, Reader(watched.overview)
            for number in range(6):
                world.api.put(make_pod(f"p{number}", cpu="99"))
            await world.in_queue("p5", "unschedulable")
            await world.quiet(seconds=1)
            slow.read()
            for number in range(5):
                world.api.remove(Pod, f"default/p{number}")
                await world.quiet(seconds=1)
            [tree] = [tree for name, tree in slow.read() if name == "pods"]
            assert (tree["all"], [row[2] for row in tree["set"]]) == (True, ["p5"])

    run_in_virtual_time(scenario)


def test_the_longest_waiting_pods_of_a_long_queue_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "SHOWN_PER_QUEUE", 3)

    async def scenario() -> None:
        async with watching(make_node("n1")) as watched:
            world, reader = watched.world, Reader(watched.overview)
            for number in range(6):
                world.api.put(make_pod(f"p{number}", cpu="99"))
                await world.in_queue(f"p{number}", "unschedulable")
                await world.quiet(seconds=1)
            reader.read()
            assert sorted(row[2] for row in reader.seen.pods.values()) == ["p0", "p1", "p2"]
            assert (reader.seen.cut, reader.seen.queues["unschedulable"]) == ({"unschedulable": 3}, 6)
            world.api.remove(Pod, "default/p1")
            await world.quiet(seconds=1)
            reader.read()
            assert sorted(row[2] for row in reader.seen.pods.values()) == ["p0", "p2", "p3"]
            assert reader.seen.cut == {"unschedulable": 2}

    run_in_virtual_time(scenario)


def test_the_stream_says_that_it_is_there_and_ends_without_a_trace() -> None:
    async def scenario() -> None:
        async with watching(make_node("n1")) as watched:
            overview, scheduler = watched.overview, watched.world.scheduler
            watched.overview.throughput.rows.clear()
            stream = overview.stream()
            first = [await anext(stream) for _ in range(5)]
            assert [piece.split(b"\n")[0] for piece in first] == [
                b"event: " + name for name in (b"hello", b"nodes", b"queues", b"pods", b"throughput")
            ]
            assert overview.subscribers == 1
            await stream.aclose()
            assert overview.subscribers == 0
            assert scheduler.cluster._observers == []

    run_in_virtual_time(scenario)


def test_silence_is_broken_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview_module, "KEEPALIVE_SECONDS", 0.1)

    async def scenario() -> None:
        async with watching(make_node("n1")) as watched:
            stream = watched.overview.stream()
            pieces = [await anext(stream) for _ in range(6)]
            assert pieces[-1] == b": still here\n\n"
            await stream.aclose()

    run_in_virtual_time(scenario)


def test_the_number_of_subscribers_is_limited() -> None:
    async def scenario() -> None:
        async with watching() as watched:
            readers = [Reader(watched.overview) for _ in range(MAX_SUBSCRIBERS)]
            with pytest.raises(TooManySubscribers, match="has 32 subscribers already"):
                watched.overview.subscribe()
            assert [piece async for piece in watched.overview.stream()] == []
            watched.overview.unsubscribe(readers[0].subscriber)
            Reader(watched.overview)

    run_in_virtual_time(scenario)


def test_nothing_is_observed_before_the_first_and_long_after_the_last_subscriber() -> None:
    async def scenario() -> None:
        async with watching(make_node("n1")) as watched:
            overview, world, scheduler = watched.overview, watched.world, watched.world.scheduler
            world.api.put(make_pod("early"))
            await world.bound("early")
            assert not overview.recording
            assert len(overview.histories) == 0
            reader = Reader(overview)
            kept = [scheduler._cycle.score_tables > 0]
            overview.unsubscribe(reader.subscriber)
            kept.append(scheduler._cycle.score_tables > 0)
            assert kept == [True, False]
            await world.quiet(seconds=500)
            world.api.put(make_pod("later"))
            await world.bound("later")
            assert watched.moves("later")[-1] == ("placed", "bound to n1")
            await world.quiet(seconds=200)
            assert not overview.recording
            world.api.put(make_pod("last"))
            await world.bound("last")
            assert overview.histories.named("default/last") is None

    run_in_virtual_time(scenario)


# It adds up


def _settled(rows: Any) -> dict[str, list[Any]]:
    """Rows without the fields that only observers of the attempt's start have."""
    return {row[0]: list(row) for row in rows if row[3] not in ("inflight", "permit")}


def _expect_truth(watched: Watched, readers: list[Reader]) -> None:
    fresh = Reader(watched.overview)
    fresh.read()
    watched.overview.unsubscribe(fresh.subscriber)
    for reader in readers:
        reader.read()
        seen, all_of_it = reader.seen.tree(), fresh.seen.tree()
        for part in ("queues", "cut"):
            assert seen[part] == all_of_it[part]
        assert reader.seen.nodes == fresh.seen.nodes
        assert reader.seen.pods == fresh.seen.pods
        assert reader.seen.hello["resources"] == fresh.seen.hello["resources"]
    # And against the scheduler's own state.
    scheduler = watched.world.scheduler
    looked_up = PendingPods(scheduler, clock=LoopClock(asyncio.get_running_loop()))
    assert fresh.seen.queues == looked_up.counts()
    if not fresh.seen.cut:
        assert _settled(fresh.seen.pods.values()) == _settled(looked_up.rows.values())
    assert fresh.seen.nodes == {name: list(row) for name, row in NodeRows(scheduler.cluster).rows.items()}


class _Silent(PriorityQueue):
    """A custom queue without support for observers."""

    def observe(self, observer: Any) -> bool:
        return False


@pytest.mark.parametrize("queue", [None, _Silent], ids=["reporting", "silent"])
@pytest.mark.parametrize("shown", [2000, 4], ids=["all", "cut"])
@pytest.mark.parametrize("seed", range(4))
def test_after_any_changes_the_deltas_add_up_to_a_fresh_whole(
    monkeypatch: pytest.MonkeyPatch, seed: int, shown: int, queue: type[PriorityQueue] | None
) -> None:
    monkeypatch.setattr(pending, "SHOWN_PER_QUEUE", shown)
    rng = random.Random(seed)
    names = iter(range(10_000))

    async def scenario() -> None:
        plugins = {"Hold": lambda _args, _handle: _Hold()}
        profiles: list[dict[str, Any]] = [
            {"schedulerName": "default-scheduler"},
            {"schedulerName": "holding", "plugins": {"multiPoint": {"enabled": [{"name": "Hold"}]}}},
        ]
        options: dict[str, Any] = {"plugins": plugins, "profiles": profiles, "queue": queue}
        async with watching(*(make_node(f"n{i}", cpu="4") for i in range(3)), **options) as watched:
            world = watched.world
            api = world.api
            pods: list[str] = []
            nodes = [f"n{i}" for i in range(3)]

            def add_pod() -> None:
                pods.append(f"p{next(names)}")
                pod = make_pod(
                    pods[-1],
                    cpu=rng.choice(("100m", "1", "3", "50")),
                    gates=rng.choice(((), (), (), ("wait",))),
                    scheduler=rng.choice(("default-scheduler",) * 4 + ("holding", "missing")),
                    priority=rng.choice((None, 0, 10)),
                )
                api.put(pod)

            def remove_pod() -> None:
                if pods:
                    api.remove(Pod, f"default/{pods.pop(rng.randrange(len(pods)))}")

            def ungate() -> None:
                for name in rng.sample(pods, min(3, len(pods))):
                    api.change(Pod, f"default/{name}", ungated)

            def put_node() -> None:
                name = f"n{rng.randrange(6)}"
                more = rng.choice(({}, {}, {"example.com/fpga": "1"}))
                node = make_node(name, cpu=rng.choice(("2", "4", "60")), allocatable=more)
                if name in nodes:
                    api.replace(node)
                else:
                    api.put(node)
                    nodes.append(name)

            def remove_node() -> None:
                if len(nodes) > 1:
                    api.remove(Node, nodes.pop(rng.randrange(len(nodes))))

            def cordon() -> None:
                api.change(Node, rng.choice(nodes), cordoned)

            def let_go() -> None:
                for held in world.scheduler.waiting_pods:
                    if rng.random() < 0.5:
                        held.allow("Hold")
                    elif rng.random() < 0.5:
                        held.reject("Hold", "no")

            deeds: list[Callable[[], None]] = [
                *(add_pod,) * 6, *(remove_pod,) * 2, ungate, put_node, put_node, remove_node, cordon, let_go,
            ]  # fmt: skip
            readers = [Reader(watched.overview), Reader(watched.overview)]
            for step in range(150):
                rng.choice(deeds)()
                if rng.random() < 0.5:
                    await asyncio.sleep(rng.choice((0, 0.001, 0.1, 0.4, 3)))
                if rng.random() < 0.3:
                    readers[0].read()
                if step % 30 == 29:
                    await world.quiet(seconds=2.5)
                    _expect_truth(watched, readers)
            assert len(readers[0].events) > 30

    run_in_virtual_time(scenario)
