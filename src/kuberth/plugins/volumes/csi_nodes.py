"""CSINode objects as columns over the cluster table: drivers per node, and their attach limits.

In: the store of CSINodes and the cluster table. Out: a column for each requested driver, updated for the rows
whose node or CSINode has changed since the last read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.storage import CSINode, CSINodeDriver
from kuberth.cluster.counting import resized
from kuberth.cluster.table import ClusterTable
from kuberth.informers.store import Store

NO_LIMIT: Final = np.iinfo(np.int64).max
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: the in-tree plugins, separated by commas, that CSI drivers replace there."""


_MAX_DRIVERS: Final = 256
"""The maximum number of drivers with columns."""


class _Driver(NamedTuple):
    limits: NDArray[np.int64]
    installed: NDArray[np.bool_]


class CSINodeColumns:
    """Call `refresh` before reading a column.

    Only requested drivers have columns, because a CSINode may list thousands of them.
    """

    def __init__(self, cluster: ClusterTable, store: Store[CSINode]) -> None:
        self._cluster = cluster
        self._store = store
        self._generation = -1
        self._changes = store.change_reader()
        self._capacity = 0
        self._known: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._limited: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._drivers: dict[str, _Driver] = {}
        self._migrated: dict[str, NDArray[np.bool_]] = {}

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows have a CSINode."""
        return self._known

    def limit(self, driver: str) -> NDArray[np.int64]:
        """How many volumes of the driver a row can attach; `NO_LIMIT` without a limit."""
        return self._driver(driver).limits

    def has_limits(self) -> NDArray[np.bool_]:
        """Which rows limit any driver."""
        return self._limited

    def installed(self, driver: str) -> NDArray[np.bool_]:
        """Which rows have the driver."""
        return self._driver(driver).installed

    def migrated(self, plugin: str) -> NDArray[np.bool_]:
        """Which rows have an in-tree plugin that was migrated to its CSI driver."""
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
            self._write(row, self._csi_node(row))
        self._generation = table.generation

    def _csi_node(self, row: int) -> CSINode | None:
        name = self._cluster.names[row]
        return self._store.get(name) if name else None

    def _grow(self, capacity: int) -> None:
        self._capacity = capacity
        self._known, self._limited = (resized(flags, capacity) for flags in (self._known, self._limited))
        self._drivers.clear()
        for plugin, flags in self._migrated.items():
            self._migrated[plugin] = resized(flags, capacity)

    def _write(self, row: int, csi_node: CSINode | None) -> None:
        self._known[row] = csi_node is not None
        self._limited[row] = False
        for limits, installed in self._drivers.values():
            limits[row], installed[row] = NO_LIMIT, False
        for flags in self._migrated.values():
            flags[row] = False
        if csi_node is None:
            return
        for driver in csi_node.spec.drivers:
            limit = _limit(driver)
            if limit is not None:
                self._limited[row] = True
            if driver.name in self._drivers:
                _enter(self._drivers[driver.name], row, limit)
        for plugin in migrated_plugins(csi_node):
            column = self._migrated.setdefault(plugin, np.zeros(self._capacity, np.bool_))
            column[row] = True

    def _driver(self, name: str) -> _Driver:
        found = self._drivers.get(name)
        if found is None:
            if len(self._drivers) >= _MAX_DRIVERS:
                self._drivers.clear()
            found = self._drivers[name] = _Driver(
                np.full(self._capacity, NO_LIMIT, np.int64), np.zeros(self._capacity, np.bool_)
            )
            for row in np.flatnonzero(self._known).tolist():
                csi_node = self._csi_node(row)
                for driver in () if csi_node is None else csi_node.spec.drivers:
                    if driver.name == name:
                        _enter(found, row, _limit(driver))
        return found


def _limit(driver: CSINodeDriver) -> int | None:
    return None if driver.allocatable is None else driver.allocatable.count


def _enter(columns: _Driver, row: int, limit: int | None) -> None:
    columns.installed[row] = True
    if limit is not None:
        columns.limits[row] = limit


def migrated_plugins(csi_node: CSINode | None) -> frozenset[str]:
    """The in-tree plugins that CSI drivers replace on the node."""
    listed = csi_node.metadata.annotations.get(MIGRATED_PLUGINS, "") if csi_node is not None else ""
    return frozenset(listed.split(",")) if listed else frozenset()
