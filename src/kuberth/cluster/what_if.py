"""Questions to the cluster table: what if this pod were on that row, what if that one had left it?

In: the table and changes to its rows. Out: the same columns as if the changes were made, until the question
ends; preemption, promised pods and whoever asks "what if" read them with the very same plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kuberth.cluster.pod_info import PodInfo

if TYPE_CHECKING:
    from kuberth.cluster.table import ClusterTable


class WhatIf:
    """Changes to a row's pods that will be undone. Observers and the pods' own state do not see them."""

    def __init__(self, table: ClusterTable) -> None:
        self._table = table
        self._done: list[tuple[PodInfo, int, bool]] = []

    def add_pod(self, info: PodInfo, row: int) -> None:
        """As if the pod were on the row."""
        self._table.put(info, row)
        self._done.append((info, row, True))

    def remove_pod(self, info: PodInfo, row: int) -> None:
        """As if the pod had left the row."""
        self._table.take(info, row)
        self._done.append((info, row, False))

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
