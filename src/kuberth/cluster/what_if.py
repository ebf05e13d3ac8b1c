"""What-ifs on the cluster table: what if this pod were on that row, or had left it?

In: the table and changes to its rows. Out: the same columns as if the changes were made, until the what-if
ends. Preemption, nominated pods and evaluation read them with the same plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.request_sums import Amounts

if TYPE_CHECKING:
    from kuberth.cluster.table import ClusterTable


class WhatIf:
    """Changes to a row's pods that will be undone; observers do not see them."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._done: list[tuple[PodInfo, int, bool]] = []
        self._before: dict[int, tuple[PodInfo, ...]] = {}

    def add_pod(self, info: PodInfo, row: int) -> None:
        """Add the pod to the node in this row."""
        self._remember(row)
        self._table.put(info, row)
        self._done.append((info, row, True))

    def remove_pod(self, info: PodInfo, row: int) -> None:
        """Remove the pod from the node in this row."""
        self._remember(row)
        self._table.take(info, row)
        self._done.append((info, row, False))

    def _remember(self, row: int) -> None:
        if row not in self._before:
            self._before[row] = tuple(self._table.pods_at(row))

    def undo(self) -> None:
        """Undo all changes; pods that were removed and added again, as most in a preemption, cost nothing."""
        balance: dict[tuple[int, int], int] = {}
        infos: dict[int, PodInfo] = {}
        for info, row, added in self._done:
            key = id(info), row
            balance[key] = balance.get(key, 0) + (1 if added else -1)
            infos[id(info)] = info
        self._done.clear()
        # Added pods are removed first: the row may hold another version of a pod.
        for (identity, row), surplus in sorted(balance.items(), key=lambda entry: -entry[1]):
            if surplus > 0:
                self._table.take(infos[identity], row)
            elif surplus < 0:
                self._table.put(infos[identity], row)
        # A pod that was removed and added again would be last, and the order breaks ties.
        for row, pods in self._before.items():
            self._table.reorder(row, pods)
        self._before.clear()


class LoggedWhatIf(WhatIf):
    """A what-if whose changes, and their undoing, are in the table's change log.

    Caches of a row (plans, sums) refresh it both times, so they stay exact and can be used meanwhile. A pod
    group is tried in such a what-if: its thousandth pod costs as much as the thousandth replica. In return, a
    change costs readers of the log as much as a real one.
    """

    def __init__(self, table: ClusterTable) -> None:
        super().__init__(table)
        self._assumed: dict[str, PodInfo] = {}

    def add_pod(self, info: PodInfo, row: int) -> None:
        """Add the pod to the node in this row."""
        super().add_pod(info, row)
        self._table.settle(row)

    def remove_pod(self, info: PodInfo, row: int) -> None:
        """Remove the pod from the node in this row."""
        super().remove_pod(info, row)
        self._table.settle(row)

    def assume_pod(self, info: PodInfo) -> bool:
        """Assume the pod on the node in its spec. False if there is no such node."""
        row = self._table.row_of(info.node_name)
        if row is None:
            return False
        self.add_pod(info, row)
        self._assumed[info.uid] = info
        if info.group:
            self._table.pod_groups.assume(info)
        return True

    def forget_pod(self, info: PodInfo) -> None:
        """Undo the assumption."""
        del self._assumed[info.uid]
        row = self._table.row_of(info.node_name)
        if row is not None:
            self.remove_pod(info, row)
        if info.group:
            self._table.pod_groups.forget(info)

    def undo(self) -> None:
        """Undo all changes."""
        for info in reversed(self._assumed.values()):
            self._table.pod_groups.forget(info)
        self._assumed.clear()
        rows = tuple(self._before)
        super().undo()
        for row in rows:
            self._table.settle(row)


class RequestsWhatIf:
    """A what-if over many rows that only changes sums of requests and numbers of pods.

    For plugins that read nothing else about the pods on a node: all other columns, and the lists of pods,
    stay unchanged.
    """

    def __init__(self, table: ClusterTable, rows: NDArray[np.int64]) -> None:
        """Only `rows` may be changed."""
        self._table = table
        self._rows = rows
        self._before = table.amounts_at(rows)

    def set(self, amounts: Amounts, rows: NDArray[np.int64]) -> None:
        """Set the requests of the pods on `rows`, a position for each row."""
        self._table.set_amounts(amounts, rows)

    def undo(self) -> None:
        """Undo all changes."""
        self._table.set_amounts(self._before, self._rows)
