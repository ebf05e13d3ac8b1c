"""Maps and lists: access, presence, membership."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ('{1: "a"}[1] == "a"', True),
    ('{1: "a"}[dyn(1.0)] == "a"', True),
    ('{1: "a"}[dyn(1u)] == "a"', True),
    ('{1u: "a"}[dyn(1)] == "a"', True),
    ('{true: "a"}[true] == "a"', True),
    ('{true: "a"}[dyn(1)] == "a"', RUN),
    ('{1.5: "a"}[1.5] == "a"', True),
    ('{"a": 1}.a == 1', True),
    ('{"a": 1}.b == 1', RUN),
    ('{"a": 1}["b"] == 1', RUN),
    ('{"a": {"b": 2}}.a.b == 2', True),
    ('has({"a": 1}.a)', True),
    ('has({"a": 1}.b)', False),
    ('has({"a": {"b": 1}}.a.b)', True),
    ('has({"a": {"b": 1}}.c.b)', RUN),
    ("has(device.driver)", True),
    ("has(device.nosuch)", COMPILE),
    ("has(device.attributes)", True),
    ("has(device)", COMPILE),
    ('has(device.attributes["gpu.example.com"]["model"])', COMPILE),
    ('has(device.attributes["gpu.example.com"].?model)', COMPILE),
    ('has(device.attributes["gpu.example.com"].model.x)', False),
    ("has(has(device.driver))", True),
    ("[1, 2, 3][0] == 1", True),
    ("[1, 2, 3][3] == 1", RUN),
    ("[1, 2, 3][-1] == 1", RUN),
    ("[1, 2, 3][dyn(1.0)] == 2", True),
    ("[1, 2, 3][dyn(1.5)] == 2", RUN),
    ("[1, 2, 3][dyn(1u)] == 2", True),
    ('[1, 2, 3][dyn("a")] == 2', RUN),
    ("[1, 2, 3][1u] == 2", COMPILE),
    ('"abc"[0] == "a"', COMPILE),
    ('dyn("abc")[0] == "a"', RUN),
    ("dyn(1).x == 1", RUN),
    ('dyn({"x": 1}).x == 1', True),
    ("dyn([1]).x == 1", RUN),
    ("has(dyn([1]).x)", RUN),
    ("has(dyn(1).x)", False),
    ("1 in [1, 2]", True),
    ("1 in [dyn(1.0)]", True),
    ("1 in [1.0]", COMPILE),
    ("dyn(1) in [1.0]", True),
    ("dyn(1.0) in [1, 2]", True),
    ("dyn(1u) in [1, 2]", True),
    ('"a" in {"a": 1}', True),
    ('1 in {"a": 1}', COMPILE),
    ('dyn(1) in {"a": 1}', False),
    ("dyn(1) in {1u: 1}", True),
    ('"a" in "abc"', COMPILE),
    ('"a" in dyn("abc")', RUN),
    ("null in [null]", True),
    ("1 in []", False),
    ("[1] in [[1], [2]]", True),
    ('{"a": 1} in [{"a": 1}]', True),
    ('b"a" in [b"a"]', True),
    ('device.attributes["gpu.example.com"].driverVersion in ["a"]', RUN),
    ('device.attributes["gpu.example.com"].driverVersion in [semver("1.2.3")]', True),
    (
        (
            'device.attributes["gpu.example.com"].driverVersion in [device.attributes["gpu.exampl'
            'e.com"].driverVersion]'
        ),
        True,
    ),
    ('device.attributes["gpu.example.com"].index in [1, 2, 3]', True),
    ('device.attributes["gpu.example.com"].index in [1.0, 2.0, 3.0]', True),
    ('device.attributes["gpu.example.com"].model in ["a100", "x"]', True),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
