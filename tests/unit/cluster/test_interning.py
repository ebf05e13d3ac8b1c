from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kuberth.api.selectors import Operator, Requirement, new_requirement
from kuberth.cluster.interning import InternedColumn
from kuberth.cluster.labels import ABSENT, LabelColumn, LabelColumns

ROWS = st.integers(0, 5)
VALUES = st.sampled_from(["a", "b", "c", "d", "1", "20"])
REQUIREMENTS = [
    new_requirement("key", Operator.IN, values=["a", "b"]),
    new_requirement("key", Operator.NOT_IN, values=["a", "1"]),
    new_requirement("key", Operator.EXISTS),
    new_requirement("key", Operator.DOES_NOT_EXIST),
    new_requirement("key", Operator.GREATER_THAN, values=["3"]),
]


class ColumnMachine(RuleBasedStateMachine):
    """A label column beside a plain list, and requirements asked again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.column = LabelColumn("key", np.zeros(6, np.int32))
        self.rows: list[str | None] = [None] * 6
        self.version = 0

    @rule(row=ROWS, value=VALUES)
    def set(self, row: int, value: str) -> None:
        changes = self.rows[row] != value
        self.column.set(row, value)
        self.rows[row] = value
        assert (self.column.version > self.version) is changes
        self.version = self.column.version

    @rule(row=ROWS)
    def clear(self, row: int) -> None:
        self.column.clear(row)
        self.rows[row] = None
        self.version = self.column.version

    @rule(requirement=st.sampled_from(REQUIREMENTS))
    def ask(self, requirement: Requirement) -> None:
        answers = self.column.answers(requirement)
        assert len(answers) == len(self.column.values)
        assert answers[self.column.ids].tolist() == [requirement.matches_value(value) for value in self.rows]

    @rule()
    def grow(self) -> None:
        self.column.grow(len(self.column.ids) + 1)
        self.rows.append(None)

    @invariant()
    def every_row_has_its_value(self) -> None:
        assert [self.column.values[identity] for identity in self.column.ids] == self.rows
        assert [identity == ABSENT for identity in self.column.ids] == [value is None for value in self.rows]

    @invariant()
    def values_in_use_have_one_id_and_others_none(self) -> None:
        for value in ("a", "b", "c", "d", "1", "20"):
            identity = self.column.id_of(value)
            assert (identity is not None) == (value in self.rows)
            assert identity is None or self.column.values[identity] == value

    @invariant()
    def the_dictionary_stays_small(self) -> None:
        # One more than was ever in use together: a new value has its id before the old one is let go.
        assert len(self.column.values) <= 1 + 6 + 1


TestColumn: Any = ColumnMachine.TestCase
TestColumn.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


def test_an_unused_id_is_assigned_to_a_new_value() -> None:
    column: InternedColumn[str] = InternedColumn(4, "")
    column.set(0, "a")
    column.set(1, "b")
    freed = int(column.ids[0])
    column.clear(0)
    assert column.id_of("a") is None
    column.set(2, "c")
    assert int(column.ids[2]) == freed
    assert [column.values[identity] for identity in column.ids] == ["", "b", "c", ""]


def test_answers_are_recomputed_for_an_id_with_a_new_value() -> None:
    column = LabelColumn("key", np.zeros(2, np.int32))
    column.set(0, "a")
    assert column.answers(REQUIREMENTS[0])[column.ids].tolist() == [True, False]
    column.set(0, "c")
    column.set(1, "d")
    assert column.answers(REQUIREMENTS[0])[column.ids].tolist() == [False, False]


@pytest.mark.parametrize("values", [["a"], [str(number) for number in range(1000)]], ids=["few", "many"])
@pytest.mark.parametrize("operator", [Operator.IN, Operator.NOT_IN], ids=["in", "not in"])
def test_an_answer_compares_the_fewer_of_the_values(
    operator: Operator, values: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    column = LabelColumn("key", np.zeros(100, np.int32))
    for row in range(100):
        column.set(row, f"node-{row}")
    column.set(0, "a")
    compared = 0
    matches = Requirement.matches_value

    def counting(requirement: Requirement, value: str | None) -> bool:
        nonlocal compared
        compared += 1
        return matches(requirement, value)

    monkeypatch.setattr(Requirement, "matches_value", counting)
    answers = column.answers(new_requirement("key", operator, values=values))
    assert compared == (0 if values == ["a"] else len(column.values))
    assert answers[column.ids[0]] == ((operator is Operator.IN) == ("a" in values))
    assert answers[column.ids[1]] == (operator is Operator.NOT_IN)


@given(
    st.lists(st.tuples(ROWS, st.dictionaries(st.sampled_from("xyz"), VALUES) | st.none())),
    st.sets(st.sampled_from("xyz")),
)
def test_a_column_made_late_is_like_one_made_early(
    steps: list[tuple[int, dict[str, str] | None]], early: set[str]
) -> None:
    columns = LabelColumns(6)
    for key in early:
        columns.column(key)
    rows: list[dict[str, str]] = [{} for _ in range(6)]
    for row, labels in steps:
        if labels is None:
            columns.clear(row)
        else:
            columns.set(row, labels)
        rows[row] = labels or {}
    columns.grow(9)
    for key in "xyz":
        column = columns.column(key)
        assert [column.values[identity] for identity in column.ids] == [
            *(labels.get(key) for labels in rows),
            None,
            None,
            None,
        ]
        assert columns.column(key) is column


@pytest.mark.parametrize("capacity", [1, 64])
def test_a_new_column_is_all_default(capacity: int) -> None:
    column: InternedColumn[tuple[str, ...]] = InternedColumn(capacity, ())
    assert np.array_equal(column.ids, np.zeros(capacity, np.int32))
    assert column.values == [()]
