"""Every rule of the contract notices a plugin that breaks it, and says how."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from benchmarks.plugins import QuietAtOnce
from examples.prefer_quiet_nodes import PreferQuietNodes
from examples.team_budgets import TeamBudgets

from kuberth.api.core import Pod
from kuberth.assembly.profiles import full_registry
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.framework import (
    SKIP,
    Action,
    BindPlugin,
    ClusterEvent,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    Handle,
    Hint,
    Inputs,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
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
        ("scheduling", RuleOutcome.OK),
        ("objects", RuleOutcome.OK),
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


def raising(*_given: object) -> Any:
    raise ZeroDivisionError("divided")


def seven(*_given: object) -> Any:
    return 7


def endless(*_given: object) -> Any:
    return Status.wait("")


def mixed(_self: object, queued: QueuedPod) -> Any:
    return queued.key if "pod-1" in queued.key else 1


async def refusing(*_given: object) -> Any:
    raise OSError("no disk")


def nothing(*_given: object) -> None:
    return None


RESERVE = {"reserve": nothing, "unreserve": nothing}
EXPECTED = "returned 7 where a Status or None is expected"


@pytest.mark.parametrize(
    "base, methods, words",
    [
        pytest.param(PreEnqueuePlugin, {"pre_enqueue": raising}, "PreEnqueue: ZeroDivisionError", id="gate"),
        pytest.param(PreEnqueuePlugin, {"pre_enqueue": seven}, f"PreEnqueue: {EXPECTED}", id="gate-7"),
        pytest.param(QueueSortPlugin, {"sort_key": raising}, "QueueSort; ", id="sort"),
        pytest.param(QueueSortPlugin, {"sort_key": nothing}, "sort_key returned None", id="sort-none"),
        pytest.param(QueueSortPlugin, {"sort_key": mixed}, "not supported", id="sort-mixed"),
        pytest.param(QueueSortPlugin, {"less": raising}, "QueueSort; ordering", id="less"),
        pytest.param(PostFilterPlugin, {"post_filter": raising}, "PostFilter: ZeroDivision", id="make-room"),
        pytest.param(PostFilterPlugin, {"post_filter": seven}, "a tuple (PostFilterResult", id="make-room-7"),
        pytest.param(ReservePlugin, {**RESERVE, "reserve": raising}, "at Reserve: Zero", id="reserve"),
        pytest.param(ReservePlugin, {**RESERVE, "reserve": seven}, f"Reserve: {EXPECTED}", id="reserve-7"),
        pytest.param(ReservePlugin, {**RESERVE, "unreserve": raising}, "at Unreserve: Zero", id="unreserve"),
        pytest.param(
            ReservePlugin, {**RESERVE, "unreserve": seven}, "where nothing is expected", id="unreserve-7"
        ),
        pytest.param(PermitPlugin, {"permit": raising}, "at Permit: ZeroDivisionError", id="permit"),
        pytest.param(PermitPlugin, {"permit": endless}, "PermitResult.wait(seconds) is expected", id="wait"),
        pytest.param(PermitPlugin, {"permit": seven}, "a PermitResult, a Status or None", id="permit-7"),
        pytest.param(PreBindPlugin, {"pre_bind": refusing}, "at PreBind: OSError: no disk", id="pre-bind"),
        pytest.param(PreBindPlugin, {"pre_bind": seven}, f"PreBind: {EXPECTED}", id="pre-bind-7"),
        pytest.param(
            PreBindPlugin,
            {"pre_bind": nothing, "pre_bind_pre_flight": seven},
            f"PreBindPreFlight: {EXPECTED}",
            id="pre-flight-7",
        ),
        pytest.param(BindPlugin, {"bind": raising}, "at Bind: ZeroDivisionError: divided", id="bind"),
        pytest.param(BindPlugin, {"bind": seven}, f"at Bind: {EXPECTED}", id="bind-7"),
        pytest.param(PostBindPlugin, {"post_bind": raising}, "at PostBind: Zero", id="post-bind"),
        pytest.param(PostBindPlugin, {"post_bind": seven}, "where nothing is expected", id="post-bind-7"),
    ],
)
def test_what_a_plugin_does_wrong_at_other_points_is_found(
    base: type[Plugin], methods: dict[str, Any], words: str
) -> None:
    plugin = type("Bad", (base,), {"name": "Bad", **methods})
    finding = found(plugin, "scheduling", clusters=3)
    assert finding.outcome is RuleOutcome.FAILED
    assert words in finding.message


def test_the_points_of_pods_that_are_placed_must_be_reached() -> None:
    class Rejecting(FilterPlugin, PostBindPlugin):
        name = "Rejecting"

        def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
            return REJECTED

        def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            return None

    finding = found(Rejecting, "scheduling", clusters=2)
    assert finding.outcome is RuleOutcome.WARNING
    assert "none reached postBind; give it pods of yours (--pods FILE)" in finding.message


def test_a_plugin_whose_start_fails_is_a_warning() -> None:
    class Calling(Gate):
        name = "Calling"

        def start(self) -> None:
            raise ConnectionError("no database")

    finding = found(Calling, "scheduling", clusters=2)
    assert finding.outcome is RuleOutcome.WARNING
    assert "no database" in finding.message


def test_a_task_or_a_close_that_fails_is_found() -> None:
    class Spawning(PostBindPlugin):
        name = "Spawning"

        def __init__(self, args: object, handle: Handle) -> None:
            self._handle = handle

        def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            self._handle.spawn(refusing(), name="report")

    class Closing(Gate):
        name = "Closing"

        def close(self) -> None:
            raise OSError("no disk")

    for plugin in (Spawning, Closing):
        finding = found(plugin, "scheduling", clusters=2)
        assert finding.outcome is RuleOutcome.FAILED
        assert "OSError: no disk" in finding.message


def test_errors_of_the_trial_are_logged_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    found(type("Bad", (PermitPlugin,), {"name": "Bad", "permit": seven}), "scheduling", clusters=2)
    assert caplog.records == []


def test_a_check_within_an_event_loop() -> None:
    """As in a notebook."""

    async def main() -> None:
        assert_keeps_contract(Gate, clusters=1)

    asyncio.run(main())


class Relabelling(Colors):
    name = "Relabelling"

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        labels: Any = pod.metadata.labels
        labels["seen"] = "yes"
        return 0


class Annotating(ReservePlugin):
    name = "Annotating"

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        annotations: Any = pod.metadata.annotations
        annotations["node"] = node_name

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        annotations: Any = pod.metadata.annotations
        annotations.pop("node", None)


class RelabellingNodes(Colors):
    name = "RelabellingNodes"

    def hint(self, pod: Pod, old: object, new: Any) -> Hint:
        new.metadata.labels["seen"] = "yes"
        return Hint.QUEUE


@pytest.mark.parametrize(
    "plugin, words",
    [
        pytest.param(Relabelling, "score changes metadata.labels of pod pod-", id="labels"),
        pytest.param(Annotating, "reserve changes metadata.annotations of pod pod-", id="annotations"),
        pytest.param(RelabellingNodes, "its hint changes metadata.labels of node node-", id="node"),
    ],
)
def test_a_plugin_that_changes_what_it_is_given(plugin: type[Plugin], words: str) -> None:
    finding = found(plugin, "objects", clusters=4)
    assert finding.outcome is RuleOutcome.FAILED
    assert words in finding.message
    assert "change a copy" in finding.message


@pytest.mark.parametrize(
    "hint, words",
    [
        pytest.param(
            raising, "its hint for NodeAdd of node node-new: ZeroDivisionError: divided", id="raises"
        ),
        pytest.param(seven, "returned 7 where a Hint is expected", id="7"),
        pytest.param(nothing, "returned None where a Hint is expected", id="None"),
    ],
)
def test_a_hint_that_fails(hint: Any, words: str) -> None:
    finding = found(type("BadHint", (Colors,), {"name": "BadHint", "hint": hint}), "hints")
    assert finding.outcome is RuleOutcome.FAILED
    assert words in finding.message


def test_hints_that_were_not_tried() -> None:
    finding = found(NeverRejecting, "hints", clusters=2)
    assert finding.outcome is RuleOutcome.SKIPPED
    assert finding.message.startswith("none tried")


def test_the_time_is_that_of_pods_which_the_plugin_does_not_skip() -> None:
    class Rare(Colors, PreFilterPlugin):
        name = "Rare"
        inputs = Inputs(
            {"metadata.labels", "metadata.name"},
            pre_filter=DependsOn.POD,
            filter=DependsOn.NODE_OBJECT,
            score=DependsOn.REQUESTS,
        )

        def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
            return None if pod.metadata.name == "mine" else SKIP

    report = check_plugin(Rare, clusters=2)
    assert [each.point for each in report.timings] == ["score"]
    assert report.findings[-1].rule == "time"
    assert "filter is not measured: it skips every pod" in report.findings[-1].message
    report = check_plugin(Rare, clusters=2, pods=[make_pod("mine")])
    assert [each.point for each in report.timings] == ["filter", "score"]
    assert report.findings[-1].rule != "time"


@pytest.mark.parametrize(
    "kind", [dict, dict[str, int], "MyArgs", lambda: None], ids=["dict", "generic", "name", "function"]
)
def test_an_args_type_that_is_no_struct(kind: Any) -> None:
    plugin = type("Loose", (Gate,), {"name": "Loose", "args_type": kind})
    (finding,) = check_plugin(plugin).findings
    assert finding.outcome is RuleOutcome.FAILED
    assert "derive it from msgspec.Struct" in finding.message


def test_an_args_type_whose_types_are_unknown() -> None:
    args = type("Args", (msgspec.Struct,), {"__annotations__": {"weight": "Missing"}, "__module__": __name__})
    (finding,) = check_plugin(type("Typo", (Gate,), {"name": "Typo", "args_type": args})).findings
    assert (finding.rule, finding.outcome) == ("construction", RuleOutcome.FAILED)
    assert "'Missing' is not defined" in finding.message


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


@pytest.mark.parametrize("plugin", [Sorting, Gate, PreferQuietNodes, QuietAtOnce, TeamBudgets])
def test_plugins_at_other_points_and_the_examples_keep_it(plugin: type[Plugin]) -> None:
    assert_keeps_contract(plugin, clusters=10)


@pytest.mark.parametrize(
    "name",
    ["NodeAffinity", "NodeName", "NodeUnschedulable", "TaintToleration", "NodeResourcesFit", "DefaultBinder"],
)
def test_in_tree_plugins_keep_it(name: str) -> None:
    plugin = full_registry()[name]
    assert isinstance(plugin, type)
    assert_keeps_contract(plugin, clusters=8)


def test_words_of_a_plugin() -> None:
    assert {"color"} <= set(words_of(Colors))
    assert {"quiet", "guest", "true"} <= set(words_of(PreferQuietNodes))
