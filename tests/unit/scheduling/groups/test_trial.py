"""One pass over a group: which pods are placed, the group's status, and that nothing of it remains."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates, load
from kuberth.evaluation import Evaluator
from kuberth.framework import Code, PermitPlugin, ReservePlugin, Status
from kuberth.framework.cycle_state import CycleState, GroupAttempt
from kuberth.framework.queued_pod import QueuedPod
from kuberth.outcomes.placement import Placement
from kuberth.plugins.default_preemption.plugin import DefaultPreemption
from kuberth.queue.slices import finished
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.groups.trial import GroupResult, GroupTrial, PlacementSearch
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import API_VERSION, profile
from tests.integration.test_gangs import make_group

GATES = FeatureGates({"GenericWorkload": True, "GangScheduling": True})
KEY = "default/g"
WAITING = "waiting for minCount pods from a gang to be scheduled"
ASKED = "one or more plugins asked to wait and no plugin rejected pod"


def member(name: str, *, cpu: str = "1", **more: Any) -> Pod:
    return make_pod(name, uid=name, cpu=cpu, schedulingGroup={"podGroupName": "g"}, **more)


class Harness:
    def __init__(self, *objects: Any, gates: Mapping[str, bool] = GATES.explicit, **options: Any) -> None:
        self.evaluator = Evaluator(objects, feature_gates=FeatureGates(gates), **options)
        self.cluster = self.evaluator.cluster
        self.cycle = SchedulingCycle(
            self.cluster,
            nominator=self.evaluator.nominator,
            metrics=self.evaluator.runner.metrics,
            rng=random.Random(1),
        )

    def queued(self, pods: Sequence[Pod]) -> list[QueuedPod]:
        infos = [PodInfo(pod) for pod in pods]
        for info in infos:
            self.evaluator.stores.of(Pod).set(info.pod)
            self.cluster.pod_groups.arrive(info)
        return [QueuedPod(info, timestamp_ns=0) for info in infos]

    def run(self, *pods: Pod, preempts: bool = True) -> GroupResult:
        queued = self.queued(pods)
        runner = self.evaluator.runner
        members = self.cluster.pod_groups.get(KEY)
        assert members is not None
        before = set(members.assumed)
        with self.cluster.logged_what_if() as what_if:
            trial = GroupTrial(queued, runner, what_if, cycle=self.cycle, nominator=self.evaluator.nominator)
            result = finished(trial.run(GroupAttempt(KEY, preempts=preempts)))
        assert set(members.assumed) == before
        for work in self.evaluator._background:  # evictions, which are not carried out here
            work.close()
        return result


def results_of(result: GroupResult) -> list[tuple[str, str, str]]:
    """Of each pod: its node, its status' first words, what Permit said."""
    return [
        (
            member.choice.node_name if member.choice else "",
            member.status.message.partition(".")[0],
            member.permit.message,
        )
        for member in result.members
    ]


def test_a_gang_can_go_with_its_last_pod_that_counts() -> None:
    harness = Harness(make_node("n1", cpu="4"), make_group("g", min_count=2))
    result = harness.run(member("a"), member("b"), member("c"))
    assert result.status.is_success
    assert results_of(result) == [("n1", "", f"{WAITING}, {ASKED}"), ("n1", "", ""), ("n1", "", "")]


def test_a_gang_that_does_not_fit() -> None:
    harness = Harness(make_node("n1", cpu="1"), make_group("g", min_count=2))
    result = harness.run(member("a"), member("b"))
    assert (result.status.code, result.status.message) == (Code.UNSCHEDULABLE, "pod group is unschedulable")
    assert results_of(result) == [
        ("n1", "", f"{WAITING}, {ASKED}"),
        ("", "0/1 nodes are available: 1 Insufficient cpu", ""),
    ]


def test_a_pod_that_does_not_fit_does_not_stop_the_others() -> None:
    harness = Harness(make_node("n1", cpu="4"), make_group("g", min_count=2))
    result = harness.run(member("a", cpu="9"), member("b"), member("c"))
    assert result.status.is_success
    assert [node for node, _why, _permit in results_of(result)] == ["", "n1", "n1"]


def test_equal_pods_that_do_not_fit_share_one_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    post_filter = DefaultPreemption.post_filter

    def counting(plugin: DefaultPreemption, state: CycleState, pod: Pod, *more: Any) -> Any:
        asked.append(pod.metadata.name)
        return post_filter(plugin, state, pod, *more)

    monkeypatch.setattr(DefaultPreemption, "post_filter", counting)
    harness = Harness(make_group("g", min_count=50), make_node("n1", cpu="4", pods="100"))
    for attempt in range(2):
        asked.clear()
        result = harness.run(*(member(f"p{attempt}-{number}") for number in range(50)))
        assert [bool(each.choice) for each in result.members] == [True] * 4 + [False] * 46
        assert len({each.status.message for each in result.members[4:]}) == 1
        assert asked == [f"p{attempt}-4"]
    alone = harness.cycle.run(
        QueuedPod(PodInfo(make_pod("alone", cpu="1")), timestamp_ns=0), harness.evaluator.runner
    )
    assert isinstance(alone, Placement)


def test_those_that_run_count() -> None:
    harness = Harness(make_node("n1", cpu="4"), make_group("g", min_count=3), member("x", node="n1"))
    assert harness.run(member("a"), member("b")).status.is_success


def test_no_nodes() -> None:
    result = Harness(make_group("g", min_count=1)).run(member("a"))
    assert results_of(result) == [("", "no nodes available to schedule pods", "")]
    assert result.status.is_rejected


def test_a_group_that_preempts_waits_for_its_victims() -> None:
    low = make_pod("low", uid="low", cpu="2", priority=0, node="n1")
    harness = Harness(make_node("n1", cpu="2"), make_group("g", min_count=2), low)
    result = harness.run(member("a", priority=5), member("b", priority=5))
    assert result.waits_for_preemption
    assert result.status.message == (
        "pod group is unschedulable, pod group is waiting for preemption to complete"
    )
    assert [(each.needs_preemption, each.nomination) for each in result.members] == [(True, "n1")] * 2


def test_a_group_that_preempts_in_vain() -> None:
    low = make_pod("low", uid="low", cpu="1", priority=0, node="n1")
    harness = Harness(make_node("n1", cpu="1"), make_group("g", min_count=2), low)
    result = harness.run(member("a", priority=5), member("b", priority=5))
    assert (result.waits_for_preemption, result.status.message) == (False, "pod group is unschedulable")


def test_without_preemption_no_pod_is_evicted() -> None:
    low = make_pod("low", uid="low", cpu="2", priority=0, node="n1")
    harness = Harness(make_node("n1", cpu="2"), make_group("g", min_count=1), low)
    result = harness.run(member("a", priority=5), preempts=False)
    assert results_of(result) == [("", "0/1 nodes are available: 1 Insufficient cpu", "")]


class Odd(ReservePlugin, PermitPlugin):
    """Notes what it is asked, and answers as a test says."""

    name = "Odd"

    def __init__(self, point: str, status: Status) -> None:
        self.point, self.status = point, status
        self.calls: list[str] = []

    def _answer(self, point: str, pod: Pod) -> Status | None:
        self.calls.append(f"{point} {pod.metadata.name}")
        return self.status if point == self.point and pod.metadata.name == "b" else None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        assert state.group is not None
        return self._answer("reserve", pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._answer("unreserve", pod)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._answer("permit", pod)


@pytest.mark.parametrize("point", ["reserve", "permit"])
@pytest.mark.parametrize(
    "status, group",
    [
        (Status.unschedulable("not b"), ""),
        (Status.error("broken"), "failed to schedule other pod from a pod group: "),
    ],
    ids=["rejects", "fails"],
)
def test_a_pod_that_is_refused_after_it_was_placed(point: str, status: Status, group: str) -> None:
    odd = Odd(point, status)
    tree = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile("NodeResourcesFit", "Odd")],
    }
    queue_for_two = make_node("n1", cpu="2")
    harness = Harness(queue_for_two, config=load(tree), plugins={"Odd": lambda _args, _handle: odd})
    result = harness.run(member("a"), member("b"), member("c"))
    assert odd.calls.count("unreserve b") == 1
    taken_back = [call for call in odd.calls if call.startswith("unreserve")]
    if group:
        assert result.status.code == Code.ERROR
        assert result.status.message.startswith(group)
        assert len(result.members) == 2
        assert taken_back == ["unreserve b", "unreserve a"]
    else:
        assert result.status.is_success
        assert [bool(each.choice) for each in result.members] == [True, False, True]
        assert taken_back == ["unreserve b", "unreserve c", "unreserve a"]
        assert result.members[1].status.message == "0/1 nodes are available: 1 not b."


def test_a_nomination_that_the_api_knows_is_kept() -> None:
    harness = Harness(make_node("n1"), make_group("g", min_count=1))
    pod = member("a", status={"nominatedNodeName": "n1"})
    harness.evaluator.nominator.adopt(PodInfo(pod))
    harness.run(pod)
    assert harness.evaluator.nominator.node_of("a") == "n1"


# Placements

ZONES = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}


def placed(harness: Harness, *pods: Pod) -> GroupResult:
    queued, runner = harness.queued(pods), harness.evaluator.runner
    with harness.cluster.logged_what_if() as what_if:
        trial = GroupTrial(
            queued, runner, what_if, cycle=harness.cycle, nominator=harness.evaluator.nominator
        )
        search = PlacementSearch(harness.cluster, rng=random.Random(1))
        return finished(search.run(trial, runner, KEY, preempts=True))


def by_topology(*objects: Any) -> Harness:
    return Harness(*objects, gates={**GATES.explicit, "TopologyAwareWorkloadScheduling": True})


def test_the_zone_that_takes_more_pods_wins() -> None:
    nodes = [make_node(name, cpu=cpu, labels={"zone": name}) for name, cpu in (("a", "2"), ("b", "3"))]
    harness = by_topology(*nodes, make_group("g", min_count=2, **ZONES))
    result = placed(harness, *(member(name) for name in "pqr"))
    assert result.status.is_success
    assert {each.choice.node_name for each in result.members if each.choice} == {"b"}


def test_no_zone_takes_the_group() -> None:
    nodes = [make_node(name, cpu="1", labels={"zone": name}) for name in "ab"]
    result = placed(by_topology(*nodes, make_group("g", min_count=2, **ZONES)), member("p"), member("q"))
    assert result.status.message == (
        "0/2 placements are available, first placement status: pod group is unschedulable"
    )
    assert results_of(result)[1][1] == "0/1 nodes are available: 1 Insufficient cpu"


def test_no_zones_at_all() -> None:
    harness = by_topology(make_node("n1"), make_group("g", min_count=2, **ZONES))
    result = placed(harness, member("p"), member("q"))
    assert (result.status.message, result.members) == ("no feasible placements found", ())


# Plans


@settings(max_examples=60)
@given(
    nodes=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    gangs=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=5),
)
def test_plans_are_exact_in_a_what_if_and_after_it(nodes: list[int], gangs: list[tuple[int, int]]) -> None:
    """Two worlds, with plans and without, try the same gangs, keep those that fit, and decide alike."""
    worlds = [
        Harness(
            *(make_node(f"n{number}", cpu=str(cpu)) for number, cpu in enumerate(nodes)),
            make_group("g", min_count=1),
            with_plans=with_plans,
        )
        for with_plans in (True, False)
    ]
    for index, (count, enough) in enumerate(gangs):
        found = []
        for harness in worlds:
            pods = [member(f"p{index}-{number}") for number in range(count)]
            result = harness.run(*pods)
            found.append(results_of(result))
            if sum(each.choice is not None for each in result.members) >= enough:
                for each in result.members:
                    if each.choice is not None:
                        each.state.group = None
                        runner = harness.evaluator.runner
                        taken = harness.cycle.take(each.state, each.queued, runner, each.choice, 0.0)
                        assert isinstance(taken, Placement)
        assert found[0] == found[1]
        requested = [harness.cluster.requested[:, : harness.cluster.slots].tolist() for harness in worlds]
        assert requested[0] == requested[1]
