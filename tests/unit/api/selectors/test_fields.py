from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.selectors import (
    FieldRequirement,
    FieldSelector,
    escape_field_value,
    parse_field_selector,
)
from kuberth.errors import SelectorError


def test_absent_fields_count_as_empty() -> None:
    selector = parse_field_selector("spec.nodeName=,status.phase!=Failed")
    assert selector.matches(lambda field: None)
    assert selector.matches({"spec.nodeName": "", "status.phase": "Running"}.get)
    assert not selector.matches({"spec.nodeName": "n1"}.get)
    assert not selector.matches({"status.phase": "Failed"}.get)
    assert selector.fields == {"spec.nodeName", "status.phase"}
    assert str(selector) == "spec.nodeName=,status.phase!=Failed"


def test_exact_matches_are_found() -> None:
    selector = parse_field_selector("a==1,b!=2")
    assert selector.requires_exact_match("a") == "1"
    assert selector.requires_exact_match("b") is None
    assert parse_field_selector("").empty


def test_order_written_does_not_matter() -> None:
    assert parse_field_selector("b=1,a=2") == parse_field_selector("a=2,,b=1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1,b", "position 4: 'b' has no operator"),
        ("a=1=2", "position 3: '=' in a value must be written"),
        (r"a=\x", r"position 2: '\x' is no escape"),
        ("a=1\\", "position 3: '\\' is no escape"),
    ],
)
def test_errors_name_the_position(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert message in str(caught.value)


@given(st.lists(st.tuples(st.sampled_from(["a", "b.c"]), st.text(max_size=6), st.booleans()), max_size=3))
def test_printing_round_trips(terms: list[tuple[str, str, bool]]) -> None:
    selector = FieldSelector(tuple(FieldRequirement(*term) for term in terms))
    back = parse_field_selector(str(selector))
    assert sorted(map(str, back.requirements)) == sorted(map(str, selector.requirements))
    assert {requirement.value for requirement in back.requirements} == {value for _, value, _ in terms}


@given(st.text(max_size=10))
def test_escaping_round_trips(value: str) -> None:
    assert parse_field_selector(f"f={escape_field_value(value)}").requires_exact_match("f") == value


@given(st.text("ab\\,=!", max_size=12))
def test_any_text_parses_or_is_a_selector_error(text: str) -> None:
    try:
        selector = parse_field_selector(text)
    except SelectorError:
        return
    assert selector.empty == (not selector.requirements)
