"""Every rule of the contract notices a plugin that breaks it, and says how."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from examples.prefer_quiet_nodes import PreferQuietNodes
from examples.team_budgets import TeamBudgets

from kuberth.api.core import Pod
from kuberth.assembly.profiles import full_registry
from kuberth.cluster.nodes import NodeRow, Nodes
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
    Plugin,
    PreEnqueuePlugin,
    QueueSortPlugin,
    Resource,
    ScorePlugin,
    Status,
    Verdict,
)
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue import PriorityQueue
from kuberth.testing import assert_keeps_contract, check_plugin, make_pod
from kuberth.testing.plugin_contract import RuleFinding, RuleOutcome
from kuberth.testing.random_clusters import words_of

NODE_CHANGES = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE)
REJECTED = Status.unresolvable("node(s) have another color")


def found(plugin: type[Plugin], rule: str, **options: Any) -> RuleFinding:
    report = check_plugin(plugin, timed=False, **{"clusters": 8, **options})
    return {each.rule: each for each in report.findings}[rule]


class Colors(FilterPlugin, ScorePlugin, EnqueueExtensions):
    """Keeps every rule."""

    name = "Colors"
    inputs = Inputs({"metadata.labels"}, filter=DependsOn.NODE_OBJECT, score=DependsOn.REQUESTS)

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        wanted = pod.metadata.labels.get("color")
        return REJECTED if wanted and node.labels.get("color") != wanted else None

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return min(node.pod_count, 100)

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [EventWithHint(NODE_CHANGES, self.hint)]

    def hint(self, pod: Pod, old: object, new: object) -> Hint:
        return Hint.QUEUE


def test_a_plugin_that_keeps_every_rule() -> None:
    report = check_plugin(Colors, clusters=20)
    assert [(each.rule, each.outcome) for each in report.findings] == [
        ("construction", RuleOutcome.OK),
        ("arguments", RuleOutcome.SKIPPED),
        ("answers", RuleOutcome.OK),
        ("determinism", RuleOutcome.OK),
        ("forms", RuleOutcome.OK),
        ("statement", RuleOutcome.OK),
        ("events", RuleOutcome.OK),
        ("hints", RuleOutcome.OK),
    ]
    assert report.is_kept
    assert [each.point for each in report.timings] == ["filter", "score"]
    assert all(each.microseconds > 0 and each.reference_microseconds > 0 for each in report.timings)


class Moody(Colors):
    name = "Moody"
    chance = random.Random(1)

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return self.chance.randrange(100)


class Counting(Colors):
    """Another answer for every pod it was asked about before."""

    name = "Counting"

    def __init__(self, args: object, handle: object) -> None:
        self.asked = 0

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        self.asked += 1
        return REJECTED if self.asked % 7 == 0 else None


class Disagreeing(Colors):
    name = "Disagreeing"

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        return None


class LookingAround(Colors):
    """Judges a node by the others of the view."""

    name = "LookingAround"

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return np.arange(len(nodes), dtype=np.int64)


class ReadingMore(Colors):
    name = "ReadingMore"

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return REJECTED if pod.metadata.annotations.get("color") else None


class CountingPods(Colors):
    """Its scores depend on more than the node's object, which its statement does not say."""

    name = "CountingPods"
    inputs = Inputs({"metadata.labels"}, filter=DependsOn.NODE_OBJECT, score=DependsOn.NODE_OBJECT)


class Deaf(Colors):
    name = "Deaf"

    def hint(self, pod: Pod, old: object, new: object) -> Hint:
        return Hint.SKIP


class NotRegistered(Colors):
    name = "NotRegistered"

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [EventWithHint(ClusterEvent(Resource.NODE, Action.DELETE), None)]


class Raising(Colors):
    name = "Raising"

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        raise ValueError("no idea")


class TooHigh(Colors):
    name = "TooHigh"

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return 101


class StatedLate(FilterPlugin):
    """A wrong statement that only an instance has."""

    name = "StatedLate"

    def __init__(self, args: object, handle: object) -> None:
        self.inputs = Inputs((), filter=DependsOn.NODE_OBJECT)

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return REJECTED if "late" in pod.metadata.annotations else None


class EmptyHanded(PriorityQueue):
    """A queue that loses its pods."""

    def pop_nowait(self) -> QueuedPod | None:
        return None


@pytest.mark.parametrize(
    "plugin, rule, words",
    [
        pytest.param(Moody, "determinism", "asked twice: pod", id="other-scores"),
        pytest.param(Counting, "determinism", "asked twice: pod", id="other-verdicts"),
        pytest.param(Disagreeing, "forms", "filter_nodes gives", id="forms-disagree"),
        pytest.param(LookingAround, "forms", "score_nodes of one node gives", id="beyond-the-view"),
        pytest.param(ReadingMore, "statement", "reads 'metadata.annotations' in filter", id="unstated-field"),
        pytest.param(StatedLate, "statement", "reads 'metadata.annotations' in filter", id="of-an-instance"),
        pytest.param(CountingPods, "statement", "pod_count", id="unstated-column"),
        pytest.param(Deaf, "hints", "its hint says Skip: the pod would go on waiting", id="wrong-hint"),
        pytest.param(NotRegistered, "hints", "it is not registered for it", id="no-such-event"),
        pytest.param(Raising, "answers", "no idea", id="raises"),
        pytest.param(TooHigh, "answers", "101", id="score-too-high"),
    ],
)
def test_a_broken_rule_is_named(plugin: type[Plugin], rule: str, words: str) -> None:
    finding = found(plugin, rule)
    assert finding.outcome is RuleOutcome.FAILED
    assert words in finding.message
    with pytest.raises(AssertionError, match=rule):
        assert_keeps_contract(plugin, clusters=8)


class Silent(FilterPlugin):
    name = "Silent"

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return REJECTED


class Resigned(Silent, EnqueueExtensions):
    name = "Resigned"

    def events_to_register(self) -> Iterable[EventWithHint]:
        return []


class NeverRejecting(Colors):
    name = "NeverRejecting"

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        return REJECTED if pod.metadata.name == "mine" else None


@pytest.mark.parametrize(
    "plugin, rule, words",
    [
        pytest.param(Silent, "statement", "states no `inputs`", id="no-statement"),
        pytest.param(Silent, "events", "every event brings back", id="no-events"),
        pytest.param(Resigned, "events", "waits until the pod itself changes", id="empty-events"),
        pytest.param(NeverRejecting, "answers", "--pods FILE", id="branch-not-reached"),
    ],
)
def test_what_an_author_should_know_is_a_warning(plugin: type[Plugin], rule: str, words: str) -> None:
    finding = found(plugin, rule, clusters=5)
    assert finding.outcome is RuleOutcome.WARNING
    assert words in finding.message


def test_pods_of_the_author_reach_other_branches() -> None:
    assert found(NeverRejecting, "answers", clusters=2, pods=[make_pod("mine")]).outcome is RuleOutcome.OK


class Args(msgspec.Struct, frozen=True):
    color: str


class NeedsArgs(Colors):
    name = "NeedsArgs"
    args_type = Args

    def __init__(self, args: Args, handle: object) -> None:
        self.color = args.color


def test_arguments_that_do_not_decode() -> None:
    (finding,) = check_plugin(NeedsArgs, args={"color": 3}).findings
    assert finding.outcome is RuleOutcome.FAILED
    assert "color" in finding.message
    assert found(NeedsArgs, "arguments", args={"color": "red"}).outcome is RuleOutcome.OK


def test_a_plugin_that_cannot_be_made() -> None:
    class Broken(Colors):
        name = "Broken"

        def __init__(self, args: object, handle: object) -> None:
            raise RuntimeError("no database")

    (finding,) = check_plugin(Broken).findings
    assert finding.outcome is RuleOutcome.FAILED
    assert "no database" in finding.message


class Sorting(QueueSortPlugin):
    name = "Sorting"

    def sort_key(self, queued: QueuedPod) -> int:
        return queued.timestamp_ns


class Gate(PreEnqueuePlugin):
    name = "Gate"

    def pre_enqueue(self, pod: Pod) -> None:
        return None


@pytest.mark.parametrize("plugin", [Sorting, Gate, PreferQuietNodes, TeamBudgets])
def test_plugins_at_other_points_and_the_examples_keep_it(plugin: type[Plugin]) -> None:
    assert_keeps_contract(plugin, clusters=10)


@pytest.mark.parametrize(
    "name", ["NodeAffinity", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeResourcesFit"]
)
def test_in_tree_plugins_keep_it(name: str) -> None:
    plugin = full_registry()[name]
    assert isinstance(plugin, type)
    assert_keeps_contract(plugin, clusters=8)


def test_words_of_a_plugin() -> None:
    assert {"color"} <= set(words_of(Colors))
    assert {"quiet", "guest", "true"} <= set(words_of(PreferQuietNodes))
