"""Node labels as columns of small ids: one column per label key that is asked for.

In: the labels of nodes as they come and go. Out: per key, the id of every row's value and the list of
distinct values, so that a selector is evaluated once per value and gathered over the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.selectors import Requirement
from kuberth.cluster.interning import InternedColumn

ABSENT: Final = 0
"""The id of "this node does not have the label"."""

_MAX_CACHED_ANSWERS: Final = 512


class LabelColumn(InternedColumn[str | None]):
    """One label key; value id 0, None, means the label is absent. Value ids double as topology domains."""

    __slots__ = ("_answers", "key")

    def __init__(self, key: str, capacity: int) -> None:
        super().__init__(capacity, None)
        self.key = key
        """The label key whose values these are."""
        self._answers: dict[Requirement, tuple[int, NDArray[np.bool_]]] = {}

    def answers(self, requirement: Requirement) -> NDArray[np.bool_]:
        """Per value id: whether the requirement accepts it."""
        recycled, known = self._answers.get(requirement, (-1, np.zeros(0, np.bool_)))
        if recycled != self.recycled:
            known = known[:0]
        if len(known) < len(self.values):
            fresh = np.fromiter(map(requirement.matches_value, self.values[len(known) :]), np.bool_)
            known = np.concatenate((known, fresh))
            if len(self._answers) >= _MAX_CACHED_ANSWERS:
                self._answers.clear()
            self._answers[requirement] = (self.recycled, known)
        return known


class LabelColumns:
    """The columns of all label keys in use; a key's column is made when it is first asked for."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._columns: dict[str, LabelColumn] = {}
        self._labels: dict[int, Mapping[str, str]] = {}

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        self._labels[row] = labels
        for key, column in self._columns.items():
            column.set(row, labels.get(key))

    def clear(self, row: int) -> None:
        self._labels.pop(row, None)
        for column in self._columns.values():
            column.clear(row)

    def column(self, key: str) -> LabelColumn:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(key, self._capacity)
            for row, labels in self._labels.items():
                column.set(row, labels.get(key))
        return column

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for column in self._columns.values():
            column.grow(capacity)
