"""A pod's history: every move with its cause, and how its attempts went."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import Node, Pod
from kuberth.clock import run_in_virtual_time
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.queued_pod import QueuedPod
from kuberth.https.messages import Query, Request
from kuberth.overview import overview_pages
from kuberth.overview import pages as pages_module
from kuberth.overview.histories import MOVES, PodHistories
from kuberth.overview.pages import NODE_PATH, history_tree, node_tree, search_tree
from kuberth.queue import PriorityQueue
from kuberth.queue.observing import UNREPORTED
from kuberth.testing import FakeClock, make_node, make_pod
from kuberth.testing.harness import World
from tests.unit.overview.harness import Reader, watching
from tests.unit.queue.harness import ungated, with_spec


def test_a_pod_that_had_to_wait_for_a_node() -> None:
    async def scenario() -> None:
        async with watching(make_node("small", cpu="1"), always_records=True) as watched:
            world = watched.world
            world.api.put(make_pod("p", cpu="2"))
            await world.in_queue("p", "unschedulable")
            await world.quiet(seconds=30)  # its backoff is over
            Reader(watched.overview)
            world.api.put(make_node("large", cpu="4"))
            world.api.put(make_node("larger", cpu="8"))
            await world.bound("p")
            tree = history_tree(watched.overview, "default", "p")
            assert tree["pod"] | {"uid": "", "node": ""} == {
                "namespace": "default", "name": "p", "uid": "", "node": "", "phase": "Pending",
                "queue": "placed", "priority": 0, "profile": "default-scheduler", "attempts": 2,
            }  # fmt: skip
            moves = tree["moves"]
            assert [(move["from"], move["to"]) for move in moves] == [
                ("", "active"), ("active", "inflight"), ("inflight", "unschedulable"),
                ("unschedulable", "active"), ("active", "inflight"), ("inflight", "placed"),
            ]  # fmt: skip
            assert moves[0]["event"] == "UnschedulablePod/Add"
            assert [moves[3][key] for key in ("event", "object", "plugin", "hint")] == [
                "Node/Add", "large", "NodeResourcesFit", "Queue",
            ]  # fmt: skip
            assert [move["note"] for move in moves] == [
                "", "attempt 1", "its attempt failed", "", "attempt 2", f"bound to {tree['pod']['node']}",
            ]  # fmt: skip
            assert [move["at"] for move in moves] == sorted(move["at"] for move in moves)
            first, second = tree["cycles"]
            assert (first["result"], first["scores"], first["evaluated"], first["feasible"]) == (
                "unschedulable", None, 1, 0,
            )  # fmt: skip
            assert first["rejections"] == [
                {"plugin": "NodeResourcesFit", "reason": "Insufficient cpu", "nodes": 1}
            ]
            assert first["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
            assert (second["result"], second["node"]) == ("scheduled", tree["pod"]["node"])
            if second["feasible"] > 1:
                scores = second["scores"]
                assert scores["nodes"][0] == second["node"]
                assert sorted(scores["nodes"]) == ["large", "larger"]
                sums = [sum(column) for column in zip(*scores["plugins"].values(), strict=True)]
                assert sums == list(scores["totals"])
                assert scores["weights"]["NodeResourcesFit"] == 1

    run_in_virtual_time(scenario)


def was_tried_again(world: World) -> bool:
    queued = world.scheduler.queue.get("default/p")  # None: it is being tried just now
    return queued is not None and queued.attempts > 1


def test_gates_backoff_and_missed_events_are_recorded() -> None:
    async def scenario() -> None:
        async with watching(make_node("n", cpu="1"), always_records=True) as watched:
            world = watched.world
            world.api.put(make_pod("p", cpu="2", gates=["wait"]))
            await world.in_queue("p", "gated")
            world.api.change(Pod, "default/p", ungated)
            await world.in_queue("p", "unschedulable")
            # An event that may help, according to the rejecting plugin, comes before its backoff is over.
            world.api.replace(make_node("n", cpu="4", unschedulable=True))
            await world.until(lambda: was_tried_again(world))
            await world.in_queue("p", "unschedulable")
            seen_moves = watched.moves("p")
            assert seen_moves[:3] == [
                ("gated", "UnschedulablePod/Add"),
                ("active", "UnschedulablePod/UpdatePodSchedulingGatesEliminated"),
                ("inflight", "attempt 1"),
            ]
            assert ("unschedulable", "its attempt failed") in seen_moves
            assert ("backoff", "Node/UpdateNodeAllocatable") in seen_moves
            assert ("inflight", "attempt 2") in seen_moves
            world.api.remove(Pod, "default/p")
            await world.quiet()
            assert watched.moves("p")[-1] == ("deleted", "")
            tree = history_tree(watched.overview, "default", "p")
            assert (tree["pod"]["queue"], tree["pod"]["attempts"]) == ("deleted", 2)

    run_in_virtual_time(scenario)


def test_a_pod_bound_by_another_scheduler() -> None:
    async def scenario() -> None:
        async with watching(make_node("n", cpu="1"), always_records=True) as watched:
            world = watched.world
            world.api.put(make_pod("p", cpu="2"))
            await world.in_queue("p", "unschedulable")
            world.api.replace(with_spec(world.pod("p"), node_name="n"))
            await world.quiet()
            assert watched.moves("p")[-1] == ("placed", "bound to n")

    run_in_virtual_time(scenario)


class _Silent(PriorityQueue):
    def observe(self, observer: Any) -> bool:
        return False


class _Broken(PriorityQueue):
    def observe(self, observer: Any) -> bool:
        raise RuntimeError("what is that?")

    def waiting_count(self) -> int:
        raise RuntimeError("too many")


@pytest.mark.parametrize("queue", [_Silent, _Broken])
def test_moves_of_a_queue_that_reports_none_are_found_by_scanning(
    queue: type[PriorityQueue],
) -> None:
    async def scenario() -> None:
        async with watching(make_node("n", cpu="1"), queue=queue) as watched:
            reader = Reader(watched.overview)
            watched.world.api.put(make_pod("p", cpu="2"))
            await watched.world.in_queue("p", "unschedulable")
            await watched.world.quiet(seconds=3)
            reader.read()
            assert [row[3] for row in reader.seen.pods.values()] == ["unschedulable"]
            assert watched.moves("p") == [
                ("inflight", "attempt 1"),
                ("unschedulable", "found there; this queue does not report why"),
            ]

    run_in_virtual_time(scenario)


def test_moves_go_on_after_another_configuration() -> None:
    async def scenario() -> None:
        async with watching(make_node("n", cpu="1"), always_records=True) as watched:
            world, reader = watched.world, Reader(watched.overview)
            world.api.put(make_pod("p", cpu="2"))
            await world.in_queue("p", "unschedulable")
            await world.scheduler.reconfigure(world.scheduler.config)
            await world.until(lambda: was_tried_again(world))
            world.api.replace(make_node("n", cpu="3"))
            await world.bound("p")
            await world.quiet(seconds=1)
            reader.read()
            assert (reader.seen.pods, reader.seen.queues["placed"]) == ({}, 1)
            assert "the configuration changed" in [note for _, note in watched.moves("p")]

    run_in_virtual_time(scenario)


def test_what_is_kept_is_bounded() -> None:
    histories = PodHistories(FakeClock(), pods=3)
    pods = [QueuedPod(PodInfo(make_pod(f"p{number}")), timestamp_ns=0) for number in range(5)]
    for _ in range(MOVES):
        histories.moved(pods[0], "active", UNREPORTED)
        histories.popped(pods[0])
    history = histories.of(pods[0].uid)
    assert history is not None
    assert len(history.moves) == MOVES
    for queued in pods[1:3]:
        histories.moved(queued, "active", UNREPORTED)
    histories.popped(pods[0])  # something happened to it lately
    for queued in pods[3:]:
        histories.moved(queued, "active", UNREPORTED)
    assert len(histories) == 3
    assert [histories.of(queued.uid) is not None for queued in pods] == [True, False, False, True, True]


# Answers about one thing


def test_unknown_names_suggest_similar_ones() -> None:
    async def scenario() -> None:
        async with watching(make_node("worker-1"), make_pod("web-7", cpu="99")) as watched:
            await watched.world.in_queue("web-7", "unschedulable")
            with pytest.raises(
                LookupError, match="there is no pod web-8 in namespace default; did you mean web-7"
            ):
                history_tree(watched.overview, "default", "web-8")
            with pytest.raises(LookupError, match="there is no node worker-2; did you mean worker-1"):
                node_tree(watched.overview, "worker-2")
            # There is no subscriber, so there is no history; but the pod is known.
            tree = history_tree(watched.overview, "default", "web-7")
            assert (tree["pod"]["queue"], tree["moves"], tree["cycles"]) == ("unschedulable", [], [])

    run_in_virtual_time(scenario)


def test_a_lookup_that_fails_by_mistake_is_no_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a failure of the page, which the server logs, and not an answer."""

    def mistaken(*_: object) -> None:
        raise KeyError("row")

    async def scenario() -> None:
        async with watching(make_node("n")) as watched:
            page = overview_pages(watched.overview)[0][NODE_PATH]
            assert page(Request("GET", NODE_PATH, query=Query({"name": ["m"]}))).status == 404
            monkeypatch.setattr(pages_module, "node_tree", mistaken)
            with pytest.raises(KeyError):
                page(Request("GET", NODE_PATH, query=Query({"name": ["n"]})))

    run_in_virtual_time(scenario)


def test_a_node_with_its_pods() -> None:
    async def scenario() -> None:
        node = make_node("n", taints=[{"key": "k", "value": "v", "effect": "PreferNoSchedule"}])
        pod = make_pod("p", node="n", cpu="500m", memory="1Gi", priority=5, phase="Running")
        async with watching(node, pod) as watched:
            await watched.world.quiet()
            tree = node_tree(watched.overview, "n")
            assert tree["taints"] == [{"key": "k", "value": "v", "effect": "PreferNoSchedule"}]
            assert (tree["flags"], tree["labels"]) == (0, {"kubernetes.io/hostname": "n"})
            assert tree["allocatable"] == {"cpu": 4.0, "memory": 8 << 30, "pods": 110, "ephemeral-storage": 0}
            assert tree["requested"] == {"cpu": 0.5, "memory": 1 << 30, "pods": 1, "ephemeral-storage": 0}
            assert tree["pods"] == [["default", "p", "Running", 5, [0.5, 1 << 30, 1, 0]]]
            reader = Reader(watched.overview)
            assert node_tree(watched.overview, "n") == tree
            watched.overview.unsubscribe(reader.subscriber)
            watched.world.api.remove(Node, "n")
            await watched.world.quiet()
            with pytest.raises(LookupError):
                node_tree(watched.overview, "n")

    run_in_virtual_time(scenario)


def test_search_finds_parts_of_names() -> None:
    async def scenario() -> None:
        objects = [make_node("web-node"), make_node("db-node"), make_pod("web-1", node="db-node")]
        async with watching(*objects, make_pod("web-2", cpu="99"), make_pod("other")) as watched:
            await watched.world.bound("other")
            found = search_tree(watched.overview, "WEB")
            assert sorted(found["pods"]) == [
                ["default", "web-1", "placed", "db-node"],
                ["default", "web-2", "unschedulable", ""],
            ]
            assert found["nodes"] == ["web-node"]
            assert len(search_tree(watched.overview, "default/web")["pods"]) == 2
            assert search_tree(watched.overview, "kube-system/web")["pods"] == []

    run_in_virtual_time(scenario)
