"""What plans are for: an equal pod costs what changed since the last one, and no plugin is called twice."""

from __future__ import annotations

import types
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import KubeSchedulerConfiguration
from kuberth.evaluation import Evaluator
from kuberth.framework import (
    CycleState,
    DependsOn,
    FilterPlugin,
    Inputs,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    StateKey,
    Status,
)
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.running.calls import FEW_NODES
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.sampling import Sampler
from kuberth.testing import make_node, make_pod
from tests.unit.framework.harness import profile_config

LABELS = {"app": "a"}


POINTS_BEFORE: dict[type, str] = {PreFilterPlugin: "pre_filter", PreScorePlugin: "pre_score"}


class Noting(FilterPlugin, ScorePlugin):
    """Takes every node, and notes which ones it is asked about."""

    filtered: ClassVar[list[str]]
    scored: ClassVar[list[str]]
    prepares_from: ClassVar[DependsOn] = DependsOn.POD


class PerNode(Noting):
    def filter(self, _state: CycleState, _pod: Pod, node: NodeRow) -> Status | None:
        self.filtered.append(node.name)
        return None

    def score(self, _state: CycleState, _pod: Pod, node: NodeRow) -> int:
        self.scored.append(node.name)
        return node.pod_count


class WholeTable(Noting):
    def filter_nodes(self, _state: CycleState, _pod: Pod, nodes: Nodes) -> None:
        self.filtered.extend(nodes.names())

    def score_nodes(self, _state: CycleState, _pod: Pod, nodes: Nodes) -> Any:
        self.scored.extend(nodes.names())
        return nodes.take(nodes.table.pod_count)


def noting(form: type[Noting], name: str, depends_on: DependsOn) -> type[Noting]:
    phases: dict[str, Any] = {"filter": depends_on, "score": depends_on}
    for point, phase in POINTS_BEFORE.items():
        if issubclass(form, point):
            phases[phase] = form.prepares_from
    body = {
        "name": name,
        "inputs": Inputs({"metadata.labels"}, **phases),
        "filtered": [],
        "scored": [],
    }
    return types.new_class(name, (form,), {}, lambda namespace: namespace.update(body))


class Asked:
    """A cluster, and a plugin that looks at the node's object and one that looks at its pods."""

    def __init__(self, form: type[Noting], count: int) -> None:
        self.names = [f"n{number:02}" for number in range(count)]
        self.by_object = noting(form, "ByObject", DependsOn.NODE_OBJECT)
        self.by_pods = noting(form, "ByPods", DependsOn.NODE)
        plugins = {each.name: each for each in (self.by_object, self.by_pods)}
        profile = profile_config(["PrioritySort", "DefaultBinder", *plugins])
        self.evaluator = Evaluator(
            [make_node(name) for name in self.names],
            config=KubeSchedulerConfiguration(profiles=(profile,)),
            plugins=plugins,
        )
        self.cluster = self.evaluator.cluster
        self._cycle = SchedulingCycle(
            self.cluster, nominator=self.evaluator.nominator, metrics=self.evaluator.runner.metrics
        )

    def about(self, *, priority: int = 0) -> tuple[list[str], list[str], list[str], list[str]]:
        """About which nodes the next equal pod lets them be asked: each at Filter and at Score."""
        for each in (self.by_object, self.by_pods):
            each.filtered.clear()
            each.scored.clear()
        pod, runner = make_pod("replica", labels=LABELS, priority=priority), self.evaluator.runner
        state = CycleState(PodInfo(pod))
        found = self._cycle.search(state, pod, runner, Diagnosis())
        assert not isinstance(found, Status)
        scores = self._cycle.rank(state, pod, runner, found[0])
        assert not isinstance(scores, Status)
        return (
            sorted(self.by_object.filtered),
            sorted(self.by_pods.filtered),
            sorted(self.by_object.scored),
            sorted(self.by_pods.scored),
        )

    def place(self, *nodes: str) -> None:
        for node in nodes:
            self.cluster.add_pod(PodInfo(make_pod(f"on-{node}", node=node)))


@pytest.fixture(params=[PerNode, WholeTable], ids=["per-node", "whole-table"])
def form(request: pytest.FixtureRequest) -> type[Noting]:
    found: type[Noting] = request.param
    return found


@pytest.mark.parametrize("count", [FEW_NODES - 2, FEW_NODES + 12], ids=["few-nodes", "many-nodes"])
def test_unchanged_rows_are_not_evaluated_again(form: type[Noting], count: int) -> None:
    asked = Asked(form, count)
    everyone = asked.names
    assert asked.about() == (everyone,) * 4, "like no pod before it"
    assert asked.about() == (everyone,) * 4, "a second one like it: from now on it is worth remembering"
    assert asked.about() == ([],) * 4
    asked.place("n01")
    assert asked.about() == ([], ["n01"], [], ["n01"]), (
        "a pod came: nothing new for a plugin that reads the object"
    )
    asked.evaluator.add(make_node("n02", labels={"disk": "ssd"}))
    assert asked.about() == (["n02"],) * 4
    assert asked.about() == ([],) * 4


@pytest.mark.parametrize("some", [2, FEW_NODES + 2], ids=["few-changes", "many-changes"])
def test_only_what_was_written_to_is_asked_about(form: type[Noting], some: int) -> None:
    asked = Asked(form, FEW_NODES + 12)
    for _ in range(3):
        asked.about()
    changed = asked.names[:some]
    asked.place(*changed)
    assert asked.about() == ([], changed, [], changed)
    for name in changed:
        asked.evaluator.add(make_node(name, labels={"disk": "ssd"}))
    assert asked.about() == (changed,) * 4
    assert asked.about() == ([],) * 4


@pytest.mark.parametrize("score", [0, 100], ids=["least", "most"])
@pytest.mark.parametrize("count", [FEW_NODES - 2, FEW_NODES + 12], ids=["few-nodes", "many-nodes"])
def test_every_score_within_range_is_worth_keeping(score: int, count: int) -> None:
    class Alike(PerNode):
        def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
            super().score(state, pod, node)
            return score

    asked = Asked(Alike, count)
    for _ in range(2):
        asked.about()
    assert asked.about() == ([],) * 4


PREPARED: StateKey[str] = StateKey("prepared")


@pytest.mark.parametrize("depends_on", [DependsOn.POD, DependsOn.ANYTHING], ids=["the-pod", "all-there-is"])
def test_what_is_prepared_from_the_pod_alone_is_prepared_once(depends_on: DependsOn) -> None:
    log: list[str] = []

    class Preparing(PerNode, PreFilterPlugin, PreScorePlugin):
        prepares_from = depends_on

        def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> None:
            log.append("PreFilter")
            state.write(PREPARED, pod.metadata.labels["app"])

        def pre_score(self, state: CycleState, _pod: Pod, _nodes: Nodes) -> None:
            log.append("PreScore")
            assert state.read(PREPARED) == "a"

        def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
            assert state.read(PREPARED) == "a"
            return super().filter(state, pod, node)

    asked = Asked(Preparing, 3)
    both_plugins = ["PreFilter"] * 2 + ["PreScore"] * 2
    for _ in range(2):
        log.clear()
        asked.about()
        assert log == both_plugins
    for _ in range(2):
        log.clear()
        asked.place("n01")
        asked.about()
        assert log == ([] if depends_on is DependsOn.POD else both_plugins)
        asked.evaluator.add(make_node("n02"))


def test_what_one_plugin_writes_is_not_kept_as_anothers() -> None:
    """A plugin that is called again may write nothing this time; then nothing is there."""
    moods, seen = iter((True, True, False)), list[str | None]()

    class Moody(PreFilterPlugin):
        name = "Moody"

        def pre_filter(self, state: CycleState, _pod: Pod, _nodes: Nodes) -> None:
            if next(moods):
                state.write(PREPARED, "in a good mood")

    class Steady(PreFilterPlugin, FilterPlugin):
        name = "Steady"
        inputs = Inputs({"metadata.labels"}, pre_filter=DependsOn.POD, filter=DependsOn.ANYTHING)

        def pre_filter(self, *_: object) -> None: ...

        def filter(self, state: CycleState, _pod: Pod, _node: NodeRow) -> None:
            seen.append(state.get(PREPARED))

    profile = profile_config(["PrioritySort", "DefaultBinder", "Moody", "Steady"])
    evaluator = Evaluator(
        [make_node("n1")],
        config=KubeSchedulerConfiguration(profiles=(profile,)),
        plugins={"Moody": Moody, "Steady": Steady},
    )
    for _ in range(3):
        pod = make_pod("replica", labels=LABELS)
        state, runner = CycleState(PodInfo(pod)), evaluator.runner
        runner.pre_filtering.run(state, pod, evaluator.cluster.all_nodes())
        runner.filtering.run(state, pod, evaluator.cluster.all_nodes(), Diagnosis())
    assert seen == ["in a good mood", "in a good mood", None]


def test_nothing_but_zeros_is_normalized_once() -> None:
    normalized: list[list[int]] = []

    class Normalizing(PerNode):
        def normalize_scores(self, _state: CycleState, _pod: Pod, scores: Any) -> Any:
            normalized.append(scores.tolist())
            return 100 - scores

    asked = Asked(Normalizing, 3)
    for _ in range(2):
        asked.about()
    assert normalized == [[0, 0, 0]] * 4, "two plugins, and pods like no other before"
    asked.about()
    assert normalized == [[0, 0, 0]] * 4
    asked.place("n01")
    for _ in range(2):
        normalized.clear()
        asked.about()
        assert normalized == [[0, 1, 0]], "of the one that looks at pods: which nodes pass may differ"


def test_refusals_in_ever_new_words_are_not_all_kept() -> None:
    class Wordy(PerNode):
        def filter(self, _state: CycleState, _pod: Pod, node: NodeRow) -> Status | None:
            self.filtered.append(node.name)
            return Status.unschedulable(f"no {node.node.metadata.labels}") if node.name == "n00" else None

    asked = Asked(Wordy, 3)
    with patch("kuberth.framework.plan.MAX_REJECTIONS", 10):
        for number in range(40):
            asked.evaluator.add(make_node("n00", labels={"number": str(number)}))
            asked.about()
    plans = asked.evaluator.runner.plans
    assert plans is not None
    equal_pods = plans.find(PodInfo(make_pod("another", labels=LABELS)), asked.cluster.all_nodes())
    assert equal_pods is not None
    assert equal_pods.plan is not None
    assert len(equal_pods.plan._rejections) <= 11


def evaluated_again(asked: Asked, *, priority: int = 0) -> list[str]:
    """About which nodes a filter was asked by the next equal pod."""
    filtered, _by_pods, _scored, _by_pods_scored = asked.about(priority=priority)
    return filtered


def test_a_nomination_is_evaluated_once(form: type[Noting]) -> None:
    asked = Asked(form, FEW_NODES + 12)
    for _ in range(3):
        asked.about()
    nominated = PodInfo(make_pod("nominated", priority=9))
    asked.evaluator.nominator.nominate(nominated, "n03")
    assert evaluated_again(asked) == ["n03"]
    assert evaluated_again(asked) == []
    asked.place("n03", "n04")
    assert evaluated_again(asked) == ["n03"], "with the new pod there, the nomination may mean something else"
    asked.evaluator.nominator.nominate(nominated, "n05")
    assert evaluated_again(asked) == ["n05"]
    asked.evaluator.nominator.withdraw(nominated.pod)
    assert evaluated_again(asked) == []


def test_a_nomination_is_judged_once_for_each_priority(form: type[Noting]) -> None:
    asked = Asked(form, FEW_NODES + 12)
    for priority in (1, 9, 10):
        for _ in range(3):
            asked.about(priority=priority)
    asked.evaluator.nominator.nominate(PodInfo(make_pod("nominated", priority=9)), "n03")
    for expected in (["n03"], []):
        assert evaluated_again(asked, priority=1) == expected
        assert evaluated_again(asked, priority=9) == expected
        assert evaluated_again(asked, priority=10) == [], "it may push the nominated pod aside"


class Stretches(Asked):
    """Enough nodes that a search looks at only a third of them."""

    def __init__(self, form: type[Noting], nodes: int = 300) -> None:
        super().__init__(form, nodes)
        self.sampler = Sampler()
        self._cycle = SchedulingCycle(
            self.cluster,
            nominator=self.evaluator.nominator,
            metrics=self.evaluator.runner.metrics,
            percentage_of_nodes_to_score=34 if nodes == 300 else 16,
            sampling=self.sampler,
        )

    def about_from(self, start: int) -> tuple[list[str], list[str], list[str], list[str]]:
        self.sampler.position = start
        return self.about()

    def stretch(self, begin: int, end: int) -> list[str]:
        order = self.cluster.node_order()
        return sorted(self.cluster.names[row] for row in order.twice[begin:end].tolist())


ENOUGH_OF_600 = 100


def test_rows_that_were_never_met_are_judged_with_their_neighbours(form: type[Noting]) -> None:
    asked = Stretches(form)
    asked.about_from(100)
    filtered, _, scored, _ = asked.about_from(100)
    assert filtered == scored == sorted(asked.names), (
        "as many before and after the stretch are the whole round"
    )
    for start in (0, 99, 102, 200, 299):
        assert asked.about_from(start) == ([],) * 4


def test_neighbours_are_as_many_as_the_stretch_on_both_sides(form: type[Noting]) -> None:
    asked = Stretches(form, nodes=600)
    asked.about_from(50)
    filtered, _, scored, _ = asked.about_from(50)
    length = ENOUGH_OF_600 + 1
    near = asked.stretch(600 + 50 - length, 600 + 50 + 2 * length)
    assert filtered == scored == near
    for start in (0, 45, 50, 60):
        assert asked.about_from(start) == ([],) * 4
    filtered, _, _, _ = asked.about_from(300)
    assert filtered == sorted(set(asked.stretch(300 - length, 300 + 2 * length)) - set(near)), "no row twice"


@pytest.mark.parametrize("point", ["filter", "score"])
def test_a_failure_on_another_node_is_no_failure(point: str) -> None:
    def failing(_self: Noting, _state: CycleState, _pod: Pod, node: NodeRow) -> int | None:
        if node.name == "n250":
            raise ValueError("not this one")
        return None if point == "filter" else 0

    with patch.object(PerNode, point, failing):
        asked = Stretches(PerNode)
        row = asked.cluster.row_of("n250")
        place = asked.cluster.node_order().twice.tolist().index(row)
        far = (place + 150) % 300
        for start in (far, far, far, far + 2, far + 4):
            asked.about_from(start % 300)  # a Status would be a failure
        with pytest.raises(AssertionError):
            asked.about_from((place - 10) % 300)


@pytest.mark.parametrize("some", [2, FEW_NODES + 2], ids=["few-changes", "many-changes"])
def test_more_changes_than_are_remembered_are_all_followed(form: type[Noting], some: int) -> None:
    with patch("kuberth.changes.REMEMBERED_CHANGES", 8):
        asked = Asked(form, FEW_NODES + 12)
        for _ in range(3):
            asked.about()
        changed = asked.names[:some]
        for _ in range(8):
            asked.place(*changed)
        assert asked.about() == ([], changed, [], changed)
        for _ in range(8):
            for name in changed:
                asked.evaluator.add(make_node(name, labels={"disk": "ssd"}))
        assert asked.about() == (changed,) * 4
        assert asked.about() == ([],) * 4
