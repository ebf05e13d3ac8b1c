"""Node labels as columns of small ids: one column per requested label key.

In: the labels of nodes, as nodes are added and removed. Out: per key, the id of every row's value and the
list of distinct values, so that a selector is evaluated once per value and the results are looked up per row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kuberth.api.selectors import Operator, Requirement
from kuberth.api.selectors.labels import parse_int64
from kuberth.cluster.arrays import Column
from kuberth.cluster.interning import InternedColumn

ABSENT: Final = 0
"""The id that means that the node does not have the label."""


class LabelColumn(InternedColumn[str | None]):
    """The column of one label key; value id 0 (None) means that the label is absent.

    Value ids also serve as topology domains.
    """

    __slots__ = ("__weakref__", "_numbers", "key")

    def __init__(self, key: str, ids: NDArray[np.int32]) -> None:
        super().__init__(0, None)
        self.ids = ids
        """The value id of each row. Read-only and shared with other columns while no node has the key."""
        self.key = key
        """The label key."""
        self._numbers: tuple[int, Column, NDArray[np.bool_]] | None = None

    def answers(self, requirement: Requirement) -> NDArray[np.bool_]:
        """Per value id: whether the requirement accepts it.

        The time depends on the smaller of the two sets of values: a pod can have thousands of requirements on
        a label that is different on every node.
        """
        meaning, values = requirement.meaning, requirement.values
        if meaning in (Operator.GREATER_THAN, Operator.LESS_THAN):
            numbers, is_number = self._as_numbers()
            greater = meaning is Operator.GREATER_THAN
            beyond = numbers > requirement.bound if greater else numbers < requirement.bound
            answers: NDArray[np.bool_] = beyond & is_number
            return answers
        if len(values) > len(self.values):
            return np.fromiter(map(requirement.matches_value, self.values), np.bool_, len(self.values))
        usually, others = self.exceptions(requirement)
        answers = (np.ones if usually else np.zeros)(len(self.values), np.bool_)
        for identity in others:
            answers[identity] = not usually
        return answers

    def exceptions(self, requirement: Requirement) -> tuple[bool, Sequence[int]]:
        """The result of In, NotIn, Exists or DoesNotExist for most values, and the ids of the others."""
        meaning = requirement.meaning
        if meaning is Operator.EXISTS or meaning is Operator.DOES_NOT_EXIST:
            return meaning is Operator.EXISTS, (ABSENT,)
        ids = map(self._index.get, dict.fromkeys(requirement.values))
        return meaning is Operator.NOT_IN, [identity for identity in ids if identity is not None]

    def _as_numbers(self) -> tuple[Column, NDArray[np.bool_]]:
        """The values as integers, and which of them are integers."""
        if self._numbers is None or self._numbers[0] != self.version:
            parsed = [None if value is None else parse_int64(value) for value in self.values]
            numbers = np.fromiter((number or 0 for number in parsed), np.int64, len(parsed))
            is_number = np.fromiter((number is not None for number in parsed), np.bool_, len(parsed))
            self._numbers = self.version, numbers, is_number
        return self._numbers[1:]


class LabelColumns:
    """The columns of all label keys in use; a column is created when it is first requested.

    Terms of pods can name any number of keys that no node has. The columns of such keys share their ids, and
    live only while they are used.
    """

    def __init__(self, capacity: int) -> None:
        self._columns: dict[str, LabelColumn] = {}
        """Columns of keys that nodes have or had."""
        self._unused: WeakValueDictionary[str, LabelColumn] = WeakValueDictionary()
        """Columns of keys that no node has had, while a reader holds them."""
        self._no_ids = _absent_everywhere(capacity)
        self._labels: dict[int, Mapping[str, str]] = {}
        self.keys: Counter[str] = Counter()
        """The keys that nodes have, with the number of nodes."""

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
