"""Texts."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ('"abc".charAt(3) == ""', True),
    ('"abc".charAt(4) == ""', RUN),
    ('"abc".charAt(-1) == ""', RUN),
    ('"Grüße".charAt(2) == "ü"', True),
    ('"hello".indexOf("l") == 2', True),
    ('"hello".indexOf("l", 3) == 3', True),
    ('"hello".indexOf("l", 9) == -1', True),
    ('"hello".indexOf("l", -1) == -1', RUN),
    ('"hello".indexOf("") == 0', True),
    ('"hello".indexOf("", 9) == 9', True),
    ('"hello".indexOf("z") == -1', True),
    ('"hello".lastIndexOf("l") == 3', True),
    ('"hello".lastIndexOf("l", 2) == 2', True),
    ('"hello".lastIndexOf("l", 1) == -1', True),
    ('"hello".lastIndexOf("") == 5', True),
    ('"hello".lastIndexOf("", 2) == 2', True),
    ('"hello".lastIndexOf("l", 9) == -1', True),
    ('"hello".lastIndexOf("l", -1) == -1', RUN),
    ('"hello".lastIndexOf("lo", 3) == 3', True),
    ('"hello".lastIndexOf("lo", 4) == 3', True),
    ('"hello".lastIndexOf("hello world") == -1', True),
    ('"".lastIndexOf("a") == -1', True),
    ('"ÀBC".lowerAscii() == "Àbc"', True),
    ('"àbc".upperAscii() == "àBC"', True),
    ('"aaa".replace("a", "b") == "bbb"', True),
    ('"aaa".replace("a", "b", 2) == "bba"', True),
    ('"aaa".replace("a", "b", 0) == "aaa"', True),
    ('"aaa".replace("a", "b", -1) == "bbb"', True),
    ('"abc".replace("", "-") == "-a-b-c-"', True),
    ('"abc".replace("", "-", 2) == "-a-bc"', True),
    ('"a,b,c".split(",") == ["a", "b", "c"]', True),
    ('"a,b,c".split(",", 2) == ["a", "b,c"]', True),
    ('"a,b,c".split(",", 0) == []', True),
    ('"a,b,c".split(",", -1) == ["a", "b", "c"]', True),
    ('"a,b,c".split(",", 1) == ["a,b,c"]', True),
    ('"abc".split("") == ["a", "b", "c"]', True),
    ('"abc".split("", 2) == ["a", "bc"]', True),
    ('"".split("") == []', True),
    ('"".split(",") == [""]', True),
    ('"abc".substring(1) == "bc"', True),
    ('"abc".substring(3) == ""', True),
    ('"abc".substring(4) == ""', RUN),
    ('"abc".substring(1, 2) == "b"', True),
    ('"abc".substring(2, 1) == "b"', RUN),
    ('"abc".substring(0, 9) == "b"', RUN),
    ('"abc".substring(-1, 2) == "b"', RUN),
    (r'"  \t\n x \u00a0\u2003".trim() == "x"', True),
    (r'"\u200bx".trim() == "x"', False),
    ('["a", "b"].join() == "ab"', True),
    ('["a", "b"].join(",") == "a,b"', True),
    ('[].join(",") == ""', True),
    ('[1].join(",") == ""', COMPILE),
    ('[dyn(1)].join(",") == ""', RUN),
    ('[dyn("a"), dyn(1)].join(",") == ""', RUN),
    (r'strings.quote("a\"b\n") == "\"a\\\"b\\n\""', True),
    (r'strings.quote("ü\x01") == "\"ü\x01\""', True),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
