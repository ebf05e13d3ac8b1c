"""The cycle that waits, step by step; whole stories are in tests/integration/test_extenders.py."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from kuberth.api.core import Pod
from kuberth.clock import SystemClock, run_in_virtual_time
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.pod_info import PodInfo
from kuberth.config.types import Extender
from kuberth.extenders import Extenders, HttpExtender
from kuberth.extenders.http_extender import Passed
from kuberth.extenders.whole_objects import WholeObjects
from kuberth.framework import (
    Diagnosis,
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    ScorePlugin,
    Status,
)
from kuberth.local.memory_api import MemoryApi
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.scheduling.extended_cycle import MAX_ROUNDS
from kuberth.testing import make_pod
from tests.unit.framework.harness import plugin
from tests.unit.scheduling.harness import CycleHarness, make_harness


class Scripted(HttpExtender):
    """Leaves all nodes, after whatever happens meanwhile."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        config = Extender(url_prefix="http://x", filter_verb="f")
        super().__init__(config, WholeObjects(MemoryApi()), index=0, clock=SystemClock())
        self._meanwhile = meanwhile
        self.asked = 0

    async def filter(self, pod: Pod, names: Sequence[str]) -> Passed:
        self.asked += 1
        await asyncio.sleep(0)
        self._meanwhile()
        return Passed(names, True, {}, {})


def run(
    scheduler: CycleHarness, extender: HttpExtender | Sequence[HttpExtender], pod: Pod
) -> Placement | Rejection | None:
    scheduler.runner.extenders = Extenders([extender] if isinstance(extender, HttpExtender) else extender)
    stored = scheduler.made.api.put(pod)
    scheduler.pods.set(stored)
    scheduler.queue.add(PodInfo(stored))

    async def cycle() -> Placement | Rejection | None:
        return await scheduler.loop.extended.run(scheduler.pop(), scheduler.runner)

    return run_in_virtual_time(cycle)


def timed(scheduler: CycleHarness) -> int:
    """How many searches for a node the metric counts."""
    return sum(value.count for value in scheduler.made.metrics.algorithm_duration.values.values())


@pytest.mark.parametrize(
    ("pre_filtered", "filtered", "nodes"),
    [
        pytest.param(None, None, ["n1"], id="placed"),
        pytest.param(None, Status.unschedulable("full"), ["n1"], id="fits-nowhere"),
        pytest.param(Status.error("broken"), None, ["n1"], id="failed"),
        pytest.param(None, None, [], id="no-nodes"),
    ],
)
def test_an_attempt_is_timed_once(
    pre_filtered: Status | None, filtered: Status | None, nodes: list[str]
) -> None:
    points = plugin("F", PreFilterPlugin, FilterPlugin, pre_filter=pre_filtered, filter=filtered)
    scheduler = make_harness(points, nodes=nodes)
    run(scheduler, Scripted(), make_pod("p"))
    assert timed(scheduler) == 1


def test_a_pod_that_is_always_overtaken_returns_with_an_error() -> None:
    taken = False

    def full(_state: object, _pod: Pod, _node: object) -> Status | None:
        return Status.unschedulable("full") if taken else None

    def meanwhile() -> None:
        nonlocal taken
        taken = True
        scheduler.made.cluster.set_node(scheduler.made.node("n1").node)

    def begin(*_args: object) -> None:
        nonlocal taken
        # The search finds the node free again; what is held against the table later does not.
        taken = extender.asked > 0 and taken and scheduler.runner is not None and not fresh()

    turns: list[int] = []

    def fresh() -> bool:
        turns.append(1)
        return len(turns) % 2 == 0

    scheduler = make_harness(
        plugin("F", PreFilterPlugin, FilterPlugin, pre_filter=begin, filter=full), nodes=["n1"]
    )
    extender = Scripted(meanwhile)
    outcome = run(scheduler, extender, make_pod("p"))
    assert isinstance(outcome, Rejection)
    assert f"{MAX_ROUNDS} times in a row" in outcome.status.message
    assert not outcome.status.is_rejected
    assert extender.asked == MAX_ROUNDS
    assert scheduler.made.cluster.placed_count == 0
    assert timed(scheduler) == 1


def test_nothing_is_judged_again_if_nothing_changed() -> None:
    log: list[str] = []
    scheduler = make_harness(plugin("F", FilterPlugin, log=log, filter=None), nodes=["n1"])
    assert isinstance(run(scheduler, Scripted(), make_pod("p")), Placement)
    assert log == ["F.filter"]


def test_a_plugin_that_fails_at_the_second_look_fails_the_cycle() -> None:
    looks: list[int] = []

    def judge(*_args: object) -> None:
        looks.append(1)
        if len(looks) > 1:
            raise RuntimeError("broken")

    scheduler = make_harness(plugin("F", FilterPlugin, filter=judge), nodes=["n1"])
    extender = Scripted(lambda: scheduler.made.cluster.set_node(scheduler.made.node("n1").node))
    outcome = run(scheduler, extender, make_pod("p"))
    assert isinstance(outcome, Rejection)
    assert "plugin 'F' at Filter: RuntimeError: broken" in outcome.status.message


def test_a_plugin_that_fails_to_score_fails_the_cycle() -> None:
    scheduler = make_harness(plugin("S", ScorePlugin, score=RuntimeError("broken")), nodes=["n1", "n2"])
    outcome = run(scheduler, Scripted(), make_pod("p"))
    assert isinstance(outcome, Rejection)
    assert "plugin 'S' at Score: RuntimeError: broken" in outcome.status.message


class Giving(Scripted):
    """Gives nodes back as it was configured to: by name, or the objects themselves."""

    def __init__(self, *, by_name: bool) -> None:
        super().__init__()
        self._by_name = by_name

    async def filter(self, pod: Pod, names: Sequence[str]) -> Passed:
        return (await super().filter(pod, names))._replace(by_name=self._by_name)


@pytest.mark.parametrize(
    "by_name, holds",
    [
        pytest.param([True], 1, id="names"),
        pytest.param([False], 0, id="objects"),
        pytest.param([False, True], 0, id="objects-then-names"),
        pytest.param([True, False], 0, id="names-then-objects"),
    ],
)
def test_nodes_that_came_back_as_objects_are_scored_as_if_they_held_nothing(
    by_name: list[bool], holds: int
) -> None:
    seen: dict[str, int] = {}

    def score(_state: object, _pod: Pod, node: NodeRow) -> int:
        seen[node.name] = node.pod_count
        return 0

    scheduler = make_harness(plugin("S", ScorePlugin, score=score), nodes=["n1", "n2"])
    scheduler.made.place(make_pod("placed", node="n1", cpu="1"))
    outcome = run(scheduler, [Giving(by_name=each) for each in by_name], make_pod("p"))
    assert isinstance(outcome, Placement)
    assert seen == {"n1": holds, "n2": 0}


def test_without_nodes() -> None:
    outcome = run(make_harness(nodes=[]), Scripted(), make_pod("p"))
    assert isinstance(outcome, Rejection)
    assert outcome.status.message == "no nodes available to schedule pods"


def test_a_pod_that_is_gone_before_its_turn() -> None:
    scheduler = make_harness(nodes=["n1"])
    scheduler.runner.extenders = Extenders([Scripted()])
    scheduler.queue.add(PodInfo(make_pod("p")))

    async def cycle() -> Placement | Rejection | None:
        return await scheduler.loop.extended.run(scheduler.pop(), scheduler.runner)

    assert run_in_virtual_time(cycle) is None


def test_a_pod_whose_profile_is_gone_when_its_turn_comes_is_let_go(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = make_harness(nodes=["n1"])
    scheduler.runner.extenders = Extenders([Scripted()])
    scheduler.add(make_pod("p"))
    assert scheduler.loop.schedule_one(), "it stands in line for the extender's answer"
    assert [popped.metadata.name for popped in scheduler.queue.in_flight()] == ["p"]
    (turn,) = scheduler.made.outside.spawned
    scheduler.loop.runners = {}  # as a configuration without the profile leaves them
    run_in_virtual_time(lambda: turn)
    assert (scheduler.placements, scheduler.queues(), scheduler.queue.in_flight()) == ([], {}, ())
    assert "has schedulerName 'default-scheduler'; no profile has this name" in caplog.text


@pytest.mark.parametrize("waits", [True, False], ids=["the form that waits", "the form that does not"])
def test_post_filter_plugins_of_either_form(waits: bool) -> None:
    class Mine(PostFilterPlugin):
        name = "Mine"

        def post_filter(
            self, _state: object, _pod: Pod, _diagnosis: Diagnosis
        ) -> tuple[PostFilterResult, None]:
            return PostFilterResult("n1"), None

    class Patient(Mine):
        async def post_filter_waiting(
            self, _state: object, _pod: Pod, _diagnosis: Diagnosis
        ) -> tuple[PostFilterResult, None]:
            await asyncio.sleep(1)
            return PostFilterResult("n2"), None

    no = plugin("F", FilterPlugin, filter=Status.unschedulable("no"))
    outcome = run(make_harness(no, Patient if waits else Mine, nodes=["n1", "n2"]), Scripted(), make_pod("p"))
    assert isinstance(outcome, Rejection)
    assert outcome.nomination == ("n2" if waits else "n1")


def test_a_post_filter_that_fails_while_it_waits_is_named() -> None:
    class Mine(PostFilterPlugin):
        name = "Mine"

        def post_filter(self, _state: object, _pod: Pod, _diagnosis: Diagnosis) -> tuple[None, None]:
            return None, None

        async def post_filter_waiting(
            self, _state: object, _pod: Pod, _diagnosis: Diagnosis
        ) -> tuple[None, None]:
            await asyncio.sleep(0)
            raise RuntimeError("broken")

    no = plugin("F", FilterPlugin, filter=Status.unschedulable("no"))
    outcome = run(make_harness(no, Mine, nodes=["n1"]), Scripted(), make_pod("p"))
    assert isinstance(outcome, Rejection)
    assert "plugin 'Mine' at PostFilter: RuntimeError: broken" in outcome.status.message
    assert outcome.nomination is None
