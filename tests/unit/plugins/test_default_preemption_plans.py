"""What is remembered between equal preemptors, and columns instead of pods, change no decision.

The reference is preemption as documented: row by row, pod by pod, every candidate compared to every other.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.core import Node, Pod
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.wire import convert
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import load
from kuberth.config.plugin_args import DefaultPreemptionArgs
from kuberth.evaluation import Evaluator
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.equal_pods import EqualPods
from kuberth.framework.extension_points import FilterPlugin, PreFilterPlugin
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import SKIP, Status
from kuberth.plugins.default_preemption.candidates import (
    NO_VICTIMS,
    NOT_HELPFUL,
    Candidate,
    Search,
    resolvable_rows,
)
from kuberth.plugins.default_preemption.eviction import Evictions
from kuberth.plugins.default_preemption.plans import VictimPlan
from kuberth.plugins.default_preemption.plugin import DefaultPreemption
from kuberth.plugins.default_preemption.trials import PodTrial
from kuberth.testing.factories import make_node, make_pod
from tests.unit.framework.harness import restated

NODES = ("a", "b", "c", "d")
GPU = "example.com/gpu"
LAST = datetime.datetime.max.replace(tzinfo=datetime.UTC)


# The reference


class Decision(NamedTuple):
    """All there is to know of a search."""

    candidates: Sequence[tuple[str, Sequence[str], int]]
    """Node, victims in order, broken budgets."""
    best: tuple[str, Sequence[str]] | None
    message: str
    """Why there is none."""


Memory = dict[int, dict[Any, Any]]
"""By priority: what equal preemptors share."""


def equal_pods_with(memory: Memory, priority: int) -> EqualPods:
    """What is known for the preemptor, with this for all that is shared."""
    equal_pods = EqualPods(frozenset({"DefaultPreemption"}))
    equal_pods.memory = memory.setdefault(priority, {})
    return equal_pods


def start_of(info: PodInfo) -> datetime.datetime:
    return info.pod.status.start_time or LAST


def rank_of(info: PodInfo) -> tuple[int, datetime.datetime]:
    return -info.priority, start_of(info)


def breaks_budgets(judge: Evaluator, pods: Sequence[PodInfo]) -> list[bool]:
    """For each of the pods, in order, whether a budget has nothing left for it."""
    left = {
        budget.metadata.name: budget.status.disruptions_allowed
        for budget in judge.stores.of(PodDisruptionBudget)
    }
    answers = []
    for info in pods:
        broken = False
        for budget in judge.stores.of(PodDisruptionBudget):
            wanted = budget.spec.selector.match_labels if budget.spec.selector else {}
            name = budget.metadata.name
            if not wanted or not wanted.items() <= info.labels.items():
                continue
            if info.pod.metadata.name not in budget.status.disrupted_pods:
                left[name] -= 1
                broken = broken or left[name] < 0
        answers.append(broken)
    return answers


def victims_on(
    judge: Evaluator, state: CycleState, pod: Pod, row: int, priority: int
) -> tuple[Sequence[PodInfo], int] | Status:
    node = NodeRow(judge.cluster, row)
    lower = sorted((info for info in node.pods if info.priority < priority), key=rank_of)
    broken = breaks_budgets(judge, lower)
    turns = [(info, True) for info, breaks in zip(lower, broken, strict=True) if breaks]
    turns += [(info, False) for info, breaks in zip(lower, broken, strict=True) if not breaks]
    condemned = []
    trial, filtering = state.clone(), judge.runner.filtering
    with judge.cluster.what_if() as what_if:
        for info in lower:
            what_if.remove_pod(info, row)
            assert filtering.run_remove_pod(trial, pod, info, node).is_success
        status = filtering.status(trial, pod, node)
        if not status.is_success:
            return status
        for info, breaks in turns:
            what_if.add_pod(info, row)
            assert filtering.run_add_pod(trial, pod, info, node).is_success
            if not filtering.status(trial, pod, node).is_success:
                what_if.remove_pod(info, row)
                assert filtering.run_remove_pod(trial, pod, info, node).is_success
                condemned.append((info, breaks))
    victims = sorted((info for info, _breaks in condemned), key=rank_of)
    if not victims:
        return Status.error(f'expected at least one victim pod on node "{node.name}"')
    return victims, sum(breaks for _info, breaks in condemned)


def cost_of(victims: Sequence[PodInfo], violations: int) -> tuple[Any, ...]:
    highest = max(info.priority for info in victims)
    earliest = min(start_of(info) for info in victims if info.priority == highest)
    total = sum(info.priority + 2**31 for info in victims)
    return violations, highest, total, len(victims), LAST - earliest


def reference(
    judge: Evaluator, state: CycleState, pod: Pod, diagnosis: Diagnosis, *, start: int, enough: int
) -> Decision:
    names = judge.cluster.names
    priority = pod.spec.priority or 0
    rows = resolvable_rows(diagnosis, judge.cluster).tolist()
    turned = [rows[(start + index) % len(rows)] for index in range(len(rows))]
    enough = min(enough, len(rows))
    harmless: list[tuple[str, Sequence[PodInfo], int]] = []
    harmful: list[tuple[str, Sequence[PodInfo], int]] = []
    not_helped = Diagnosis()
    not_helped.absent_status = NOT_HELPFUL
    errors = []
    for row in turned:
        if not any(info.priority < priority for info in judge.cluster.pods_at(row)):
            not_helped.set(names[row], NO_VICTIMS)
            continue
        found = victims_on(judge, state, pod, row, priority)
        if isinstance(found, Status):
            not_helped.set(names[row], found)
            errors += [found.message] if not found.is_rejected else []
            continue
        victims, violations = found
        group = harmful if violations else harmless
        if len(group) < enough:
            group.append((names[row], victims, violations))
        if harmless and len(harmless) + len(harmful) >= enough:
            break
    both = [*harmless, *harmful]
    found_all = [(name, [info.key for info in victims], number) for name, victims, number in both]
    if both:
        name, victims, _number = min(both, key=lambda each: cost_of(each[1], each[2]))
        return Decision(found_all, (name, [info.key for info in victims]), "")
    if errors:
        distinct = list(dict.fromkeys(errors))
        why = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
    else:
        why = not_helped.message(judge.cluster.node_count)
    return Decision([], None, f"preemption: {why}")


# What is tested


class Noted(Evictions):
    """Evicts no pod."""

    chosen: Candidate | None = None

    def start(self, preemptor: PodInfo, candidate: Candidate) -> None:
        self.chosen = candidate


class Watched(DefaultPreemption):
    """The plugin, with what it found and which pods it would evict."""

    def __init__(self, judge: Evaluator, *, enough: int) -> None:
        present = judge.runner.profile.plugins["DefaultPreemption"]
        assert isinstance(present, DefaultPreemption)
        args = DefaultPreemptionArgs(min_candidate_nodes_percentage=0, min_candidate_nodes_absolute=enough)
        self.begin_at = 0
        super().__init__(args, present._handle, rng=_Turn(self))
        self.searches: list[Search] = []

    def _search(self, *args: Any, **more: Any) -> Search:
        self.searches.append(super()._search(*args, **more))
        return self.searches[-1]

    def decide(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> Decision:
        evictions = self._evictions = Noted(self._handle, plugin=self.name, asynchronous=True)
        result, status = self.post_filter(state, pod, diagnosis)
        found = self.searches.pop()
        each = [found.candidate(row) for row in found.rows.tolist()]
        candidates = [
            (one.node_name, [info.key for info in one.victims.pods], one.victims.budget_violations)
            for one in each
        ]
        best = None
        if (chosen := evictions.chosen) is not None:
            assert result is not None
            assert chosen.node_name == result.nominated_node
            best = chosen.node_name, [info.key for info in chosen.victims.pods]
        return Decision(candidates, best, "" if status is None else status.message)


class _Turn(random.Random):
    """Starts at a given row."""

    def __init__(self, plugin: Watched) -> None:
        super().__init__()
        self._plugin = plugin

    def randrange(self, stop: int) -> int:  # type: ignore[override]  # not random
        return self._plugin.begin_at % stop


class World:
    """A cluster that changes, and equal preemptors that come one after another."""

    def __init__(self, *, enough: int, preemptor: dict[str, Any]) -> None:
        # The memory is the world's own, not that of the runner's plans.
        self.judge = Evaluator(with_plans=False)
        self.plugin = Watched(self.judge, enough=enough)
        self.enough = enough
        self.template = preemptor
        self.memory: Memory = {}

    def set_node(self, name: str, cpu: int, pods: int, gpus: int | None, closed: bool) -> None:
        offered = {} if gpus is None else {GPU: str(gpus)}
        node = make_node(name, cpu=str(cpu), pods=str(pods), allocatable=offered, unschedulable=closed)
        self.judge.add(node)

    def remove_node(self, name: str) -> None:
        node = self.judge.stores.of(Node).get(name)
        if node is not None:
            self.judge.stores.of(Node).remove(node)
            self.judge.cluster.remove_node(name)

    def set_pod(
        self,
        number: int,
        node: str,
        priority: int,
        cpu: int,
        gpus: int,
        minute: int | None,
        app: str,
        port: bool,
    ) -> None:
        status = {} if minute is None else {"startTime": f"2026-01-01T00:0{minute}:00Z"}
        containers = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}] if port else []
        pod = make_pod(
            f"p{number}",
            uid=f"p{number}",
            node=node,
            priority=priority,
            cpu=f"{cpu}m",
            requests={GPU: str(gpus)} if gpus else {},
            labels={"app": app} if app else {},
            status=status,
            initContainers=[{**each, "restartPolicy": "Always"} for each in containers],
        )
        self.judge.add(pod)

    def remove_pod(self, number: int) -> None:
        pod = self.judge.stores.of(Pod).get(f"p{number}", namespace="default")
        if pod is not None:
            self.judge.stores.of(Pod).remove(pod)
            self.judge.cluster.remove_pod(f"p{number}")

    def set_budget(self, number: int, app: str, allowed: int, disrupted: set[int]) -> None:
        tree = {
            "metadata": {"name": f"b{number}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": {f"p{pod}": "2026-01-01T00:00:00Z" for pod in disrupted},
            },
        }
        self.judge.add(convert(PodDisruptionBudget, tree))

    def remove_budget(self, number: int) -> None:
        store = self.judge.stores.of(PodDisruptionBudget)
        budget = store.get(f"b{number}", namespace="default")
        if budget is not None:
            store.remove(budget)

    def nominate(self, number: int, node: str, priority: int, cpu: int) -> None:
        pod = make_pod(f"n{number}", uid=f"n{number}", priority=priority, cpu=f"{cpu}m")
        self.judge.nominator.nominate(PodInfo(pod), node)

    def preemptor(self, number: int) -> Pod:
        return make_pod(f"pre{number}", uid=f"pre{number}", **self.template)

    def nominate_preemptor(self, number: int, node: str) -> None:
        self.judge.nominator.nominate(PodInfo(self.preemptor(number)), node)

    def preempt(self, number: int, start: int, nominated: str) -> Decision | None:
        """A preemptor like all the others, perhaps with a nomination of its own. None: it fits somewhere."""
        pod = self.preemptor(number)
        judge = self.judge
        judge.stores.of(Pod).set(pod)
        state, diagnosis = CycleState(PodInfo(pod)), Diagnosis()
        if nominated:
            self.nominate_preemptor(number, nominated)
        found = judge._cycle.search(state, pod, judge.runner, diagnosis)
        state.equal_pods = equal_pods_with(self.memory, pod.spec.priority or 0)
        if isinstance(found, Status) or len(found[0]) or not len(resolvable_rows(diagnosis, judge.cluster)):
            return None
        rows = len(resolvable_rows(diagnosis, judge.cluster))
        self.plugin.begin_at = start
        expected = reference(judge, state, pod, diagnosis, start=start % rows, enough=self.enough)
        assert self.plugin.decide(state, pod, diagnosis) == expected
        return expected


HOSTNAME = "kubernetes.io/hostname"


def near(kind: str, app: str) -> dict[str, Any]:
    """Required pod affinity, or anti-affinity, to pods of an app on the same node."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


SPREAD = {
    "maxSkew": 1,
    "topologyKey": HOSTNAME,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "x"}},
}


nodes = st.sampled_from(NODES)
priorities = st.sampled_from((-5, 0, 5, 10))
cpus = st.sampled_from((0, 250, 500, 1000))
large = st.sampled_from((500, 750, 1000))
apps = st.sampled_from(("x", "y"))
disrupted = st.sets(st.integers(0, 12), max_size=2)
steps = st.one_of(
    st.tuples(
        st.just("set_node"),
        nodes,
        st.integers(1, 2),
        st.integers(1, 5),
        st.none() | st.integers(0, 2),
        st.booleans(),
    ),
    st.tuples(st.just("remove_node"), nodes),
    st.tuples(
        st.just("set_pod"),
        st.integers(0, 12),
        nodes,
        priorities,
        cpus,
        st.integers(0, 1),
        st.none() | st.integers(0, 2),
        apps | st.just(""),
        st.booleans(),
    ),
    st.tuples(st.just("remove_pod"), st.integers(0, 12)),
    st.tuples(st.just("set_budget"), st.integers(0, 2), apps, st.integers(0, 2), disrupted),
    st.tuples(st.just("remove_budget"), st.integers(0, 2)),
    st.tuples(st.just("nominate"), st.integers(0, 3), nodes | st.just(""), priorities, cpus),
    st.tuples(st.just("preempt"), st.integers(0, 3), st.integers(0, 5), nodes | st.just("")),
)
preemptors = st.fixed_dictionaries(
    {"cpu": st.sampled_from(("1200m", "2")), "priority": st.sampled_from((0, 5, 10))},
    optional={
        "requests": st.just({GPU: "1"}),
        "initContainers": st.just(
            [
                {
                    "name": "c",
                    "restartPolicy": "Always",
                    "ports": [{"containerPort": 80, "hostPort": 80}],
                }
            ]
        ),
        "topologySpreadConstraints": st.just([SPREAD]),
        "affinity": st.sampled_from(("podAffinity", "podAntiAffinity")).map(
            lambda kind: near(kind, "y")["affinity"]
        ),
    },
)


@pytest.mark.parametrize("sees", [DependsOn.REQUESTS, DependsOn.NODE, DependsOn.ANYTHING])
@settings(deadline=None, max_examples=100)
@given(
    enough=st.sampled_from((1, 2, 3, 100)),
    preemptor=preemptors,
    crowd=st.lists(
        st.tuples(priorities, large, st.none() | st.integers(0, 2), apps), min_size=12, max_size=12
    ),
    changes=st.lists(steps, max_size=25),
)
def test_every_decision_is_the_one_of_a_search_that_remembers_nothing(
    sees: DependsOn, enough: int, preemptor: dict[str, Any], crowd: Any, changes: Any
) -> None:
    with patch("kuberth.framework.profile.checked_inputs", restated(only="NodeResourcesFit", filter=sees)):
        world = World(enough=enough, preemptor=preemptor)
        for name in NODES:
            world.set_node(name, 2, 4, 1, False)
        for number, (priority, cpu, minute, app) in enumerate(crowd):
            world.set_pod(number, NODES[number % len(NODES)], priority, cpu, 0, minute, app, False)
        world.preempt(0, 0, "")
        for name, *details in changes:
            getattr(world, name)(*details)
            world.preempt(1, 0, "")
        world.preempt(2, 1, "")


# What is doubtful, case by case


def crowded(*, enough: int = 100) -> World:
    """Two nodes, each full with one pod of low priority: `p0` of app x on a, `p1` of app y on b."""
    world = World(enough=enough, preemptor={"cpu": "1", "priority": 10})
    for number, (name, app) in enumerate((("a", "x"), ("b", "y"))):
        world.set_node(name, 1, 4, None, closed=False)
        world.set_pod(number, name, priority=number, cpu=1000, gpus=0, minute=0, app=app, port=False)
    return world


def chosen(world: World, number: int = 0, *, nominated: str = "") -> str:
    """The node that a preemptor gets, found out twice: by the reference and with what is remembered."""
    expected = world.preempt(number, 0, nominated)
    assert expected is not None
    return expected.best[0] if expected.best else ""


@pytest.mark.parametrize(
    "constraints",
    [near("podAntiAffinity", "x"), {"topologySpreadConstraints": [SPREAD]}],
    ids=lambda each: next(iter(each)),
)
def test_a_victim_that_only_a_constraint_excludes_is_found(constraints: dict[str, Any]) -> None:
    world = World(enough=100, preemptor={"cpu": "250m", "priority": 10, **constraints})
    world.set_node("a", 2, 5, None, closed=False)
    for number in (0, 1):
        world.set_pod(number, "a", priority=0, cpu=250, gpus=0, minute=0, app="x", port=False)
    world.set_node("b", 2, 5, None, closed=False)
    world.set_pod(2, "b", priority=10, cpu=2000, gpus=0, minute=0, app="y", port=False)
    assert chosen(world) == "a"


@pytest.mark.parametrize("victims", [1, 2])
def test_a_node_that_is_too_small_without_its_pods_is_not_evaluated_pod_by_pod(victims: int) -> None:
    world = World(enough=100, preemptor={"cpu": "2", "priority": 10, **near("podAntiAffinity", "x")})
    for number, name in enumerate(NODES[:victims]):
        world.set_node(name, 2, 5, None, closed=False)
        world.set_pod(number, name, priority=0, cpu=250, gpus=0, minute=0, app="x", port=False)
        world.set_pod(number + 6, name, priority=10, cpu=250, gpus=0, minute=0, app="y", port=False)
    with patch.object(PodTrial, "__init__", side_effect=AssertionError("evaluated pod by pod")):
        decision = world.preempt(0, 0, "")
    assert decision is not None
    assert decision.best is None
    assert f"{victims} Insufficient cpu" in decision.message


def test_nominated_pods_count_in_the_reason_why_preemption_does_not_help() -> None:
    world = World(enough=100, preemptor={"cpu": "2", "priority": 10, **near("podAntiAffinity", "x")})
    world.set_node("a", 2, 2, None, closed=False)
    world.set_pod(0, "a", priority=0, cpu=250, gpus=0, minute=0, app="x", port=False)
    world.set_pod(1, "a", priority=10, cpu=250, gpus=0, minute=0, app="y", port=False)
    world.nominate(0, "a", 10, 250)
    decision = world.preempt(0, 0, "")
    assert decision is not None
    assert "Too many pods" in decision.message


def test_a_budget_that_allows_nothing_more_counts_at_once() -> None:
    world = crowded()
    world.set_budget(0, "x", 1, set())
    assert chosen(world) == "a"
    world.set_budget(0, "x", 0, set())
    assert chosen(world) == "b"
    world.set_budget(0, "x", 0, {0})
    assert chosen(world) == "a"
    world.set_budget(0, "x", 0, set())
    assert chosen(world) == "b"


def test_a_budget_that_covers_others_counts_at_once() -> None:
    world = crowded()
    world.set_budget(0, "z", 0, set())
    assert chosen(world) == "a"
    world.set_budget(0, "x", 0, set())
    assert chosen(world) == "b"
    world.remove_budget(0)
    assert chosen(world) == "a"
    world.set_budget(1, "x", 0, set())
    assert chosen(world) == "b"


def test_budgets_of_a_pod_that_left_do_not_matter_any_more() -> None:
    world = crowded()
    world.set_budget(0, "x", 1, set())
    world.set_budget(1, "y", 1, set())
    assert chosen(world) == "a"
    world.set_pod(0, "a", priority=0, cpu=1000, gpus=0, minute=0, app="y", port=False)
    assert chosen(world) == "a"
    world.set_budget(0, "x", 0, set())
    assert chosen(world) == "a"
    world.set_budget(1, "y", 0, set())
    world.set_pod(1, "b", priority=1, cpu=1000, gpus=0, minute=0, app="", port=False)
    assert chosen(world) == "b"


def test_a_nomination_counts_for_all_pods_but_its_own() -> None:
    world = crowded()
    assert chosen(world, 0) == "a"
    assert chosen(world, 1, nominated="a") == "a"
    assert chosen(world, 2) == "b"
    assert chosen(world, 1) == "a"
    assert chosen(world, 2) == "b"
    world.nominate_preemptor(1, "")
    assert chosen(world, 2) == "a"


def test_only_the_first_of_those_that_break_a_budget_are_compared() -> None:
    world = crowded(enough=1)
    world.set_pod(0, "a", priority=9, cpu=1000, gpus=0, minute=0, app="x", port=False)
    world.set_budget(0, "x", 0, set())
    world.set_budget(1, "y", 0, set())
    assert chosen(world) == "a"
    world.remove_budget(1)
    assert chosen(world) == "b"


def test_victims_are_in_order_of_importance_even_if_some_are_protected() -> None:
    world = crowded()
    world.remove_node("b")
    world.set_pod(0, "a", priority=0, cpu=500, gpus=0, minute=0, app="x", port=False)
    world.set_pod(1, "a", priority=5, cpu=500, gpus=0, minute=0, app="y", port=False)
    world.set_budget(0, "x", 0, set())
    decided = world.preempt(0, 0, "")
    assert decided is not None
    assert decided.candidates == [("a", ["default/p1", "default/p0"], 1)]


def test_a_new_nomination_counts_at_once() -> None:
    world = crowded()
    assert chosen(world) == "a"
    world.nominate(0, "a", priority=10, cpu=1000)
    assert chosen(world) == "b"


def test_a_nomination_of_a_lower_priority_does_not_count() -> None:
    world = crowded()
    assert chosen(world) == "a"
    world.nominate(0, "a", priority=9, cpu=1000)
    assert chosen(world) == "a"
    world.nominate(0, "a", priority=10, cpu=1000)
    assert chosen(world) == "b"
    world.nominate(0, "", priority=10, cpu=1000)
    assert chosen(world) == "a"


# What is not to be remembered


class Moody(PreFilterPlugin, FilterPlugin):
    """Returns a given answer for pods with a label."""

    name = "Moody"
    inputs = Inputs({"metadata.labels"}, pre_filter=DependsOn.POD, filter=DependsOn.NODE)

    def __init__(self, _args: object, _handle: object) -> None:
        self.skips = False
        self.answer: Status | None = None
        """What it says of a node from which all pods of lower priority are gone."""

    def pre_filter(self, _state: CycleState, _pod: Pod, _nodes: Nodes) -> Status | None:
        return SKIP if self.skips else None

    def filter(self, _state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        if pod.metadata.labels.get("mood") == "bad":
            return Status.unschedulable("bad mood")
        return self.answer if not node.pods else None


class Scene:
    """One full node, preemptors that share a memory, and a plugin with moods."""

    def __init__(self, *, nodes: int = 1) -> None:
        profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Moody"}]}}}
        tree = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
        names = [f"n{number}" for number in range(nodes)]
        objects: list[Any] = [make_node(name, cpu="1") for name in names]
        objects += [make_pod(f"low-{name}", node=name, cpu="1", priority=0) for name in names]
        # The memory is the scene's own, not that of the runner's plans.
        self.judge = Evaluator(objects, config=load(tree), plugins={"Moody": Moody}, with_plans=False)
        self.plugin = Watched(self.judge, enough=100)
        self.memory: Memory = {}
        moody = self.judge.runner.profile.plugins["Moody"]
        assert isinstance(moody, Moody)
        self.moody = moody

    def decide(self, *, priority: int = 10, newer: Pod | None = None) -> Decision:
        pod = make_pod("incoming", uid="incoming", cpu="1", priority=priority)
        self.judge.stores.of(Pod).set(pod if newer is None else newer)
        state, diagnosis = CycleState(PodInfo(pod)), Diagnosis()
        self.judge._cycle.search(state, pod, self.judge.runner, diagnosis)
        state.equal_pods = equal_pods_with(self.memory, priority)
        return self.plugin.decide(state, pod, diagnosis)


def plans_in(memory: Memory) -> list[VictimPlan]:
    return [plan for shared in memory.values() for plans in shared.values() for plan in plans.values()]


def test_an_equal_preemptor_is_not_judged_again() -> None:
    """The proof that anything is remembered: a plugin that violates its inputs is not called."""
    scene = Scene()
    assert scene.decide().best is not None
    scene.moody.answer = Status.unschedulable("no")
    assert scene.decide().best is not None
    scene.memory.clear()
    assert scene.decide().message == "preemption: 0/1 nodes are available: 1 no."


def test_preemptors_of_another_priority_have_other_victims() -> None:
    scene = Scene()
    assert scene.decide(priority=10).best == ("n0", ["default/low-n0"])
    assert "No preemption victims found" in scene.decide(priority=0).message
    scene.judge.add(make_pod("low-n0", uid="other", node="n0", cpu="1", priority=5))
    assert scene.decide(priority=5).best is None
    assert scene.decide(priority=10).best is not None


def test_a_failure_is_not_remembered() -> None:
    scene = Scene()
    scene.moody.answer = Status.error("out of order")
    assert "out of order" in scene.decide().message
    scene.moody.answer = None
    assert scene.decide().best is not None


def test_a_plugin_that_no_longer_skips_is_heard() -> None:
    scene = Scene()
    scene.moody.skips = True
    scene.moody.answer = Status.unschedulable("no")
    assert scene.decide().best is not None
    scene.moody.skips = False
    assert scene.decide().best is None


def test_what_was_found_for_another_version_of_the_pod_does_not_count() -> None:
    """Preemption is for the pod as it is now, which need not be the equal of the pod in the cycle."""
    scene = Scene()
    assert scene.decide().best is not None
    moody = make_pod("incoming", uid="incoming", cpu="1", priority=10, labels={"mood": "bad"})
    assert scene.decide(newer=moody).message == "preemption: 0/1 nodes are available: 1 bad mood."
    assert scene.decide().best is not None


def test_nothing_is_remembered_where_a_plugin_looks_beyond_nodes() -> None:
    with patch.object(Moody, "inputs", None):
        scene = Scene()
        assert scene.decide().best is not None
        scene.moody.answer = Status.unschedulable("no")
        assert scene.decide().best is None


def test_nothing_is_remembered_of_a_what_if() -> None:
    scene = Scene()
    (low,) = scene.judge.cluster.pods_at(0)
    with scene.judge.cluster.what_if() as what_if:
        what_if.add_pod(PodInfo(make_pod("vital", cpu="1", priority=100)), 0)
        assert "Insufficient cpu" in scene.decide().message
    assert scene.decide().best == ("n0", [low.key])


def test_all_plans_together_are_bounded() -> None:
    with patch("kuberth.plugins.default_preemption.plans.MAX_KEPT_ROWS", 5):
        scene = Scene(nodes=2)
        memories: list[Memory] = [{} for _ in range(4)]
        for memory in (*memories, memories[0], memories[2]):
            scene.memory = memory
            assert scene.decide().best is not None
        kept = [plan.size for memory in memories for plan in plans_in(memory)]
        assert sorted(kept) == [0, 0, 2, 2]
        assert (kept[0], kept[2]) == (2, 2)


def test_refusals_in_many_words_are_bounded() -> None:
    with patch("kuberth.plugins.default_preemption.plans.MAX_REFUSALS", 10):
        scene = Scene()
        for number in range(40):
            scene.moody.answer = Status.unschedulable(f"no {number}")
            scene.judge.add(make_node("n0", cpu="1"))
            assert scene.decide().message == f"preemption: 0/1 nodes are available: 1 no {number}."
        (plan,) = plans_in(scene.memory)
        assert len(plan._refusals) <= 11


def test_a_plugin_that_fails_for_one_node_fails_for_it_alone() -> None:
    """All nodes are evaluated at once over columns; then one by one, to find the node that it fails for."""
    with patch("kuberth.framework.profile.checked_inputs", restated(only="Moody", filter=DependsOn.REQUESTS)):
        scene = Scene(nodes=3)

        def fail_for_one(_state: CycleState, _pod: Pod, node: NodeRow) -> Status | None:
            if node.name == "n1" and node.pod_count == 0:
                raise LookupError("out of order")
            return None

        with patch.object(scene.moody, "filter", fail_for_one):
            decided = scene.decide()
        assert [name for name, _victims, _broken in decided.candidates] == ["n0", "n2"]
