"""What the shadow makes of what it sees: bindings, rejections, nominations, crossing bindings, the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Binding, Node, Pod
from kuberth.api.events import Event
from kuberth.api.wire import convert
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import load
from kuberth.evaluation import Evaluator
from kuberth.framework import FilterPlugin, Status
from kuberth.programs.shadow.decisions import Agreement, DifferenceCause, ShadowDecision
from kuberth.programs.shadow.shadow import SETTLE_SECONDS, Shadow
from kuberth.testing import MemoryApi, make_node, make_pod, profile, run_in_virtual_time


class Scene:
    """A shadow that follows, and the real scheduler's hand."""

    def __init__(self, api: MemoryApi, shadow: Shadow, decisions: list[ShadowDecision]) -> None:
        self.api = api
        self.shadow = shadow
        self.decisions = decisions

    async def wait(self, seconds: float = 0.01) -> None:
        await asyncio.sleep(seconds)

    async def create(self, *pods: Pod) -> None:
        for pod in pods:
            self.api.put(pod)
            await self.wait()

    async def bind(self, name: str, node: str) -> None:
        tree = {
            "metadata": {"name": name, "namespace": "default"},
            "target": {"kind": "Node", "name": node},
        }
        await self.api.bind(convert(Binding, tree))
        await self.wait()

    async def reject(self, name: str, *, message: str = "no room", nominated: str = "") -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        status: dict[str, Any] = {"conditions": [condition]}
        if nominated:
            status["nominatedNodeName"] = nominated
        await self.api.patch(Pod, name, {"status": status}, namespace="default", subresource="status")
        await self.wait()

    async def settled(self) -> list[ShadowDecision]:
        await asyncio.sleep(2 * SETTLE_SECONDS)
        return self.decisions


@asynccontextmanager
async def shadowing(*objects: Any, **settings: Any) -> AsyncIterator[Scene]:
    api = MemoryApi()
    for obj in objects:
        api.put(obj)
    decisions: list[ShadowDecision] = []
    shadow = Shadow(
        api,
        settings.pop("evaluator", None) or Evaluator(),
        derive=PodInfo,
        scheduler_name="default-scheduler",
        on_decision=decisions.append,
        **settings,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(shadow.run())
        await shadow.synced.wait()
        yield Scene(api, shadow, decisions)
        shadow.stop()
        await running


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_in_virtual_time(scene, limit_seconds=600)


def test_a_binding_is_decided_without_the_pod_itself_on_its_node() -> None:
    async def scene() -> None:
        async with shadowing(make_node("n1"), make_node("n2")) as world:
            await world.create(make_pod("a", cpu="3"), make_pod("b", cpu="3"), make_pod("c", cpu="3"))
            await world.bind("a", "n1")
            await world.bind("b", "n2")
            decisions = await world.settled()
            assert [(each.pod, each.agreement, each.node) for each in decisions] == [
                ("default/a", Agreement.EQUAL, "n1"),
                ("default/b", Agreement.SAME, "n2"),
            ]
            await world.bind("c", "n2")
            (*_, last) = await world.settled()
            assert (last.agreement, last.own_node) == (Agreement.NOT_PLACED, "")
            assert "Insufficient cpu" in last.own_message

    play(scene)


def test_pods_that_were_there_and_pods_of_others_are_not_decided_but_count() -> None:
    async def scene() -> None:
        async with shadowing(make_node("n1"), make_node("n2"), make_pod("old", cpu="3", node="n1")) as world:
            await world.create(make_pod("foreign", cpu="1", scheduler="other"), make_pod("p", cpu="1"))
            await world.bind("foreign", "n2")
            await world.create(make_pod("static", cpu="3", node="n2", scheduler="default-scheduler"))
            await asyncio.sleep(2 * SETTLE_SECONDS)
            await world.bind("p", "n1")
            (decision,) = await world.settled()
            assert (decision.pod, decision.agreement) == ("default/p", Agreement.SAME)
            assert world.shadow.schedulers == {"default-scheduler": 3, "other": 1}

    play(scene)


def test_a_pod_that_waited_before_has_no_known_wait() -> None:
    async def scene() -> None:
        async with shadowing(make_node("n1"), make_pod("early")) as world:
            await world.create(make_pod("late", gates=["hold"]))
            await world.wait(5)
            world.api.change(
                Pod,
                "default/late",
                lambda pod: msgspec.structs.replace(
                    pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=())
                ),
            )
            await world.wait(3)
            await world.bind("early", "n1")
            await world.bind("late", "n1")
            early, late = await world.settled()
            assert early.waited_seconds is None
            assert late.waited_seconds == pytest.approx(3.01)

    play(scene)


def test_bindings_that_cross_are_put_back_in_the_queues_order() -> None:
    async def scene() -> None:
        nodes = [make_node("n1"), make_node("n2"), make_pod("load", cpu="1", memory="2Gi", node="n1")]
        async with shadowing(*nodes) as world:
            first, second = (make_pod(name, cpu="2", memory="4Gi") for name in ("first", "second"))
            await world.create(first, second)
            # Decided in order, first to the empty n2, second to n1; but the second's binding lands first.
            await world.bind("second", "n1")
            await world.bind("first", "n2")
            decisions = await world.settled()
            assert [(each.pod, each.agreement) for each in decisions] == [
                ("default/second", Agreement.SAME),
                ("default/first", Agreement.SAME),
            ]
            assert decisions[0].reordered == ("default/first",)

    play(scene)


def test_a_binding_that_overtook_is_left_out() -> None:
    async def scene() -> None:
        nodes = [make_node("n1"), make_node("n2"), make_pod("load", cpu="1", memory="2Gi", node="n1")]
        async with shadowing(*nodes) as world:
            await world.create(make_pod("first", cpu="1", memory="2Gi"))
            await world.create(make_pod("second", cpu="2", memory="4Gi"))
            await world.bind("second", "n2")
            await world.bind("first", "n2")
            decision = (await world.settled())[1]
            assert (decision.pod, decision.agreement) == ("default/first", Agreement.SAME)
            assert decision.reordered == ("default/second",)

    play(scene)


def test_higher_priority_stands_before_earlier() -> None:
    async def scene() -> None:
        nodes = [make_node("n1"), make_node("n2"), make_pod("load", cpu="1", memory="2Gi", node="n1")]
        async with shadowing(*nodes) as world:
            low, high = (
                make_pod("low", cpu="2", memory="4Gi"),
                make_pod("high", cpu="2", memory="4Gi", priority=9),
            )
            await world.create(low, high)
            await world.bind("low", "n1")
            await world.bind("high", "n2")
            decision = (await world.settled())[0]
            assert (decision.agreement, decision.reordered) == (Agreement.SAME, ("default/high",))

    play(scene)


def test_a_difference_is_explained_by_a_pod_that_was_seen_afterwards() -> None:
    async def scene() -> None:
        nodes = [make_node("n1"), make_node("n2"), make_pod("load", cpu="1", memory="2Gi", node="n1")]
        async with shadowing(*nodes) as world:
            await world.create(make_pod("p", cpu="1", memory="2Gi"))
            await world.reject("p")  # so it may come after q when it is tried again
            await world.create(make_pod("q", cpu="2", memory="4Gi"))
            await world.bind("p", "n1")
            await world.bind("q", "n2")
            decision = (await world.settled())[1]
            assert (decision.agreement, decision.own_node) == (Agreement.OTHER, "n2")
            assert decision.explanation is not None
            assert (decision.explanation.cause, decision.explanation.pods) == (
                DifferenceCause.BINDINGS,
                ("default/q",),
            )
            assert sum(decision.own_scores.values()) > sum(decision.scores.values()) > 0

    play(scene)


def test_a_difference_of_policy_is_not_explained_by_bindings_before_it() -> None:
    """The real scheduler packs, this one spreads: without the pods before, both would agree."""

    async def scene() -> None:
        async with shadowing(make_node("n1"), make_node("n2")) as world:
            names = ("first", "second", "third")
            await world.create(*(make_pod(name, cpu="500m") for name in names))
            for name in names:
                await world.bind(name, "n1")
            decisions = await world.settled()
            assert [each.agreement for each in decisions][1:] == [Agreement.OTHER] * 2
            assert all(each.is_unexplained for each in decisions if not each.agrees)

    play(scene)


def test_a_difference_of_policy_is_not_explained_by_bindings_after_it() -> None:
    async def scene() -> None:
        nodes = [make_node("n1"), make_node("n2"), make_pod("load", cpu="1", memory="2Gi", node="n1")]
        async with shadowing(*nodes) as world:
            await world.create(make_pod("p", cpu="1", memory="2Gi"))
            await world.create(make_pod("q", cpu="2", memory="4Gi"))
            await world.bind("p", "n1")
            await world.bind("q", "n2")
            assert (await world.settled())[0].is_unexplained

    play(scene)


def test_a_pod_that_ends_after_the_binding_explains_nothing() -> None:
    async def scene() -> None:
        nodes = [make_node("n1"), make_node("n2"), make_pod("load", cpu="2", memory="4Gi", node="n1")]
        async with shadowing(*nodes) as world:
            await world.create(make_pod("p", cpu="100m"))
            await world.bind("p", "n1")
            world.api.remove(Pod, "default/load")
            assert (await world.settled())[0].is_unexplained

    play(scene)


def test_a_binding_of_another_scheduler_after_it_explains_nothing() -> None:
    async def scene() -> None:
        nodes = [make_node("n1"), make_node("n2"), make_pod("load", cpu="1", memory="2Gi", node="n1")]
        async with shadowing(*nodes) as world:
            await world.create(make_pod("p", cpu="1", memory="2Gi"))
            await world.create(make_pod("q", cpu="2", memory="4Gi", scheduler="another"))
            await world.bind("p", "n1")
            await world.bind("q", "n2")
            assert (await world.settled())[0].is_unexplained

    play(scene)


@pytest.mark.parametrize("later", [True, False], ids=["came-later", "came-earlier"])
def test_a_pod_of_higher_priority_may_have_been_decided_before_or_after(later: bool) -> None:
    async def scene() -> None:
        async with shadowing(
            make_node("n1"), make_node("n2"), make_pod("load", cpu="500m", node="n2")
        ) as world:
            low, high = make_pod("low", cpu="1"), make_pod("high", cpu="1", priority=9)
            await world.create(*((low, high) if later else (high, low)))
            await world.bind("high", "n1")
            await world.bind("low", "n1")
            decision = (await world.settled())[1]
            assert (decision.pod, decision.own_node) == ("default/low", "n2")
            assert (decision.explanation is not None) == later

    play(scene)


@pytest.mark.parametrize("how", ["too late", "not there yet"])
def test_what_cannot_have_been_known_explains_nothing(how: str) -> None:
    async def scene() -> None:
        nodes = [make_node("n1"), make_node("n2"), make_pod("load", cpu="1", memory="2Gi", node="n1")]
        async with shadowing(*nodes) as world:
            await world.create(make_pod("p", cpu="1", memory="2Gi"))
            if how == "too late":
                await world.create(make_pod("q", cpu="2", memory="4Gi"))
            await world.bind("p", "n1")
            if how == "too late":
                await world.wait(2 * SETTLE_SECONDS)
            else:
                await world.create(make_pod("q", cpu="2", memory="4Gi"))
            await world.bind("q", "n2")
            assert (await world.settled())[0].is_unexplained

    play(scene)


def test_rejections_and_attempts() -> None:
    async def scene() -> None:
        async with shadowing(make_node("n1", cpu="1")) as world:
            await world.create(make_pod("p", cpu="2"))
            await world.reject("p", message="0/1 nodes are available")
            pod = world.api.read(Pod, "default/p")
            event = {
                "metadata": {"name": "p.1", "namespace": "default"},
                "reason": "FailedScheduling",
                "regarding": {"uid": pod.metadata.uid},
                "series": {"count": 4},
            }
            world.api.put(convert(Event, event))
            await world.reject("p", message="0/1 nodes are available: still")
            world.api.replace(make_node("n1", cpu="4"))
            await world.wait(2 * SETTLE_SECONDS)
            await world.bind("p", "n1")
            first, second, bound = await world.settled()
            assert {first.agreement, second.agreement} == {Agreement.SAME_VERDICT}
            assert first.message == "0/1 nodes are available"
            assert bound.agreement is Agreement.SAME
            assert (bound.attempts, bound.own_attempts) == (5, 3)

    play(scene)


def test_a_rejection_of_what_would_be_placed_here() -> None:
    async def scene() -> None:
        async with shadowing(make_node("n1")) as world:
            await world.create(make_pod("p"))
            await world.reject("p")
            (decision,) = await world.settled()
            assert (decision.agreement, decision.own_node) == (Agreement.NOT_REJECTED, "n1")
            assert decision.is_unexplained

    play(scene)


def test_a_rejection_just_before_a_node_changes_is_explained() -> None:
    async def scene() -> None:
        async with shadowing(make_node("n1", cpu="1")) as world:
            await world.create(make_pod("p", cpu="2"))
            world.api.replace(make_node("n1", cpu="4"))
            await world.wait()
            await world.reject("p")
            (decision,) = await world.settled()
            assert decision.explanation is not None
            assert (decision.explanation.cause, decision.explanation.nodes) == (
                DifferenceCause.NODES,
                ("n1",),
            )

    play(scene)


def test_nominated_nodes_count_for_others_and_come_first_for_the_pod() -> None:
    async def scene() -> None:
        async with shadowing(
            make_node("n1"), make_node("n2"), make_pod("victim", cpu="3", node="n1", priority=1)
        ) as world:
            await world.create(
                make_pod("big", cpu="3500m", priority=100, nodeSelector={"kubernetes.io/hostname": "n1"})
            )
            await world.reject("big", nominated="n1")
            world.api.remove(Pod, "default/victim")
            await world.wait(2 * SETTLE_SECONDS)
            await world.create(make_pod("p", cpu="1", priority=1))
            await world.bind("p", "n2")
            await world.bind("big", "n1")
            rejected, p, big = await world.settled()
            assert rejected.agreement is Agreement.SAME_VERDICT
            assert (p.agreement, p.passing) == (Agreement.SAME, 1), "n1 is nominated"
            assert (big.agreement, big.attempts) == (Agreement.SAME, 2)

    play(scene)


def test_a_nomination_that_only_announces_the_binding_decides_nothing() -> None:
    async def scene() -> None:
        async with shadowing(
            make_node("n1"), make_node("n2"), make_pod("load", cpu="3", memory="4Gi", node="n1")
        ) as world:
            await world.create(make_pod("p", cpu="500m"))
            announced = {"status": {"nominatedNodeName": "n1"}}
            await world.api.patch(Pod, "p", announced, namespace="default", subresource="status")
            await world.bind("p", "n1")
            (decision,) = await world.settled()
            assert (decision.agreement, decision.own_node) == (Agreement.OTHER, "n2")

    play(scene)


def test_finished_and_deleted_pods_free_their_resources() -> None:
    async def scene() -> None:
        async with shadowing(make_node("n1", cpu="1"), make_pod("done", cpu="1", node="n1")) as world:
            await world.create(make_pod("p", cpu="1"), make_pod("q", cpu="1"))
            await world.api.patch(
                Pod, "done", {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status"
            )
            await world.wait(2 * SETTLE_SECONDS)
            await world.bind("p", "n1")
            world.api.remove(Pod, "default/p")
            await world.wait(2 * SETTLE_SECONDS)
            await world.bind("q", "n1")
            assert [each.agreement for each in await world.settled()] == [Agreement.SAME] * 2

    play(scene)


class Broken(FilterPlugin):
    name = "Broken"

    def filter(self, *_arguments: Any, **_named: Any) -> Status:
        raise RuntimeError("boom")


def test_a_failing_plugin_is_reported_and_stops_nothing() -> None:
    async def scene() -> None:
        tree = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile("Broken")],
        }
        config = load(tree, known_plugins=["Broken", "PrioritySort", "DefaultBinder"])
        evaluator = Evaluator(config=config, plugins={"Broken": Broken})
        async with shadowing(make_node("n1"), evaluator=evaluator) as world:
            await world.create(make_pod("a"), make_pod("b"))
            await world.bind("a", "n1")
            await world.bind("b", "n1")
            decisions = await world.settled()
            assert [each.agreement for each in decisions] == [Agreement.FAILED] * 2
            assert "boom" in decisions[0].own_message

    play(scene)


def test_the_end_decides_what_was_seen() -> None:
    async def scene() -> None:
        async with shadowing(make_node("n1")) as world:
            await world.create(make_pod("p"))
            await world.bind("p", "n1")
            assert not world.decisions
        assert [each.pod for each in world.decisions] == ["default/p"]

    play(scene)


def test_nodes_that_leave_are_no_choice() -> None:
    async def scene() -> None:
        async with shadowing(make_node("n1", cpu="64"), make_node("n2")) as world:
            await world.create(make_pod("p", cpu="1"))
            world.api.remove(Node, "n1")
            await world.wait(2 * SETTLE_SECONDS)
            await world.bind("p", "n2")
            (decision,) = await world.settled()
            assert (decision.agreement, decision.passing) == (Agreement.SAME, 1)

    play(scene)
