"""The order in which nodes are tried: zones alternate, so that a partial search covers all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Node
from kuberth.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE

NOWHERE: Final = -1
"""The place of a row that is not in the order."""


def zone_of(node: Node) -> tuple[str, str]:
    """Region and zone; both are empty for a node without them."""
    labels = node.metadata.labels
    return labels.get(REGION, labels.get(BETA_REGION, "")), labels.get(ZONE, labels.get(BETA_ZONE, ""))


def interleaved_by_zone(nodes: Iterable[tuple[int, Node]]) -> NDArray[np.int64]:
    """Rows of `nodes`: the first of every zone, then the second of every zone, and so on."""
    zones: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for row, node in nodes:
        zones[zone_of(node)].append(row)
    rows = [row for turn in zip_longest(*zones.values()) for row in turn if row is not None]
    return np.array(rows, np.int64)


class NodeOrder:
    """A cyclic order of rows; a search can start at any place."""

    __slots__ = ("count", "place", "rows", "twice")

    def __init__(self, rows: NDArray[np.int64], slots: int) -> None:
        self.rows = rows
        """The rows in order."""
        self.count = len(rows)
        """The number of rows; read several times per cycle."""
        self.twice = np.concatenate((rows, rows))
        """The rows twice in a row, so that any part of the cycle is a slice."""
        self.place = np.full(slots, NOWHERE, np.int64)
        """int64[row]: the row's index in `rows`, or NOWHERE. The table may have more rows since."""
        self.place[rows] = np.arange(len(rows))

    def place_of(self, row: int) -> int | None:
        """The place of any row of the table; None if it is not in this order."""
        if row >= len(self.place):
            return None
        place = self.place.item(row)
        return None if place == NOWHERE else place

    def __len__(self) -> int:
        return self.count
