from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kuberth.api import LabelSelector, NodeSelector, convert
from kuberth.api.selectors import (
    compile_label_selector,
    compile_node_selector,
    parse_field_selector,
    parse_selector,
)
from kuberth.errors import SelectorError
from tests.unit.api import facts

FACTS = [(f"{fact['kind']}-{number}", fact) for number, fact in enumerate(facts.load("selectors"))]


def _label_text(fact: dict[str, Any]) -> tuple[str, list[bool]]:
    selector = parse_selector(fact["text"])
    return str(selector), [selector.matches(labels) for labels in fact["sets"]]


def _field_text(fact: dict[str, Any]) -> tuple[str, list[bool]]:
    selector = parse_field_selector(fact["text"])
    return str(selector), [selector.matches(fields.get) for fields in fact["sets"]]


def _label_struct(fact: dict[str, Any]) -> tuple[str, list[bool]]:
    tree = fact["ls"]
    selector = compile_label_selector(None if tree is None else convert(LabelSelector, tree))
    return str(selector), [selector.matches(labels) for labels in fact["sets"]]


READERS: dict[str, Callable[[dict[str, Any]], tuple[str, list[bool]]]] = {
    "label": _label_text,
    "field": _field_text,
    "ls": _label_struct,
}


@pytest.mark.parametrize(
    "fact", [pytest.param(fact, id=name) for name, fact in FACTS if fact["kind"] in READERS]
)
def test_selectors_answer_as_upstream(fact: dict[str, Any]) -> None:
    read = READERS[fact["kind"]]
    if "error" in fact:
        with pytest.raises(SelectorError):
            read(fact)
        return
    text, matches = read(fact)
    assert matches == fact["matches"]
    # Requirements on the same key are left in no particular order by upstream.
    assert sorted(text.split(",")) == sorted(fact["string"].split(","))


@pytest.mark.parametrize(
    "fact", [pytest.param(fact, id=name) for name, fact in FACTS if fact["kind"] == "ns"]
)
def test_node_selectors_answer_as_upstream(fact: dict[str, Any]) -> None:
    selector = compile_node_selector(convert(NodeSelector, fact["ns"]))
    answers = []
    for labels, name in zip(fact["sets"], fact["names"], strict=True):
        try:
            answers.append(str(selector.matches(labels, name)).lower())
        except SelectorError:
            answers.append("error")
    assert answers == fact["matches"]
    assert (not selector.errors) == fact["strict"]
