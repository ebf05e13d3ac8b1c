"""The cost limit."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.cel.library import FUNCTIONS
from kuberth.cel.library.formats import NamedFormat
from kuberth.cel.program import compile_program
from kuberth.cel.values import NONE, WORK, CostExceeded, Optional, Work, size_of
from kuberth.errors import CelRuntimeError
from tests.unit.cel.harness import RUN, Table, answer

ANSWERS: Table = (
    (
        (
            "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all("
            "c, [0,1,2,3,4,5,6,7,8,9].all(d, true))))"
        ),
        True,
    ),
    ("lists.range(100000).all(x, x >= 0)", True),
    ("lists.range(100000).map(x, x).size() == 1", RUN),
    ("lists.range(50000).map(x, x).size() == 50000", True),
    ("lists.range(2000).distinct().size() == 2000", RUN),
    ("lists.range(700).distinct().size() == 700", True),
    (
        (
            'cel.bind(a, "0123456789", cel.bind(b, a+a+a+a+a+a+a+a+a+a, cel.bind(c, b+b+b+b+b+b+b'
            "+b+b+b, c.size() == 1000)))"
        ),
        True,
    ),
    (
        (
            'cel.bind(a, "0123456789", cel.bind(b, a+a+a+a+a+a+a+a+a+a, cel.bind(c, b+b+b+b+b+b+b'
            "+b+b+b, cel.bind(d, c+c+c+c+c+c+c+c+c+c, cel.bind(e, d+d+d+d+d+d+d+d+d+d, cel.bind(f"
            ", e+e+e+e+e+e+e+e+e+e, cel.bind(g, f+f+f+f+f+f+f+f+f+f, g.size() > 1)))))))"
        ),
        RUN,
    ),
    (
        (
            "cel.bind(a, [1,2,3,4,5,6,7,8,9,10], cel.bind(b, a+a+a+a+a+a+a+a+a+a, cel.bind(c, b+b"
            "+b+b+b+b+b+b+b+b, cel.bind(d, c+c+c+c+c+c+c+c+c+c, d.size() == 10000))))"
        ),
        True,
    ),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected


def test_a_cost_that_reaches_the_limit_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile_program("[1, 2].all(x, x > 0)")
    value, cost = program.run(None)
    monkeypatch.setattr("kuberth.cel.program.LIMIT", cost)
    assert program.run(None) == (value, cost)
    monkeypatch.setattr("kuberth.cel.program.LIMIT", cost - 1)
    with pytest.raises(CelRuntimeError, match="cost limit exceeded"):
        program.run(None)


LONG, SHORT = "a" * 25, "a" * 5


@pytest.mark.parametrize(
    ("function", "overloads", "arguments", "cost"),
    [
        pytest.param("matches", ("string.matches(string)",), ("a" * 14, "b" * 9), 2 * 3, id="matches"),
        pytest.param("find", (), ("a" * 14, "b" * 9), 2 * 3, id="find"),
        pytest.param("contains", ("string.contains(string)",), ("a" * 15, LONG), 2 * 3, id="contains"),
        pytest.param(
            "contains", ("string.contains(string)",), (SHORT, LONG), 1 * 3, id="contains in a short text"
        ),
        pytest.param("_<_", ("_<_(string, string)",), (SHORT, LONG), 1, id="the first is shorter"),
        pytest.param("_<_", ("_<_(string, string)",), (LONG, SHORT), 1, id="the second is shorter"),
        pytest.param("_==_", (), (LONG, LONG), 3, id="equal texts"),
        pytest.param("_!=_", (), (LONG, LONG), 3, id="different texts"),
        pytest.param("isSorted", (), ([LONG, LONG, 7],), 2 + 2 + 1, id="a list of texts"),
        pytest.param("isSorted", (), ([LONG.encode()],), 2, id="a list of bytes"),
        pytest.param("containsIP", (), ("a" * 10, LONG), 2 + 3, id="an address as text"),
        pytest.param("containsIP", (), ("a" * 10, 7), 2, id="an address"),
        pytest.param("containsCIDR", (), ("a" * 10, LONG), 2 + 3 + 1 + 1, id="a network"),
        pytest.param("validate", (), (None, LONG), 1, id="no format"),
        pytest.param("validate", (), (NamedFormat("f", 9, lambda _: []), LONG), 3 * 3, id="a named format"),
        pytest.param("replace", (), (LONG,), 5, id="replace"),
        pytest.param(
            "sets.contains",
            ("sets.contains(list(T), list(T))",),
            ([1, 2], [3, 4, 5]),
            1 + 6,
            id="sets.contains",
        ),
        pytest.param(
            "sets.equivalent",
            ("sets.equivalent(list(T), list(T))",),
            ([1, 2], [3, 4, 5]),
            1 + 12,
            id="sets.equivalent",
        ),
        pytest.param("sort", ("list(int).sort()",), ([3, 1, 2],), 18 + 1 + 10, id="sort"),
        pytest.param("sort", ("list(string).sort()",), (["a", "b"],), 8 + 1 + 10, id="sort of texts"),
        pytest.param(
            "@sortByAssociatedKeys",
            ("list(T).@sortByAssociatedKeys(list(int))",),
            ([0], [3, 1]),
            8 + 1 + 10,
            id="sortBy",
        ),
        pytest.param("@in", ("@in(A, list(A))",), (1, [1, 2, 3]), 3, id="in"),
        pytest.param("_+_", ("_+_(string, string)",), (LONG, SHORT), 3, id="texts together"),
    ],
)
def test_costs_before_a_call(
    function: str, overloads: tuple[str, ...], arguments: tuple[Any, ...], cost: int
) -> None:
    before = FUNCTIONS[function].cost(overloads)
    assert before is not None
    WORK.begin()
    assert before(*arguments) == cost


@pytest.mark.parametrize("function", ["sort", "@sortByAssociatedKeys"])
def test_a_sort_whose_type_is_unknown_costs_nothing_before_the_call(function: str) -> None:
    assert FUNCTIONS[function].cost(tuple(FUNCTIONS[function].overloads)) is None


@pytest.mark.parametrize(
    ("function", "overloads", "result", "cost"),
    [
        pytest.param("join", ("list(string).join()",), LONG, 5, id="join"),
        pytest.param("slice", ("list(T).slice(int, int)",), [1, 2, 3], 3 + 1 + 10, id="slice"),
    ],
)
def test_costs_after_a_call(function: str, overloads: tuple[str, ...], result: Any, cost: int) -> None:
    after = FUNCTIONS[function].result_cost(overloads)
    assert after is not None
    assert after(result) == cost


def test_values_without_a_size_count_as_one() -> None:
    values: tuple[Any, ...] = (7, None, True, 1.5, NONE, "", [], Optional("ab"))
    assert [size_of(value) for value in values] == [1, 1, 1, 1, 1, 0, 0, 2]


def test_work_is_counted_over_evaluations() -> None:
    work = Work()
    work.take(work.MOST)
    work.begin()
    work.take(30)
    work.end(5)
    work.begin()
    work.take(7)
    work.end(1)
    assert work.spent == 35 + 8
    with pytest.raises(CostExceeded):
        work.take(work.MOST)


def test_keys_of_other_numeric_types_up_to_the_largest() -> None:
    assert answer("{9223372036854775807: 1}[dyn(9223372036854775807u)] == 1") is True
