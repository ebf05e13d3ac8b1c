"""Whatever the text, the tree or the device: an answer, or one of the two errors."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kuberth.cel import CelCompileError, CelRuntimeError, DeviceContent, compile_selector

PLAIN = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])

WORDS = st.sampled_from(
    [
        *(
            "device",
            "driver",
            "attributes",
            "capacity",
            ".",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            "?",
            "!",
        ),
        *(
            "-",
            "+",
            "*",
            "/",
            "%",
            "&&",
            "||",
            "==",
            "!=",
            "<",
            "<=",
            ">",
            ">=",
            "in",
            "true",
            "false",
            "null",
        ),
        *(
            "1",
            "0",
            "-1",
            "1u",
            "1.5",
            "0x1F",
            "9223372036854775807",
            '"a"',
            "'b'",
            'b"c"',
            "x",
            "size",
            "int",
        ),
        *('"""d"""', 'r"e"', "has", "all", "exists", "map", "filter", "cel.bind", "optional.of", ".?", "[?"),
        *("string", "matches", "find", "split", "join", "format", "quantity", "semver", "duration"),
    ]
)

LEAVES = st.sampled_from(
    [
        *("1", "0", "-7", "2u", "1.5", "true", "false", "null", '"a"', '"1.2.3"', '""', 'b"a"', "[]", "{}"),
        *("device", "device.driver", 'device.attributes["d"]', 'device.attributes["d"].i', "x"),
        *('device.attributes["d"].s', 'device.attributes["d"].v', 'device.capacity["d"].m', "int"),
        *('quantity("1Gi")', 'semver("1.0.0")', 'duration("1s")', "timestamp(0)", "optional.none()"),
    ]
)


def _deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operator = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||"])
    method = st.sampled_from(
        [
            *("size()", "sum()", "sort()", "distinct()", "flatten()", "hasValue()", "value()", "trim()"),
            *("getHours()", "isInteger()", "major()", "first()", "reverse()", "max()", "asInteger()"),
        ]
    )
    binary = st.sampled_from(
        [
            *("contains", "matches", "split", "indexOf", "compareTo", "orValue", "add", "format", "join"),
            *("startsWith", "find", "charAt", "isLessThan", "includes", "or"),
        ]
    )
    convert = st.sampled_from(["int", "uint", "double", "string", "bytes", "bool", "type", "dyn", "duration"])
    macro = st.sampled_from(["all", "exists", "exists_one", "map", "filter", "optMap", "sortBy"])
    return st.one_of(
        st.builds("({} {} {})".format, inner, operator, inner),
        st.builds("{}.{}".format, inner, method),
        st.builds("{}.{}({})".format, inner, binary, inner),
        st.builds("{}({})".format, convert, inner),
        st.builds("dyn({}).{}(x, {})".format, inner, macro, inner),
        st.builds("dyn({})[dyn({})]".format, inner, inner),
        st.builds("dyn({})[?dyn({})]".format, inner, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{{}: {}}}".format, inner, inner),
        st.builds("cel.bind(x, {}, {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("-({})".format, inner),
    )


TREES = st.recursive(LEAVES, _deeper, max_leaves=12)
DEVICES = st.builds(
    lambda i, s, v, m: DeviceContent(
        "d", attributes={"i": ("int", i), "s": ("string", s), "v": ("version", v)}, capacity={"m": m}
    ),
    st.integers(),
    st.text(),
    st.sampled_from(["1.2.3", "0.0.0-a", "x"]),
    st.sampled_from(["1", "1.5Gi", "12345678901234567890", "x"]),
)


def ask(expression: str, device: DeviceContent) -> None:
    try:
        selector = compile_selector(expression)
    except CelCompileError:
        return
    try:
        assert selector.matches(device) in (True, False)
    except CelRuntimeError:
        return


@PLAIN
@given(st.text())
def test_any_text(text: str) -> None:
    ask(text, DeviceContent("d", attributes={}, capacity={}))


@PLAIN
@given(st.lists(WORDS).map(" ".join), DEVICES)
def test_any_words(text: str, device: DeviceContent) -> None:
    ask(text, device)


@PLAIN
@given(TREES, DEVICES)
def test_any_tree(tree: str, device: DeviceContent) -> None:
    ask(f"cel.bind(x, 1, dyn({tree}) == true)", device)


@PLAIN
@given(TREES, DEVICES)
def test_any_tree_whose_failure_is_absorbed(tree: str, device: DeviceContent) -> None:
    """Errors are absorbed by ||, so whatever compiles and costs little is true."""
    try:
        selector = compile_selector(f"cel.bind(x, 1, dyn({tree}) == true) || true")
    except CelCompileError:
        return
    try:
        assert selector.matches(device)
    except CelRuntimeError as exc:
        assert str(exc).startswith(("attribute", "operation cancelled", "quantities", "unable"))  # noqa: PT017


@pytest.mark.parametrize("literal", ['"', "'", '"""', "'''"])
@PLAIN
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\"'\\\r\n")))
def test_a_text_without_escapes_is_itself(literal: str, text: str) -> None:
    device = DeviceContent("d", attributes={"s": ("string", text)}, capacity={})
    assert compile_selector(f'device.attributes["d"].s == {literal}{text}{literal}').matches(device)
