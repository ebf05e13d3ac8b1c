"""The order in which nodes are tried: zones take turns, so that a partial search sees all of them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Node
from kuberth.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE

NOWHERE: Final = -1
"""The place of a row that is not in an order."""


def zone_of(node: Node) -> tuple[str, str]:
    """Region and zone; both empty for a node outside any."""
    labels = node.metadata.labels
    region = next((labels[key] for key in (REGION, BETA_REGION) if key in labels), "")
    zone = next((labels[key] for key in (ZONE, BETA_ZONE) if key in labels), "")
    return region, zone


def interleaved_by_zone(nodes: Iterable[tuple[int, Node]]) -> NDArray[np.int64]:
    """Rows of `nodes`: the first of every zone, then the second of every zone, and so on."""
    zones: dict[tuple[str, str], list[int]] = {}
    for row, node in nodes:
        zones.setdefault(zone_of(node), []).append(row)
    rows = [row for turn in zip_longest(*zones.values()) for row in turn if row is not None]
    return np.array(rows, np.int64)


class NodeOrder:
    """An order of rows to go round in, from any place on."""

    __slots__ = ("count", "place", "rows", "twice")

    def __init__(self, rows: NDArray[np.int64], slots: int) -> None:
        self.rows = rows
        """The rows in order."""
        self.count = len(rows)
        """How many there are; asked for several times a cycle."""
        self.twice = np.concatenate((rows, rows))
        """The same, and once more, so that any stretch of a round is a slice."""
        self.place = np.full(slots, NOWHERE, np.int64)
        """int64[row]: where the row stands in `rows`; NOWHERE if it does not. Rows may have come since."""
        self.place[rows] = np.arange(len(rows))

    def place_of(self, row: int) -> int | None:
        """Where any row of the table stands; None if it is not in this order."""
        if row >= len(self.place):
            return None
        place = self.place.item(row)
        return None if place == NOWHERE else place

    def __len__(self) -> int:
        return self.count
