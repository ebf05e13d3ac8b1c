"""Views: the same columns over all rows, over some, or over one.

In: the cluster table and a choice of rows. Out: `Nodes` for whole-table plugins, `NodeRow` for per-node
plugins. A position is an index into a view, a row is an index into the table.
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
    """A view of the table. `take(column)` returns a column of the view's rows, in the view's order."""

    __slots__ = ("_index", "places", "table")

    def __init__(
        self,
        table: ClusterTable,
        index: slice | NDArray[np.int64],
        places: slice | NDArray[np.int64] | None = None,
    ) -> None:
        self.table = table
        """The whole cluster table. Read its columns through the view: `nodes.take(nodes.table.pod_count)`."""
        self._index = index
        self.places = places
        """The slice of the table's `node_order().twice`, if the rows come from there."""

    def take(self, column: NDArray[S]) -> NDArray[S]:
        """The entries of `column` for this view; the column's last axis are rows. Read-only."""
        if isinstance(self._index, slice):
            return column[..., self._index]
        return column.take(self._index, axis=-1)

    def rows(self) -> NDArray[np.int64]:
        """int64[position]: the rows of the view, gaps included."""
        if isinstance(self._index, slice):
            return np.arange(self._index.start, self._index.stop, dtype=np.int64)
        return self._index

    def rows_at(self, positions: NDArray[np.intp]) -> NDArray[np.int64]:
        """The rows of the given positions."""
        if isinstance(self._index, slice):
            return np.asarray(positions + self._index.start, np.int64)
        return self._index[positions]

    def row(self, position: int) -> int:
        """The row of the given position."""
        return position + self._index.start if isinstance(self._index, slice) else int(self._index[position])

    def live(self) -> NDArray[np.bool_]:
        """bool[position]: which positions hold a node; the whole table has gaps where nodes were deleted."""
        if isinstance(self._index, slice):
            return self.table.live[self._index].copy()
        return self.table.live.take(self._index)

    def at(self, positions: NDArray[Any]) -> Nodes:
        """The view of some positions of this one, given by index or mask."""
        if positions.dtype == np.bool_:
            positions = np.flatnonzero(positions)
        return Nodes(self.table, self.rows_at(positions))

    def at_places(self, positions: NDArray[np.intp]) -> Nodes:
        """The view of a slice of the node order, with known places."""
        places = None if not isinstance(self.places, slice) else positions + self.places.start
        return Nodes(self.table, self.rows_at(positions), places)

    def node(self, position: int) -> NodeRow:
        """The node at a position that holds one."""
        return NodeRow(self.table, self.row(position))

    def name(self, position: int) -> str:
        """The name of the node at a position; "" for a gap."""
        return self.table.names[self.row(position)]

    def position(self, name: str) -> int | None:
        """The position of the node with this name; None if it is not in the view."""
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
        """The number of positions of the view, including gaps."""
        if isinstance(self._index, slice):
            return int(self._index.stop - self._index.start)
        return len(self._index)

    def __iter__(self) -> Iterator[NodeRow]:
        """The nodes of the view one by one, without gaps."""
        return (NodeRow(self.table, row) for row in self.rows()[self.live()].tolist())


class NodeRow:
    """One node as a plugin sees it: its object, its pods and their sums."""

    __slots__ = ("row", "table")

    def __init__(self, table: ClusterTable, row: int) -> None:
        self.table = table
        """The whole cluster table."""
        self.row = row
        """The node's row in the table: `table.pod_count[node.row]`."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.table.names[self.row]

    @property
    def node(self) -> Node:
        """The last known version of the node's object."""
        return self.table.node_at(self.row)

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the node's object."""
        return self.node.metadata.labels

    @property
    def pods(self) -> Sequence[PodInfo]:
        """The pods on the node, including assumed ones."""
        return tuple(self.table.pods_at(self.row))

    @property
    def pod_count(self) -> int:
        """The number of pods on the node, including assumed ones."""
        return int(self.table.pod_count[self.row])

    def allocatable(self, resource: str) -> int:
        """The allocatable amount of a resource: thousandths of a core for cpu, else bytes or units."""
        return self._entry(self.table.allocatable, resource)

    def requested(self, resource: str) -> int:
        """The sum of the requests for a resource, over the pods on the node."""
        return self._entry(self.table.requested, resource)

    @property
    def alone(self) -> Nodes:
        """The view of only this node."""
        return Nodes(self.table, slice(self.row, self.row + 1))

    def _entry(self, matrix: NDArray[np.int64], resource: str) -> int:
        index = self.table.resource_index(resource)
        return 0 if index is None else int(matrix[index, self.row])

    def __repr__(self) -> str:
        return f"<NodeRow {self.name}>"
