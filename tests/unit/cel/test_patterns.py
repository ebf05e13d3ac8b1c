"""Patterns find what Python's own find, where both languages mean the same; the rest is a table."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.cel.patterns import PatternError, compile_pattern
from kuberth.cel.values import WORK, CostExceeded

_ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", r"\d", r"\w", "^", "$", r"\b", "(?:ab|a)"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("(?:{})(?:{})".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("(?:{}){}".format, inner, st.sampled_from(["?", "*", "+", "{2}", "{1,2}", "??", "*?"])),
    )


PATTERNS = st.recursive(_ATOMS, _larger, max_leaves=6)


@settings(deadline=None, max_examples=500)
@given(PATTERNS, st.text("abc1\n", max_size=8))
def test_as_python_finds(pattern: str, text: str) -> None:
    # Python's $ also matches before a newline at the end; RE2's does not.
    WORK.begin()
    expected = re.search(pattern.replace("$", r"\Z"), text, re.ASCII)
    assert compile_pattern(pattern).matches(text) == (expected is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a|ab", "abab", "a"),
        ("ab|a", "abab", "ab"),
        ("a+?", "aaa", "a"),
        ("(?U)a+", "aaa", "a"),
        ("(a|ab)(b|)", "xaab", "a"),
        ("(?i)straße", "STRAßE", "STRAßE"),
        ("(?m)^b$", "a\nb\nc", "b"),
        ("x*", "aaa", ""),
        (".", "\ud800", "\ufffd"),
        (r"\Q\C\E", r"\C", r"\C"),
        (r"\\C", r"\C", r"\C"),
        ("[(]" * 3, "(((", "((("),
    ],
)
def test_the_leftmost_is_found_and_of_several_the_first(pattern: str, text: str, found: str) -> None:
    WORK.begin()
    assert compile_pattern(pattern).find(text) == found


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("[a", "missing closing ]: `[a`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("[z-a]", "invalid character class range: `z-a`"),
        (r"\pX", r"invalid character class range: `\pX`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?P<é>a)", "invalid named capture: `(?P<é>`"),
        (r"a\C", r"invalid escape sequence: `\C`"),
        ("a{1000}" * 5000, "expression too large: ``"),
        ("(" * 1001 + ")" * 1001, f"expression nests too deeply: `{'(' * 1001 + ')' * 1001}`"),
    ],
)
def test_what_go_refuses(pattern: str, problem: str) -> None:
    with pytest.raises(PatternError) as raised:
        compile_pattern(pattern)
    assert str(raised.value) == f"error parsing regexp: {problem}"


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("a*", "baab", ["", "aa", ""]),
        ("^a", "aaa", ["a"]),
        ("", "äb", ["", "", ""]),
        ("ü|a", "aüa", ["a", "ü", "a"]),
    ],
)
def test_all_parts_that_match(pattern: str, text: str, found: list[str]) -> None:
    WORK.begin()
    assert list(compile_pattern(pattern).find_all(text, -1)) == found


def test_searches_take_from_the_work_of_an_evaluation() -> None:
    WORK.begin()
    pattern = compile_pattern("(a?){1000}a{1000}")
    pattern.matches("a" * 3000)
    with pytest.raises(CostExceeded):
        pattern.matches("a" * 3000)
    WORK.begin()
    with pytest.raises(CostExceeded):
        list(compile_pattern("a.*b|a").find_all("a" * 9000, -1))
    WORK.begin()


def test_a_search_takes_a_tenth_of_its_instructions() -> None:
    pattern = compile_pattern("ab")
    size = pattern._size
    for search in (lambda: pattern.matches("x" * 500), lambda: list(pattern.find_all("x" * 500, -1))):
        WORK.begin()
        search()
        assert WORK.MOST - WORK.left == 1 + 500 * size // 10
