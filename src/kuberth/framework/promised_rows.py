"""Which rows are promised, and to whom of what priority: nominations as columns.

In: the nominator's promises, by the name of a node. Out: for any view the positions that are promised to
pods which a pod of some priority must not push aside, and when that last changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.counting import Column
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.table import ClusterTable
from kuberth.framework.nominator import Nominator

_NOBODY: Final = np.iinfo(np.int64).min
"""The priority of whom a row is promised to that is promised to nobody."""
_NOWHERE: Final = np.zeros(0, np.intp)


class PromisedRows:
    """The promises of a nominator over a table."""

    def __init__(self, nominator: Nominator, cluster: ClusterTable) -> None:
        self._nominator = nominator
        self._cluster = cluster
        self._highest: Column = np.zeros(0, np.int64)
        self.changed: Column = np.zeros(0, np.int64)
        """int64[row]: the table's generation when a promise of the row was last seen to change."""
        self._version = -1
        self._membership = -1

    def positions(self, nodes: Nodes, priority: int) -> NDArray[np.intp]:
        """The positions of a view that are promised to a pod of at least this priority."""
        if not self._nominator:
            return _NOWHERE
        self._catch_up()
        return np.flatnonzero(nodes.take(self._highest) >= priority)

    def _catch_up(self) -> None:
        cluster, nominator = self._cluster, self._nominator
        if self._version == nominator.changes.version and self._membership == cluster.membership:
            return
        # What was judged before counts as older than the change, what will be judged now as newer.
        now = cluster.new_generation()
        changed: Iterable[str] | None = None
        if self._membership == cluster.membership:
            changed = nominator.changes.since(self._version)
        if changed is None:
            self._highest = np.full(len(cluster.live), _NOBODY, np.int64)
            self.changed = np.full(len(cluster.live), now, np.int64)
            changed = nominator.nominated_nodes()
        for name in changed:
            row = cluster.row_of(name)
            if row is not None:
                promised = nominator.nominated_on(name)
                self._highest[row] = max((info.priority for info in promised), default=_NOBODY)
                self.changed[row] = now
        self._version, self._membership = nominator.changes.version, cluster.membership
