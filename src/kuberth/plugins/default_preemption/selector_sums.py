"""Finds which of thousands of selectors match labels, without evaluating each.

In: selectors with an index each. Out: the indices of those that match the labels. A column counts how many
requirements each selector violates for a pod without labels; what a label changes in it is indexed under that
label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kuberth.api.selectors import Operator, Requirement, Selector
from kuberth.cluster.arrays import Column

K = TypeVar("K", bound=Hashable)

Places = NDArray[np.int64]

_NOT_FILED: Final = 1 << 40
"""More than the number of requirements that a selector can violate."""
_FEW_VALUES: Final = 64
"""Requirements with more values are evaluated one by one: indexing them would take much memory."""
_NONE: Final[Mapping[tuple[int, Requirement], int]] = {}


class _Changes:
    """By index, by how much the number of violated requirements changes."""

    __slots__ = ("_arrays", "by_place")

    def __init__(self) -> None:
        self.by_place: dict[int, int] = {}
        self._arrays: tuple[Places, Column] | None = None

    def add(self, place: int, number: int) -> None:
        self._arrays = None
        self.by_place[place] = self.by_place.get(place, 0) + number
        if not self.by_place[place]:
            del self.by_place[place]

    def apply_to(self, missed: Column) -> None:
        if self._arrays is None:
            size = len(self.by_place)
            places = np.fromiter(self.by_place, np.int64, size)
            self._arrays = places, np.fromiter(self.by_place.values(), np.int64, size)
        places, numbers = self._arrays
        missed[places] += numbers


class SelectorSums:
    """Selectors with an index, which can be removed and reused."""

    def __init__(self) -> None:
        self._missed: Column = np.zeros(0, np.int64)
        self._with_key: dict[str, _Changes] = {}
        self._with_value: dict[tuple[str, str], _Changes] = {}
        self._asked: dict[str, Counter[tuple[int, Requirement]]] = {}
        """By key, requirements that are not indexed by value, with how often a selector has them."""

    def file(self, place: int, selector: Selector) -> None:
        if place >= len(self._missed):
            grown = np.full(2 * place + 8, _NOT_FILED, np.int64)
            grown[: len(self._missed)] = self._missed
            self._missed = grown
        self._missed[place] -= _NOT_FILED
        self._count(place, selector, 1)

    def remove(self, place: int, selector: Selector) -> None:
        """Remove the selector at this index; `selector` is the one that was added there."""
        self._missed[place] += _NOT_FILED
        self._count(place, selector, -1)

    def accepting(self, labels: Mapping[str, str]) -> Places:
        """The indices of all selectors that match the labels, in order."""
        missed = self._missed.copy()
        for key, value in labels.items():
            for changes in (self._with_key.get(key), self._with_value.get((key, value))):
                if changes is not None:
                    changes.apply_to(missed)
            for (place, requirement), times in self._asked.get(key, _NONE).items():
                missed[place] += times * (_misses(requirement, value) - _misses(requirement, None))
        return np.flatnonzero(missed == 0)

    def _count(self, place: int, selector: Selector, sign: int) -> None:
        for requirement in selector.requirements:
            key, meaning = requirement.key, requirement.meaning
            missed = _misses(requirement, None)
            self._missed[place] += sign * missed
            number = -sign if missed else sign  # a matching label inverts the result
            if meaning in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
                _change(self._with_key, key, place, number)
            elif meaning in (Operator.IN, Operator.NOT_IN) and len(requirement.values) <= _FEW_VALUES:
                for value in frozenset(requirement.values):
                    _change(self._with_value, (key, value), place, number)
            else:
                asked = self._asked.setdefault(key, Counter())
                asked[place, requirement] += sign
                if not asked[place, requirement]:
                    del asked[place, requirement]
                    if not asked:
                        del self._asked[key]


def _misses(requirement: Requirement, value: str | None) -> int:
    return int(not requirement.matches_value(value))


def _change(filed: dict[K, _Changes], key: K, place: int, number: int) -> None:
    changes = filed.setdefault(key, _Changes())
    changes.add(place, number)
    if not changes.by_place:
        del filed[key]
