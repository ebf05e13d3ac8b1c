"""Views: the same columns seen over all rows, over some, or over one.

In: the cluster table and a choice of rows. Out: `Nodes` for whole-table plugins, `NodeRow` for plugins
that look at one node. A position counts within a view, a row is the node's place in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Node
from kuberth.cluster.pod_info import PodInfo

if TYPE_CHECKING:
    from kuberth.cluster.table import ClusterTable

S = TypeVar("S", bound=np.generic)


class Nodes:
    """A view of the table. `take(column)` gives a column over the view's rows, in the view's order."""

    __slots__ = ("_index", "places", "table")

    def __init__(
        self,
        table: ClusterTable,
        index: slice | NDArray[np.int64],
        places: slice | NDArray[np.int64] | None = None,
    ) -> None:
        self.table = table
        """The whole cluster table. Take its columns through the view: `nodes.take(nodes.table.pod_count)`."""
        self._index = index
        self.places = places
        """Where the rows stand in the table's `node_order().twice`, if that is where they come from."""

    def take(self, column: NDArray[S]) -> NDArray[S]:
        """The entries of `column` (its last axis are rows) for this view. Not to be written to."""
        if isinstance(self._index, slice):
            return column[..., self._index]
        return column.take(self._index, axis=-1)

    def rows(self) -> NDArray[np.int64]:
        """int64[position]: the rows of the view, gaps included."""
        if isinstance(self._index, slice):
            return np.arange(self._index.start, self._index.stop, dtype=np.int64)
        return self._index

    def rows_at(self, positions: NDArray[np.intp]) -> NDArray[np.int64]:
        """The rows of some positions."""
        if isinstance(self._index, slice):
            return np.asarray(positions + self._index.start, np.int64)
        return self._index[positions]

    def row(self, position: int) -> int:
        """The row of one position."""
        return position + self._index.start if isinstance(self._index, slice) else int(self._index[position])

    def live(self) -> NDArray[np.bool_]:
        """Which positions hold a node; the view of the whole table has gaps where nodes were deleted."""
        if isinstance(self._index, slice):
            return self.table.live[self._index].copy()
        return self.table.live.take(self._index)

    def at(self, positions: NDArray[Any]) -> Nodes:
        """A view of some positions of this one, by index or by mask."""
        if positions.dtype == np.bool_:
            positions = np.flatnonzero(positions)
        return Nodes(self.table, self.rows_at(positions))

    def at_places(self, positions: NDArray[np.intp]) -> Nodes:
        """The same of a view over a stretch of the node order, whose places are then known too."""
        places = None if not isinstance(self.places, slice) else positions + self.places.start
        return Nodes(self.table, self.rows_at(positions), places)

    def node(self, position: int) -> NodeRow:
        """The node at a position, which must hold one."""
        return NodeRow(self.table, self.row(position))

    def name(self, position: int) -> str:
        """The name of the node at a position; "" in a gap."""
        return self.table.names[self.row(position)]

    def position(self, name: str) -> int | None:
        """Where the node of this name stands in the view, if it does."""
        row = self.table.row_of(name)
        if row is None:
            return None
        if isinstance(self._index, slice):
            return row - self._index.start if self._index.start <= row < self._index.stop else None
        found = np.flatnonzero(self._index == row)
        return int(found[0]) if len(found) else None

    def names(self) -> list[str]:
        """The names of all live nodes of the view, in order."""
        return [self.table.names[row] for row in self.rows()[self.live()].tolist()]

    def __len__(self) -> int:
        """How many positions the view has, gaps included."""
        if isinstance(self._index, slice):
            return int(self._index.stop - self._index.start)
        return len(self._index)

    def __iter__(self) -> Iterator[NodeRow]:
        """The nodes of the view, one by one, without gaps."""
        return (NodeRow(self.table, row) for row in self.rows()[self.live()].tolist())


class NodeRow:
    """One node as a plugin sees it: its object, its pods and its sums."""

    __slots__ = ("row", "table")

    def __init__(self, table: ClusterTable, row: int) -> None:
        self.table = table
        """The whole cluster table."""
        self.row = row
        """The node's place in the table: `table.pod_count[node.row]`."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.table.names[self.row]

    @property
    def node(self) -> Node:
        """The node's object, as the API gave it last."""
        return self.table.node_at(self.row)

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the node's object."""
        return self.node.metadata.labels

    @property
    def pods(self) -> Sequence[PodInfo]:
        """The pods on the node, assumed ones included."""
        return tuple(self.table.pods_at(self.row))

    @property
    def pod_count(self) -> int:
        """How many pods are on the node, assumed ones included."""
        return int(self.table.pod_count[self.row])

    def allocatable(self, resource: str) -> int:
        """How much of a resource pods can have: milli-CPU for cpu, bytes or units for all others."""
        return self._entry(self.table.allocatable, resource)

    def requested(self, resource: str) -> int:
        """How much of it the pods on the node asked for."""
        return self._entry(self.table.requested, resource)

    @property
    def alone(self) -> Nodes:
        """The view of just this node."""
        return Nodes(self.table, slice(self.row, self.row + 1))

    def _entry(self, matrix: NDArray[np.int64], resource: str) -> int:
        index = self.table.resource_index(resource)
        return 0 if index is None else int(matrix[index, self.row])

    def __repr__(self) -> str:
        return f"<NodeRow {self.name}>"
