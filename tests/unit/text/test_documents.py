from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.text.documents import clean_tree, read_documents, read_tree, write_yaml
from kuberth.text.field_errors import InvalidConfiguration, TooLarge


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
        pytest.param("1: x\ntrue: z", {"1": "x", "true": "z"}, id="keys-become-strings"),
        pytest.param(
            "b: &b {x: 1, z: 1}\na: {<<: *b, z: 2}",
            {"b": {"x": 1, "z": 1}, "a": {"x": 1, "z": 2}},
            id="merge",
        ),
        pytest.param(
            "a: &a {x: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b]}",
            {"a": {"x": 1}, "b": {"x": 2, "z": 2}, "c": {"x": 1, "z": 2}},
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
        pytest.param("~: 1", "expected a field name, got null", id="null-as-key"),
        pytest.param("a: {~: 1}", "a: expected a field name, got null", id="null-as-inner-key"),
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
    "text, value",
    [
        ("!!python/object:os.system {}", {}),
        ("!!python/name:os.system x", "x"),
        ("!custom x", "x"),
        ("!!binary aGk=", "hi"),
    ],
)
def test_a_tag_constructs_nothing(text: str, value: Any) -> None:
    assert read(f"a: {text}") == ({"a": value}, [])


# Where Kubernetes' reader is not followed, each for its reason.
_STRICT = "a duplicate key is reported, as Kubernetes does when it is strict"
_OWN_KEYS = "an own key beats a merged one, wherever it stands, and the first of two merges the second"
DIFFERENCES = {
    "1: a\n'1': b": _STRICT,
    "0x1: a\n1: b": _STRICT,
    "a: 1\na: 2": _STRICT,
    "yes: a\ntrue: b": _STRICT,
    "x: &x {b: 1}\na:\n  b: 2\n  <<: *x": _OWN_KEYS,
    "x: &x {b: 1}\ny: &y {b: 2}\na:\n  <<: *x\n  <<: *y": _OWN_KEYS,
    "---\na: 1\n---\nb: 2\n": "a second document is reported, not ignored",
    "%YAML 1.2\n---\na: on": "a file may say that it is YAML 1.2",
    "a: ! 12": "libyaml does not distinguish `!` from no tag",
    ".inf: a": "no field has such a name",
    "18446744073709551615: a": "a number like any other",
}
FACTS = json.loads((Path(__file__).parent / "data" / "yaml_facts.json").read_text(encoding="utf-8"))


def as_go_rounds(digits: str) -> int:
    """Beyond 64 bits Go has floats, which it writes with zeros where Python writes every digit."""
    number = int(digits)
    return number if -(2**63) <= number < 2**64 else int(float(number))


@pytest.mark.parametrize(
    "fact", [pytest.param(fact, id=repr(fact["yaml"])) for fact in FACTS if fact["yaml"] not in DIFFERENCES]
)
def test_reads_yaml_as_kubernetes_does(fact: dict[str, Any]) -> None:
    """The facts are made by hack/envtest/yamlfacts."""
    try:
        tree, errors = read(fact["yaml"])
    except InvalidConfiguration as error:
        tree, errors = None, [str(error)]
    assert bool(errors) == fact.get("refused", False)
    if not errors:
        assert repr(tree) == repr(in_order_of(tree, json.loads(fact["json"], parse_int=as_go_rounds)))


def in_order_of(like: Any, tree: Any) -> Any:
    """`tree` with its keys in the order of another: repr then distinguishes 1 from True and from 1.0."""
    if isinstance(tree, dict) and isinstance(like, dict) and tree.keys() == like.keys():
        return {key: in_order_of(like[key], tree[key]) for key in like}
    return tree


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(codec="utf-8")),
        lambda trees: st.lists(trees, max_size=4) | st.dictionaries(st.text("ayYn01.~x:", max_size=4), trees),
        max_leaves=10,
    )
)
def test_what_is_written_reads_back(tree: Any) -> None:
    assert read(write_yaml(tree)) == (tree, [])


@pytest.mark.parametrize("text", ["y", "off", "0o17", "12:30", "2024-01-01", "1_0", ".5", "=", "<<", "08"])
def test_text_is_written_so_that_it_stays_text(text: str) -> None:
    assert read(write_yaml({text: text})) == ({text: text}, [])


def test_every_difference_is_about_a_fact() -> None:
    assert {fact["yaml"] for fact in FACTS} >= DIFFERENCES.keys()


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


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 5000 + "]" * 5000, id="json"),
        pytest.param("[" * 100_000, id="json-without-end"),
        pytest.param("a: " + "[" * 150 + "]" * 150, id="flow"),
        pytest.param("{a: " * 40_000, id="flow-mappings"),
        pytest.param("- " * 40_000, id="block-sequences"),
        pytest.param("? " * 40_000, id="keys-that-are-mappings"),
        pytest.param(
            "\n".join(
                [
                    "a0: &a0 " + "[" * 90 + "]" * 90,
                    *(f"a{i}: &a{i} " + "[" * 90 + f"*a{i - 1}" + "]" * 90 for i in range(1, 40)),
                ]
            ),
            id="aliases-in-aliases",
        ),
    ],
)
def test_towers_of_brackets_are_refused_before_they_are_built(text: str) -> None:
    with pytest.raises(InvalidConfiguration, match="nested deeper than 100 levels"):
        read_tree(text)


@pytest.mark.parametrize(
    "text", ["1" + ":59" * 500_000, "9" * 1_000_000, "0x" + "f" * 1_000_000, "0." + "9" * 1_000_000]
)
def test_a_long_number_costs_no_more_than_its_length(text: str) -> None:
    """Sexagesimal and hexadecimal ones took minutes."""
    tree, errors = read(f"a: {text}")
    assert not errors
    assert tree["a"] == (1 if text.startswith("0.") else text)


def test_a_large_document_is_left_at_its_limit() -> None:
    """Endless text would never come to an end otherwise."""
    with pytest.raises(TooLarge, match="k49: more than 100 values in one document"):
        read_tree("".join(f"k{i}: v\n" for i in range(100_000)), max_values=100)


def test_each_document_has_the_limit_for_itself() -> None:
    documents, errors = read_documents("a: 1\n---\n" * 100, max_values=3)
    assert ([document.tree for document in documents], errors) == ([{"a": 1}] * 100, [])


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
