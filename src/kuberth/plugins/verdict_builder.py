"""Not a plugin: builds a verdict status by status.

In: masks or positions of a view, each with the status of these nodes. Out: a verdict; the first status that
is added for a node counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.framework.status import Status
from kuberth.framework.verdict import Verdict

Positions = slice | NDArray[np.intp]


class VerdictBuilder:
    """The statuses of the nodes of a view."""

    def __init__(self, nodes: Nodes, *statuses: Status) -> None:
        """`statuses`: those of the codes from one on, for `add_codes`."""
        self._codes = np.zeros(len(nodes), np.int64)
        self._statuses = [*statuses]

    @property
    def free(self) -> Mask:
        """The nodes without a status so far."""
        return np.equal(self._codes, 0)

    def code(self, status: Status) -> int:
        """A new code for a status."""
        self._statuses.append(status)
        return len(self._statuses)

    def add(self, where: Mask, status: Status) -> None:
        self._codes[where & (self._codes == 0)] = self.code(status)

    def add_codes(self, positions: Positions, codes: NDArray[np.int64]) -> None:
        """Add statuses by their codes; zero: none."""
        before = self._codes[positions]
        self._codes[positions] = np.where(before == 0, codes, before) if before.any() else codes

    def verdict(self) -> Verdict | None:
        """The verdict; None if no node has a status."""
        return Verdict.choosing(self._codes, *self._statuses) if self._codes.any() else None
