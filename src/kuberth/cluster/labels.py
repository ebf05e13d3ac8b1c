"""Node labels as columns of small ids: one column per label key that is asked for.

In: the labels of nodes as they come and go. Out: per key, the id of every row's value and the list of
distinct values, so that a selector is evaluated once per value and gathered over the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kuberth.api.selectors import Requirement
from kuberth.cluster.interning import InternedColumn

ABSENT: Final = 0
"""The id of "this node does not have the label"."""

_MAX_CACHED_ANSWERS: Final = 512


class LabelColumn(InternedColumn[str | None]):
    """One label key; value id 0, None, means the label is absent. Value ids double as topology domains."""

    __slots__ = ("__weakref__", "_answers", "key")

    def __init__(self, key: str, ids: NDArray[np.int32]) -> None:
        super().__init__(0, None)
        self.ids = ids
        """The value id of each row. Read-only and shared with other columns while no node has the key."""
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
    """The columns of all label keys in use; a key's column is made when it is first asked for.

    Terms of pods can name any number of keys that no node has. The columns of such keys share their ids, and
    live only as long as they are in use.
    """

    def __init__(self, capacity: int) -> None:
        self._columns: dict[str, LabelColumn] = {}
        """Of keys that nodes have or had."""
        self._unused: WeakValueDictionary[str, LabelColumn] = WeakValueDictionary()
        """Of other keys."""
        self._no_ids = _absent_everywhere(capacity)
        self._labels: dict[int, Mapping[str, str]] = {}
        self.keys: Counter[str] = Counter()
        """The keys that nodes have, and how many nodes."""

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        self._replace(row, labels)
        self._labels[row] = labels

    def clear(self, row: int) -> None:
        self._replace(row, {})
        self._labels.pop(row, None)

    def _replace(self, row: int, labels: Mapping[str, str]) -> None:
        before = self._labels.get(row, {})
        for key in before.keys() - labels.keys():
            self.keys[key] -= 1
            if not self.keys[key]:
                del self.keys[key]
            if (column := self._columns.get(key)) is not None:
                column.set(row, None)
        for key, value in labels.items():
            if key not in before:
                self.keys[key] += 1
            column = self._columns.get(key)
            if column is None:
                column = self._unused.pop(key, None)
                if column is None:
                    continue
                self._columns[key] = column
                column.ids = np.zeros_like(self._no_ids)
            column.set(row, value)

    def column(self, key: str) -> LabelColumn:
        column = self._columns.get(key)
        if column is None and key in self.keys:
            column = self._columns[key] = LabelColumn(key, np.zeros_like(self._no_ids))
            for row, labels in self._labels.items():
                column.set(row, labels.get(key))
        elif column is None:
            column = self._unused.get(key)
            if column is None:
                column = self._unused[key] = LabelColumn(key, self._no_ids)
        return column

    def grow(self, capacity: int) -> None:
        self._no_ids = _absent_everywhere(capacity)
        for column in self._columns.values():
            column.grow(capacity)
        for column in self._unused.values():
            column.ids = self._no_ids


def _absent_everywhere(capacity: int) -> NDArray[np.int32]:
    ids = np.zeros(capacity, np.int32)
    ids.setflags(write=False)
    return ids
