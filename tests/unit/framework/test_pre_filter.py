from __future__ import annotations

from typing import Any

import pytest

from kuberth.framework import (
    SKIP,
    Code,
    CycleState,
    Diagnosis,
    FilterPlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    Status,
)
from kuberth.testing import make_pod
from tests.unit.framework.harness import framework, plugin, state_of

POD = make_pod("p")


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


@pytest.mark.parametrize(
    "answers, status, node_names, narrowed_by",
    [
        pytest.param([None, None], None, None, "", id="none-narrows"),
        pytest.param([PreFilterResult(), None], None, None, "", id="all-nodes-is-no-narrowing"),
        pytest.param([only("n1", "n2"), None], None, {"n1", "n2"}, "A", id="one-narrows"),
        pytest.param([only("n1", "n2"), only("n2", "n3")], None, {"n2"}, "AB", id="narrowings-intersect"),
        pytest.param([PreFilterResult({"n1"}), None], None, {"n1"}, "A", id="any-set-will-do"),  # type: ignore[arg-type]  # lenient
        pytest.param([["n1"], None], "at PreFilter", None, "", id="but-not-a-bare-list"),
        pytest.param([only(), None], "node(s) didn't satisfy plugin A", set(), "A", id="one-leaves-nothing"),
        pytest.param(
            [only("n1"), only("n2")],
            "node(s) didn't satisfy plugin(s) [A B] simultaneously",
            set(),
            "AB",
            id="two-leave-nothing",
        ),
        pytest.param([SKIP, only("n1")], None, {"n1"}, "B", id="a-skip-narrows-nothing"),
    ],
)
def test_narrowing(
    answers: list[Any], status: str | None, node_names: set[str] | None, narrowed_by: str
) -> None:
    runner = framework(
        *(
            plugin(name, PreFilterPlugin, pre_filter=answer)
            for name, answer in zip("AB", answers, strict=True)
        )
    )
    outcome = runner.runner.pre_filtering.run(state_of(POD), POD, runner.nodes)
    assert outcome.node_names == node_names
    assert outcome.narrowed_by == frozenset(narrowed_by)
    if status is None:
        assert outcome.status.is_success
    else:
        assert status in outcome.status.message


def test_nothing_left_cannot_be_resolved_and_ends_the_phase() -> None:
    log: list[str] = []
    made = framework(
        plugin("A", PreFilterPlugin, pre_filter=only(), log=log),
        plugin("B", PreFilterPlugin, pre_filter=None, log=log),
    )
    outcome = made.runner.pre_filtering.run(state_of(POD), POD, made.nodes)
    assert outcome.status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert log == ["A.pre_filter"]


@pytest.mark.parametrize(
    "answers, asked, code, plugin_name",
    [
        pytest.param(
            [Status.unschedulable("a"), None, None],
            "ABC",
            Code.UNSCHEDULABLE,
            "A",
            id="unschedulable-goes-on",
        ),
        pytest.param(
            [Status.unschedulable("a"), Status.unschedulable("b"), None],
            "ABC",
            Code.UNSCHEDULABLE,
            "B",
            id="the-last-unschedulable-is-reported",
        ),
        pytest.param(
            [Status.unschedulable("a"), Status.unresolvable("b"), None],
            "AB",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "B",
            id="unresolvable-wins-and-ends",
        ),
        pytest.param(
            [Status.unresolvable("a"), None, None],
            "A",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "A",
            id="at-once",
        ),
        pytest.param([Status.pending("a"), None, None], "A", Code.PENDING, "A", id="pending-ends"),
        pytest.param(
            [Status.unschedulable("a"), Status.error("b"), None], "AB", Code.ERROR, "B", id="an-error-wins"
        ),
        pytest.param([None, ValueError("b"), None], "AB", Code.ERROR, "B", id="an-exception-ends"),
    ],
)
def test_rejections(answers: list[Any], asked: str, code: Code, plugin_name: str) -> None:
    log: list[str] = []
    made = framework(
        *(
            plugin(name, PreFilterPlugin, pre_filter=answer, log=log)
            for name, answer in zip("ABC", answers, strict=True)
        )
    )
    outcome = made.runner.pre_filtering.run(state_of(POD), POD, made.nodes)
    assert (outcome.status.code, outcome.status.plugin) == (code, plugin_name)
    assert log == [f"{name}.pre_filter" for name in asked]


def test_a_rejection_takes_back_narrowings() -> None:
    made = framework(
        plugin("A", PreFilterPlugin, pre_filter=only("n1")),
        plugin("B", PreFilterPlugin, pre_filter=Status.unresolvable("b")),
    )
    outcome = made.runner.pre_filtering.run(state_of(POD), POD, made.nodes)
    assert (outcome.node_names, outcome.narrowed_by) == (None, frozenset())


def test_skip_spares_the_filter_of_that_plugin_only() -> None:
    log: list[str] = []
    made = framework(
        plugin(
            "A", PreFilterPlugin, FilterPlugin, pre_filter=SKIP, filter=Status.unschedulable("no"), log=log
        ),
        plugin("B", PreFilterPlugin, FilterPlugin, pre_filter=None, filter=None, log=log),
        nodes=["n1"],
    )
    state = state_of(POD)
    outcome = made.runner.pre_filtering.run(state, POD, made.nodes)
    passing = made.runner.filtering.run(state, POD, made.nodes, Diagnosis())
    assert outcome.status.is_success
    assert not isinstance(passing, Status)
    assert passing.tolist() == [True]
    assert log == ["A.pre_filter", "B.pre_filter", "B.filter"]


def test_skip_spares_the_what_if_of_that_plugin_only() -> None:
    log: list[str] = []
    made = framework(
        *(
            plugin(name, PreFilterExtensions, pre_filter=answer, add_pod=None, remove_pod=None, log=log)
            for name, answer in (("A", SKIP), ("B", None))
        ),
        plugin("C", PreFilterPlugin, pre_filter=None, log=log),
    )
    state = state_of(POD)
    made.runner.pre_filtering.run(state, POD, made.nodes)
    log.clear()
    other = state_of(make_pod("q")).pod_info
    assert other is not None
    assert made.runner.filtering.run_add_pod(state, POD, other, made.node("n1")).is_success
    assert made.runner.filtering.run_remove_pod(state, POD, other, made.node("n1")).is_success
    assert log == ["B.add_pod", "B.remove_pod"]


def test_a_plugin_is_asked_with_the_state_the_pod_and_all_nodes() -> None:
    seen: list[tuple[CycleState, Any, list[str]]] = []
    made = framework(
        plugin(
            "A",
            PreFilterPlugin,
            pre_filter=lambda state, pod, nodes: seen.append((state, pod, nodes.names())),
        )
    )
    state = state_of(POD)
    made.runner.pre_filtering.run(state, POD, made.nodes)
    assert seen == [(state, POD, ["n1", "n2", "n3"])]
