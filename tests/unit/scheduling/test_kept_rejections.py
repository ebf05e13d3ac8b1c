"""A pod that fits nowhere is rejected as an equal pod was, for as long as nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import (
    DependsOn,
    FilterPlugin,
    Inputs,
    Plugin,
    PostFilterPlugin,
    PreFilterPlugin,
    Status,
)
from kuberth.framework.status import SKIP
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import NO_NODES, Rejection
from kuberth.testing import make_node, make_pod
from tests.unit.framework.harness import plugin
from tests.unit.scheduling.harness import CycleHarness, make_harness

LABELS = {"metadata.labels"}


def with_inputs(made: type[Plugin], inputs: Inputs | None) -> type[Plugin]:
    made.inputs = inputs
    return made


def full(log: list[str], inputs: Inputs | None, **methods: Any) -> type[Plugin]:
    """A filter that lets a pod onto a node only while no other pod is there."""
    points = [FilterPlugin, *([PreFilterPlugin] if "pre_filter" in methods else [])]

    def judge(_state: object, _pod: object, node: Any) -> Status | None:
        return Status.unschedulable("taken") if node.pod_count else None

    return with_inputs(plugin("Full", *points, log=log, filter=judge, **methods), inputs)


def mending(log: list[str], inputs: Inputs | None, words: Callable[[], str] = lambda: "none") -> type[Plugin]:
    return with_inputs(
        plugin(
            "Mending",
            PostFilterPlugin,
            log=log,
            post_filter=lambda *_: (None, Status.unschedulable(words())),
        ),
        inputs,
    )


def far_from_others(log: list[str]) -> type[Plugin]:
    """A filter that lets a pod onto a node only while no pod is on any node."""

    def judge(_state: object, _pod: object, node: Any) -> Status | None:
        return Status.unschedulable("others are near") if node.pod_count else None

    return with_inputs(plugin("Far", FilterPlugin, log=log, filter=judge), OF_CLUSTER)


def taken(*plugins: type[Plugin], check_every: int = 0) -> CycleHarness:
    """Two nodes with a pod each."""
    harness = make_harness(*plugins, nodes=("a", "b"), check_every=check_every)
    for name in ("a", "b"):
        harness.made.cluster.add_pod(PodInfo(make_pod(f"on-{name}", uid=f"on-{name}", node=name)))
    return harness


def rejections(harness: CycleHarness, number: int) -> list[Rejection]:
    return [harness.reject(make_pod(f"p{each}")) for each in range(number)]


@pytest.mark.parametrize("in_bulk", [True, False])
def test_preemption_counts_as_tried_for_every_pod(in_bulk: bool) -> None:
    """As kube-scheduler counts, which asks PostFilter about each of them."""
    harnesses: list[CycleHarness] = []

    def words() -> str:
        harnesses[0].made.metrics.preemption_attempts.inc()
        return "none"

    harness = taken(full([], OF_NODE), mending([], ALONE, words))
    harnesses.append(harness)
    if in_bulk:
        harness.add(*(make_pod(f"p{each}") for each in range(6)))
        while harness.loop.schedule_one():
            pass
    else:
        rejections(harness, 6)
    assert harness.made.metrics.preemption_attempts.values == {(): 6}
    assert harness.made.metrics.repeated_rejections.values == ({("default-scheduler",): 4} if in_bulk else {})


OF_NODE = Inputs(LABELS, filter=DependsOn.NODE)
OF_CLUSTER = Inputs(LABELS, filter=DependsOn.CLUSTER)
ALONE = Inputs((), post_filter=DependsOn.POD)


@pytest.mark.parametrize("inputs", [OF_NODE, OF_CLUSTER], ids=["node", "cluster"])
def test_no_plugin_is_asked_about_the_third_equal_pod(inputs: Inputs) -> None:
    log: list[str] = []
    harness = taken(full(log, inputs), mending(log, ALONE))
    first, second = rejections(harness, 2)
    log.clear()
    third = harness.reject(make_pod("third"))
    assert log == []
    assert third.is_repeated
    assert not second.is_repeated
    assert (third.status, third.nomination) == (first.status, first.nomination)
    assert third.status.message == "0/2 nodes are available: 2 taken. none"
    (timed,) = harness.made.metrics.algorithm_duration.values.values()
    assert timed.count == 3, "an attempt that asks no plugin is timed, too"


@pytest.mark.parametrize("inputs", [OF_NODE, OF_CLUSTER], ids=["node", "cluster"])
def test_a_pod_that_leaves_lets_the_next_one_in(inputs: Inputs) -> None:
    harness = taken(full([], inputs), mending([], ALONE))
    rejections(harness, 3)
    harness.made.cluster.remove_pod("on-b")
    placed = harness.decide(make_pod("next"))
    assert isinstance(placed, Placement)
    assert placed.node_name == "b"


OF_VERDICTS = Inputs((), post_filter=DependsOn.CLUSTER)


def come(harness: CycleHarness, *nodes: str) -> None:
    """Another pod comes to each of these nodes."""
    for number, node in enumerate(nodes):
        harness.made.cluster.add_pod(PodInfo(make_pod(f"more-{number}", uid=f"more-{number}", node=node)))


@pytest.mark.parametrize("nodes, changed", [(2, 1), (30, 1), (30, 20)], ids=["few", "one of many", "many"])
def test_only_changed_nodes_are_judged_again_and_the_rejection_holds(nodes: int, changed: int) -> None:
    log: list[str] = []
    names = [f"n{number}" for number in range(nodes)]
    harness = make_harness(full(log, OF_NODE), mending(log, ALONE), nodes=names)
    for name in names:
        harness.made.cluster.add_pod(PodInfo(make_pod(f"on-{name}", uid=f"on-{name}", node=name)))
    _first, second = rejections(harness, 2)
    come(harness, *names[:changed])
    log.clear()
    third = harness.reject(make_pod("third"))
    assert log == ["Full.filter"] * changed
    assert third.is_repeated
    assert third.status is second.status


@pytest.mark.parametrize("changed", [1, 20])
def test_another_reason_is_another_rejection(changed: int) -> None:
    def judge(_state: object, _pod: object, node: Any) -> Status | None:
        return Status.unschedulable(f"holds {node.pod_count}")

    names = [f"n{number}" for number in range(30)]
    counting = with_inputs(plugin("Counting", FilterPlugin, filter=judge), OF_NODE)
    harness = make_harness(counting, mending([], ALONE), nodes=names)
    rejections(harness, 3)
    come(harness, *names[:changed])
    next_one = harness.reject(make_pod("next"))
    assert not next_one.is_repeated
    counts = ", ".join(sorted([f"{30 - changed} holds 0", f"{changed} holds 1"]))
    assert next_one.status.message == f"0/30 nodes are available: {counts}. none"
    assert harness.reject(make_pod("after")).status is next_one.status


def test_a_node_that_comes_is_counted() -> None:
    harness = taken(full([], OF_NODE), mending([], ALONE))
    rejections(harness, 3)
    harness.made.cluster.set_node(make_node("c"))
    harness.made.cluster.add_pod(PodInfo(make_pod("on-c", uid="on-c", node="c")))
    assert harness.reject(make_pod("next")).status.message == "0/3 nodes are available: 3 taken. none"


def test_without_nodes_nothing_is_said_of_nodes() -> None:
    harness = taken(full([], OF_NODE), mending([], ALONE))
    rejections(harness, 3)
    for name in ("a", "b"):
        harness.made.cluster.remove_pod(f"on-{name}")
        harness.made.cluster.remove_node(name)
    assert harness.reject(make_pod("next")).status.message == NO_NODES


@pytest.mark.parametrize("kept_too", [True, False])
def test_a_verdict_that_follows_other_nodes_ends_with_the_next_change(kept_too: bool) -> None:
    """Unless another filter, which follows each node alone, rejects all nodes before it is asked."""
    log: list[str] = []
    harness = taken(*([full(log, OF_NODE)] if kept_too else []), far_from_others(log), mending(log, ALONE))
    rejections(harness, 3)
    come(harness, "a")
    log.clear()
    assert harness.reject(make_pod("next")).is_repeated is kept_too
    assert log == (["Full.filter"] if kept_too else ["Far.filter", "Far.filter", "Mending.post_filter"])


@pytest.mark.parametrize(
    "follows, asked",
    [(None, True), (lambda _info: False, True), (ValueError("broken"), True), (lambda _info: True, False)],
    ids=["not stated", "no", "fails", "yes"],
)
def test_postfilter_is_asked_again_unless_it_follows_verdicts(
    follows: Any, asked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    methods = {} if follows is None else {"follows_verdicts": follows}
    none = (None, Status.unschedulable("none"))
    mend = plugin("Mending", PostFilterPlugin, log=log, post_filter=lambda *_: none, **methods)
    harness = taken(full([], OF_NODE), with_inputs(mend, OF_VERDICTS))
    rejections(harness, 3)
    come(harness, "a")
    log.clear()
    assert harness.reject(make_pod("next")).is_repeated is not asked
    assert ("Mending.post_filter" in log) is asked
    assert ("plugin 'Mending' failed at follows_verdicts" in caplog.text) is isinstance(follows, ValueError)


def test_an_answer_of_postfilter_that_followed_more_ends_with_the_next_change() -> None:
    """Although it would follow the verdicts alone by now."""
    follows = [False]
    mend = plugin(
        "Mending",
        PostFilterPlugin,
        post_filter=lambda *_: (None, Status.unschedulable("none")),
        follows_verdicts=lambda _info: follows[0],
    )
    harness = taken(full([], OF_NODE), with_inputs(mend, OF_VERDICTS))
    rejections(harness, 3)
    follows[0] = True
    come(harness, "a")
    assert not harness.reject(make_pod("next")).is_repeated


def test_a_filter_that_fails_for_a_changed_node_fails_the_attempt() -> None:
    broken: list[str] = []

    def judge(_state: object, _pod: object, node: Any) -> Status | None:
        if node.name in broken:
            raise ValueError("broken")
        return Status.unschedulable("taken")

    harness = taken(with_inputs(plugin("Full", FilterPlugin, filter=judge), OF_NODE), mending([], ALONE))
    rejections(harness, 3)
    broken.append("a")
    come(harness, "a")
    assert "broken" in harness.reject(make_pod("next")).status.message


@pytest.mark.parametrize(
    "filter_inputs, mending_inputs, asked",
    [
        (None, ALONE, {"Full.filter", "Mending.post_filter"}),
        (Inputs(LABELS, filter=DependsOn.ANYTHING), ALONE, {"Full.filter", "Mending.post_filter"}),
        (OF_NODE, None, {"Mending.post_filter"}),
        (OF_NODE, Inputs((), post_filter=DependsOn.ANYTHING), {"Mending.post_filter"}),
    ],
    ids=[
        "filter states nothing",
        "filter of anything",
        "PostFilter states nothing",
        "PostFilter of anything",
    ],
)
def test_plugins_that_depend_on_more_are_asked(
    filter_inputs: Inputs | None, mending_inputs: Inputs | None, asked: set[str]
) -> None:
    log: list[str] = []
    harness = taken(full(log, filter_inputs), mending(log, mending_inputs))
    rejections(harness, 2)
    log.clear()
    assert not harness.reject(make_pod("third")).is_repeated
    assert set(log) == asked


def unstated(log: list[str], answers: dict[str, Status] | None = None) -> type[Plugin]:
    """A filter without `inputs` that rejects the nodes for which it has an answer."""

    def judge(_state: object, _pod: object, node: Any) -> Status | None:
        return (answers or {}).get(node.name)

    return with_inputs(plugin("Unstated", FilterPlugin, log=log, filter=judge), None)


@pytest.mark.parametrize("change", [None, "a"], ids=["no change", "another pod"])
def test_a_filter_without_inputs_that_is_not_called_ends_no_rejection(change: str | None) -> None:
    log: list[str] = []
    harness = taken(full(log, OF_NODE), unstated(log), mending(log, ALONE))
    _first, second = rejections(harness, 2)
    if change:
        come(harness, change)
    log.clear()
    third = harness.reject(make_pod("third"))
    assert third.is_repeated
    assert third.status is second.status
    assert log == ["Full.filter"] * bool(change)


def test_a_filter_without_inputs_is_called_where_others_accept_the_pod() -> None:
    log: list[str] = []
    answers = {"b": Status.unschedulable("not today")}
    harness = taken(full(log, OF_NODE), unstated(log, answers), mending([], ALONE))
    harness.made.cluster.remove_pod("on-b")
    assert not any(each.is_repeated for each in rejections(harness, 4))
    answers["b"] = Status.unschedulable("not tomorrow")
    assert "1 not tomorrow" in harness.reject(make_pod("next")).status.message
    answers.clear()
    assert isinstance(harness.decide(make_pod("last")), Placement)


def test_a_filter_without_inputs_is_called_again_when_a_node_is_free() -> None:
    log: list[str] = []
    answers = {"b": Status.unschedulable("not today")}
    harness = taken(full(log, OF_NODE), unstated(log, answers), mending([], ALONE))
    rejections(harness, 3)
    harness.made.cluster.remove_pod("on-b")
    assert "1 not today" in harness.reject(make_pod("next")).status.message
    assert not harness.reject(make_pod("after")).is_repeated


def test_a_filter_without_inputs_is_called_for_nodes_with_nominated_pods() -> None:
    """With a nominated pod, a node may be rejected for a reason that only this filter knows."""
    log: list[str] = []
    harness = taken(full(log, OF_NODE), unstated(log), mending([], ALONE))
    harness.made.nominator.nominate(PodInfo(make_pod("other", priority=5)), "b")
    assert not any(each.is_repeated for each in rejections(harness, 4))


def test_a_plugin_that_is_asked_at_prefilter_has_to_skip_the_pod() -> None:
    """Otherwise its Filter has a say."""
    log: list[str] = []
    inputs = Inputs(LABELS, pre_filter=DependsOn.ANYTHING, filter=DependsOn.ANYTHING)
    asking = with_inputs(
        plugin("Asking", PreFilterPlugin, FilterPlugin, log=log, pre_filter=SKIP, filter=None), inputs
    )
    harness = taken(full(log, OF_NODE), asking)
    rejections(harness, 2)
    log.clear()
    assert harness.reject(make_pod("third")).is_repeated
    assert log == ["Asking.pre_filter"]
    asking.pre_filter = lambda *_: None  # type: ignore[attr-defined]  # it does not skip any more
    assert not harness.reject(make_pod("fourth")).is_repeated


def test_a_pod_with_a_nominated_node_of_its_own_is_tried() -> None:
    harness = taken(full([], OF_NODE), mending([], ALONE))
    rejections(harness, 3)
    nominated = make_pod("nominated", status={"nominatedNodeName": "a"})
    assert not harness.reject(nominated).is_repeated


def test_a_nomination_for_another_pod_is_a_change() -> None:
    harness = taken(full([], OF_NODE), mending([], ALONE))
    rejections(harness, 3)
    harness.made.nominator.nominate(PodInfo(make_pod("other", priority=5)), "b")
    assert not harness.reject(make_pod("next")).is_repeated
    assert harness.reject(make_pod("after")).is_repeated


def test_a_pod_that_differs_in_a_stated_field_is_tried() -> None:
    harness = taken(full([], OF_NODE), mending([], ALONE))
    rejections(harness, 3)
    assert not harness.reject(make_pod("other", labels={"app": "other"})).is_repeated


def test_an_error_of_postfilter_is_not_kept() -> None:
    failing = with_inputs(plugin("Failing", PostFilterPlugin, post_filter=ValueError("broken")), ALONE)
    harness = taken(full([], OF_NODE), failing)
    assert not any(each.is_repeated for each in rejections(harness, 4))


def test_a_wrong_statement_is_found_by_the_check(caplog: pytest.LogCaptureFixture) -> None:
    """PostFilter states that its words depend on the pod alone, but they follow something else."""
    said = ["first"]
    harness = taken(full([], OF_NODE), mending([], ALONE, lambda: said[0]), check_every=4)
    rejections(harness, 3)
    said[0] = "second"
    checked = harness.reject(make_pod("checked"))
    assert checked.status.message.endswith("second")
    assert "plugin 'Mending': its `inputs` are wrong. PostFilter" in caplog.text
    assert harness.made.metrics.plan_differences.values == {("Mending", "default-scheduler"): 1}
    said[0] = "third"
    assert harness.reject(make_pod("next")).status.message.endswith("third")
