"""CSINode objects as columns over the cluster table: which drivers a node has, and how much they attach.

In: the store of CSINodes and the cluster table. Out: one column a question, brought up to date for the
rows whose node or CSINode changed since it was last asked.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kuberth.api.storage import CSINode
from kuberth.cluster.counting import resized
from kuberth.cluster.table import ClusterTable
from kuberth.informers.store import Store

NO_LIMIT: Final = np.iinfo(np.int64).max
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: the in-tree plugins, separated by commas, that CSI drivers replace there."""


class CSINodeColumns:
    """Call `refresh` before reading a column."""

    def __init__(self, cluster: ClusterTable, store: Store[CSINode]) -> None:
        self._cluster = cluster
        self._store = store
        self._generation = -1
        self._changes = store.change_reader()
        self._capacity = 0
        self._known: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._limits: dict[str, NDArray[np.int64]] = {}
        self._installed: dict[str, NDArray[np.bool_]] = {}
        self._migrated: dict[str, NDArray[np.bool_]] = {}

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows have a CSINode."""
        return self._known

    def limit(self, driver: str) -> NDArray[np.int64]:
        """How many volumes of the driver a row can attach; `NO_LIMIT` where it does not say."""
        return self._limits.get(driver, np.full(self._capacity, NO_LIMIT, np.int64))

    def has_limits(self) -> NDArray[np.bool_]:
        """Which rows limit any driver."""
        limited = np.zeros(self._capacity, np.bool_)
        for column in self._limits.values():
            limited |= column != NO_LIMIT
        return limited

    def installed(self, driver: str) -> NDArray[np.bool_]:
        """Which rows have the driver."""
        return self._installed.get(driver, np.zeros(self._capacity, np.bool_))

    def migrated(self, plugin: str) -> NDArray[np.bool_]:
        """On which rows an in-tree plugin's work was handed to its CSI driver."""
        return self._migrated.get(plugin, np.zeros(self._capacity, np.bool_))

    def refresh(self) -> None:
        table = self._cluster
        if self._capacity < len(table.live):
            self._grow(len(table.live))
        changed = self._changes.read()
        if changed is None:
            self._generation = -1
            changed = frozenset()
        rows = set(np.flatnonzero(table.node_generation[: table.slots] > self._generation).tolist())
        rows.update(row for key in changed if (row := table.row_of(key)) is not None)
        for row in rows:
            name = table.names[row]
            self._write(row, self._store.get(name) if name else None)
        self._generation = table.generation

    def _grow(self, capacity: int) -> None:
        old, self._capacity = self._capacity, capacity
        self._known = resized(self._known, capacity)
        for driver, column in self._limits.items():
            grown = np.full(capacity, NO_LIMIT, np.int64)
            grown[:old] = column
            self._limits[driver] = grown
        for columns in (self._installed, self._migrated):
            for key, flags in columns.items():
                columns[key] = resized(flags, capacity)

    def _write(self, row: int, csi_node: CSINode | None) -> None:
        self._known[row] = csi_node is not None
        for limits in self._limits.values():
            limits[row] = NO_LIMIT
        for flags in (*self._installed.values(), *self._migrated.values()):
            flags[row] = False
        if csi_node is None:
            return
        for driver in csi_node.spec.drivers:
            self._flag(self._installed, driver.name, row)
            if driver.allocatable is not None and driver.allocatable.count is not None:
                if driver.name not in self._limits:
                    self._limits[driver.name] = np.full(self._capacity, NO_LIMIT, np.int64)
                self._limits[driver.name][row] = driver.allocatable.count
        for plugin in migrated_plugins(csi_node):
            self._flag(self._migrated, plugin, row)

    def _flag(self, columns: dict[str, NDArray[np.bool_]], key: str, row: int) -> None:
        column = columns.get(key)
        if column is None:
            column = columns[key] = np.zeros(self._capacity, np.bool_)
        column[row] = True


def migrated_plugins(csi_node: CSINode | None) -> frozenset[str]:
    """The in-tree plugins that CSI drivers replace on the node."""
    listed = csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "") if csi_node is not None else ""
    return frozenset(listed.split(",")) if listed else frozenset()
