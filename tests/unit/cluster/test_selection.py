"""A mask over a view says what the API's own selectors say node by node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api.core import Pod, PreferredSchedulingTerm
from kuberth.api.selectors import (
    EVERYTHING,
    NOTHING,
    CompiledNodeSelectorTerm,
    CompiledPreferredTerm,
    FieldRequirement,
    compile_preferred_terms,
    parse_selector,
    required_node_affinity,
)
from kuberth.api.wire import convert
from kuberth.cluster import selection
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.errors import SelectorError
from kuberth.testing import make_node, make_pod

VALUES = st.sampled_from(["a", "b", "1", "20", "-3", ""])
LABELS = st.dictionaries(st.sampled_from(["zone", "disk", "cores"]), VALUES)
KEYS = st.sampled_from(["zone", "disk", "cores", "unheard-of"])


@st.composite
def expressions(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Nonsense"]))
    values: list[str] = []
    if operator in ("In", "NotIn"):
        values = draw(st.lists(VALUES, min_size=1, max_size=3))
    elif operator in ("Gt", "Lt"):
        values = [draw(st.sampled_from(["0", "5", "20", "x"]))]
    return {"key": draw(KEYS), "operator": operator, "values": values}


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "key": draw(st.sampled_from(["metadata.name", "metadata.name", "spec.other"])),
        "operator": draw(st.sampled_from(["In", "NotIn"])),
        "values": [draw(st.sampled_from(["n0", "n1", "n9", ""]))],
    }


TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(expressions(), max_size=3),
        "matchFields": st.lists(fields(), max_size=2),
    },
)


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    spec: dict[str, Any] = {}
    if draw(st.booleans()):
        spec["nodeSelector"] = draw(LABELS)
    if draw(st.booleans()):
        terms = draw(st.lists(TERMS, max_size=3))
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    return make_pod("p", **spec)


def build(nodes: list[dict[str, str]], gaps: set[int]) -> ClusterTable:
    table = ClusterTable()
    for index, labels in enumerate(nodes):
        table.set_node(make_node(f"n{index}", labels=labels))
    for index in gaps:
        table.remove_node(f"n{index}")
    return table


def views(table: ClusterTable) -> list[Nodes]:
    """All rows, some rows in another order, and every row alone."""
    live = [row for row in range(table.slots) if table.live[row]]
    return [
        table.all_nodes(),
        Nodes(table, np.array(live[::-2], np.int64)),
        *(Nodes(table, slice(row, row + 1)) for row in live),
    ]


def answers(nodes: Nodes, mask: np.ndarray[Any, Any]) -> dict[str, bool]:
    assert mask.dtype == np.bool_
    assert len(mask) == len(nodes)
    return {nodes.name(position): bool(mask[position]) for position in np.flatnonzero(nodes.live()).tolist()}


def expected(nodes: Nodes, matches: Callable[[Any, str], bool]) -> dict[str, bool]:
    def ask(labels: Any, name: str) -> bool:
        try:
            return matches(labels, name)
        except SelectorError:
            return False  # a term that cannot be compiled matches no node; plugins report it beforehand

    return {node.name: ask(node.labels, node.name) for node in nodes}


@settings(max_examples=200, deadline=None)
@given(nodes=st.lists(LABELS, max_size=6), gaps=st.sets(st.integers(0, 5)), pod=pods())
def test_required_affinity(nodes: list[dict[str, str]], gaps: set[int], pod: Pod) -> None:
    table = build(nodes, gaps)
    affinity = required_node_affinity(pod)
    for view in views(table):
        mask = selection.meets_required_affinity(view, affinity)
        assert answers(view, mask) == expected(view, affinity.matches)
        selector = affinity.node_selector
        if selector is not None:
            assert answers(view, selection.meets_node_selector(view, selector)) == expected(
                view, selector.matches
            )
            for term in selector.terms:
                assert answers(view, selection.meets_term(view, term)) == expected(view, term.matches)


@settings(max_examples=200, deadline=None)
@given(
    nodes=st.lists(LABELS, max_size=6),
    gaps=st.sets(st.integers(0, 5)),
    terms=st.lists(st.tuples(TERMS, st.integers(1, 100)), max_size=6),
)
def test_sum_of_weights(nodes: list[dict[str, str]], gaps: set[int], terms: list[tuple[Any, int]]) -> None:
    compiled: list[CompiledPreferredTerm] = []
    for term, weight in terms:
        preferred = convert(PreferredSchedulingTerm, {"weight": weight, "preference": term})
        with contextlib.suppress(SelectorError):
            compiled += compile_preferred_terms([preferred])
    for view in views(build(nodes, gaps)):
        expected_sums = np.zeros(len(view), np.int64)
        for each in compiled:
            expected_sums += each.weight * selection.meets_term(view, each.term)
        assert selection.sum_of_weights(view, compiled).tolist() == expected_sums.tolist()


def test_thousands_of_terms_on_one_label_are_gathered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = build([{"zone": "a"}, {"zone": "b"}, {}], set())
    compiled = compile_preferred_terms(
        convert(
            PreferredSchedulingTerm,
            {
                "weight": 1,
                "preference": {
                    "matchExpressions": [
                        {"key": "zone", "operator": "NotIn", "values": ["a", f"other-{number}"]}
                    ]
                },
            },
        )
        for number in range(4000)
    )
    gathered = 0
    take = Nodes.take

    def counting(nodes: Nodes, column: Any) -> Any:
        nonlocal gathered
        gathered += 1
        return take(nodes, column)

    monkeypatch.setattr(Nodes, "take", counting)
    view = table.all_nodes()
    assert selection.sum_of_weights(view, compiled)[:3].tolist() == [0, 4000, 4000]
    assert gathered == 1


@settings(max_examples=100, deadline=None)
@given(
    nodes=st.lists(LABELS, min_size=1, max_size=6),
    text=st.sampled_from(
        [
            "",
            "zone=a",
            "zone!=a",
            "zone in (a,b),disk",
            "!disk",
            "cores>3",
            "cores<3,zone",
            "zone notin (1,20)",
        ]
    ),
)
def test_label_selectors(nodes: list[dict[str, str]], text: str) -> None:
    table = build(nodes, set())
    selector = parse_selector(text)
    for view in views(table):
        mask = selection.has_labels(view, selector)
        assert answers(view, mask) == expected(view, lambda labels, _name: selector.matches(labels))


def test_everything_and_nothing() -> None:
    nodes = build([{}, {"zone": "a"}], set()).all_nodes()
    assert selection.has_labels(nodes, EVERYTHING).tolist() == [True, True]
    assert selection.has_labels(nodes, NOTHING).tolist() == [False, False]
    assert selection.everywhere(nodes).tolist() == [True, True]
    assert selection.nowhere(nodes).tolist() == [False, False]
    assert selection.meets_term(nodes, CompiledNodeSelectorTerm()).tolist() == [False, False]
    assert selection.meets_term(nodes, CompiledNodeSelectorTerm(errors=("bad",))).tolist() == [False, False]


@pytest.mark.parametrize(
    ("field", "mask"),
    [
        (FieldRequirement("metadata.name", "n1"), [False, True, False]),
        (FieldRequirement("metadata.name", "n1", negated=True), [True, False, True]),
        (FieldRequirement("metadata.name", "n9"), [False, False, False]),
        (FieldRequirement("metadata.name", "n9", negated=True), [True, True, True]),
        (FieldRequirement("metadata.name", ""), [False, False, False]),
        (FieldRequirement("spec.other", ""), [True, True, True]),
        (FieldRequirement("spec.other", "x"), [False, False, False]),
        (FieldRequirement("spec.other", "x", negated=True), [True, True, True]),
    ],
    ids=str,
)
def test_fields(field: FieldRequirement, mask: list[bool]) -> None:
    assert selection.meets_field(build([{}, {}, {}], set()).all_nodes(), field).tolist() == mask


def test_a_mask_may_be_changed_without_harm() -> None:
    table = build([{"zone": "a"}, {"zone": "b"}], set())
    requirement = parse_selector("zone=a").requirements[0]
    mask = selection.meets_requirement(table.all_nodes(), requirement)
    mask[:] = True
    assert selection.meets_requirement(table.all_nodes(), requirement).tolist() == [True, False]


def test_masks_follow_the_nodes() -> None:
    table = build([{"zone": "a"}, {"zone": "b"}], set())
    requirement = parse_selector("zone in (a,c)").requirements[0]
    assert selection.meets_requirement(table.all_nodes(), requirement).tolist() == [True, False]
    table.set_node(make_node("n0", labels={"zone": "d"}))
    table.set_node(make_node("n1", labels={"zone": "c"}))
    assert selection.meets_requirement(table.all_nodes(), requirement).tolist() == [False, True]


TAINT_LISTS = st.lists(
    st.lists(
        st.sampled_from(
            [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "x", "effect": "PreferNoSchedule"}]
        ),
        max_size=2,
    ),
    max_size=5,
)


@given(TAINT_LISTS)
def test_taints_are_judged_once_per_distinct_list(taint_lists: list[list[dict[str, str]]]) -> None:
    table = ClusterTable()
    for index, taints in enumerate(taint_lists):
        table.set_node(make_node(f"n{index}", taints=taints))
    asked: list[Any] = []

    def judge(taints: Any) -> int:
        asked.append(taints)
        return len(taints)

    numbers = selection.by_taints(table.all_nodes(), judge)
    assert numbers.tolist() == [len(taints) for taints in taint_lists]
    assert len(asked) == len(set(asked)) <= 1 + len(taint_lists)
    for view in views(table):
        assert selection.by_taints(view, judge).tolist() == [len(node.node.spec.taints) for node in view]
