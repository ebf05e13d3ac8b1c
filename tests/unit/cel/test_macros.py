"""Macros that loop, bind or ask."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ("[1, 2, 3].all(x, x > 0)", True),
    ("[1, 2, 3].all(x, x > 1)", False),
    ("[1, 0].all(x, 1/x > 5)", False),
    ("[0, 1].all(x, 1/x > 5)", False),
    ("[0, 1].all(x, 1/x > 0)", RUN),
    ("[0, 1].exists(x, 1/x > 0)", True),
    ("[0].exists(x, 1/x > 0)", RUN),
    ("[0, 1].exists_one(x, 1/x > 0)", RUN),
    ("[0, 1].existsOne(x, x == 1)", COMPILE),
    ("[1, 1].exists_one(x, x == 1)", False),
    ("[].all(x, x > 0)", True),
    ("[].exists(x, x > 0)", False),
    ("[].exists_one(x, x > 0)", False),
    ("[1, 2].map(x, x * 2) == [2, 4]", True),
    ("[1, 2].map(x, x > 1, x * 2) == [4]", True),
    ("[1, 2].filter(x, x > 1) == [2]", True),
    ("[0, 1].map(x, 1/x) == [1]", RUN),
    ('{"a": 1, "b": 2}.map(k, k).size() == 2', True),
    ('{"a": 1}.filter(k, k == "a") == ["a"]', True),
    ('{"a": 1}.exists(k, v, v == 1)', True),
    ('{"a": 1}.exists_one(k, v, v == 1)', True),
    ('{"a": 1}.existsOne(k, v, v == 1)', True),
    ("[3, 4].all(i, v, v - i == 3)", True),
    ("[3, 4].transformList(i, v, i * v) == [0, 4]", True),
    ("[3, 4].transformList(i, v, i > 0, i * v) == [4]", True),
    ('{"a": 1}.transformMap(k, v, v + 1) == {"a": 2}', True),
    ('{"a": 1, "b": 2}.transformMap(k, v, v > 1, v + 1) == {"b": 3}', True),
    ("[1, 2].transformMap(i, v, v) == {0: 1, 1: 2}", True),
    ('{"a": "x"}.transformMapEntry(k, v, {v: k}) == {"x": "a"}', True),
    ('{"a": "x", "b": "x"}.transformMapEntry(k, v, {v: k}) == {"x": "a"}', RUN),
    ('{"a": "x"}.transformMapEntry(k, v, k == "z", {v: k}) == {}', True),
    ("[1, 2].transformMapEntry(i, v, {v: i}) == {1: 0, 2: 1}", True),
    ("[1].all(x.y, true)", COMPILE),
    ("[1].all(1, true)", COMPILE),
    ("[1].all(__result__, true)", COMPILE),
    ("[1].map(x, __result__) == [[]]", COMPILE),
    ("[1, 2].map(x, __result__.size()) == [0, 1]", COMPILE),
    ("[1].all(x, x, true)", COMPILE),
    ("[1].map(x, y)", COMPILE),
    ("[1].map(x)", COMPILE),
    ('"abc".all(x, true)', COMPILE),
    ('dyn("abc").all(x, true)', RUN),
    ("dyn(1).all(x, true)", RUN),
    ('device.attributes["gpu.example.com"].model.all(x, true)', COMPILE),
    ('device.attributes["gpu.example.com"].model.exists(x, true)', COMPILE),
    ('dyn(device.attributes["gpu.example.com"].model).exists(x, true)', RUN),
    ("[1, 2].all(x, [3].all(x, x == 3))", True),
    ("[[1], [2]].all(x, x.all(y, y > 0))", True),
    ("cel.bind(x, 1, x + 1 == 2)", True),
    ("cel.bind(x, 1/0, true)", True),
    ("cel.bind(x, 1/0, x == 1 || true)", True),
    ("cel.bind(x.y, 1, true)", COMPILE),
    ("cel.bind(x, [1], x + [2] == [1, 2])", True),
    ("cel.bind(x, [], (x + [1]).size() + (x + [2]).size() == 3)", True),
    ("cel.bind(x, [], (x + [1]).size() + (x + [2]).size() == 2)", False),
    ("cel.bind(t, type(1), t == int)", COMPILE),
    ('cel.bind(x, device.attributes["gpu.example.com"], x.model == "a100")', True),
    ("cel.bind(device, 1, device == 1)", True),
    ("foo.bind(x, 1, true)", COMPILE),
    ("cel.bind(x, 1)", COMPILE),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
