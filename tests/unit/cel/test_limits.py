"""Expressions made to hurt: each ends soon, with an answer or one of the two errors.

Where the limit is upstream's (length, depth), it lies exactly where upstream's lies.
"""

from __future__ import annotations

import sys
import time

import pytest

from kuberth.cel.program import compile_program
from kuberth.cel.values import CostExceeded
from kuberth.errors import CelCompileError
from tests.unit.cel.harness import COMPILE, RUN, Answer, answer

_MOST_SECONDS = 30.0  # of processor time; they take one at most, on any machine that is not broken


def bound(levels: int, start: str, step: str, result: str) -> str:
    """A chain of variables, each made of the one before."""
    expression = result.replace("$", f"v{levels}")
    for level in range(levels, 0, -1):
        expression = f"cel.bind(v{level}, {step.replace('$', f'v{level - 1}')}, {expression})"
    return f"cel.bind(v0, {start}, {expression})"


EXACT: dict[str, tuple[str, Answer]] = {
    "250 brackets": ("(" * 249 + "true" + ")" * 249, True),
    "251 brackets": ("(" * 250 + "true" + ")" * 250, COMPILE),
    "250 terms": ("+".join(["1"] * 250) + " == 250", True),
    "251 terms": ("+".join(["1"] * 251) + " == 251", COMPILE),
    "249 accesses": ("dyn({})" + "[0]" * 249 + " == 1", RUN),
    "250 accesses": ("dyn({})" + "[0]" * 250 + " == 1", COMPILE),
    "124 sums in brackets": ("(1+" * 124 + "1" + ")" * 124 + " == 125", True),
    "125 sums in brackets": ("(1+" * 125 + "1" + ")" * 125 + " == 126", COMPILE),
    "many ands": (" && ".join(["true"] * 5000), True),
    "an even number of nots": ("!" * 50000 + "true", True),
    "an odd number of nots": ("!" * 49999 + "true", False),
    "the longest text": ("true" + " " * 99996, True),
    "a longer text": ("true" + " " * 99997, COMPILE),
}
HOSTILE: dict[str, str] = {
    "5,000 brackets": "(" * 5000 + "true" + ")" * 5000,
    "5,000 lists": "[" * 5000 + "]" * 5000 + " == []",
    "20,000 terms": "+".join(["1"] * 20000) + " == 1",
    "40,000 accesses": "device" + ".a" * 40000,
    "5,000 conditions": "true ? true : " * 5000 + "true",
    "8,000 failures": " || ".join(["1/0 == 1"] * 8000),
    "a giant int": "9" * 99000 + " == 1",
    "a giant double": "1." + "9" * 99000 + " == 1.0",
    "a giant exponent": "1e" + "9" * 9000 + " == 1.0",
    "a giant number as text": 'int("' + "9" * 90000 + '") == 1',
    "a giant duration": 'duration("' + "9" * 90000 + 's") == duration("1s")',
    "a giant quantity": 'quantity("' + "9" * 90000 + '").isInteger()',
    "a quantity of many places": 'quantity("1e999999999").add(quantity("1e-9")).isInteger()',
    "compared with it": 'quantity("1e2147483647").compareTo(quantity("1")) == 1',
    "half a character": '"\ud800" == "\ud800" && bytes("\ud800") == b"\ud800" && "\ud800".matches("\ud800")',
    "zero": "\0",
    "quotes without end": '"' * 33333,
    "a text doubled": bound(40, '"0123456789"', "$+$", "$.size() > 1"),
    "a list doubled": bound(60, "[1]", "$+$", "$.size() > 1"),
    "lists in lists": bound(60, "dyn(1)", "dyn([$, $])", "$ == $"),
    "lists in lists, printed": bound(60, "[dyn(1)]", "[dyn($), dyn($)]", '"%s".format([$]) == ""'),
    "lists in lists, flattened": bound(60, "dyn(1)", "dyn([$, $])", "[$].flatten(100).size() > 1"),
    "maps in maps": bound(60, "dyn(1)", 'dyn({"a": $, "b": $})', "[$, $].distinct().size() == 1"),
    "empty lists in lists, walked": bound(60, "dyn([])", "dyn([$, $])", "[$, $].indexOf(1) == 0"),
    "a type doubled": bound(60, "1", "{$: $}", "$ == $"),
    "types to find out": " && ".join(["[] == [{[]: []}]"] * 3000),
    "a target repeated": "optional.of(1)" + ".optMap(x, x)" * 100 + ".hasValue()",
    "a text replaced": bound(30, '"aaaaaaaaaa"', '$.replace("a","aaaaaaaaaa")', "$.size() > 1"),
    "a text joined": bound(40, '"a"', "[$,$,$,$].join($)", "$.size() > 1"),
    "a text formatted": bound(40, '"a"', '"%s%s%s%s".format([$,$,$,$])', "$.size() > 1"),
    "places without end": '"%.999999999f".format([1.5]) != ""',
    "a range without end": "lists.range(9223372036854775807).size() > 1",
    "loops in loops": "lists.range(999).all(a, lists.range(999).all(b, lists.range(999).all(c, a != c)))",
    "failures in loops": "lists.range(999).all(a, lists.range(999).all(b, 1/0 == 1))",
    "a pattern that doubles": '"' + "a" * 1000 + '!".matches("^(a+)+$")',
    "a pattern that counts": '"' + "a" * 3000 + '".matches("(a?){1000}a{1000}")',
    "a pattern too large": '"a".matches("' + "a{1000}" * 5000 + '")',
    "a pattern too deep": '"a".matches("' + "(" * 1500 + "a" + ")" * 1500 + '")',
    "a search at every place": '"' + "a" * 9000 + '".findAll("a.*b|a").size() > 1',
    "a long name": bound(16, '"a.a.a.a.a-"', "$+$", "format.dns1123Subdomain().validate($).hasValue()"),
    "a zone that is a file": 'timestamp(0).getHours("/etc/passwd") == 1',
    "a zone far away": 'timestamp(0).getHours("999999999:00") == 1',
    "a key that is none": '{dyn(b"a"): device.driver}[dyn(b"a")] == ""',
}


@pytest.mark.parametrize("name", EXACT)
def test_upstreams_limits(name: str) -> None:
    expression, expected = EXACT[name]
    assert answer(expression) == expected


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_hangs_or_escapes(name: str) -> None:
    before = time.process_time()
    answer(HOSTILE[name])
    assert time.process_time() - before < _MOST_SECONDS


def test_the_recursion_limit_is_given_back() -> None:
    before = sys.getrecursionlimit()
    answer(HOSTILE["5,000 brackets"])
    answer(EXACT["250 brackets"][0])
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("error", [RecursionError, MemoryError, CostExceeded])
def test_what_cannot_be_compiled_here_is_too_large(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(*_given: object) -> None:
        raise error

    monkeypatch.setattr("kuberth.cel.program.parse", parse)
    with pytest.raises(CelCompileError, match="the expression is too large"):
        compile_program("true")
