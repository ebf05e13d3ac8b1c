from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import (
    Code,
    Diagnosis,
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    StateKey,
    Status,
    Verdict,
)
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.running.calls import FEW_NODES
from kuberth.testing import make_pod
from tests.unit.framework.harness import Framework, framework, plugin, state_of

POD = make_pod("p")


def each(name: str, *rejected: str, asked: list[str] | None = None) -> type[Plugin]:
    """A per-node filter that rejects these nodes and notes which ones it was called for."""

    def judge(_state: object, _pod: object, node: NodeRow) -> Status | None:
        if asked is not None:
            asked.append(f"{name}:{node.name}")
        return Status.unschedulable(f"{name} says no") if node.name in rejected else None

    return plugin(name, FilterPlugin, filter=judge)


def table(name: str, *rejected: str, asked: list[str] | None = None) -> type[Plugin]:
    """The same over the whole table."""

    def judge(_state: object, _pod: object, nodes: Nodes) -> Verdict:
        if asked is not None:
            asked.append(f"{name}:{len(nodes)}")
        mask = np.array([nodes.name(position) in rejected for position in range(len(nodes))], np.bool_)
        return Verdict.rejecting(mask, Status.unschedulable(f"{name} says no"))

    return plugin(name, FilterPlugin, filter_nodes=judge)


def judged(made: Framework) -> tuple[list[str], dict[str, str]]:
    """The nodes that pass, and the plugins that rejected the others."""
    diagnosis = Diagnosis()
    passing = made.runner.filtering.run(state_of(POD), POD, made.nodes, diagnosis)
    assert not isinstance(passing, Status), passing
    feasible = made.nodes.at(passing).names()
    others = [name for name in made.nodes.names() if name not in feasible]
    return feasible, {
        name: diagnosis.status_of(name, row=made.cluster.row_of(name)).plugin for name in others
    }


Form = Callable[..., type[Plugin]]


@pytest.mark.parametrize("first", [each, table])
@pytest.mark.parametrize("second", [each, table])
def test_the_first_rejection_of_a_node_is_the_one_that_counts(first: Form, second: Form) -> None:
    made = framework(first("A", "n1"), second("B", "n1", "n2"))
    assert judged(made) == (["n3"], {"n1": "A", "n2": "B"})


@pytest.mark.parametrize("form", [each, table])
def test_a_node_is_counted_once_even_if_several_plugins_reject_it(form: Form) -> None:
    made = framework(form("A", "n1", "n2"), form("B", "n1", "n2", "n3", ""))
    made.cluster.remove_node("n2")
    diagnosis = Diagnosis()
    made.runner.filtering.run(state_of(POD), POD, made.nodes, diagnosis)
    assert diagnosis.message(2) == "0/2 nodes are available: 1 A says no, 1 B says no."


@pytest.mark.parametrize("first", [each, table])
def test_a_node_that_is_out_is_not_asked_about_again(first: Form) -> None:
    asked: list[str] = []
    made = framework(first("A", "n1"), each("B", "n2", asked=asked), each("C", asked=asked))
    assert judged(made) == (["n3"], {"n1": "A", "n2": "B"})
    assert asked == ["B:n2", "B:n3", "C:n3"]


@pytest.mark.parametrize("form", [each, table])
def test_when_all_nodes_are_out_no_one_else_is_asked(form: Form) -> None:
    asked: list[str] = []
    made = framework(table("A", "n1", "n2", "n3"), form("B", asked=asked))
    assert judged(made) == ([], {"n1": "A", "n2": "A", "n3": "A"})
    assert asked == []


def test_both_forms_mix_in_any_order() -> None:
    made = framework(
        each("A", "n1"), table("B", "n2"), each("C", "n3"), table("D"), nodes=["n1", "n2", "n3", "n4"]
    )
    assert judged(made) == (["n4"], {"n1": "A", "n2": "B", "n3": "C"})


@pytest.mark.parametrize(
    "nodes, form", [(FEW_NODES, "filter"), (FEW_NODES + 1, "filter_nodes")], ids=["few", "many"]
)
def test_a_plugin_with_both_forms_is_asked_node_by_node_only_if_they_are_few(nodes: int, form: str) -> None:
    asked: list[str] = []
    both = plugin("A", FilterPlugin, log=asked, filter=None, filter_nodes=None)
    made = framework(both, nodes=[f"n{number}" for number in range(nodes)])
    assert len(judged(made)[0]) == nodes
    assert set(asked) == {f"A.{form}"}


def test_no_verdict_means_all_pass() -> None:
    assert judged(framework(plugin("A", FilterPlugin, filter_nodes=None)))[0] == ["n1", "n2", "n3"]


@pytest.mark.parametrize("form", [each, table])
def test_rows_of_deleted_nodes_are_not_there(form: Form) -> None:
    asked: list[str] = []
    made = framework(form("A", "n3", asked=asked))
    made.cluster.remove_node("n2")
    assert judged(made) == (["n1"], {"n3": "A"})
    assert "A:n2" not in asked


def test_one_node_judged_alone() -> None:
    made = framework(each("A", "n1"), table("B", "n1", "n2"))
    state = state_of(POD)
    answers = {name: made.runner.filtering.status(state, POD, made.node(name)) for name in ("n1", "n2", "n3")}
    assert [(name, status.plugin, status.code) for name, status in answers.items()] == [
        ("n1", "A", Code.UNSCHEDULABLE),
        ("n2", "B", Code.UNSCHEDULABLE),
        ("n3", "", Code.SUCCESS),
    ]


def test_every_status_of_a_verdict_is_kept() -> None:
    def judge(_state: object, _pod: object, _nodes: Nodes) -> Verdict:
        return Verdict.choosing(
            np.array([1, 2, 3]), Status.unschedulable("a"), Status.unresolvable("b"), Status.pending("c")
        )

    made = framework(plugin("A", FilterPlugin, filter_nodes=judge))
    diagnosis = Diagnosis()
    made.runner.filtering.run(state_of(POD), POD, made.nodes, diagnosis)
    found = [diagnosis.status_of(name, row=made.cluster.row_of(name)) for name in ("n1", "n2", "n3")]
    assert [(status.code, status.message, status.plugin) for status in found] == [
        (Code.UNSCHEDULABLE, "a", "A"),
        (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "b", "A"),
        (Code.PENDING, "c", "A"),
    ]
    assert (diagnosis.unschedulable_plugins, diagnosis.pending_plugins) == ({"A"}, {"A"})


@pytest.mark.parametrize(
    "pre_filter, admitted",
    [
        pytest.param(None, False, id="asked"),
        pytest.param(Status.unresolvable("x"), False, id="pre-filter-rejects"),
        pytest.param(Status(Code.SKIP), True, id="pre-filter-skips"),
    ],
)
def test_some_filters_alone(pre_filter: Any, admitted: bool) -> None:
    chosen = plugin(
        "A", PreFilterPlugin, FilterPlugin, pre_filter=pre_filter, filter=Status.unschedulable("no")
    )
    made = framework(chosen, each("B", "n1"))
    assert made.runner.filtering.admits(PodInfo(POD), made.node("n1"), filters={"A"}) is admitted
    assert made.runner.filtering.admits(PodInfo(POD), made.node("n1"), filters=set())
    assert not made.runner.filtering.admits(PodInfo(POD), made.node("n1"), filters={"B"})


def test_a_filter_sees_the_state_its_pre_filter_wrote() -> None:
    key = StateKey[str]("chosen")

    def judge(state: CycleState, _pod: object, node: NodeRow) -> Status | None:
        return None if node.name == state.read(key) else Status.unschedulable("not chosen")

    made = framework(
        plugin(
            "A",
            PreFilterPlugin,
            FilterPlugin,
            pre_filter=lambda state, *_: state.write(key, "n2"),
            filter=judge,
        )
    )
    state = state_of(POD)
    made.runner.pre_filtering.run(state, POD, made.nodes)
    passing = made.runner.filtering.run(state, POD, made.nodes, Diagnosis())
    assert not isinstance(passing, Status)
    assert made.nodes.at(passing).names() == ["n2"]
