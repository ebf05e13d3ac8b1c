"""Decides how many feasible nodes are enough, and which of them are scored.

In: the order in which nodes are tried, and a function that returns which of them pass. Out: the first nodes
that pass, starting where the last search ended so that all nodes get their turn; or all nodes that pass, for
callers that do not schedule.
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
"""The minimum number of feasible nodes before a search stops."""
MIN_FEASIBLE_PERCENTAGE: Final = 5

Evaluate = Callable[[slice], Mask | Status]
"""Which nodes of a stretch pass; a Status aborts the search."""


def nodes_to_find(total: int, percentage: int | None) -> int:
    """The number of feasible nodes that ends the search.

    If the percentage is None or 0, it decreases with the number of nodes.
    """
    if total < MIN_FEASIBLE_NODES:
        return total
    if not percentage:
        percentage = max(50 - total // 125, MIN_FEASIBLE_PERCENTAGE)
    return max(total * percentage // 100, MIN_FEASIBLE_NODES)


class Sampler:
    """Stops when enough nodes are feasible, and remembers where to start the next search.

    Nodes are evaluated in slices, so that those after the last needed one are not evaluated at all. The first
    slice is about as long as the last search, because similar pods arrive in series.
    """

    diagnoses_all = False

    def __init__(self) -> None:
        self.position = 0
        """The place where the next search starts."""
        self._stretch = 0

    def choose(
        self, order: NodeOrder, enough: int, evaluate: Evaluate, *, nodes: int
    ) -> tuple[Places, int] | Status:
        """The places of the first `enough` nodes that pass, and the number of evaluated nodes.

        `nodes` is the number of all nodes, in `order` or not: the start rotates through all of them, even if
        a search was narrowed to some.
        """
        total = order.count
        start = self.position % total
        # One more than enough shows that the others need not be evaluated.
        stretch = max(enough, self._stretch) + 1
        if self._stretch > enough:  # if some do not pass, about as many of the next ones may not pass
            stretch += stretch // 8
        found: list[Rows] = []
        count = evaluated = 0
        while evaluated < total and count <= enough:
            begin, end = start + evaluated, start + min(evaluated + stretch, total)
            passing = evaluate(slice(begin, end))
            if isinstance(passing, Status):
                return passing
            positions = passing.nonzero()[0]
            hits = len(positions)
            if not evaluated and hits == end - begin > enough:
                return self._evaluated(enough, slice(start, start + enough), nodes)
            found.append(positions + begin)
            count += hits
            evaluated += end - begin
            stretch *= 2
        places = found[0] if len(found) == 1 else np.concatenate(found)
        if count <= enough:
            return self._evaluated(total, places, nodes)
        # kube-scheduler starts the next search at the next node that passes.
        return self._evaluated(int(places[enough]) - start, places[:enough], nodes)

    def _evaluated(self, number: int, places: Places, nodes: int) -> tuple[Places, int]:
        self._stretch = number
        self.position = (self.position + number) % nodes
        return places, number


class EveryNode:
    """No sampling: all nodes that pass, for callers that need the complete result."""

    diagnoses_all = True
    position = 0

    def choose(
        self, order: NodeOrder, _enough: int, evaluate: Evaluate, *, nodes: int
    ) -> tuple[Places, int] | Status:
        passing = evaluate(slice(0, len(order)))
        return passing if isinstance(passing, Status) else (np.flatnonzero(passing), len(order))
