from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.meta import LabelSelector, LabelSelectorRequirement
from kuberth.api.selectors import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    compile_label_selector,
    is_label_key,
    new_requirement,
    parse_selector,
    selector_from_set,
)
from kuberth.errors import SelectorError


def test_none_selects_nothing_and_empty_everything() -> None:
    nothing, everything = compile_label_selector(None), compile_label_selector(LabelSelector())
    assert (nothing.matches({}), nothing.empty, nothing.matches_nothing) == (False, False, True)
    assert (everything.matches({}), everything.empty, everything.matches_nothing) == (True, True, False)
    assert nothing != everything
    assert nothing != "nothing"
    assert selector_from_set({}) is EVERYTHING
    assert NOTHING.with_requirements([Requirement("a", Operator.EXISTS)]) is NOTHING


def test_equal_by_meaning() -> None:
    ways = [
        parse_selector("b,a=1"),
        parse_selector("a==1,b"),
        parse_selector("a in (1),b,b"),
        compile_label_selector(
            LabelSelector(
                match_labels={"a": "1"},
                match_expressions=(LabelSelectorRequirement(key="b", operator="Exists"),),
            )
        ),
        selector_from_set({"a": "1"}).with_requirements([Requirement("b", Operator.EXISTS)]),
    ]
    assert len(set(ways)) == 1
    assert parse_selector("a>5") == parse_selector("a>05")
    assert parse_selector("a>5") != parse_selector("a<5")
    assert parse_selector("a>5") != parse_selector("a>6")
    assert parse_selector("a!=x") == parse_selector("a notin (x)")
    assert parse_selector("a,b").keys == {"a", "b"}


@pytest.mark.parametrize(
    ("key", "operator", "values", "message"),
    [
        ("a", "Like", ("x",), "'Like' is not a label selector operator; use one of In, NotIn"),
        ("a", "Gt", ("1",), "'Gt' is not a label selector operator"),
        ("a", "In", (), "'in' needs at least one value"),
        ("a", "Exists", ("x",), "'exists' takes no values"),
        ("-a", "Exists", (), "key '-a' is not a label key"),
        ("a", "NotIn", ("x", "y!"), "value 'y!' is not a label value"),
        ("x" * 64, "Exists", (), "is not a label key"),
        ("a", "In", ("x" * 64,), "is not a label value"),
    ],
    ids=[
        "operator",
        "integer-operator",
        "in-empty",
        "exists-values",
        "key",
        "value",
        "long-key",
        "long-value",
    ],
)
def test_errors_name_what_is_wrong(key: str, operator: str, values: tuple[str, ...], message: str) -> None:
    expression = LabelSelectorRequirement(key=key, operator=operator, values=values)
    with pytest.raises(SelectorError) as caught:
        compile_label_selector(LabelSelector(match_expressions=(expression,)))
    assert message in str(caught.value)
    assert repr(key) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b,", "position 4: expected a label key, found the end"),
        ("a ~ b", "position 2: expected an operator"),
        ("a in b", "position 5: expected '(', found 'b'"),
        ("a in (b", "position 7: expected ',' or ')', found the end"),
        ("a=(", "position 2: expected a value, found '('"),
        ("!a=b", "position 2: expected ',' or the end, found '='"),
        ("x,a>many", "position 2: label 'a'"),
        ("-", "position 0: label '-'"),
    ],
)
def test_parse_errors_name_the_position(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("requirement", "yes", "no"),
    [
        (new_requirement("k", Operator.IN, values=("a", "")), ["a", ""], ["b", None]),
        (new_requirement("k", Operator.NOT_IN, values=("a",)), ["b", "", None], ["a"]),
        (new_requirement("k", Operator.EXISTS), ["", "x"], [None]),
        (new_requirement("k", Operator.DOES_NOT_EXIST), [None], ["", "x"]),
        (
            new_requirement("k", Operator.GREATER_THAN, values=("5",)),
            ["6", "+6", "006"],
            ["5", "x", "", None, " 6", "6_0"],
        ),
        (
            new_requirement("k", Operator.LESS_THAN, values=("5",)),
            ["4", "-9"],
            ["5", str(-(2**63) - 1), None],
        ),
    ],
    ids=["in", "not-in", "exists", "does-not-exist", "greater", "less"],
)
def test_requirements_answer_per_value(
    requirement: Requirement, yes: list[str | None], no: list[str | None]
) -> None:
    assert [value for value in [*yes, *no] if requirement.matches_value(value)] == yes
    assert requirement.matches({}) == requirement.matches_value(None)
    assert requirement != "k"


def test_an_integer_bound_is_required_even_unvalidated() -> None:
    with pytest.raises(SelectorError, match="exactly one integer"):
        Requirement("k", Operator.GREATER_THAN, ("a",))


@pytest.mark.parametrize("key", ["a", "A-b_c.9", "example.com/a", "x.y-z/A"])
def test_label_keys(key: str) -> None:
    assert is_label_key(key)


@pytest.mark.parametrize("key", ["", "/a", "a/", "a/b/c", "Example.com/a", "a..b/c", "a\n", f"{'a' * 254}/b"])
def test_not_label_keys(key: str) -> None:
    assert not is_label_key(key)


_keys = st.sampled_from(["a", "b", "in", "notin", "example.com/c"])
_values = st.sampled_from(["", "x", "y", "in", "7"])
_requirements = st.one_of(
    st.builds(
        lambda key, operator, values: new_requirement(key, operator, values=values),
        _keys, st.sampled_from([Operator.IN, Operator.NOT_IN]), st.lists(_values, min_size=1, max_size=3),
    ),
    st.builds(
        lambda key, operator, value: new_requirement(key, operator, values=[value]),
        _keys, st.sampled_from([Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS]), _values,
    ),
    st.builds(new_requirement, _keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        lambda key, operator, bound: new_requirement(key, operator, values=[str(bound)]),
        _keys, st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN]), st.integers(0, 9),
    ),
)  # fmt: skip


@given(st.lists(_requirements, max_size=4), st.dictionaries(_keys, _values))
def test_printing_round_trips(requirements: list[Requirement], labels: dict[str, str]) -> None:
    selector = Selector(tuple(requirements))
    back = parse_selector(str(selector))
    assert back == selector
    assert hash(back) == hash(selector)
    assert back.matches(labels) == all(requirement.matches(labels) for requirement in requirements)


@given(st.text("ab/-. ,=!()<>innot59\t", max_size=15) | st.text(max_size=8))
def test_any_text_parses_or_is_a_selector_error(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SelectorError:
        return
    assert parse_selector(str(selector)) == selector
