from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import (
    Code,
    FilterPlugin,
    FitError,
    PermitPlugin,
    PermitResult,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
    Verdict,
)
from kuberth.outcomes.placement import Choice
from kuberth.outcomes.rejection import NO_NODES, Rejection
from kuberth.testing import make_pod
from tests.unit.framework.harness import plugin
from tests.unit.scheduling.harness import make_harness


def rejecting(name: str, *nodes: str, log: list[str] | None = None) -> type[Plugin]:
    def judge(_state: object, _pod: object, node: NodeRow) -> Status | None:
        if log is not None:
            log.append(node.name)
        return Status.unschedulable(f"{name} says no") if not nodes or node.name in nodes else None

    return plugin(name, FilterPlugin, filter=judge)


def scoring(name: str, **scores: int) -> type[Plugin]:
    return plugin(name, ScorePlugin, score=lambda _s, _p, node: scores.get(node.name, 0))


def fit_error(rejection: Rejection) -> FitError:
    assert isinstance(rejection.status.cause, FitError)
    return rejection.status.cause


# Placing


def test_a_placed_pod_is_counted_on_its_node_at_once() -> None:
    scheduler = make_harness(scoring("S", n2=5))
    placement = scheduler.place(make_pod("p", cpu="1", uid="u"))
    assert (placement.node_name, placement.pod.spec.node_name) == ("n2", "n2")
    assert scheduler.made.cluster.is_assumed("u")
    assert scheduler.made.node("n2").requested("cpu") == 1000
    assert placement.permit_timeouts == {}
    assert placement.choice == Choice("n2", 3, 3)


def test_the_highest_total_wins() -> None:
    scheduler = make_harness(
        scoring("A", n1=50, n2=10), scoring("B", n2=30, n3=20), rejecting("F", "n3"), weights={"A": 1, "B": 2}
    )
    placement = scheduler.place(make_pod("p"))
    assert placement.choice == Choice("n2", 3, 2)


def test_among_equals_the_lot_decides() -> None:
    chosen = {
        make_harness(scoring("S", n1=7, n3=7), rng=random.Random(seed)).place(make_pod("p")).node_name
        for seed in range(20)
    }
    assert chosen == {"n1", "n3"}


def test_a_single_node_needs_no_scores() -> None:
    log: list[str] = []
    scheduler = make_harness(
        rejecting("F", "n1", "n3"),
        plugin("S", PreScorePlugin, ScorePlugin, pre_score=None, score=0, log=log),
    )
    assert scheduler.place(make_pod("p")).choice == Choice("n2", 3, 1)
    assert log == []


def test_without_score_plugins_the_first_that_passes_is_taken_and_all_get_their_turn() -> None:
    log: list[str] = []
    scheduler = make_harness(plugin("S", PreScorePlugin, pre_score=None, log=log))
    chosen = [scheduler.place(make_pod(name)).choice for name in "abcd"]
    assert [choice.evaluated_nodes for choice in chosen] == [1, 1, 1, 1]
    assert [choice.node_name for choice in chosen] == ["n1", "n2", "n3", "n1"]
    assert log == []


def test_a_nomination_ends_when_the_pod_is_placed() -> None:
    scheduler = make_harness()
    pod = make_pod("p", uid="u")
    scheduler.made.nominator.nominate(PodInfo(pod), "n1")
    scheduler.place(pod)
    assert scheduler.made.nominator.node_of("u") == ""


# How wide the search is


@pytest.mark.parametrize(
    "of_all, of_profile, evaluated",
    [
        pytest.param(None, None, 144, id="adaptive"),
        pytest.param(0, None, 144, id="zero-is-adaptive"),
        pytest.param(60, None, 180, id="of-the-configuration"),
        pytest.param(60, 50, 150, id="the-profile-wins"),
        pytest.param(60, 0, 144, id="even-with-zero"),
        pytest.param(1, None, 100, id="a-hundred-at-least"),
        pytest.param(100, None, 300, id="all"),
    ],
)
def test_enough_nodes_end_the_search(of_all: int | None, of_profile: int | None, evaluated: int) -> None:
    scheduler = make_harness(
        scoring("S"),
        nodes=[f"n{number}" for number in range(300)],
        percentage_of_all=of_all,
        percentage=of_profile,
    )
    assert scheduler.place(make_pod("p")).choice[1:3] == (evaluated, evaluated)


def test_the_next_search_starts_where_the_last_one_ended() -> None:
    seen: list[set[str]] = []
    noting = plugin(
        "S",
        PreScorePlugin,
        ScorePlugin,
        pre_score=lambda _s, _p, nodes: seen.append(set(nodes.names())),
        score=0,
    )
    scheduler = make_harness(noting, nodes=[f"n{number}" for number in range(200)], percentage=50)
    for name in "abc":
        scheduler.place(make_pod(name))
    assert len(seen[0]) == len(seen[1]) == 100
    assert not seen[0] & seen[1]
    assert seen[2] == seen[0]


def test_a_deleted_node_is_never_chosen() -> None:
    scheduler = make_harness(scoring("S", n2=9))
    scheduler.made.cluster.remove_node("n2")
    placement = scheduler.place(make_pod("p"))
    assert placement.node_name in ("n1", "n3")
    assert placement.choice.evaluated_nodes == 2


# The nominated node


def test_the_nominated_node_is_tried_first_and_alone() -> None:
    log: list[str] = []
    scheduler = make_harness(rejecting("F", "n1", log=log), scoring("S", n3=100))
    pod = make_pod("p", status={"nominatedNodeName": "n2"})
    assert scheduler.place(pod).choice == Choice("n2", 1, 1)
    assert log == ["n2"]


@pytest.mark.parametrize("nominated", ["n1", "n9"], ids=["does-not-pass", "is-gone"])
def test_otherwise_all_nodes_are_searched(nominated: str) -> None:
    scheduler = make_harness(rejecting("F", "n1"), scoring("S", n3=100))
    pod = make_pod("p", status={"nominatedNodeName": nominated})
    assert scheduler.place(pod).choice == Choice("n3", 3, 2)


# No place


def test_no_nodes_at_all() -> None:
    log: list[str] = []
    scheduler = make_harness(plugin("P", PostFilterPlugin, post_filter=(None, None), log=log), nodes=[])
    rejection = scheduler.reject(make_pod("p"))
    assert rejection.status == Status.unresolvable(NO_NODES)
    assert rejection.nomination == ""
    assert log == []


def test_every_node_says_why() -> None:
    scheduler = make_harness(rejecting("A", "n1"), rejecting("B", "n2", "n3"))
    rejection = scheduler.reject(make_pod("p"))
    assert rejection.status.code is Code.UNSCHEDULABLE
    assert rejection.status.message == "0/3 nodes are available: 1 A says no, 2 B says no."
    assert fit_error(rejection).diagnosis.unschedulable_plugins == {"A", "B"}
    assert scheduler.made.cluster.placed_count == 0


@pytest.mark.parametrize(
    "answers, nomination, message",
    [
        pytest.param([], "", "0/3 nodes are available: 3 F says no.", id="no-plugin-clears"),
        pytest.param(
            [(PostFilterResult("n2"), None)],
            "n2",
            "0/3 nodes are available: 3 F says no.",
            id="a-node-is-nominated",
        ),
        pytest.param(
            [(None, Status.unschedulable("preemption: no victims"))],
            None,
            "0/3 nodes are available: 3 F says no. preemption: no victims",
            id="nothing-changes",
        ),
        pytest.param(
            [(PostFilterResult(""), Status.unschedulable("preemption: not eligible"))],
            "",
            "0/3 nodes are available: 3 F says no. preemption: not eligible",
            id="an-earlier-nomination-is-cleared",
        ),
        pytest.param(
            [ValueError("lost")],
            None,
            "0/3 nodes are available: 3 F says no. plugin 'P0' at PostFilter: ValueError: lost",
            id="a-failure-is-reported-and-changes-nothing",
        ),
    ],
)
def test_post_filter_may_nominate_a_node(answers: list[Any], nomination: str | None, message: str) -> None:
    plugins = [plugin(f"P{i}", PostFilterPlugin, post_filter=answer) for i, answer in enumerate(answers)]
    rejection = make_harness(rejecting("F"), *plugins).reject(make_pod("p"))
    assert rejection.nomination == nomination
    assert rejection.status.message == message
    assert rejection.status.code is Code.UNSCHEDULABLE


def test_post_filter_is_not_asked_when_there_is_a_place() -> None:
    log: list[str] = []
    make_harness(plugin("P", PostFilterPlugin, post_filter=(None, None), log=log)).place(make_pod("p"))
    assert log == []


def test_a_rejection_by_pre_filter_spares_the_nodes() -> None:
    log: list[str] = []
    scheduler = make_harness(
        plugin("A", PreFilterPlugin, pre_filter=Status.unresolvable("no such claim")),
        rejecting("F", log=log),
        plugin("P", PostFilterPlugin, post_filter=(None, Status.unschedulable("nor preemption")), log=log),
    )
    rejection = scheduler.reject(make_pod("p"))
    assert rejection.status.message == "0/3 nodes are available: no such claim. nor preemption"
    assert fit_error(rejection).diagnosis.unschedulable_plugins == {"A"}
    assert log == ["P.post_filter"]


def test_only_the_nodes_pre_filter_left_are_looked_at() -> None:
    log: list[str] = []
    narrowing = plugin("A", PreFilterPlugin, pre_filter=PreFilterResult(frozenset({"n2", "n3", "gone"})))
    scheduler = make_harness(narrowing, rejecting("F", "n2", log=log), scoring("S"))
    assert scheduler.place(make_pod("p")).choice == Choice("n3", 2, 1)
    assert log == ["n2", "n3"]


def test_nodes_that_pre_filter_left_out_are_in_the_message() -> None:
    narrowing = plugin("A", PreFilterPlugin, pre_filter=PreFilterResult(frozenset({"n2"})))
    rejection = make_harness(narrowing, rejecting("F")).reject(make_pod("p"))
    assert (
        rejection.status.message
        == "0/3 nodes are available: 1 F says no, 2 node(s) didn't satisfy plugin(s) [A]."
    )
    assert fit_error(rejection).diagnosis.unschedulable_plugins == {"A", "F"}


def test_a_narrowing_to_nodes_that_are_gone() -> None:
    narrowing = plugin("A", PreFilterPlugin, pre_filter=PreFilterResult(frozenset({"gone"})))
    rejection = make_harness(narrowing).reject(make_pod("p"))
    assert rejection.status.message == "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [A]."
    assert fit_error(rejection).diagnosis.unschedulable_plugins == {"A"}


# Failures


@pytest.mark.parametrize(
    "bad, point",
    [
        (plugin("Bad", PreFilterPlugin, pre_filter=ValueError("lost")), "PreFilter"),
        (plugin("Bad", FilterPlugin, filter=ValueError("lost")), "Filter"),
        (plugin("Bad", FilterPlugin, filter_nodes=Status.error("lost")), "Filter"),
        (plugin("Bad", PreScorePlugin, pre_score=ValueError("lost")), "PreScore"),
        (plugin("Bad", ScorePlugin, score=ValueError("lost")), "Score"),
        (plugin("Bad", ScorePlugin, score=101), "Score"),
        (
            plugin("Bad", ScorePlugin, score=0, normalize_scores=Status.error("lost")),
            "ScoreExtensionNormalize",
        ),
    ],
    ids=["pre_filter", "filter", "filter_nodes", "pre_score", "score", "out-of-range", "normalize"],
)
def test_a_failing_plugin_aborts_the_cycle(bad: type[Plugin], point: str) -> None:
    log: list[str] = []
    scheduler = make_harness(
        bad,
        scoring("S"),
        plugin(
            "P",
            PostFilterPlugin,
            ReservePlugin,
            post_filter=(None, None),
            reserve=None,
            unreserve=None,
            log=log,
        ),
    )
    rejection = scheduler.reject(make_pod("p"))
    assert rejection.status.code is Code.ERROR
    assert rejection.status.message.startswith(f"plugin 'Bad' at {point}: ")
    assert log == [], "neither preemption nor a reservation follows an error"
    assert scheduler.made.cluster.placed_count == 0


@pytest.mark.parametrize("point", ["reserve", "permit"])
@pytest.mark.parametrize(
    "answer, code, message",
    [
        pytest.param(
            Status.unschedulable("taken"),
            Code.UNSCHEDULABLE,
            "0/1 nodes are available: 1 taken.",
            id="rejects",
        ),
        pytest.param(
            Status.unresolvable("never"),
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "0/1 nodes are available: 1 never.",
            id="for-good",
        ),
        pytest.param(Status.pending("soon"), Code.PENDING, "0/1 nodes are available: 1 soon.", id="pending"),
        pytest.param(ValueError("lost"), Code.ERROR, "plugin 'B' at {point}: ValueError: lost", id="raises"),
    ],
)
def test_a_pod_refused_its_node_leaves_no_trace(point: str, answer: Any, code: Code, message: str) -> None:
    log: list[str] = []
    answers = {"reserve": None, "permit": None, point: answer}
    scheduler = make_harness(
        plugin("A", ReservePlugin, reserve=None, unreserve=None, log=log),
        plugin("B", ReservePlugin, PermitPlugin, unreserve=ValueError("stuck"), log=log, **answers),
        plugin("C", ReservePlugin, reserve=None, unreserve=None, log=log),
    )
    rejection = scheduler.reject(make_pod("p", cpu="1", uid="u"))
    assert rejection.status.code is code
    assert rejection.status.message == message.format(point=point.capitalize())
    assert [call for call in log if call.endswith(".unreserve")] == [
        "C.unreserve",
        "B.unreserve",
        "A.unreserve",
    ], "all of them, backwards, also those whose reserve never ran"
    assert ("C.reserve" in log) is (point == "permit")
    assert scheduler.made.cluster.placed("u") is None
    assert all(node.requested("cpu") == 0 for node in scheduler.made.nodes)
    if code is not Code.ERROR:
        diagnosis = fit_error(rejection).diagnosis
        assert diagnosis.unschedulable_plugins == {"B"}
        assert diagnosis.pending_plugins == ({"B"} if code is Code.PENDING else set())


def test_a_pod_that_has_to_wait_keeps_its_node() -> None:
    log: list[str] = []
    scheduler = make_harness(
        plugin(
            "A",
            ReservePlugin,
            PermitPlugin,
            reserve=None,
            unreserve=None,
            permit=PermitResult.wait(5),
            log=log,
        )
    )
    placement = scheduler.place(make_pod("p", uid="u"))
    assert placement.permit_timeouts == {"A": 5.0}
    assert scheduler.made.cluster.is_assumed("u")
    assert log == ["A.reserve", "A.permit"]


def test_plugins_see_the_pod_on_its_node_from_reserve_on() -> None:
    seen: list[tuple[str, str]] = []

    def note(_state: object, pod: Any, node_name: str) -> None:
        seen.append((pod.spec.node_name, node_name))

    make_harness(
        plugin("A", ReservePlugin, PermitPlugin, reserve=note, unreserve=note, permit=note), nodes=["n1"]
    ).place(make_pod("p"))
    assert seen == [("n1", "n1"), ("n1", "n1")]


@pytest.mark.parametrize(
    "rejected, evaluated", [("n1", []), ("n1 n2", [1])], ids=["others-pass", "none-passes"]
)
def test_why_a_node_does_not_pass_is_asked_only_if_none_does(rejected: str, evaluated: list[int]) -> None:
    asked: list[int] = []

    def why(code: int) -> Status:
        asked.append(code)
        return Status.unschedulable("no")

    def judge(_state: object, _pod: object, nodes: Nodes) -> Verdict:
        return Verdict(np.array([name in rejected.split() for name in nodes.names()], np.int64), why)

    scheduler = make_harness(plugin("F", FilterPlugin, filter_nodes=judge), nodes=["n1", "n2"])
    scheduler.decide(make_pod("p"))
    assert sorted(set(asked)) == evaluated


class Always(random.Random):
    """A lot that always falls on the sampled side."""

    def random(self) -> float:
        return 0.0


def test_some_cycles_time_single_plugins() -> None:
    scheduler = make_harness(rejecting("F"), rng=Always())
    scheduler.reject(make_pod("p"))
    assert ("F", "Filter", "Unschedulable") in scheduler.made.metrics.plugin_execution_duration.values
