"""Literals of all kinds."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, Table, answer

ANSWERS: Table = (
    ('"\\x41\\u0042\\U00000043\\103\\a\\b\\f\\n\\r\\t\\v\\\\\\"\\\'\\`\\?" == "ABC"', False),
    ('\'abc\' == """abc"""', True),
    ('"""a', COMPILE),
    ('b""" == "x"', COMPILE),
    ("'''it's''' == \"it's\"", True),
    ("r'\\n' == \"\\\\n\"", True),
    ("R\"\\n\" == '\\\\n'", True),
    ("r'''a\\b''' == \"a\\\\b\"", True),
    ("b'abc' == b\"\\x61bc\"", True),
    ("b'\\xff' == b\"\\377\"", True),
    ("b'\\u00ff' == b\"x\"", COMPILE),
    ("br'\\xff' == b\"\\\\xff\"", True),
    ("rb'\\xff' == b\"\\\\xff\"", COMPILE),
    (r'bytes("ü") == b"\xc3\xbc"', True),
    (r'b"ü" == b"\xc3\xbc"', True),
    ('size(b"ü") == 2', True),
    (r'"\ud800" == "x"', COMPILE),
    (r'"\U00110000" == "x"', COMPILE),
    (r'"\z" == "x"', COMPILE),
    (r'"\400" == "x"', COMPILE),
    (r'"\18" == "x"', COMPILE),
    ("'a", COMPILE),
    ("b' == 'x'", COMPILE),
    ("0x7fffffffffffffff == 9223372036854775807", True),
    ("9223372036854775808 > 0", COMPILE),
    ("-9223372036854775808 < 0", True),
    ("--9223372036854775808 < 0", COMPILE),
    ("- 9223372036854775808 < 0", True),
    ("-0x8000000000000000 < 0", True),
    ("18446744073709551615u > 0u", True),
    ("18446744073709551616u > 0u", COMPILE),
    ("0xFFu == 255u", True),
    ("0XFF == 255", COMPILE),
    ("1e3 == 1000.0", True),
    ("1E+3 == 1000.0", True),
    ("1e-3 == 0.001", True),
    (".5 == 0.5", True),
    ("5. == 5.0", COMPILE),
    ("1e400 > 1.0", COMPILE),
    ("-1e400 < 1.0", COMPILE),
    ("1.5e == 1.0", COMPILE),
    ("1u == 1u", True),
    ("1U == 1u", True),
    ("-1u < 0u", COMPILE),
    ("-(1u) < 0u", COMPILE),
    ("--1 == 1", True),
    ("---1 == -1", True),
    ("!!true", True),
    ("!!!true", False),
    ("!-1 == true", COMPILE),
    ("-!true", COMPILE),
    ("-true", COMPILE),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
