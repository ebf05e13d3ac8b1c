"""Statements decide what is kept, and never what is decided: cases in which a kept answer was once wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kuberth.api.core import Node, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.api.resource import DeviceClass, DeviceClassSpec
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates, KubeSchedulerConfiguration
from kuberth.evaluation import Evaluator
from kuberth.framework import (
    Action,
    ClusterEvent,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    Hint,
    Inputs,
    PreFilterPlugin,
    QueuedPod,
    Resource,
    ScorePlugin,
    Status,
)
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.queue.hints import Hints
from kuberth.queue.unschedulable import UnschedulablePods
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.testing import make_node, make_pod
from tests.unit.framework.harness import profile_config

# A plan in use, and a pod that differs in what a plugin reads


def test_a_pod_of_a_group_that_is_missing_is_not_taken_for_a_plain_one() -> None:
    gates = {"GenericWorkload": True, "GangScheduling": True, "DRAWorkloadResourceClaims": True}
    evaluator = Evaluator([make_node("n1")], feature_gates=FeatureGates(gates))
    for number in range(3):
        assert evaluator.evaluate(make_pod(f"plain-{number}", cpu="1")).feasible == ("n1",)
    member = make_pod("member", cpu="1", schedulingGroup={"podGroupName": "missing"})
    for _ in range(3):
        answer = evaluator.evaluate(member)
        assert answer.feasible == ()
        assert answer.pre_filter is not None
        assert "not found" in answer.pre_filter.message


def _asked_at_pre_filter(evaluator: Evaluator, pod: Pod) -> set[str] | None:
    """The plugins that are asked at PreFilter about pods that are equal to this one; None: there are none."""
    plans = evaluator.runner.plans
    assert plans is not None
    equal_pods = plans.find(PodInfo(pod), evaluator.cluster.all_nodes())
    return None if equal_pods is None else {plugin.name for plugin in equal_pods.pre_filter}


def test_extended_resources_concern_no_device_plugin_until_a_class_stands_behind_them() -> None:
    evaluator = Evaluator([make_node("n1", allocatable={"example.com/gpu": "1"})])
    pods = [make_pod(f"p{number}", requests={"example.com/gpu": "1"}) for number in range(3)]
    assert [_asked_at_pre_filter(evaluator, pod) for pod in pods] == [None, set(), set()]
    evaluator.add(DeviceClass(metadata=ObjectMeta(name="other")))
    assert _asked_at_pre_filter(evaluator, pods[0]) == set()
    spec = DeviceClassSpec(extended_resource_name="example.com/gpu")
    evaluator.add(DeviceClass(metadata=ObjectMeta(name="gpus"), spec=spec))
    assert _asked_at_pre_filter(evaluator, pods[0]) == {"DynamicResources"}


@pytest.mark.parametrize(
    "kind, version, are_equal",
    [
        ("Job", "batch/v1", True),
        ("Workflow", "example.com/v1", True),
        ("ReplicaSet", "example.com/v1", True),
        ("ReplicaSet", "apps/v1", False),
        ("StatefulSet", "apps/v1", False),
        ("ReplicationController", "v1", False),
    ],
)
def test_of_owners_only_those_count_whose_selectors_are_spread_by(
    kind: str, version: str, are_equal: bool
) -> None:
    def pod(number: int) -> Pod:
        owner = {"apiVersion": version, "kind": kind, "name": f"o{number}", "uid": f"u{number}"}
        return make_pod(f"p{number}", metadata={"ownerReferences": [{**owner, "controller": True}]})

    evaluator = Evaluator([make_node("n1")])
    found = [_asked_at_pre_filter(evaluator, pod(number)) for number in range(3)]
    assert [each is not None for each in found] == [False, are_equal, are_equal]


class Pinned(FilterPlugin):
    """Lets a pod onto the node that an annotation of it names, and states nothing."""

    name = "Pinned"

    def filter(self, _state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        wanted = pod.metadata.annotations.get("pin")
        return None if wanted in (None, node.name) else Status.unschedulable("pinned elsewhere")


def test_a_filter_without_a_statement_decides_where_preemption_helps() -> None:
    profile = profile_config(
        ["PrioritySort", "DefaultBinder", "NodeResourcesFit", "Pinned", "DefaultPreemption"]
    )
    low: dict[str, Any] = {"cpu": "1", "priority": 0}
    evaluator = Evaluator(
        [
            *(make_node(name, cpu="1") for name in "ab"),
            *(make_pod(f"on-{name}", node=name, **low) for name in "ab"),
        ],
        config=KubeSchedulerConfiguration(profiles=(profile,)),
        plugins={"Pinned": Pinned},
    )
    urgent: dict[str, Any] = {"cpu": "1", "priority": 10}
    for number in range(3):
        _answer, made_room = evaluator.preempt(
            make_pod(f"to-a-{number}", metadata={"annotations": {"pin": "a"}}, **urgent)
        )
        assert made_room is not None
        assert (made_room.nominated_node, made_room.victims) == ("a", ("default/on-a",))
    _answer, made_room = evaluator.preempt(make_pod("to-b", metadata={"annotations": {"pin": "b"}}, **urgent))
    assert made_room is not None
    assert (made_room.nominated_node, made_room.victims) == ("b", ("default/on-b",))


class Invited(FilterPlugin, EnqueueExtensions):
    """Its Filter reads tolerations, its hint an annotation; the statement has to name both."""

    name = "Invited"
    inputs: Inputs | None = Inputs({"spec.tolerations", "metadata.annotations"}, filter=DependsOn.NODE_OBJECT)

    def filter(self, _state: CycleState, pod: Pod, _node: NodeRow) -> Status | None:
        return None if pod.spec.tolerations else Status.unschedulable("not invited")

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [EventWithHint(ClusterEvent(Resource.NODE, Action.ADD), self._after_node)]

    def _after_node(self, pod: Pod, _old: object, new: object) -> Hint:
        assert isinstance(new, Node)
        wanted = pod.metadata.annotations.get("waits-for")
        return Hint.QUEUE if wanted == new.metadata.name else Hint.SKIP


class UnstatedInvited(Invited):
    inputs = None


@pytest.mark.parametrize("invited", [Invited, UnstatedInvited], ids=["stated", "not stated"])
def test_pods_that_differ_in_what_a_hint_reads_are_all_asked(invited: type[Invited]) -> None:
    profile = profile_config(["PrioritySort", "DefaultBinder", "Invited"])
    evaluator = Evaluator(
        config=KubeSchedulerConfiguration(profiles=(profile,)), plugins={"Invited": invited}
    )
    hints = {"default-scheduler": evaluator.runner.profile.hints}
    queue = UnschedulablePods(Hints(hints, SchedulerMetrics()))
    for name in ("m1", "m2", "m3"):
        queued = QueuedPod(
            PodInfo(make_pod(name, metadata={"annotations": {"waits-for": name}})), timestamp_ns=0
        )
        queued.unschedulable_plugins = {"Invited"}
        queue.add(queued)
    event = ClusterEvent(Resource.NODE, Action.ADD)
    for name in ("m3", "m1", "m2"):
        concerned = queue.concerned_by(event, None, make_node(name)).pods
        assert name in [each.pod.metadata.name for each in concerned]


# A plan in use, and nodes that come and go


@pytest.mark.parametrize("more", [1, 100], ids=["in the table's queue", "the table grows"])
def test_a_node_that_comes_and_goes_between_two_cycles_is_no_matter(more: int) -> None:
    evaluator = Evaluator([make_node("n1"), make_node("n2")])
    cycle = SchedulingCycle(
        evaluator.cluster, nominator=evaluator.nominator, metrics=evaluator.runner.metrics
    )

    def schedule(name: str) -> Placement | Rejection:
        queued = QueuedPod(PodInfo(make_pod(name, cpu="10m")), timestamp_ns=0)
        return cycle.run(queued, evaluator.runner)

    for number in range(4):
        assert isinstance(schedule(f"before-{number}"), Placement)
    names = [f"passing-{number}" for number in range(more)]
    evaluator.add(*map(make_node, names))
    for name in names:
        evaluator.cluster.remove_node(name)
    for number in range(4):
        assert isinstance(schedule(f"after-{number}"), Placement)


def test_another_node_in_the_row_of_one_that_went_is_judged_as_itself() -> None:
    evaluator = Evaluator([make_node("n1"), make_node("n2")])
    for number in range(4):
        assert evaluator.evaluate(make_pod(f"p{number}", cpu="1")).feasible == ("n1", "n2")
    evaluator.cluster.remove_node("n2")
    evaluator.add(make_node("n3", taints=[{"key": "k", "effect": "NoSchedule"}]))
    assert evaluator.evaluate(make_pod("p", cpu="1")).feasible == ("n1",)


SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 5,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
    ]
}


@pytest.mark.parametrize("more", [{}, SPREAD], ids=["all filters kept", "some filters asked"])
@pytest.mark.parametrize("queue", ["2", "1"], ids=["fits", "does not fit"])
def test_a_nomination_does_not_stand_in_the_way_of_the_pod_itself(more: dict[str, Any], queue: str) -> None:
    names = ("n1", "n2")
    evaluator = Evaluator(
        [make_node(name, cpu=queue, labels={"kubernetes.io/hostname": name}) for name in names]
    )
    replica: dict[str, Any] = {"cpu": "2", "labels": {"app": "a"}, **more}
    nominated = make_pod("nominated", uid="nominated", **replica)
    evaluator.nominator.nominate(PodInfo(nominated), "n1")
    fits = queue == "2"
    for number in range(3):
        other = evaluator.evaluate(make_pod(f"other-{number}", **replica))
        assert other.feasible == (("n2",) if fits else ())
        itself = evaluator.evaluate(nominated)
        assert itself.feasible == (names if fits else ())
        assert itself.rejections.keys() == (set() if fits else {*names})
        assert len(set(itself.totals.values())) == fits, "both nodes are as good"


# Wrong statements are found in production


class Fibbing(PreFilterPlugin, FilterPlugin, ScorePlugin):
    """States that it reads labels, and reads an annotation that says where the truth is left."""

    name = "Fibbing"
    inputs = Inputs(
        {"metadata.labels"},
        pre_filter=DependsOn.POD,
        filter=DependsOn.NODE_OBJECT,
        score=DependsOn.NODE_OBJECT,
    )

    def pre_filter(self, _state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        return Status.unschedulable("no") if pod.metadata.annotations.get("fib") == "reject" else None

    def filter(self, _state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        if pod.metadata.annotations.get("fib") == "filter" and node.name == "n1":
            return Status.unschedulable("not n1")
        return None

    def score(self, _state: CycleState, pod: Pod, node: NodeRow) -> int:
        return 100 if pod.metadata.annotations.get("fib") == "score" and node.name == "n2" else 0


class Narrow(PreFilterPlugin, FilterPlugin):
    """States that only pods with claims concern it, and rejects others."""

    name = "Narrow"
    inputs = Inputs(
        {"metadata.annotations"},
        pre_filter=DependsOn.ANYTHING,
        filter=DependsOn.ANYTHING,
        only_with={"info.volume_claims"},
    )

    def pre_filter(self, *_: object) -> None: ...

    def filter(self, _state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        if pod.metadata.annotations.get("fib") == "narrow" and node.name == "n1":
            return Status.unschedulable("not n1")
        return None


def checked_cycle(every: int) -> tuple[Evaluator, SchedulingCycle]:
    profile = profile_config(["PrioritySort", "DefaultBinder", "NodeResourcesFit", "Fibbing", "Narrow"])
    evaluator = Evaluator(
        [make_node("n1"), make_node("n2")],
        config=KubeSchedulerConfiguration(profiles=(profile,)),
        plugins={"Fibbing": Fibbing, "Narrow": Narrow},
    )
    cycle = SchedulingCycle(
        evaluator.cluster,
        nominator=evaluator.nominator,
        metrics=evaluator.runner.metrics,
        check_every=every,
    )
    return evaluator, cycle


def place(evaluator: Evaluator, cycle: SchedulingCycle, name: str, fib: str) -> str:
    pod = make_pod(name, labels={"app": "a"}, metadata={"annotations": {"fib": fib}})
    outcome = cycle.run(QueuedPod(PodInfo(pod), timestamp_ns=0), evaluator.runner)
    if isinstance(outcome, Rejection):
        return outcome.status.message
    evaluator.cluster.forget_pod(outcome.info.uid)
    return outcome.node_name


@pytest.mark.parametrize(
    "fib, plugin, where, right",
    [
        ("filter", "Fibbing", "Filter of node n1", "n2"),
        ("score", "Fibbing", "Score of node n2", "n2"),
        ("reject", "Fibbing", "PreFilter", "0/2 nodes are available: no."),
        ("narrow", "Narrow", "Filter of node n1", "n2"),
    ],
)
def test_a_wrong_statement_is_found_and_the_right_answer_used(
    fib: str, plugin: str, where: str, right: str, caplog: pytest.LogCaptureFixture
) -> None:
    evaluator, cycle = checked_cycle(every=1)
    for number in range(4):
        place(evaluator, cycle, f"honest-{number}", "")
    differences = evaluator.runner.metrics.plan_differences.values
    assert not differences
    assert not caplog.records
    assert place(evaluator, cycle, "fib", fib) == right
    assert differences == {(plugin, "default-scheduler"): 1}
    (record,) = caplog.records
    for part in (f"plugin '{plugin}'", "`inputs` are wrong", "default/fib", where):
        assert part in record.getMessage()
    for number in range(3):
        assert place(evaluator, cycle, f"again-{number}", fib) == right
    assert differences == {(plugin, "default-scheduler"): 1}, "it is asked every time from now on"
    assert evaluator.runner.profile.statements.of(plugin) is None
    assert evaluator.runner.profile.statements.of("NodeResourcesFit") is not None


@pytest.mark.parametrize("every, checked", [(0, 0), (1, 10), (4, 2), (1000, 0)])
def test_one_cycle_in_every_n_is_checked(every: int, checked: int) -> None:
    evaluator, cycle = checked_cycle(every)
    seen: list[str] = []
    looked = cycle._check.finds_difference

    def note(*args: Any, **more: Any) -> bool:
        seen.append("checked")
        return looked(*args, **more)

    cycle._check.finds_difference = note  # type: ignore[method-assign]  # counts, and does the same
    place(evaluator, cycle, "first", "")  # like no other: it has no plan
    for number in range(10):
        place(evaluator, cycle, f"p{number}", "")
    assert len(seen) == checked


def test_a_cycle_that_is_checked_decides_as_one_that_is_not() -> None:
    """The second look must not move the start of the next search, nor anything else."""
    names = [f"n{number}" for number in range(300)]

    def chosen(every: int) -> list[tuple[str, int]]:
        evaluator = Evaluator([make_node(name, cpu="4") for name in names])
        cycle = SchedulingCycle(
            evaluator.cluster,
            nominator=evaluator.nominator,
            metrics=evaluator.runner.metrics,
            percentage_of_nodes_to_score=34,
            check_every=every,
        )
        found = []
        for number in range(30):
            info = PodInfo(make_pod(f"p{number}", cpu="1", labels={"app": "a"}))
            outcome = cycle.run(QueuedPod(info, timestamp_ns=0), evaluator.runner)
            assert isinstance(outcome, Placement)
            found.append((outcome.choice.node_name, cycle.nodes.position))
        assert not evaluator.runner.metrics.plan_differences.values
        return [position for _name, position in found]  # type: ignore[misc]  # ties are broken by chance

    assert chosen(0) == chosen(1)
