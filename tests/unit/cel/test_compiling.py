"""Conditions and logic: which operands are evaluated, and which errors are absorbed."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ("true ? 1 == 1 : 2", COMPILE),
    ("true ? 1 : 2", COMPILE),
    ("true ? true : 1", COMPILE),
    ('true ? device.attributes["gpu.example.com"].model : 1', RUN),
    ('true ? device.attributes["gpu.example.com"].healthy : "x"', True),
    ('false ? device.attributes["gpu.example.com"].healthy : "x"', RUN),
    ('(true ? {"a": true} : {"a": false}).a', True),
    ("(true ? [true] : [false])[0]", True),
    ("1 ? true : false", COMPILE),
    ("dyn(1) ? true : false", RUN),
    ('device.attributes["gpu.example.com"].model ? true : false', RUN),
    ("true ? false ? true : false : true", COMPILE),
    ("true || 1", COMPILE),
    ("true || dyn(1)", True),
    ("false || dyn(1)", RUN),
    ("dyn(1) || true", True),
    ("dyn(1) && false", False),
    ("dyn(1) && true", RUN),
    ("1/0 == 1 || true", True),
    ("1/0 == 1 && false", False),
    ("1/0 == 1 || false", RUN),
    ("false && 1/0 == 1", False),
    ("(1/0 == 1 || 2/0 == 1) || true", True),
    ("!(1/0 == 1)", RUN),
    ("!dyn(1)", RUN),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
