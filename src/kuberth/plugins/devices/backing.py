"""Extended resources backed by devices, for the plugins about resources.

In: the feature gate and the inventory. Out: which resources of a pod are backed by a device class, and counts
of devices per node for scores.
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
    """Determines which extended resources are backed by devices."""

    def __init__(self, handle: Handle) -> None:
        is_on = handle.feature_gates.enabled("DRAExtendedResource")
        self._inventory = Inventory.shared(handle) if is_on else None

    @property
    def versions(self) -> tuple[Versioned, ...]:
        """What the set of backed resources depends on."""
        return () if self._inventory is None else (self._inventory.classes.store.changes,)

    def without_devices(self, scored: Iterable[ResourceSpec], otherwise: DependsOn) -> DependsOn:
        """What a score of these resources depends on: ANYTHING if devices may count for one of them."""
        if self._inventory is not None and any(may_be_backed(spec.name) for spec in scored):
            return DependsOn.ANYTHING
        return otherwise

    def backed(self, resources: Iterable[str]) -> frozenset[str]:
        """The resources that are backed by a device class."""
        inventory = self._inventory
        if inventory is None or inventory.classes.is_empty:
            return _NOTHING
        return frozenset(name for name in resources if inventory.classes.behind(name) is not None)

    def counts(self, resource: str) -> Counts | None:
        """The number of devices per node for a resource; None if it is not backed."""
        inventory = self._inventory
        if inventory is None or inventory.classes.is_empty or not may_be_backed(resource):
            return None
        device_class = inventory.classes.behind(resource)
        return None if device_class is None else partial(inventory.totals, device_class)


_NOTHING = frozenset[str]()
