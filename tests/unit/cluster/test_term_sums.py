"""Lists of values are found by hash, and are the same as if each were compared."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kuberth.cluster.term_sums import _HASHED_VALUES, _ValueLists

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
