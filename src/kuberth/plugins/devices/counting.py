"""How many devices of a class every node has, and how many are allocated, for scores.

In: all slices, the cluster table, allocations. Out: two columns over the table's rows, computed once and then
updated as devices are allocated and released.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kuberth.api.resource import DeviceClass
from kuberth.cel import compile_selector
from kuberth.cluster.arrays import Column
from kuberth.cluster.nodes import Nodes
from kuberth.errors import CelCompileError, CelRuntimeError
from kuberth.plugins.devices.sites import Sites, reached
from kuberth.plugins.devices.slices import DeviceId, KnownDevice, KnownSlice
from kuberth.plugins.devices.usage import DeviceUsage

Where = NDArray[np.bool_] | int
"""A mask over rows, or one row."""


class ClassCounts:
    """The counts of one class, valid while slices, nodes and classes are unchanged.

    As upstream counts for scores: all slices count, of any generation. On a node with a device for which a
    selector fails, the class counts as absent.
    """

    def __init__(
        self,
        device_class: DeviceClass,
        sites: Sites,
        nodes: Nodes,
        usage: DeviceUsage,
        *,
        lists: bool = False,
    ) -> None:
        """`nodes` is the whole table; `lists`: attributes may be lists."""
        self._lists = lists
        self._usage = usage
        self._where: dict[DeviceId, list[Where]] = {}
        self._taken: set[DeviceId] = set()
        self._changes = usage.changes.reader()
        self.offered: Column = np.zeros(len(nodes), np.int64)
        """int64[row]"""
        self.taken: Column = np.zeros(len(nodes), np.int64)
        """int64[row]"""
        self._unclear: NDArray[np.bool_] = np.zeros(len(nodes), np.bool_)
        """Rows with a device for which a selector fails."""
        for slice_ in sites.slices():
            self._add(slice_, device_class, nodes)
        self.offered[self._unclear] = 0
        self.catch_up()

    def catch_up(self) -> None:
        """Apply allocations and releases since the last call."""
        changed = self._changes.read()
        for device in self._where.keys() if changed is None else changed:
            self._look_at(device)

    def _look_at(self, device: DeviceId) -> None:
        is_taken = self._usage.is_taken(device)
        if is_taken == (device in self._taken):
            return
        (self._taken.add if is_taken else self._taken.discard)(device)
        for where in self._where.get(device, ()):
            self.taken[where] += 1 if is_taken else -1
        self.taken[self._unclear] = 0

    def _add(self, slice_: KnownSlice, device_class: DeviceClass, nodes: Nodes) -> None:
        of_slice = None if slice_.is_per_device else _where(slice_, nodes)
        for device in slice_.devices:
            where = of_slice
            if device.reach is not None and device.reach.is_set:
                where = reached(nodes, device.reach)
            if where is None:
                continue
            try:
                if _is_of(device_class, device, lists=self._lists):
                    self._where.setdefault(device.id, []).append(where)
                    self.offered[where] += 1
            except (CelCompileError, CelRuntimeError):
                self._unclear[where] = True


def _where(slice_: KnownSlice, nodes: Nodes) -> Where | None:
    """None: no nodes."""
    if slice_.reach.node_name and not slice_.reach.everywhere:
        return nodes.position(slice_.reach.node_name)
    # For upstream, a slice without any node counts everywhere.
    return reached(nodes, slice_.reach) if slice_.reach.is_set else np.ones(len(nodes), np.bool_)


def _is_of(device_class: DeviceClass, device: KnownDevice, *, lists: bool) -> bool:
    return all(
        compile_selector(selector.cel.expression, lists=lists).matches(device.content)
        for selector in device_class.spec.selectors
        if selector.cel is not None
    )
