"""Columns of small ids that stand for distinct values, so that a rule is evaluated once per value.

In: a value per row. Out: an id per row, and the value of every id. An id that no row uses is given to the
next new value, so the dictionary stays as small as the cluster.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.counting import resized

V = TypeVar("V")


class InternedColumn(Generic[V]):
    """`values[ids[row]]` is the row's value; id 0 is the default, also for rows without a node."""

    __slots__ = ("_free", "_index", "_uses", "ids", "values", "version")

    def __init__(self, capacity: int, default: V) -> None:
        self.ids: NDArray[np.int32] = np.zeros(capacity, np.int32)
        """int32[row]: the id of the row's value."""
        self.values: list[V] = [default]
        """The value of every id; some may be unused."""
        self.version = 0
        """Grows whenever a row's value changes."""
        self._index: dict[V, int] = {default: 0}
        self._uses: list[int] = [0]
        self._free: list[int] = []

    def set(self, row: int, value: V) -> None:
        new = self._index.get(value)
        if new is None:
            new = self._new_id(value)
        old = int(self.ids[row])
        if new == old:
            return
        self.ids[row] = new
        self.version += 1
        self._uses[new] += 1
        if old:
            self._uses[old] -= 1
            if not self._uses[old]:
                del self._index[self.values[old]]
                self._free.append(old)

    def clear(self, row: int) -> None:
        self.set(row, self.values[0])

    def id_of(self, value: V) -> int | None:
        """The id of a value that at least one row has."""
        return self._index.get(value)

    def grow(self, capacity: int) -> None:
        self.ids = resized(self.ids, capacity)

    def _new_id(self, value: V) -> int:
        if self._free:
            new = self._free.pop()
            self.values[new] = value
        else:
            new = len(self.values)
            self.values.append(value)
            self._uses.append(0)
        self._index[value] = new
        return new
