"""Arithmetic within 64 bits."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ("1 + 2 * 3 == 7", True),
    ("(1 + 2) * 3 == 9", True),
    ("10 - 3 - 2 == 5", True),
    ("100 / 10 / 5 == 2", True),
    ("7 % 4 * 2 == 6", True),
    ("-7 / 2 == -3", True),
    ("-7 % 3 == -1", True),
    ("7 % -3 == 1", True),
    ("9223372036854775807 + 1 > 0", RUN),
    ("-9223372036854775808 - 1 < 0", RUN),
    ("-9223372036854775808 / -1 > 0", RUN),
    ("-9223372036854775808 % -1 == 0", RUN),
    ("-(-9223372036854775808) > 0", RUN),
    ("9223372036854775807 * 2 > 0", RUN),
    ("1u - 2u > 0u", RUN),
    ("18446744073709551615u + 1u > 0u", RUN),
    ("18446744073709551615u * 2u > 0u", RUN),
    ("1 / 0 == 1", RUN),
    ("1 % 0 == 1", RUN),
    ("1u / 0u == 1u", RUN),
    ("1u % 0u == 1u", RUN),
    ("1.0 / 0.0 > 1e300", True),
    ("-1.0 / 0.0 < -1e300", True),
    ("0.0 / 0.0 == 0.0 / 0.0", False),
    ("0.0 / 0.0 != 0.0 / 0.0", True),
    ("0.0 / 0.0 < 1.0", RUN),
    ("1 < 0.0 / 0.0", RUN),
    ("1.5 % 1.0 == 0.5", COMPILE),
    ("-0.0 == 0.0", True),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
