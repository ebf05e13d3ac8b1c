"""What is an expression, and what is none."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ("int", COMPILE),
    ("dyn", COMPILE),
    ('kubernetes.DRADevice{driver: "a"} == device', RUN),
    ("Foo{a: 1} == 1", COMPILE),
    ('.device.driver == "gpu.example.com"', True),
    ('.size("abc") == 3', True),
    ("device.driver.size() == 15", True),
    ('device . driver == "gpu.example.com"', True),
    ('device.`driver` == "x"', COMPILE),
    ('{"a": 1}.`a` == 1', COMPILE),
    ("device.in == 1", COMPILE),
    ("device.if == 1", COMPILE),
    ("if == 1", COMPILE),
    ("for(1) == 1", COMPILE),
    ("true == true // x", True),
    ("1 == 1 // x", True),
    ("/* x */ true", COMPILE),
    ("true;", COMPILE),
    ("true true", COMPILE),
    ("true &&", COMPILE),
    ("&& true", COMPILE),
    ("(true", COMPILE),
    ("true)", COMPILE),
    ("[1, 2,] == [1, 2]", True),
    ("[,] == []", True),
    ("[1,,2] == [1]", COMPILE),
    ("{,} == {}", True),
    ('{"a": 1,} == {"a": 1}', True),
    ("size([1,]) == 1", True),
    ("size(1,) == 1", COMPILE),
    ("size() == 1", COMPILE),
    ("size(1, 2) == 1", COMPILE),
    ("f(1)", COMPILE),
    ('"a".f(1)', COMPILE),
    ("x", COMPILE),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
