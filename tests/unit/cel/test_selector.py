"""A selector answers equal devices from memory, remembers failures too, and never grows without end."""

from __future__ import annotations

import pytest

from kuberth.cel import CelCompileError, CelRuntimeError, DeviceContent, compile_selector, selector
from kuberth.cel.values import WORK
from tests.unit.cel.harness import DEVICE


def device(index: int) -> DeviceContent:
    return DeviceContent("d", attributes={"index": ("int", index)}, capacity={})


def test_an_expression_is_compiled_once() -> None:
    assert compile_selector("1 == 1") is compile_selector("1 == 1")


def test_equal_devices_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = compile_selector('device.attributes["d"].index == 7')
    assert asked.matches(device(7))
    monkeypatch.setattr(asked, "_program", None)
    assert asked.matches(device(7))


def test_a_failure_is_remembered_and_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = compile_selector('device.attributes["d"].nope == 7')
    for _ in range(2):
        with pytest.raises(CelRuntimeError, match=r"^no such key: nope$"):
            asked.matches(device(7))
        monkeypatch.setattr(asked, "_program", None)


def test_the_memory_is_bounded() -> None:
    asked = compile_selector('device.attributes["d"].index >= 0')
    for index in range(selector._MAX_ANSWERS + 10):
        assert asked.matches(device(index))
    assert len(asked._answers) <= selector._MAX_ANSWERS


@pytest.mark.parametrize(
    ("attribute", "problem"),
    [
        (("ints", 1), "attribute a: unsupported attribute value"),
        (("int", 2**63), "attribute a: unsupported attribute value"),
        (("int", "1"), "attribute a: unsupported attribute value"),
        (("version", "1.2"), "attribute a: parse semantic version: No Major.Minor.Patch elements found"),
    ],
)
def test_an_attribute_that_has_no_value_fails_every_selector(
    attribute: tuple[str, int | str], problem: str
) -> None:
    with pytest.raises(CelRuntimeError) as raised:
        compile_selector("true").matches(DeviceContent("d", attributes={"a": attribute}, capacity={}))
    assert str(raised.value) == problem


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("1", "must evaluate to bool or the unknown type, not int"),
        (
            'device.attributes["x"]',
            "must evaluate to bool or the unknown type, not map(string, google.protobuf.Any)",
        ),
        ('int("x") == 1', "program instantiation failed: type conversion error from 'string' to 'int'"),
        (
            "device.nope == 1 || x",
            "compilation failed: ERROR: <input>:1:7: undefined field 'nope'\n"
            " | device.nope == 1 || x\n"
            " | ......^\n"
            "ERROR: <input>:1:21: undeclared reference to 'x' (in container '')\n"
            " | device.nope == 1 || x\n"
            " | ....................^",
        ),
        (
            '"ü" ==\n  1',
            "compilation failed: ERROR: <input>:1:5: found no matching overload for '_==_' applied to"
            " '(string, int)'\n"
            ' | "ü" ==\n'
            " | .．..^",
        ),
    ],
)
def test_what_is_wrong_is_shown_where_it_is(expression: str, problem: str) -> None:
    with pytest.raises(CelCompileError) as raised:
        compile_selector(expression)
    assert str(raised.value) == problem


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (
            'device.attributes["gpu.example.com"].model',
            "CEL result of type string could not be converted to bool:"
            " unsupported native conversion from string to 'bool'",
        ),
        ("1 / (3 - size([1, 2, 3])) == 1", "division by zero"),
        ('device.attributes["gpu.example.com"].big + 1 == 1', "integer overflow"),
        ("[1][size([1])] == 1", "index out of bounds: 1"),
        ('"abc".charAt(4) == ""', "index out of range: 4"),
        (
            "lists.range(999).all(a, lists.range(999).all(b, a + b >= 0))",
            "operation cancelled: actual cost limit exceeded",
        ),
    ],
)
def test_failures_have_upstreams_words(expression: str, problem: str) -> None:
    with pytest.raises(CelRuntimeError) as raised:
        compile_selector(expression).matches(DEVICE)
    assert str(raised.value) == problem


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("true", 0),
        ('device.driver == "x"', 3),
        ('device.attributes["gpu.example.com"].model == "a100"', 5),
        ('device.attributes["gpu.example.com"].nope == "a100" || true', 5),
        ('has(device.attributes["gpu.example.com"].model)', 3),
        ("[1, 2, 3].all(x, x > 0)", 16),
        ("[1, 2].map(x, x + 1) == [2, 3]", 30),
    ],
)
def test_costs_are_upstreams(expression: str, cost: int) -> None:
    assert compile_selector(expression).cost(DEVICE) == cost


def test_a_changed_quantity_is_changed_for_one_evaluation_only() -> None:
    """Upstream changes what the device points to, for good; here the next evaluation starts afresh."""
    changing = compile_selector('device.capacity["gpu.example.com"].bw.add(1) == quantity("0")')
    fresh = compile_selector(
        'device.capacity["gpu.example.com"].bw == quantity("12345678901234567890") || false'
    )
    changing.matches(DEVICE)
    assert fresh.matches(DEVICE)


def test_a_slow_pattern_in_loops_ends_soon() -> None:
    """kube-apiserver accepts it. The work of all patterns counts against one limit for the evaluation."""
    outer, inner = ("[" + ",".join(map(str, range(length))) + "]" for length in (40, 45))
    text = "a" * 1400
    slow = f"{outer}.all(i, {inner}.all(j, '{text}'.matches('(a?){{1000}}b') || true))"
    asked = compile_selector(slow)
    WORK.begin()
    before = WORK.spent
    with pytest.raises(CelRuntimeError, match="actual cost limit exceeded"):
        asked.matches(DEVICE)
    assert WORK.spent - before < 3 * WORK.MOST


@pytest.mark.parametrize(("bound", "name"), [("{}", "map"), ("[]", "list")])
def test_an_empty_collection_that_is_bound_has_its_type(bound: str, name: str) -> None:
    with pytest.raises(CelRuntimeError, match=f"invalid qualifier type: {name}"):
        compile_selector(f"cel.bind(x, {bound}, dyn(1)[dyn(x)]) == 1").matches(DEVICE)
