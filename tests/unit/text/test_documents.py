from __future__ import annotations

from typing import Any

import pytest

from kuberth.config import InvalidConfiguration
from kuberth.text.documents import clean_tree, read_tree


def read(text: str | bytes) -> tuple[Any, list[str]]:
    tree, errors = read_tree(text)
    return tree, [str(error) for error in errors]


@pytest.mark.parametrize(
    "text, tree",
    [
        pytest.param("a: 1\nb: [x, true, null, 1.5]", {"a": 1, "b": ["x", True, None, 1.5]}, id="yaml"),
        pytest.param('{"a":\t[1]}', {"a": [1]}, id="json-with-tabs"),
        pytest.param("{a: 1, b: {c: 2}}", {"a": 1, "b": {"c": 2}}, id="flow-yaml"),
        pytest.param("", None, id="empty"),
        pytest.param("# nothing\n---\n", None, id="only-comment"),
        pytest.param("---\na: 1\n---\n# nothing\n", {"a": 1}, id="other-documents-empty"),
        pytest.param("a: 2024-01-01", {"a": "2024-01-01"}, id="dates-are-strings"),
        pytest.param("1: x\ntrue: y", {"1": "x", "true": "y"}, id="keys-become-strings"),
        pytest.param(
            "b: &b {x: 1, y: 1}\na: {<<: *b, y: 2}",
            {"b": {"x": 1, "y": 1}, "a": {"x": 1, "y": 2}},
            id="merge",
        ),
        pytest.param(
            "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}",
            {"a": {"x": 1}, "b": {"x": 2, "y": 2}, "c": {"x": 1, "y": 2}},
            id="merge-list-first-wins",
        ),
        pytest.param(b"\xef\xbb\xbfa: 1", {"a": 1}, id="byte-order-mark"),
    ],
)
def test_reads(text: str | bytes, tree: Any) -> None:
    assert read(text) == (tree, [])


@pytest.mark.parametrize(
    "text, error",
    [
        pytest.param(
            "a:\n  b: 1\n  b: 2", "a.b: given more than once, on lines 2 and 3; keep one", id="yaml-key-twice"
        ),
        pytest.param(
            '{"a": [{"b": 1, "b": 2}]}', "a[0].b: given more than once; keep one", id="json-key-twice"
        ),
        pytest.param(
            "a: 1\n---\nb: 1", "expected one YAML document, found 2; remove from line 3 on", id="documents"
        ),
        pytest.param("a: &a [*a]", "a[0]: an alias that contains itself", id="alias-of-itself"),
        pytest.param("a: .inf", "a: inf is not a number that JSON knows", id="infinity"),
        pytest.param(
            "a: !!binary aGk=", "a: a value of type bytes has no place in a configuration", id="binary"
        ),
        pytest.param("{[1]: 2}", "expected a field name, got a structure", id="list-as-key"),
        pytest.param("a: {<<: 3}", "a: `<<` expects a mapping, got 3", id="merge-of-scalar"),
        pytest.param(
            '{"a": "\\ud800"}', "a: text with half a surrogate pair, which is no Unicode", id="surrogate"
        ),
    ],
)
def test_errors_with_path(text: str, error: str) -> None:
    assert read(text)[1] == [error]


@pytest.mark.parametrize(
    "text", ["a: !!python/object:os.system {}", "a: !custom x", "a: !!int x", "a: !!bool x"]
)
def test_a_tag_constructs_nothing(text: str) -> None:
    tree, errors = read(text)
    assert tree in ({"a": None}, {"a": {}})
    assert tree == {"a": {}} or errors


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param("a: [1\n\n", "not valid YAML at line 3", id="syntax"),
        pytest.param("\ta: 1", "not valid YAML at line 1, column 1", id="tab"),
        pytest.param(b"\xff\xfe", "not UTF-8 text", id="encoding"),
        pytest.param('{"a": NaN, "b"', "not valid YAML", id="json-constant"),
    ],
)
def test_text_that_is_no_document(text: str | bytes, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        read_tree(text)


@pytest.mark.parametrize("text", ["[" * 5000 + "]" * 5000, "a: " + "[" * 150 + "]" * 150, "[" * 100_000])
def test_towers_of_brackets(text: str) -> None:
    try:
        errors = read(text)[1]
    except InvalidConfiguration as error:
        errors = [str(error)]
    assert errors


def test_aliases_of_aliases_end() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)]
    with pytest.raises(InvalidConfiguration, match="more than 200000 values"):
        read_tree("\n".join(lines))


def test_a_tree_built_in_python_is_checked_too() -> None:
    tree, errors = clean_tree({"a": (1, object()), 2: "x"})
    assert tree == {"a": [1, None], "2": "x"}
    assert [str(error) for error in errors] == [
        "a[1]: a value of type object has no place in a configuration"
    ]
