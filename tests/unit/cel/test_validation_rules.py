"""Validation rules: what they see of JSON values, and what they give."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.cel.validation_rules import compile_rule
from kuberth.errors import CelCompileError, CelRuntimeError


@pytest.mark.parametrize(
    "rule, value, old, expected",
    [
        ("self.least <= self.most", {"least": 1, "most": 2}, None, True),
        ("self.least <= self.most", {"least": 3, "most": 2}, None, False),
        ("has(self.a) != has(self.b)", {"a": {}}, None, True),
        ("self.?name.orValue('none')", {}, None, "none"),
        ("self.all(each, each.name != '')", [{"name": "x"}, {"name": ""}], None, False),
        ("self.spec == oldSelf.spec", {"spec": {"a": [1]}}, {"spec": {"a": [1]}}, True),
        ("self.spec == oldSelf.spec", {"spec": {"a": [1]}}, {"spec": {"a": [2]}}, False),
        ("has(self.egress) ? ['In', 'Out'] : ['In']", {}, None, ["In"]),
        ("{'a': self}", 1, None, {"a": 1}),
        ("self.?missing", {}, None, None),
        ("self", None, None, None),
    ],
)
def test_what_rules_give(rule: str, value: Any, old: Any, expected: Any) -> None:
    assert compile_rule(rule).evaluate(value, old) == expected


def test_a_rule_does_not_know_devices() -> None:
    with pytest.raises(CelCompileError, match="undeclared reference to 'device'"):
        compile_rule("device.driver == 'x'")


def test_an_absent_field_is_an_error() -> None:
    with pytest.raises(CelRuntimeError, match="no such key: name"):
        compile_rule("self.name == 'x'").evaluate({})


def test_a_rule_that_costs_too_much() -> None:
    rule = compile_rule("self.all(a, self.all(b, self.all(c, a + b + c >= 0)))")
    with pytest.raises(CelRuntimeError, match="cost limit exceeded"):
        rule.evaluate(list(range(1000)))


def test_a_rule_may_nest_as_deep_as_a_selector() -> None:
    assert compile_rule("(" * 200 + "self" + ")" * 200).evaluate(True) is True
    assert compile_rule(f"{'!' * 2}".join(["self == true && "] * 40) + "self").evaluate(True) is True
