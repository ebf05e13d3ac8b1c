"""How many nodes are enough, and which of the passing ones are scored.

In: the order in which nodes are tried, and a function that says which of them pass. Out: the first enough of
them, starting where the last search ended, so that all nodes get their turn; or all of them, for callers that
ask rather than schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kuberth.cluster.arrays import Mask, Rows
from kuberth.cluster.node_order import NodeOrder
from kuberth.framework.plan import Places
from kuberth.framework.status import Status

MIN_FEASIBLE_NODES: Final = 100
"""Never stop before this many were found."""
MIN_FEASIBLE_PERCENTAGE: Final = 5

Judge = Callable[[slice], Mask | Status]
"""Which nodes of a stretch pass; a Status aborts the search."""


def nodes_to_find(total: int, percentage: int | None) -> int:
    """How many feasible nodes end the search; percentage None or 0: the fewer percent the more nodes."""
    if total < MIN_FEASIBLE_NODES:
        return total
    if not percentage:
        percentage = max(50 - total // 125, MIN_FEASIBLE_PERCENTAGE)
    return max(total * percentage // 100, MIN_FEASIBLE_NODES)


class Sampler:
    """Enough nodes for a good choice; remembers where to start the next search.

    Nodes are judged in stretches, so that those which come after enough were found are not judged at all. The
    first stretch is about as long as the last search was: pods come in series.
    """

    diagnoses_all = False

    def __init__(self) -> None:
        self.position = 0
        """The place where the next search starts."""
        self._stretch = 0

    def choose(
        self, order: NodeOrder, enough: int, judge: Judge, *, nodes: int
    ) -> tuple[Places, int] | Status:
        """The places of the first `enough` nodes that pass, and how many were looked at.

        `nodes` is how many there are, in `order` or not: the start goes round among them all, whatever part
        of them a search was narrowed to.
        """
        total = order.count
        start = self.position % total
        # Only one more than enough says that the others need no look.
        stretch = max(enough, self._stretch) + 1
        if self._stretch > enough:  # where some do not pass, as many again may not pass in a little more
            stretch += stretch // 8
        found: list[Rows] = []
        count = judged = 0
        while judged < total and count <= enough:
            begin, end = start + judged, start + min(judged + stretch, total)
            passing = judge(slice(begin, end))
            if isinstance(passing, Status):
                return passing
            positions = passing.nonzero()[0]
            hits = len(positions)
            if not judged and hits == end - begin > enough:
                return self._looked_at(enough, slice(start, start + enough), nodes)
            found.append(positions + begin)
            count += hits
            judged += end - begin
            stretch *= 2
        places = found[0] if len(found) == 1 else np.concatenate(found)
        if count <= enough:
            return self._looked_at(total, places, nodes)
        # The next that passes is where the next search starts.
        return self._looked_at(int(places[enough]) - start, places[:enough], nodes)

    def _looked_at(self, number: int, places: Places, nodes: int) -> tuple[Places, int]:
        self._stretch = number
        self.position = (self.position + number) % nodes
        return places, number


class EveryNode:
    """No sampling: every node that passes, for callers that want the whole answer."""

    diagnoses_all = True
    position = 0

    def choose(
        self, order: NodeOrder, _enough: int, judge: Judge, *, nodes: int
    ) -> tuple[Places, int] | Status:
        passing = judge(slice(0, len(order)))
        return passing if isinstance(passing, Status) else (np.flatnonzero(passing), len(order))
