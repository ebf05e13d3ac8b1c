from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.cluster.counting import SPARSE_ROWS, RowCounts

MANY = SPARSE_ROWS + 12
"""Enough rows that a count becomes a column."""


def counted(numbers: dict[int, int]) -> RowCounts:
    counts = RowCounts()
    for row, number in numbers.items():
        counts.add(row, number)
    return counts


def as_dict(counts: RowCounts) -> dict[int, int]:
    rows = counts.rows()
    return dict(zip(rows.tolist(), counts.at(rows).tolist(), strict=True))


@pytest.mark.parametrize("rows", [0, 1, 5, SPARSE_ROWS, SPARSE_ROWS + 1, MANY])
def test_counts_are_the_same_sparse_and_dense(rows: int) -> None:
    expected = {3 * row: row + 1 for row in range(rows)}
    counts = counted(expected)
    assert as_dict(counts) == expected
    assert counts.total == sum(expected.values())
    column = counts.column(3 * MANY)
    assert {row: int(number) for row, number in enumerate(column) if number} == expected
    assert counts[1] == 0
    assert counts[10_000] == 0


def test_a_count_that_returns_to_zero_leaves_no_row() -> None:
    counts = counted({4: 2, 9: 1})
    counts.add(4, -2)
    assert as_dict(counts) == {9: 1}
    assert counts.total == 1


def test_a_dense_count_grows_with_the_rows() -> None:
    counts = counted(dict.fromkeys(range(MANY), 1))
    counts.add(5 * MANY, 7)
    assert counts[5 * MANY] == 7
    assert len(counts.column(10 * MANY)) == 10 * MANY
    assert counts.column(10 * MANY)[5 * MANY] == 7


numbers = st.dictionaries(st.integers(0, 300), st.integers(1, 9), max_size=2 * MANY)


@given(numbers, numbers)
def test_adding_all_of_another_adds_row_by_row(one: dict[int, int], other: dict[int, int]) -> None:
    counts, others = counted(one), counted(other)
    counts.add_all(others)
    assert as_dict(counts) == {row: one.get(row, 0) + other.get(row, 0) for row in {*one, *other}}
    assert counts.total == sum(one.values()) + sum(other.values())
    assert as_dict(others) == other


@given(numbers)
def test_a_whole_column_can_become_a_count(expected: dict[int, int]) -> None:
    column = np.zeros(301, np.int64)
    for row, number in expected.items():
        column[row] = number
    counts = RowCounts.of(column)
    assert as_dict(counts) == expected
    assert counts.total == sum(expected.values())
    counts.add(0, 1)
    assert counts[0] == expected.get(0, 0) + 1
