"""Lists taken as sets."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, Table, answer

ANSWERS: Table = (
    ("sets.contains([1, 2], [1])", True),
    ("sets.contains([1], [])", True),
    ("sets.contains([], [1])", False),
    ('sets.contains([1], ["a"])', COMPILE),
    ("sets.contains([dyn(1)], [dyn(1.0)])", True),
    ("sets.equivalent([1, 1], [1])", True),
    ("sets.intersects([1], [2])", False),
    ("sets.intersects([], [])", False),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
