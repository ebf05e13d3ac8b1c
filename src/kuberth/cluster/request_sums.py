"""What pods ask for, added up: the part of a row that NodeResourcesFit and its like look at.

In: pods, and the rows of the cluster table that hold them. Out: amounts in the shape of the table's columns
`requested`, `nonzero_requested` and `pod_count`; per row those of all pods below a priority, of which only
rows that changed are added up again. So "what if they all left" is a subtraction.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.counting import Column, resized
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.resource_columns import CPU, EPHEMERAL_STORAGE, MEMORY

if TYPE_CHECKING:
    from kuberth.cluster.table import ClusterTable

MAX_PRIORITIES: Final = 8
"""For how many priorities sums are kept: the last ones that were asked for."""


class Amounts(NamedTuple):
    """Requests of pods or of rows, side by side; columns as the table has them."""

    requested: Column
    """int64[resource, position]: milli-CPU, bytes, or units."""
    nonzero_requested: Column
    """int64[CPU or MEMORY, position]: the same with the scoring defaults."""
    pod_count: Column
    """int64[position]: the number of pods."""

    @classmethod
    def of(cls, pods: Sequence[PodInfo], table: ClusterTable) -> Amounts:
        """A position for every pod."""
        requests = [info.request for info in pods]
        requested = np.zeros((len(table.requested), len(pods)), np.int64)
        requested[CPU] = [request.milli_cpu for request in requests]
        requested[MEMORY] = [request.memory for request in requests]
        requested[EPHEMERAL_STORAGE] = [request.ephemeral_storage for request in requests]
        for position, request in enumerate(requests):
            for name, amount in request.scalars.items():
                if (index := table.resource_index(name)) is not None:
                    requested[index, position] = amount
        nonzero = np.zeros((2, len(pods)), np.int64)
        nonzero[CPU] = [request.nonzero_milli_cpu for request in requests]
        nonzero[MEMORY] = [request.nonzero_memory for request in requests]
        return cls(requested, nonzero, np.ones(len(pods), np.int64))

    @classmethod
    def summed(cls, groups: Iterable[Sequence[PodInfo]], table: ClusterTable) -> Amounts:
        """A position for every group of pods."""
        groups = list(groups)
        bounds = np.fromiter(accumulate(map(len, groups), initial=0), np.int64, len(groups) + 1)
        each = cls.of([info for group in groups for info in group], table)
        return cls(*(_between(column, bounds) for column in each))

    def at(self, positions: NDArray[np.int64]) -> Amounts:
        """Those of some positions."""
        return Amounts(
            self.requested[:, positions], self.nonzero_requested[:, positions], self.pod_count[positions]
        )


def _between(column: Column, bounds: NDArray[np.int64]) -> Column:
    """The sums of the pieces of `column` (of its last axis) between neighbouring bounds."""
    totals = np.zeros((*column.shape[:-1], column.shape[-1] + 1), np.int64)
    np.cumsum(column, axis=-1, out=totals[..., 1:])
    reached = totals[..., bounds]
    return np.asarray(reached[..., 1:] - reached[..., :-1])


class _Below:
    """Sums over the pods below one priority; position and row are the same."""

    __slots__ = ("_at", "_priority", "amounts")

    def __init__(self, priority: int) -> None:
        self._priority = priority
        self._at = -1
        empty = np.zeros((0, 0), np.int64)
        self.amounts = Amounts(empty, np.zeros((2, 0), np.int64), np.zeros(0, np.int64))

    def catch_up(self, table: ClusterTable) -> None:
        self._fit(table)
        rows = np.flatnonzero(table.settled_generation[: table.slots] > self._at)
        self._at = table.generation
        if not len(rows):
            return
        lower = (
            [info for info in table.pods_at(row) if info.priority < self._priority] for row in rows.tolist()
        )
        for column, sums in zip(self.amounts, Amounts.summed(lower, table), strict=True):
            column[..., rows] = sums

    def _fit(self, table: ClusterTable) -> None:
        """Columns as high and as wide as the table's; a resource that comes or goes changes its rows."""
        requested, nonzero, count = self.amounts
        height, width = table.requested.shape
        if requested.shape != (height, width):
            higher = np.zeros((height, requested.shape[1]), np.int64)
            higher[: len(requested)] = requested
            self.amounts = Amounts(resized(higher, width), resized(nonzero, width), resized(count, width))


class RequestsBelow:
    """Sums by priority, for the priorities that were asked for lately."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, _Below] = OrderedDict()

    def of(self, table: ClusterTable, priority: int, *, keep: bool) -> Amounts:
        """Per row: what the pods below `priority` ask for. Not to be kept while a what-if changes rows."""
        if not keep:
            passing = _Below(priority)
            passing.catch_up(table)
            return passing.amounts
        below = self._kept.get(priority)
        if below is None:
            below = self._kept[priority] = _Below(priority)
            if len(self._kept) > MAX_PRIORITIES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(priority)
        below.catch_up(table)
        return below.amounts
