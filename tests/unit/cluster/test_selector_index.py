"""An index finds the same selectors as evaluating each; lists of values are found by hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.meta import LabelSelector
from kuberth.api.selectors import Selector, compile_label_selector
from kuberth.api.wire import convert
from kuberth.cluster import selector_index
from kuberth.cluster.selector_index import _HASHED_VALUES, SelectorIndex, _ValueLists
from tests.unit.cluster.selector_strategies import EXPRESSIONS, LABELS

_values = st.frozensets(st.sampled_from("abcdefgh"), min_size=1)
_places = st.tuples(st.integers(0, 5), st.integers(0, 1))


@given(
    steps=st.lists(st.tuples(_places, st.none() | _values), max_size=60),
    longer=st.sets(_places),
)
def test_lists_that_come_and_go(
    steps: list[tuple[tuple[int, int], frozenset[str] | None]], longer: set[tuple[int, int]]
) -> None:
    lists, model = _ValueLists(), dict[tuple[int, int], frozenset[str]]()
    many = frozenset(map(str, range(_HASHED_VALUES)))
    for place, values in steps:
        if values is None:
            if model.pop(place, None) is not None:
                lists.remove(place)
        elif place not in model:
            model[place] = values | many if place in longer else values
            lists.add(place, model[place])
        assert bool(lists) == bool(model)
        for value in "abc":
            expected = Counter(slot for (slot, _), values in model.items() if value in values)
            assert Counter(lists.slots_with(value)) == expected


class Counted(str):
    """A label value that counts how often it is looked up."""

    hashed = 0

    def __hash__(self) -> int:
        self.hashed += 1
        return str.__hash__(self)


def test_a_value_is_not_looked_up_in_each_of_thousands_of_lists() -> None:
    lists = _ValueLists()
    for slot in range(2000):
        lists.add((slot, 0), frozenset(f"{slot}-{number}" for number in range(10)))
    value = Counted("7-3")
    assert [*lists.slots_with(value)] == [7]
    assert value.hashed <= 2


def test_values_with_one_hash_are_told_apart() -> None:
    assert hash(_Same("a")) == hash(_Same("b"))
    lists = _ValueLists()
    lists.add((3, 0), frozenset((_Same("a"),)))
    assert ([*lists.slots_with(_Same("a"))], [*lists.slots_with(_Same("b"))]) == ([3], [])


class _Same(str):
    def __hash__(self) -> int:
        return 1


SELECTORS = st.lists(EXPRESSIONS, max_size=3).map(
    lambda expressions: compile_label_selector(convert(LabelSelector, {"matchExpressions": expressions}))
)


@given(
    first=st.lists(SELECTORS, max_size=6),
    second=st.lists(SELECTORS, max_size=6),
    labels=LABELS,
    few_values=st.sampled_from([0, 1, 64]),
)
def test_an_index_finds_the_selectors_that_match(
    first: list[Selector], second: list[Selector], labels: Mapping[str, str], few_values: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selector_index, "_FEW_VALUES", few_values)
        index = SelectorIndex()
        present = {index.file(selector): selector for selector in first}
        for place, selector in enumerate(second[: len(first)]):
            index.remove(place, present.pop(place))
            if place % 2:
                present[index.file(selector)] = selector
        matching = {place for place, selector in present.items() if selector.matches(labels)}
        assert set(index.matched(labels).nonzero()[0].tolist()) == matching
        for place, selector in present.items():
            index.remove(place, selector)
        assert not index.matched(labels).any()
        assert {**index._wanting, **index._excluding} == {}, "removed selectors leave nothing behind"
        assert {**index._long_wanting, **index._long_excluding} == {}
