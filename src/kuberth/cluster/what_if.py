"""Questions to the cluster table: what if this pod were on that row, what if that one had left it?

In: the table and changes to its rows. Out: the same columns as if the changes were made, until the question
ends; preemption, nominated pods and what-if questions read them with the same plugins.
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
    """Changes to a row's pods that will be undone. Observers and the pods' own state do not see them."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._done: list[tuple[PodInfo, int, bool]] = []
        self._before: dict[int, tuple[PodInfo, ...]] = {}

    def add_pod(self, info: PodInfo, row: int) -> None:
        """As if the pod were on the row."""
        self._remember(row)
        self._table.put(info, row)
        self._done.append((info, row, True))

    def remove_pod(self, info: PodInfo, row: int) -> None:
        """As if the pod had left the row."""
        self._remember(row)
        self._table.take(info, row)
        self._done.append((info, row, False))

    def _remember(self, row: int) -> None:
        if row not in self._before:
            self._before[row] = tuple(self._table.pods_at(row))

    def undo(self) -> None:
        """Take all changes back; what came and went again, as most pods of a preemption do, costs nothing."""
        balance: dict[tuple[int, int], int] = {}
        infos: dict[int, PodInfo] = {}
        for info, row, added in self._done:
            key = id(info), row
            balance[key] = balance.get(key, 0) + (1 if added else -1)
            infos[id(info)] = info
        self._done.clear()
        # Those that came leave first: a pod may have been there in another version.
        for (identity, row), surplus in sorted(balance.items(), key=lambda entry: -entry[1]):
            if surplus > 0:
                self._table.take(infos[identity], row)
            elif surplus < 0:
                self._table.put(infos[identity], row)
        # A pod that left and came back would stand last, and among equals the order decides.
        for row, pods in self._before.items():
            self._table.reorder(row, pods)
        self._before.clear()


class LoggedWhatIf(WhatIf):
    """A what-if whose changes are in the table's change log, when it is made and when it is undone.

    Caches of a row (plans, sums) refresh it both times, so what is remembered
    stays exact and can be used and kept meanwhile. A pod group is tried in it: its thousandth pod costs what
    the thousandth replica does. In return a change costs its readers as much as a real one.
    """

    def __init__(self, table: ClusterTable) -> None:
        super().__init__(table)
        self._assumed: dict[str, PodInfo] = {}

    def add_pod(self, info: PodInfo, row: int) -> None:
        """As if the pod were on the row."""
        super().add_pod(info, row)
        self._table.settle(row)

    def remove_pod(self, info: PodInfo, row: int) -> None:
        """As if the pod had left the row."""
        super().remove_pod(info, row)
        self._table.settle(row)

    def assume_pod(self, info: PodInfo) -> bool:
        """As if the pod had been given the node in its spec. False: there is no such node."""
        row = self._table.row_of(info.node_name)
        if row is None:
            return False
        self.add_pod(info, row)
        self._assumed[info.uid] = info
        if info.group:
            self._table.pod_groups.assume(info)
        return True

    def forget_pod(self, info: PodInfo) -> None:
        """As if it had not been given it after all."""
        del self._assumed[info.uid]
        row = self._table.row_of(info.node_name)
        if row is not None:
            self.remove_pod(info, row)
        if info.group:
            self._table.pod_groups.forget(info)

    def undo(self) -> None:
        """Take all changes back."""
        for info in reversed(self._assumed.values()):
            self._table.pod_groups.forget(info)
        self._assumed.clear()
        rows = tuple(self._before)
        super().undo()
        for row in rows:
            self._table.settle(row)


class RequestsWhatIf:
    """The same for many rows at once, as far as sums of requests and numbers of pods are concerned.

    For plugins that read nothing else of the pods on a node: all other columns, and the pods
    themselves, stay as they are.
    """

    def __init__(self, table: ClusterTable, rows: NDArray[np.int64]) -> None:
        """Only `rows` may be changed."""
        self._table = table
        self._rows = rows
        self._before = table.amounts_at(rows)

    def set(self, amounts: Amounts, rows: NDArray[np.int64]) -> None:
        """As if the pods on `rows` asked for these amounts, a position for each row."""
        self._table.set_amounts(amounts, rows)

    def undo(self) -> None:
        """Take all changes back."""
        self._table.set_amounts(self._before, self._rows)
