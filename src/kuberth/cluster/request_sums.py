"""Sums of requests: the part of a row that NodeResourcesFit and similar plugins read.

In: pods, and the rows of the cluster table that hold them. Out: amounts, in one matrix for the table's
columns `requested`, `nonzero_requested` and `pod_count`; per row the sums of all pods below a priority,
updated only for changed rows. "What if they all left" is then a subtraction.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.counting import resized
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.resource_columns import CPU, EPHEMERAL_STORAGE, MEMORY

if TYPE_CHECKING:
    from kuberth.cluster.table import ClusterTable

Amounts = NDArray[np.int64]
"""int64[kind, position]: amounts of a pod, some pods or a row per position. The kinds are the resources as in
the column `requested`, then the two of `nonzero_requested`, then the number of pods."""

NONZERO: Final = slice(-3, -1)
"""The kinds of `nonzero_requested`."""
COUNT: Final = -1
"""The kind for the number of pods."""
BESIDE_RESOURCES: Final = 3
"""The number of kinds that are not resources."""

MAX_PRIORITIES: Final = 8
"""For how many priorities sums are kept: the most recently requested ones."""


def amounts_of(pods: Sequence[PodInfo], table: ClusterTable) -> Amounts:
    """Amounts with a position per pod."""
    requests = [info.request for info in pods]
    amounts = np.zeros((len(table.requested) + BESIDE_RESOURCES, len(pods)), np.int64)
    amounts[CPU] = [request.milli_cpu for request in requests]
    amounts[MEMORY] = [request.memory for request in requests]
    amounts[EPHEMERAL_STORAGE] = [request.ephemeral_storage for request in requests]
    for position, request in enumerate(requests):
        for name, amount in request.scalars.items():
            if (index := table.resource_index(name)) is not None:
                amounts[index, position] = amount
    nonzero = amounts[NONZERO]
    nonzero[CPU] = [request.nonzero_milli_cpu for request in requests]
    nonzero[MEMORY] = [request.nonzero_memory for request in requests]
    amounts[COUNT] = 1
    return amounts


def sums_of(groups: Iterable[Sequence[PodInfo]], table: ClusterTable) -> Amounts:
    """Amounts with a position per group of pods."""
    groups = list(groups)
    return _sums_of(amounts_of([info for group in groups for info in group], table), groups)


def with_pods(present: Amounts, groups: Sequence[Sequence[PodInfo]], table: ClusterTable) -> Amounts | None:
    """The present amounts plus those of a group of pods, by position; None if they may overflow."""
    each = amounts_of([info for group in groups for info in group], table)
    # Sums in the table are capped at int64, these would not be.
    if int(each.max(initial=0)) * each.shape[1] + int(present.max(initial=0)) >= 2**63:
        return None
    return present + _sums_of(each, groups)


def _sums_of(each: Amounts, groups: Sequence[Sequence[PodInfo]]) -> Amounts:
    bounds = np.fromiter(accumulate(map(len, groups), initial=0), np.int64, len(groups) + 1)
    totals = np.zeros((len(each), each.shape[1] + 1), np.int64)
    np.cumsum(each, axis=1, out=totals[:, 1:])
    return np.diff(totals[:, bounds], axis=1)


class _Below:
    """Sums over the pods below one priority; positions are rows."""

    __slots__ = ("_at", "_priority", "amounts")

    def __init__(self, priority: int) -> None:
        self._priority = priority
        self._at = -1
        self.amounts: Amounts = np.zeros((0, 0), np.int64)

    def catch_up(self, table: ClusterTable) -> None:
        height, width = len(table.requested) + BESIDE_RESOURCES, table.requested.shape[1]
        if len(self.amounts) != height:
            self._at, self.amounts = -1, np.zeros((height, width), np.int64)
        elif self.amounts.shape[1] < width:
            self.amounts = resized(self.amounts, width)
        rows = np.flatnonzero(table.settled_generation[: table.slots] > self._at)
        self._at = table.generation
        if len(rows):
            self.amounts[:, rows] = sums_of((self._lower(table, row) for row in rows.tolist()), table)

    def _lower(self, table: ClusterTable, row: int) -> Sequence[PodInfo]:
        return [info for info in table.pods_at(row) if info.priority < self._priority]


class RequestsBelow:
    """Sums by priority, for recently requested priorities."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, _Below] = OrderedDict()

    def of(self, table: ClusterTable, priority: int, *, keep: bool) -> Amounts:
        """Per row: the requests of pods below `priority`. Do not keep them while a what-if changes rows."""
        below = self._kept.get(priority) if keep else None
        if below is None:
            below = _Below(priority)
        below.catch_up(table)
        if keep:
            self._kept[priority] = below
            self._kept.move_to_end(priority)
            if len(self._kept) > MAX_PRIORITIES:
                self._kept.popitem(last=False)
        return below.amounts
