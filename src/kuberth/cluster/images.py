"""Container images as columns: for each requested image name, which nodes have it and its size.

In: the images that nodes report. Out: a column of sizes per image name, and the number of nodes that have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import ContainerImage
from kuberth.cluster.arrays import Column
from kuberth.cluster.counting import resized

MAX_UNKNOWN: Final = 1024
"""The maximum number of columns of images that no node has; beyond it they are dropped, and recreated on
request."""


class ImageColumn:
    """One image name: `present[row]` and `size_bytes[row]`."""

    __slots__ = ("node_count", "present", "size_bytes")

    def __init__(self, capacity: int) -> None:
        self.present: NDArray[np.bool_] = np.zeros(capacity, np.bool_)
        """bool[row]: whether the node has the image."""
        self.size_bytes: Column = np.zeros(capacity, np.int64)
        """int64[row]: its size there; 0 if the node does not have it."""
        self.node_count = 0
        """The number of nodes that have it."""

    def set(self, row: int, size_bytes: int | None) -> None:
        is_there = size_bytes is not None
        self.node_count += is_there - self.present.item(row)
        self.present[row] = is_there
        self.size_bytes[row] = size_bytes or 0


class ImageColumns:
    """The columns of all image names in use; a column is created when it is first requested."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._limit = MAX_UNKNOWN
        self._nodes_with_any = 0
        self._columns: dict[str, ImageColumn] = {}
        self._images: dict[int, dict[str, int]] = {}

    def set(self, row: int, images: Sequence[ContainerImage]) -> None:
        sizes = {name: image.size_bytes for image in images for name in image.names}
        self._nodes_with_any += bool(sizes) - bool(self._images.get(row))
        self._images[row] = sizes
        for name, column in self._columns.items():
            column.set(row, sizes.get(name))

    def clear(self, row: int) -> None:
        self._nodes_with_any -= bool(self._images.pop(row, None))
        for column in self._columns.values():
            column.set(row, None)

    @property
    def are_known(self) -> bool:
        """Whether any node reports images."""
        return self._nodes_with_any > 0

    def column(self, name: str) -> ImageColumn:
        column = self._columns.get(name)
        if column is None:
            if len(self._columns) >= self._limit:
                self._forget_unused()
            column = self._columns[name] = ImageColumn(self._capacity)
            for row, sizes in self._images.items():
                column.set(row, sizes.get(name))
        return column

    def _forget_unused(self) -> None:
        """Drop the columns of images that are on no node; pods may name any images."""
        self._columns = {name: column for name, column in self._columns.items() if column.node_count}
        self._limit = len(self._columns) + MAX_UNKNOWN

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for column in self._columns.values():
            column.present = resized(column.present, capacity)
            column.size_bytes = resized(column.size_bytes, capacity)
