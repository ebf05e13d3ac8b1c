"""Extended resources as the plugins about resources see them: which are given as devices, and how many.

In: the gate and the inventory. Out: the resources of a pod that a device class stands behind, and counts of
devices per node for scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kuberth.cluster.nodes import Nodes
from kuberth.config.plugin_args import ResourceSpec
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Versioned
from kuberth.plugins.devices.classes import may_be_backed
from kuberth.plugins.devices.inventory import Inventory

Counts = Callable[[Nodes], tuple[NDArray[np.int64], NDArray[np.int64]]]


class Backing:
    """Knows which extended resources are backed by devices."""

    def __init__(self, handle: Handle) -> None:
        is_on = handle.feature_gates.enabled("DRAExtendedResource")
        self._inventory = Inventory.shared(handle) if is_on else None

    @property
    def versions(self) -> tuple[Versioned, ...]:
        """What decides which resources are backed."""
        return () if self._inventory is None else (self._inventory.classes.store.changes,)

    def without_devices(self, scored: Iterable[ResourceSpec], otherwise: DependsOn) -> DependsOn:
        """What a score of these resources depends on: anything, if devices may be counted for one of them."""
        if self._inventory is not None and any(may_be_backed(spec.name) for spec in scored):
            return DependsOn.ANYTHING
        return otherwise

    def backed(self, resources: Iterable[str]) -> frozenset[str]:
        """Those of the resources that a device class stands behind."""
        inventory = self._inventory
        if inventory is None or inventory.classes.is_empty:
            return _NOTHING
        return frozenset(name for name in resources if inventory.classes.behind(name) is not None)

    def counts(self, resource: str) -> Counts | None:
        """How many devices nodes have for a resource; None: none are given for it."""
        inventory = self._inventory
        if inventory is None or inventory.classes.is_empty or not may_be_backed(resource):
            return None
        device_class = inventory.classes.behind(resource)
        return None if device_class is None else partial(inventory.totals, device_class)


_NOTHING = frozenset[str]()
