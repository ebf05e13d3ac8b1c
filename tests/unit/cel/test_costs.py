"""The cost limit."""

from __future__ import annotations

import pytest

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
