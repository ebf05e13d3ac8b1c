"""Lists."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ("[1, 2, 3].isSorted()", True),
    ("[3, 2].isSorted()", False),
    ('["a", "b"].isSorted()', True),
    ("[].isSorted()", True),
    ('[dyn(1), dyn("a")].isSorted()', True),
    ("[true, false].isSorted()", False),
    ("[[1]].isSorted()", COMPILE),
    ("[1.5, 2.5].isSorted()", True),
    ('[duration("1s"), duration("2s")].isSorted()', True),
    ("[1, 2].sum() == 3", True),
    ("[1.5, 2.5].sum() == 4.0", True),
    ("[1u, 2u].sum() == 3u", True),
    ("[].sum() == 0", True),
    ('["a"].sum() == "a"', COMPILE),
    ('[duration("1s"), duration("2s")].sum() == duration("3s")', True),
    ("[9223372036854775807, 1].sum() == 0", RUN),
    ("dyn([]).sum() == 0", True),
    ("dyn([1.5]).sum() == 1.5", True),
    ("dyn([dyn(1), dyn(1.5)]).sum() == 2.5", RUN),
    ("[1, 3, 2].max() == 3", True),
    ("[1, 3, 2].min() == 1", True),
    ('["b", "a"].min() == "a"', True),
    ("[].max() == 1", RUN),
    ('[dyn(1), dyn("a")].max() == 1', True),
    ("[1, 2, 1].indexOf(1) == 0", True),
    ("[1, 2, 1].lastIndexOf(1) == 2", True),
    ("[1, 2, 1].indexOf(5) == -1", True),
    ('[1, 2].indexOf("a") == -1', COMPILE),
    ('[dyn(1), dyn("a")].indexOf("a") == 1', True),
    ("[1, 2, 3, 4].slice(1, 3) == [2, 3]", True),
    ("[1, 2].slice(0, 3) == []", RUN),
    ("[1, 2].slice(2, 1) == []", RUN),
    ("[1, 2].slice(-1, 1) == []", RUN),
    ("[1, 2].slice(0, 0) == []", True),
    ("[[1], [2, [3]]].flatten() == [1]", COMPILE),
    ("[[1], [2]].flatten() == [1, 2]", True),
    ("[[[1]], [[2]]].flatten() == [[1], [2]]", True),
    ("[[[1]], [[2]]].flatten(2) == [1, 2]", True),
    ("[[[1]], [[2]]].flatten(0) == [1]", False),
    ("[[[1]], [[2]]].flatten(-1) == [1]", RUN),
    ("[1].flatten() == [1]", COMPILE),
    ("[[1]].flatten(1u) == [1]", COMPILE),
    ("[3, 1, 2].sort() == [1, 2, 3]", True),
    ('["b", "a"].sort() == ["a", "b"]', True),
    ("[[1]].sort() == [[1]]", COMPILE),
    ("[].sort() == []", True),
    ('[dyn(1), dyn("a")].sort() == []', RUN),
    ("dyn([3, 1]).sort() == [1, 3]", True),
    ('dyn("abc").sort() == []', RUN),
    ('[{"a": 2}, {"a": 1}].sortBy(x, x.a) == [{"a": 1}, {"a": 2}]', True),
    ('["bb", "a"].sortBy(x, x.size()) == ["a", "bb"]', True),
    ("[1, 2].sortBy(x, -x) == [2, 1]", True),
    ("[1, 2].sortBy(x, [x]) == [2, 1]", COMPILE),
    ("1.sortBy(x, x) == 1", COMPILE),
    ("lists.range(3) == [0, 1, 2]", True),
    ("lists.range(0) == []", True),
    ("lists.range(-1) == []", True),
    ("lists.range(2000000).size() > 1", RUN),
    ("[1, 2].reverse() == [2, 1]", True),
    ('"abc".reverse() == "cba"', COMPILE),
    ("[1, 1, 2].distinct() == [1, 2]", True),
    ('[dyn(1), dyn(1.0), dyn("a")].distinct().size() == 2', True),
    ("[[1], [1]].distinct() == [[1]]", True),
    ("[].distinct() == []", True),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
