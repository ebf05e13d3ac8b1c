"""Equality and order, across types."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ("1 == 1u", COMPILE),
    ("dyn(1) == 1u", True),
    ("dyn(1) == 1.0", True),
    ("dyn(1u) == 1.0", True),
    ('dyn(1) == "1"', False),
    ("dyn(true) == 1", False),
    ("1 < 2u", True),
    ("1u < 2", True),
    ("1.5 < 2", True),
    ("1 < 1.5", True),
    ("1u <= 1.0", True),
    ("9223372036854775807 < 9223372036854775808.0", False),
    ("dyn(9223372036854775807) == 9223372036854775807.0", True),
    ("dyn(9223372036854775807) == 9223372036854775808.0", True),
    ("dyn(18446744073709551615u) == 18446744073709551616.0", True),
    ("dyn(-1) < 1u", True),
    ("dyn(18446744073709551615u) > 9223372036854775807", True),
    ('"a" < "b"', True),
    ('"a" < "ü"', True),
    ('"Z" < "a"', True),
    ('b"a" < b"b"', True),
    ("true > false", True),
    ("true < 1", COMPILE),
    ("null < null", RUN),
    ("null == null", True),
    ("null == 1", COMPILE),
    ("null == dyn(1)", False),
    ("dyn(null) == 1", False),
    ('null != "a"', COMPILE),
    ("[1] < [2]", COMPILE),
    ("{} == {}", True),
    ('{"a": 1} == {"a": 1.0}', COMPILE),
    ('{"a": dyn(1)} == {"a": dyn(1.0)}', True),
    ("[1] == [1.0]", COMPILE),
    ("[dyn(1)] == [dyn(1.0)]", True),
    ("[1, 2] == [1]", False),
    ("[[1], [2]] == [[1], [2]]", True),
    ("[] == []", True),
    ("[] == [1]", False),
    ('{} == {"a": 1}', False),
    ("{0u: true}[dyn(0.0)]", True),
    ("{0: true}[dyn(0.0)]", True),
    ("{0: true}[dyn(0u)]", True),
    ("{0u: true}[dyn(0)]", True),
    ("{0: true}[dyn(0.5)]", RUN),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
