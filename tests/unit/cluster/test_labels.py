"""Columns of label keys: shared and short-lived for keys that no node has, whole as soon as one has it."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.meta import LabelSelector
from kuberth.api.selectors import NOTHING, Selector, compile_label_selector
from kuberth.api.wire import convert
from kuberth.cluster.labels import LabelColumns
from kuberth.cluster.pod_info import AffinityTerm, PodInfo, PodMatcher
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.cluster.table import ClusterTable
from kuberth.cluster.term_sums import TermSums
from kuberth.cluster.terms import Carried, CarriedTerm, CarriedTerms
from kuberth.testing import make_node, make_pod

KEYS = ("a", "b", "c")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("x", "y")))


def test_keys_that_no_node_has_share_their_ids_and_do_not_stay() -> None:
    columns = LabelColumns(4)
    first, second = columns.column("a"), columns.column("b")
    assert first.ids is second.ids
    assert columns.column("a") is first
    del first, second
    gc.collect()
    assert len(columns._unused) == 0


def test_a_column_in_use_is_whole_when_a_node_gets_its_label() -> None:
    columns = LabelColumns(2)
    column = columns.column("a")
    columns.grow(8)
    columns.set(5, {"a": "x"})
    assert columns.column("a") is column
    assert [column.values[column.ids[row]] for row in range(8)] == [None] * 5 + ["x", None, None]
    assert columns.column("b").ids.tolist() == [0] * 8


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | LABELS, st.sampled_from(KEYS), st.booleans())))
def test_columns_say_what_the_labels_say(
    steps: list[tuple[int, dict[str, str] | None, str, bool]],
) -> None:
    columns, rows, kept = LabelColumns(6), dict[int, dict[str, str]](), []
    for row, labels, asked, keep in steps:
        if labels is None:
            columns.clear(row)
            rows.pop(row, None)
        else:
            columns.set(row, labels)
            rows[row] = labels
        column = columns.column(asked)
        if keep:
            kept.append(column)
        for each in (*kept, column):
            values = [each.values[each.ids[row]] for row in range(6)]
            assert values == [rows.get(row, {}).get(each.key) for row in range(6)]
        assert dict(columns.keys) == {
            key: number for key in KEYS if (number := sum(key in labels for labels in rows.values()))
        }


def test_terms_of_a_topology_that_appears_later_are_found_then() -> None:
    table = ClusterTable()
    table.set_node(make_node("n1"))
    term = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    table.add_pod(PodInfo(make_pod("placed", affinity=rules, node="n1")))
    web = PodInfo(make_pod("p", labels={"app": "web"}))
    assert list(table.terms.contributions(Carried.REQUIRED_ANTI_AFFINITY, web)) == []
    version = table.selection.version
    table.set_node(make_node("n1", labels={"rack": "r1"}))
    assert table.selection.version > version
    ((_key, _worth, _weight, tally),) = table.terms.contributions(Carried.REQUIRED_ANTI_AFFINITY, web)
    assert tally.is_in_any_domain(table.label_column("rack"))


def test_terms_that_speak_of_no_pod_come_and_go() -> None:
    table = ClusterTable()
    table.set_node(make_node("n1", labels={"zone": "z"}))
    nothing = {"topologyKey": "zone", "labelSelector": None}
    something = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    for number, term in enumerate((nothing, something)):
        rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        table.add_pod(PodInfo(make_pod(f"p{number}", uid=f"p{number}", affinity=rules, node="n1")))
    for uid in ("p1", "p0"):
        table.remove_pod(uid)
    assert not table.terms.carried(Carried.REQUIRED_ANTI_AFFINITY)


def test_terms_with_thousands_of_values_take_no_more_memory_than_others() -> None:
    sums, placed = TermSums(), CarriedTerms(LabelColumns(4), SelectedLabels(), follows_domains=False)
    for number, operator in enumerate(("In", "NotIn")):
        selector = selector_of({"key": "k", "operator": operator, "values": [f"v{n}" for n in range(10_000)]})
        matcher = PodMatcher(frozenset(("default",)), NOTHING, selector)
        sums.file(matcher, 1)
        placed.add(CarriedTerm(Carried.PREFERRED, AffinityTerm(matcher, "zone"), number), 0, 1)
    assert not sums._selectors._wanting
    assert not sums._selectors._excluding
    assert len(placed._by_topology["zone"].index._filed) == 1
    assert [sums.matched("default", {"k": value}, {}).tolist() for value in ("v7", "other")] == [
        [True, False],
        [False, True],
    ]


def selector_of(*expressions: dict[str, Any]) -> Selector:
    return compile_label_selector(convert(LabelSelector, {"matchExpressions": list(expressions)}))
