"""How many nodes are enough, and which of the passing ones are scored.

In: which nodes pass. Out: the first enough of them, starting where the last search ended, so that all
nodes get their turn; or all of them, for those who ask rather than schedule.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kuberth.framework.verdict import Mask, Positions

MIN_FEASIBLE_NODES: Final = 100
"""Never stop before this many were found."""
MIN_FEASIBLE_PERCENTAGE: Final = 5


def nodes_to_find(total: int, percentage: int | None) -> int:
    """How many feasible nodes end the search; percentage None or 0: the fewer percent the more nodes."""
    if total < MIN_FEASIBLE_NODES:
        return total
    if not percentage:
        percentage = max(50 - total // 125, MIN_FEASIBLE_PERCENTAGE)
    return max(total * percentage // 100, MIN_FEASIBLE_NODES)


class Sampler:
    """Enough nodes for a good choice; remembers where to start the next search."""

    def __init__(self) -> None:
        self._start = 0

    def choose(self, order: Positions, passing: Mask, enough: int) -> tuple[Positions, int]:
        """The first `enough` entries of `order` that pass, and how many entries were looked at.

        `passing` is indexed by the entries of `order`.
        """
        total = len(order)
        start = self._start % total
        turned = np.concatenate((order[start:], order[:start]))
        found = np.flatnonzero(passing[turned])
        looked_at = total
        if len(found) > enough:
            found = found[:enough]
            looked_at = int(found[-1]) + 1
        self._start = (start + looked_at) % total
        return turned[found], looked_at


class EveryNode:
    """No sampling: every node that passes, for whoever wants the whole answer."""

    def choose(self, order: Positions, passing: Mask, _enough: int) -> tuple[Positions, int]:
        return order[passing[order]], len(order)
