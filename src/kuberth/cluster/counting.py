"""Counts per row: a dict while few rows have any, a column when many do.

In: increments of a row. Out: a dense column over all rows, or only the rows with a count.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.arrays import Column

S = TypeVar("S", bound=np.generic)

SPARSE_ROWS: Final = 48
"""Up to this many rows a dict is smaller and faster to change than a column."""


class RowCounts:
    """The count of each row; rows that were never counted are zero."""

    __slots__ = ("_dense", "_sparse", "total")

    def __init__(self) -> None:
        self._sparse: dict[int, int] = {}
        self._dense: Column | None = None
        self.total = 0
        """The sum over all rows."""

    @classmethod
    def of(cls, column: Column) -> RowCounts:
        """Counts from a whole column, which the caller must not use afterwards."""
        counts = cls()
        counts.total = int(column.sum())
        rows = np.flatnonzero(column)
        if len(rows) > SPARSE_ROWS:
            counts._dense = column
        else:
            counts._sparse = dict(zip(rows.tolist(), column[rows].tolist(), strict=True))
        return counts

    def add(self, row: int, number: int) -> None:
        self.total += number
        if self._dense is not None:
            if row >= len(self._dense):
                self._dense = resized(self._dense, max(row + 1, 2 * len(self._dense)))
            self._dense[row] = self._dense.item(row) + number  # `+=` on a numpy number is slower
            return
        count = self._sparse.get(row, 0) + number
        if count:
            self._sparse[row] = count
            if len(self._sparse) > SPARSE_ROWS:
                self._dense = self._spread(max(self._sparse) + 1)
                self._sparse = {}
        else:
            self._sparse.pop(row, None)

    def add_all(self, other: RowCounts, times: int = 1) -> None:
        """Add all counts of `other`, multiplied by `times`."""
        if other._dense is None:
            for row, number in other._sparse.items():
                self.add(row, times * number)
            return
        length = len(other._dense)
        if self._dense is None:
            self._dense = self._spread(max(length, 1 + max(self._sparse, default=0)))
            self._sparse = {}
        elif len(self._dense) < length:
            self._dense = resized(self._dense, length)
        self._dense[:length] += other._dense if times == 1 else times * other._dense
        self.total += times * other.total

    def column(self, slots: int) -> Column:
        """The counts of rows 0 to `slots`; higher rows have none. Read-only."""
        if self._dense is None:
            spread = self._spread(slots)
            if slots > SPARSE_ROWS:
                return spread
            # A column this short is smaller than the dict, and need not be built the next time.
            self._dense, self._sparse = spread, {}
        if len(self._dense) < slots:
            self._dense = resized(self._dense, slots)
        return self._dense[:slots]

    def rows(self) -> NDArray[np.int64]:
        """The rows with a count that is not zero."""
        if self._dense is not None:
            return np.flatnonzero(self._dense)
        return np.fromiter(self._sparse, np.int64, len(self._sparse))

    def at(self, rows: NDArray[np.int64]) -> Column:
        """The counts of some of `rows()`."""
        if self._dense is not None:
            return self._dense[rows]
        return np.fromiter(map(self._sparse.__getitem__, rows.tolist()), np.int64, len(rows))

    def __getitem__(self, row: int) -> int:
        """The count of one row."""
        if self._dense is None:
            return self._sparse.get(row, 0)
        return int(self._dense[row]) if row < len(self._dense) else 0

    def _spread(self, slots: int) -> Column:
        column = np.zeros(slots, np.int64)
        if self._sparse:
            rows = np.fromiter(self._sparse.keys(), np.int64, len(self._sparse))
            column[rows] = np.fromiter(self._sparse.values(), np.int64, len(self._sparse))
        return column


def resized(array: NDArray[S], length: int) -> NDArray[S]:
    """`array` with its last axis grown to `length`, the new part zero."""
    grown = np.zeros((*array.shape[:-1], length), array.dtype)
    grown[..., : array.shape[-1]] = array
    return grown
