"""Resources as columns: allocatable amounts of nodes and requests of the pods on them.

In: allocatable amounts of nodes, requests of pods. Out: two integer matrices [resource, row]: thousandths of
a core, bytes, or units. A resource has a column only while some node offers it: names that no node offers fit
nowhere and need no sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.pod_resources import PodRequest
from kuberth.cluster.arrays import Column
from kuberth.cluster.counting import resized

CPU: Final = 0
"""The row of the matrices that holds `cpu`, in thousandths of a core."""
MEMORY: Final = 1
"""The row that holds `memory`, in bytes."""
EPHEMERAL_STORAGE: Final = 2
"""The row that holds `ephemeral-storage`, in bytes."""
_FIXED: Final = {"cpu": CPU, "memory": MEMORY, "ephemeral-storage": EPHEMERAL_STORAGE}
MAX_RESOURCES: Final = 1024
"""The maximum number of distinct resources that nodes may offer; more count as zero, to bound memory."""

_MAX_SUM: Final = 2**63 - 1
_MIN_SUM: Final = -_MAX_SUM

RequestsOf = Callable[[str], Iterable[tuple[int, int]]]
"""For a resource that gets a column: the row and the amount of every placed pod that requests it."""


class SaturatingSums:
    """Adds to sums in a matrix without overflow: sums beyond int64 stay at the limit.

    The exact sum is kept beside the matrix, so that amounts can be subtracted again.
    """

    __slots__ = ("_exact",)

    def __init__(self) -> None:
        self._exact: dict[tuple[int, int], int] = {}
        """By index in the matrix: exact sums beyond int64."""

    def add(self, matrix: Column, index: int, row: int, amount: int) -> None:
        total = matrix.item(index, row) + amount
        if self._exact or not _MIN_SUM <= total <= _MAX_SUM:
            total = self._exact.pop((index, row), matrix.item(index, row)) + amount
            if not _MIN_SUM <= total <= _MAX_SUM:
                self._exact[index, row] = total
                total = _MAX_SUM if total > 0 else _MIN_SUM
        matrix[index, row] = total

    def forget(self, index: int) -> None:
        """Reset the sums at this index to zero."""
        self._exact = {place: total for place, total in self._exact.items() if place[0] != index}


class ResourceColumns:
    """The two matrices, with the row of each resource."""

    def __init__(self, capacity: int, *, requests_of: RequestsOf, changed: Callable[[int], None]) -> None:
        """`changed` is called with rows whose sums change when a column is added or removed."""
        self.index: dict[str, int] = dict(_FIXED)
        """Resource name to row of the matrices."""
        self.allocatable: Column = np.zeros((len(_FIXED), capacity), np.int64)
        """[resource, row]: what the node offers."""
        self.requested: Column = np.zeros((len(_FIXED), capacity), np.int64)
        """[resource, row]: sums of the pods' requests."""
        self._sums = SaturatingSums()
        self._requests_of = requests_of
        self._changed = changed
        self._free: list[int] = []

    def offer(self, row: int, amounts: Mapping[str, int]) -> list[str]:
        """Set what the row's node offers; returns the resources beyond the maximum number."""
        before = np.flatnonzero(self.allocatable[:, row])
        self.allocatable[:, row] = 0
        unknown: dict[str, int] = {}
        for name, amount in amounts.items():
            if (index := self.index.get(name)) is not None:
                self.allocatable[index, row] = amount
            elif amount:
                unknown[name] = amount
        self._drop_unoffered(before[self.allocatable[before, row] == 0])
        refused: list[str] = []
        for name, amount in unknown.items():
            if len(self.index) < MAX_RESOURCES:
                index = self._add(name)  # first, because it may replace the matrix
                self.allocatable[index, row] = amount
            else:
                refused.append(name)
        return refused

    def count(self, request: PodRequest, row: int, sign: int) -> None:
        """Add (1) or remove (-1) a pod with this request on the row."""
        sums, requested = self._sums, self.requested
        sums.add(requested, CPU, row, sign * request.milli_cpu)
        sums.add(requested, MEMORY, row, sign * request.memory)
        if request.ephemeral_storage:
            sums.add(requested, EPHEMERAL_STORAGE, row, sign * request.ephemeral_storage)
        for name, amount in request.scalars.items():
            if (index := self.index.get(name)) is not None:
                sums.add(requested, index, row, sign * amount)

    def grow(self, capacity: int) -> None:
        """Enlarge the matrices for more rows."""
        self.allocatable = resized(self.allocatable, capacity)
        self.requested = resized(self.requested, capacity)

    def _add(self, name: str) -> int:
        if not self._free:
            used = len(self.allocatable)
            self.allocatable = _with_rows(self.allocatable, 2 * used)
            self.requested = _with_rows(self.requested, 2 * used)
            self._free = list(range(2 * used - 1, used - 1, -1))
        index = self.index[name] = self._free.pop()
        for row, amount in self._requests_of(name):
            self._sums.add(self.requested, index, row, amount)
            self._changed(row)
        return index

    def _drop_unoffered(self, indexes: NDArray[np.intp]) -> None:
        gone = {int(index) for index in indexes if index >= len(_FIXED) and not self.allocatable[index].any()}
        for name in [name for name, index in self.index.items() if index in gone]:
            index = self.index.pop(name)
            for row in np.flatnonzero(self.requested[index]).tolist():
                self._changed(row)
            self.requested[index] = 0
            self._sums.forget(index)
            self._free.append(index)


def _with_rows(matrix: Column, rows: int) -> Column:
    larger = np.zeros((rows, matrix.shape[1]), np.int64)
    larger[: len(matrix)] = matrix
    return larger
