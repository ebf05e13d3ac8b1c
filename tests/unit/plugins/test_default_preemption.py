"""Whole decisions: which pods a pod evicts, where, and the message when it cannot."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from kuberth.api.core import Node, Pod
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.wire import convert
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates, load
from kuberth.config.plugin_args import DefaultPreemptionArgs
from kuberth.evaluation import Evaluator, Preemption
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint, Resource
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import PreFilterExtensions, PreFilterResult
from kuberth.framework.inputs import DependsOn
from kuberth.framework.status import Code, Status
from kuberth.plugins.default_preemption.candidates import resolvable_rows
from kuberth.plugins.default_preemption.plugin import DefaultPreemption
from kuberth.testing.factories import make_node, make_pod
from tests.unit.framework.harness import restated

WAYS = {"node by node": DependsOn.ANYTHING, "many nodes at once": DependsOn.NODE, "over columns": None}


@pytest.fixture(params=WAYS, autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every decision has to be the same whether nodes are tried one by one or together."""
    scope = WAYS[request.param]
    if scope is not None:
        monkeypatch.setattr("kuberth.framework.profile.checked_inputs", restated(filter=scope))
    return str(request.param)


def running(
    name: str, node: str, *, cpu: str, priority: int = 0, minute: int | None = 0, **fields: Any
) -> Pod:
    """A pod on a node, started at a minute of the same hour."""
    status = dict(fields.pop("status", {}))
    if minute is not None:
        status["startTime"] = f"2026-01-01T00:{minute:02d}:00Z"
    return make_pod(name, node=node, cpu=cpu, priority=priority, status=status, **fields)


def incoming(*, cpu: str = "1", priority: int = 100, nominated: str = "", **fields: Any) -> Pod:
    return make_pod("incoming", cpu=cpu, priority=priority, status={"nominatedNodeName": nominated}, **fields)


def budget(
    selector: Mapping[str, Any] | None, *, allowed: int = 0, disrupted: Iterable[str] = (), name: str = "pdb"
) -> PodDisruptionBudget:
    status = {
        "disruptionsAllowed": allowed,
        "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
    }
    spec = {} if selector is None else {"selector": dict(selector)}
    return convert(
        PodDisruptionBudget,
        {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status},
    )


def preempt(pod: Pod, *objects: Any, gates: Mapping[str, bool] | None = None) -> Preemption:
    answer, preemption = Evaluator(objects, feature_gates=FeatureGates(gates)).preempt(pod)
    assert answer.feasible == ()
    assert preemption is not None
    return preemption


def own_message(preemption: Preemption) -> str:
    """What DefaultPreemption said; DynamicResources speaks before it."""
    return preemption.status.reasons[-1]


APP = {"matchLabels": {"app": "web"}}
WEB = {"app": "web"}


@pytest.mark.parametrize(
    ("objects", "pod", "node", "victims"),
    [
        pytest.param(
            [make_node("a", cpu="1"), running("low", "a", cpu="1")],
            incoming(),
            "a",
            ["low"],
            id="the only pod there",
        ),
        pytest.param(
            [
                make_node("a", cpu="2"),
                running("old", "a", cpu="1", minute=1),
                running("young", "a", cpu="1", minute=2),
            ],
            incoming(),
            "a",
            ["young"],
            id="of equal priority the pod that started last goes",
        ),
        pytest.param(
            [
                make_node("a", cpu="2"),
                running("old", "a", cpu="1", minute=1),
                running("unborn", "a", cpu="1", minute=None),
            ],
            incoming(),
            "a",
            ["unborn"],
            id="a pod that has not started yet is the youngest",
        ),
        pytest.param(
            [
                make_node("a", cpu="2"),
                running("p50", "a", cpu="1", priority=50, minute=9),
                running("p10", "a", cpu="1", priority=10, minute=1),
            ],
            incoming(),
            "a",
            ["p10"],
            id="lower priority goes before younger age",
        ),
        pytest.param(
            [
                make_node("a", cpu="3"),
                running("big", "a", cpu="2", priority=50),
                running("small", "a", cpu="1", priority=10),
            ],
            incoming(cpu="2"),
            "a",
            ["big"],
            id="a less important pod is spared when its going would not help",
        ),
        pytest.param(
            [
                make_node("a", cpu="2"),
                running("equal", "a", cpu="1", priority=100),
                running("low", "a", cpu="1", priority=99),
            ],
            incoming(),
            "a",
            ["low"],
            id="a pod of equal priority is no victim",
        ),
        pytest.param(
            [
                make_node("a", cpu="2"),
                running("protected", "a", cpu="1", minute=9, labels=WEB),
                running("free", "a", cpu="1", minute=1),
                budget(APP),
            ],
            incoming(),
            "a",
            ["free"],
            id="a protected pod is spared before an older one",
        ),
        pytest.param(
            [
                make_node("a", cpu="2"),
                running("protected", "a", cpu="1", minute=9, labels=WEB),
                running("free", "a", cpu="1", minute=1),
                budget(APP, allowed=1),
            ],
            incoming(),
            "a",
            ["protected"],
            id="a budget with a disruption left protects no pod yet",
        ),
        pytest.param(
            [
                make_node("a", cpu="1"),
                make_node("b", cpu="1"),
                running("protected", "a", cpu="1", labels=WEB),
                running("higher", "b", cpu="1", priority=50),
                budget(APP),
            ],
            incoming(),
            "b",
            ["higher"],
            id="the node that breaks no budget is better than the one with lower priorities",
        ),
        pytest.param(
            [
                make_node("a", cpu="1"),
                running("protected", "a", cpu="1", labels=WEB),
                budget(APP),
            ],
            incoming(),
            "a",
            ["protected"],
            id="a budget is broken if nothing else helps",
        ),
        pytest.param(
            [
                make_node("a", cpu="1"),
                make_node("b", cpu="1"),
                running("p50", "a", cpu="1", priority=50),
                running("p10", "b", cpu="500m", priority=10),
                running("p10-too", "b", cpu="500m", priority=10),
            ],
            incoming(),
            "b",
            ["p10", "p10-too"],
            id="the lowest highest priority wins over fewer victims",
        ),
        pytest.param(
            [
                make_node("a", cpu="1"),
                make_node("b", cpu="1"),
                running("a1", "a", cpu="500m", priority=10),
                running("a2", "a", cpu="500m", priority=-5),
                running("b1", "b", cpu="500m", priority=10),
                running("b2", "b", cpu="500m", priority=5),
            ],
            incoming(),
            "a",
            ["a1", "a2"],
            id="then the smallest sum of priorities",
        ),
        pytest.param(
            [
                make_node("a", cpu="1"),
                make_node("b", cpu="1"),
                running("a1", "a", cpu="500m", priority=-5),
                running("a2", "a", cpu="500m", priority=-5),
                running("b1", "b", cpu="1", priority=-5),
            ],
            incoming(),
            "b",
            ["b1"],
            id="more victims of negative priority are not cheaper",
        ),
        pytest.param(
            [
                make_node("a", cpu="1"),
                make_node("b", cpu="1"),
                running("old", "a", cpu="1", minute=1),
                running("young", "b", cpu="1", minute=2),
            ],
            incoming(),
            "b",
            ["young"],
            id="then the node whose victims started last",
        ),
        pytest.param(
            [
                make_node("a", cpu="1"),
                make_node("b", cpu="1"),
                running("a1", "a", cpu="500m", priority=10, minute=5),
                running("a2", "a", cpu="500m", priority=0, minute=1),
                running("b1", "b", cpu="500m", priority=10, minute=4),
                running("b2", "b", cpu="500m", priority=0, minute=9),
            ],
            incoming(),
            "a",
            ["a1", "a2"],
            id="where only the victims of highest priority count",
        ),
        pytest.param(
            [
                make_node("a", cpu="1", unschedulable=True),
                make_node("b", cpu="1"),
                running("low", "a", cpu="1"),
                running("higher", "b", cpu="1", priority=50),
            ],
            incoming(),
            "b",
            ["higher"],
            id="a node that no eviction opens is not considered",
        ),
    ],
)
def test_the_cheapest_victims_go(objects: list[Any], pod: Pod, node: str, victims: list[str]) -> None:
    preemption = preempt(pod, *objects)
    assert preemption.status.is_success
    assert preemption.nominated_node == node
    assert preemption.victims == tuple(f"default/{name}" for name in victims)


def test_a_victim_that_is_being_deleted_is_not_deleted_again() -> None:
    leaving = running("low", "a", cpu="1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    preemption = preempt(incoming(), make_node("a", cpu="1"), leaving)
    assert (preemption.nominated_node, preemption.victims) == ("a", ())


FULL = [make_node("a", cpu="1"), running("low", "a", cpu="1")]


def small_nodes(number: int) -> Iterator[Node]:
    return (make_node(f"small-{index}", cpu="1") for index in range(number))


@pytest.mark.parametrize(
    ("objects", "pod", "message"),
    [
        pytest.param(
            FULL,
            incoming(preemptionPolicy="Never"),
            "preemption: not eligible due to preemptionPolicy=Never.",
            id="policy Never",
        ),
        pytest.param(
            FULL,
            incoming(priority=0),
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
            id="no pod of lower priority",
        ),
        pytest.param(
            [*FULL, running("high", "a", cpu="500m", priority=1000)],
            incoming(),
            "preemption: 0/1 nodes are available: 1 Insufficient cpu.",
            id="not enough even without all victims",
        ),
        pytest.param(
            [*small_nodes(3), make_node("a", cpu="1", unschedulable=True)],
            incoming(cpu="2"),
            "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
            id="no eviction can help anywhere",
        ),
        pytest.param(
            [
                *small_nodes(2),
                make_node("a", cpu="2"),
                running("equal-a", "a", cpu="1", priority=100),
                make_node("b", cpu="2"),
                running("equal-b", "b", cpu="1", priority=100),
                running("low-b", "b", cpu="500m"),
                make_node("c", cpu="2", memory="1Gi"),
                running("equal-c", "c", cpu="1", memory="1Gi", priority=100),
                running("low-c", "c", cpu="500m"),
            ],
            incoming(cpu="1500m", memory="512Mi"),
            "preemption: 0/5 nodes are available: 1 Insufficient memory, "
            "1 No preemption victims found for incoming pod, 2 Insufficient cpu, "
            "2 Preemption is not helpful for scheduling.",
            id="many nodes, each with its reasons",
        ),
    ],
)
def test_why_preemption_does_not_help(objects: list[Any], pod: Pod, message: str) -> None:
    preemption = preempt(pod, *objects)
    assert preemption.status.code == Code.UNSCHEDULABLE
    assert own_message(preemption) == message
    assert preemption.nominated_node == ""
    assert preemption.victims == ()


def leaving(by: str | None, *, condition: str = "True", priority: int = 0) -> Pod:
    """A pod on its way out, perhaps evicted by someone."""
    conditions = [] if by is None else [{"type": "DisruptionTarget", "status": condition, "reason": by}]
    return running(
        "leaving",
        "a",
        cpu="500m",
        priority=priority,
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
        status={"conditions": conditions},
    )


@pytest.mark.parametrize(
    ("victim", "eligible"),
    [
        pytest.param(leaving("PreemptionByScheduler"), False, id="evicted by a scheduler"),
        pytest.param(leaving("EvictionByEvictionAPI"), True, id="evicted by someone else"),
        pytest.param(leaving(None), True, id="deleted by its owner"),
        pytest.param(leaving("PreemptionByScheduler", condition="False"), True, id="not evicted after all"),
        pytest.param(leaving("PreemptionByScheduler", priority=100), True, id="of no lower priority"),
        pytest.param(running("staying", "a", cpu="500m"), True, id="not on its way out"),
    ],
)
def test_a_pod_waits_for_the_victims_on_its_nominated_node(victim: Pod, eligible: bool) -> None:
    objects = [make_node("a", cpu="1"), victim, running("low", "a", cpu="500m")]
    preemption = preempt(incoming(cpu="600m", nominated="a"), *objects)
    if eligible:
        assert "not eligible" not in preemption.status.message
    else:
        message = "preemption: not eligible due to a terminating pod on the nominated node."
        assert own_message(preemption) == message
        assert preemption.status.code == Code.UNSCHEDULABLE


@pytest.mark.parametrize(
    "nominated",
    [
        pytest.param(make_node("a", cpu="1", unschedulable=True), id="it cannot be used any more"),
        pytest.param(make_node("elsewhere", cpu="500m"), id="it is gone"),
    ],
)
def test_a_pod_does_not_wait_for_a_node_it_cannot_have(nominated: Node) -> None:
    objects = [nominated, leaving("PreemptionByScheduler"), make_node("b", cpu="1")]
    preemption = preempt(incoming(nominated="a"), *objects, running("low", "b", cpu="1"))
    assert (preemption.nominated_node, preemption.victims) == ("b", ("default/low",))


@pytest.mark.parametrize(
    ("nominated_priority", "node"),
    [
        pytest.param(100, "b", id="a pod of equal priority keeps its nomination"),
        pytest.param(99, "a", id="a pod of lower priority does not"),
    ],
)
def test_resources_of_a_nominated_pod_are_not_taken(nominated_priority: int, node: str) -> None:
    judge = Evaluator(
        [
            make_node("a", cpu="1"),
            make_node("b", cpu="1"),
            running("low", "a", cpu="1"),
            running("higher", "b", cpu="1", priority=50),
        ]
    )
    judge.nominator.nominate(PodInfo(make_pod("other", cpu="1", priority=nominated_priority)), "a")
    _answer, preemption = judge.preempt(incoming())
    assert preemption is not None
    assert preemption.nominated_node == node


@pytest.mark.parametrize(
    ("pod", "alone"),
    [
        pytest.param(incoming(), True, id="only what is on the node counts"),
        pytest.param(
            incoming(
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"labelSelector": APP, "topologyKey": "topology.kubernetes.io/zone"}
                        ]
                    }
                }
            ),
            False,
            id="pods on other nodes count",
        ),
    ],
)
def test_nodes_are_tried_together_only_if_they_cannot_matter_to_each_other(
    pod: Pod, alone: bool, way: str
) -> None:
    judge = Evaluator(FULL)
    state = CycleState(PodInfo(pod))
    judge.runner.pre_filtering.run(state, pod, judge.cluster.all_nodes())
    assert judge.runner.filtering.evaluates_nodes_independently(state) is (alone and way != "node by node")
    assert judge.runner.filtering.reads_requests_alone(state) is (alone and way == "over columns")


def test_what_was_tried_leaves_no_trace() -> None:
    nodes = [make_node(f"n{index}", cpu="2") for index in range(4)]
    pods = [
        running(f"p{index}", f"n{index % 4}", cpu="600m", priority=index, labels={"app": "x"})
        for index in range(12)
    ]
    judge = Evaluator([*nodes, *pods])
    before = judge.cluster.requested.copy(), judge.cluster.pod_count.copy()
    judge.preempt(incoming(cpu="1500m"))
    assert (judge.cluster.requested == before[0]).all()
    assert (judge.cluster.pod_count == before[1]).all()
    names = {info.key for row in range(4) for info in NodeRow(judge.cluster, row).pods}
    assert names == {f"default/p{index}" for index in range(12)}
    assert len(list(judge.stores.of(Pod))) == 12


def test_pre_filter_extensions_are_called_for_every_pod_of_a_what_if() -> None:
    class Follower(PreFilterExtensions):
        name = "Follower"

        def __init__(self, _args: object, _handle: object) -> None:
            self.log: list[str] = []

        def pre_filter(self, *_args: object) -> None:
            return None

        def add_pod(self, _state: CycleState, _pod: Pod, added: PodInfo, _node: NodeRow) -> None:
            self.log.append(f"+{added.pod.metadata.name}")

        def remove_pod(
            self, _state: CycleState, _pod: Pod, removed: PodInfo, _node: NodeRow
        ) -> Status | None:
            self.log.append(f"-{removed.pod.metadata.name}")
            return Status.error("lost count") if removed.pod.metadata.name == "unlucky" else None

    judge = evaluator_with(
        Follower,
        make_node("a", cpu="2"),
        running("old", "a", cpu="1", minute=1),
        running("young", "a", cpu="1", minute=2),
        make_node("b", cpu="1"),
        running("unlucky", "b", cpu="1", minute=1),
    )
    _answer, preemption = judge.preempt(incoming())
    assert preemption is not None
    assert preemption.nominated_node == "a"
    follower = judge.runner.profile.plugins["Follower"]
    assert isinstance(follower, Follower)
    on_a = [entry for entry in follower.log if entry != "-unlucky"]
    assert on_a == ["-old", "-young", "+old", "+young", "-young"]


def evaluator_with(plugin: Any, *objects: Any) -> Evaluator:
    config = load(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}],
        }
    )
    return Evaluator(objects, config=config, plugins={plugin.name: plugin})


def test_the_same_question_has_the_same_answer() -> None:
    judge = Evaluator(FULL)
    for pod in (incoming(), incoming(nominated="a"), incoming(nominated="a")):
        _answer, preemption = judge.preempt(pod)
        assert preemption is not None
        assert (preemption.nominated_node, preemption.victims) == ("a", ("default/low",))


def test_an_error_is_reported_only_if_there_is_no_candidate() -> None:
    class Failing(PreFilterExtensions):
        name = "Failing"

        def pre_filter(self, *_args: object) -> None:
            return None

        def add_pod(self, *_args: object) -> None:
            return None

        def remove_pod(self, *_args: object) -> Status:
            return Status.error("lost count")

    judge = evaluator_with(Failing, make_node("a", cpu="1"), running("low", "a", cpu="1"))
    _answer, preemption = judge.preempt(incoming())
    assert preemption is not None
    assert preemption.status.code == Code.ERROR
    assert "lost count" in preemption.status.message


def test_a_preemptor_that_is_gone_preempts_no_one() -> None:
    judge = Evaluator(FULL)
    pod = incoming()
    diagnosis = Diagnosis()
    diagnosis.set("a", Status.unschedulable("Insufficient cpu"))
    _result, status = judge.runner.post_filtering.run(CycleState(PodInfo(pod)), pod, diagnosis)
    assert status.code == Code.ERROR
    assert 'pod "incoming" not found' in status.message


@pytest.mark.parametrize(
    ("percentage", "absolute", "nodes", "expected"),
    [
        pytest.param(10, 100, 50, 50, id="never more than there are"),
        pytest.param(10, 100, 500, 100, id="at least the absolute number"),
        pytest.param(10, 100, 5000, 500, id="the share of many"),
        pytest.param(33, 0, 10, 3, id="rounded down"),
        pytest.param(0, 1, 10, 1, id="one"),
        pytest.param(100, 0, 7, 7, id="all"),
    ],
)
def test_how_many_candidates_are_enough(percentage: int, absolute: int, nodes: int, expected: int) -> None:
    args = DefaultPreemptionArgs(
        min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute
    )
    assert plugin_of(Evaluator(), args).candidates_to_find(nodes) == expected


def plugin_of(
    judge: Evaluator, args: DefaultPreemptionArgs | None = None, rng: random.Random | None = None
) -> DefaultPreemption:
    """The plugin with other arguments, in the same surroundings."""
    present = judge.runner.profile.plugins["DefaultPreemption"]
    assert isinstance(present, DefaultPreemption)
    return DefaultPreemption(args, present._handle, rng=rng)


class Fixed(random.Random):
    """Always begins at the same place."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self._start = start

    def randrange(self, *_args: int) -> int:  # type: ignore[override]  # not random
        return self._start


@pytest.mark.parametrize(
    ("start", "enough", "expected"),
    [
        pytest.param(0, 3, "b", id="all are compared"),
        pytest.param(0, 1, "a", id="the first that will do"),
        pytest.param(2, 1, "c", id="beginning elsewhere"),
        pytest.param(2, 2, "a", id="going round"),
    ],
)
def test_a_search_ends_when_it_has_enough(start: int, enough: int, expected: str) -> None:
    judge = Evaluator(
        [
            make_node("a", cpu="1"),
            make_node("b", cpu="1"),
            make_node("c", cpu="1"),
            running("p20", "a", cpu="1", priority=20),
            running("p10", "b", cpu="1", priority=10),
            running("p30", "c", cpu="1", priority=30),
        ]
    )
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=enough)
    assert nominated_by(plugin_of(judge, args, Fixed(start)), judge) == expected


def test_a_search_goes_on_until_some_candidate_breaks_no_budget() -> None:
    judge = Evaluator(
        [
            *(make_node(name, cpu="1") for name in "abc"),
            running("protected-a", "a", cpu="1", labels=WEB),
            running("protected-b", "b", cpu="1", labels=WEB),
            running("free", "c", cpu="1", priority=90),
            budget(APP),
        ]
    )
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=1)
    assert nominated_by(plugin_of(judge, args, Fixed(0)), judge) == "c"


def nominated_by(plugin: DefaultPreemption, judge: Evaluator) -> str:
    pod = incoming()
    state = CycleState(PodInfo(pod))
    diagnosis = Diagnosis()
    judge._cycle.search(state, pod, judge.runner, diagnosis)
    judge.stores.of(Pod).set(pod)
    result, _status = plugin.post_filter(state, pod, diagnosis)
    for work in judge._background:
        work.close()
    assert result is not None
    return result.nominated_node


def test_only_rows_that_eviction_may_open_are_searched() -> None:
    judge = Evaluator([make_node(name) for name in "abcd"])
    rows = [judge.cluster.row_of(name) for name in "abcd"]
    diagnosis = Diagnosis()
    diagnosis.set("a", Status.unschedulable("x"))
    diagnosis.set("b", Status.unresolvable("x"))
    diagnosis.set("c", Status.pending("x"))
    diagnosis.set("gone", Status.unschedulable("x"))
    assert resolvable_rows(diagnosis, judge.cluster).tolist() == [rows[0]]
    diagnosis.absent_status = Status.unschedulable("PreFilter said no")
    assert sorted(resolvable_rows(diagnosis, judge.cluster).tolist()) == [rows[0], rows[3]]


def test_deletions_open_the_gate_but_say_nothing() -> None:
    judge = Evaluator()
    gone = running("gone", "a", cpu="1")
    event = ClusterEvent(Resource.POD, Action.DELETE)
    assert judge.hints(incoming(), event, gone, None)["DefaultPreemption"] is Hint.SKIP
    added = ClusterEvent(Resource.POD, Action.ADD)
    assert "DefaultPreemption" not in judge.hints(incoming(), added, None, gone)


def test_attempts_and_victims_are_counted() -> None:
    judge = Evaluator(FULL)
    judge.preempt(incoming(priority=0))
    judge.preempt(incoming())
    metrics = judge.runner.metrics
    assert metrics.preemption_attempts.values == {(): 2}
    assert [value.sum for value in metrics.preemption_victims.values.values()] == [1]


def test_with_the_gate_off_the_same_pods_go() -> None:
    gates = {"SchedulerAsyncPreemption": False}
    preemption = preempt(incoming(), *FULL, gates=gates)
    assert (preemption.nominated_node, preemption.victims) == ("a", ("default/low",))


def test_a_node_that_a_plugin_narrowed_out_is_no_place_for_preemption() -> None:
    """Evicting there would not help, however cheap it is."""

    class OnlyFirst(PreFilterExtensions):
        name = "OnlyFirst"

        def pre_filter(self, _state: CycleState, _pod: Pod, _nodes: object) -> PreFilterResult:
            return PreFilterResult(frozenset({"n1"}))

        def add_pod(self, *_: object) -> None:
            pass

        def remove_pod(self, *_: object) -> None:
            pass

    profile = {"plugins": {"preFilter": {"enabled": [{"name": "OnlyFirst"}]}}}
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    for cheap, victims in (("n2", ()), ("n1", ("default/cheap",))):
        dear = "n1" if cheap == "n2" else "n2"
        judge = Evaluator(
            [
                make_node("n1", cpu="1"),
                make_node("n2", cpu="1"),
                make_pod("cheap", node=cheap, cpu="1", priority=0),
                make_pod("dear", node=dear, cpu="1", priority=1000),
            ],
            config=load(tree),
            plugins={"OnlyFirst": lambda _args, _handle: OnlyFirst()},
        )
        answer, preemption = judge.preempt(make_pod("p", cpu="1", priority=10))
        assert not answer.feasible
        assert preemption is not None
        assert preemption.victims == victims
        assert preemption.nominated_node == ("n1" if victims else "")
