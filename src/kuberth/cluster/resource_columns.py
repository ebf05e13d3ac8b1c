"""Amounts of resources as columns: what nodes offer and what the pods on them asked for.

In: allocatable amounts of nodes, requests of pods. Out: two matrices [resource, row] of whole numbers:
milli-CPU, bytes, or units. A resource has a column only while some node offers it: whatever names pods
think up, a name that no node offers fits nowhere and needs no count.
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
"""Distinct resources that nodes may offer; more count as zero, so that no node can exhaust the memory."""

RequestsOf = Callable[[str], Iterable[tuple[int, int]]]
"""For a resource that becomes a column: the row and the amount of every placed pod that asks for it."""


class ResourceColumns:
    """The two matrices, and which resource is which of their rows."""

    def __init__(self, capacity: int, *, requests_of: RequestsOf, changed: Callable[[int], None]) -> None:
        """`changed` is called with rows whose sums came or went with a column."""
        self.index: dict[str, int] = dict(_FIXED)
        """Resource name to row of the matrices."""
        self.allocatable: Column = np.zeros((len(_FIXED), capacity), np.int64)
        """[resource, row]: what the node offers."""
        self.requested: Column = np.zeros((len(_FIXED), capacity), np.int64)
        """[resource, row]: sums of the pods' requests."""
        self._requests_of = requests_of
        self._changed = changed
        self._free: list[int] = []

    def offer(self, row: int, amounts: Mapping[str, int]) -> list[str]:
        """The node of the row offers these; returns those for which there is no more room."""
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
                index = self._add(name)  # first: it may replace the matrix
                self.allocatable[index, row] = amount
            else:
                refused.append(name)
        return refused

    def count(self, request: PodRequest, row: int, sign: int) -> None:
        """A pod with this request comes (1) to or leaves (-1) the row."""
        requested = self.requested
        requested[CPU, row] += sign * request.milli_cpu
        requested[MEMORY, row] += sign * request.memory
        requested[EPHEMERAL_STORAGE, row] += sign * request.ephemeral_storage
        for name, amount in request.scalars.items():
            if (index := self.index.get(name)) is not None:
                requested[index, row] += sign * amount

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
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
            self.requested[index, row] += amount
            self._changed(row)
        return index

    def _drop_unoffered(self, indexes: NDArray[np.intp]) -> None:
        gone = {int(index) for index in indexes if index >= len(_FIXED) and not self.allocatable[index].any()}
        for name in [name for name, index in self.index.items() if index in gone]:
            index = self.index.pop(name)
            for row in np.flatnonzero(self.requested[index]).tolist():
                self._changed(row)
            self.requested[index] = 0
            self._free.append(index)


def _with_rows(matrix: Column, rows: int) -> Column:
    larger = np.zeros((rows, matrix.shape[1]), np.int64)
    larger[: len(matrix)] = matrix
    return larger
