"""Where volumes for waiting claims can be provisioned: within the storage class's topology and capacity.

In: a waiting claim, CSI drivers, and the capacities that they published. Out: the nodes within the class's
topology, and per node a capacity that is large enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from kuberth.api.quantity import value
from kuberth.api.selectors import Operator, Selector, new_requirement
from kuberth.api.storage import CSIDriver, CSIStorageCapacity, StorageClass
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import everywhere, has_labels, nowhere
from kuberth.errors import QuantityError, SelectorError
from kuberth.informers.store import Store
from kuberth.plugins.volume_binding.claims import WaitingClaim
from kuberth.plugins.volume_binding.reach import Ranks, Reach, first_reachable, reach_of_topology

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


class KnownCapacity(NamedTuple):
    """The largest volume of a capacity, and its topology."""

    capacity: CSIStorageCapacity
    limit_bytes: int
    reach: Reach


class SufficientCapacities(NamedTuple):
    """The capacities that are large enough for a claim, and the index of the one to use per node."""

    capacities: Sequence[KnownCapacity]
    choice: Ranks


def can_provision(storage_class: StorageClass) -> bool:
    return storage_class.provisioner not in ("", NO_PROVISIONER)


def allowed_nodes(nodes: Nodes, storage_class: StorageClass) -> Mask:
    """Nodes within the class's topology: any of its terms; an empty or invalid term allows none."""
    if not storage_class.allowed_topologies:
        return everywhere(nodes)
    allowed = nowhere(nodes)
    for term in storage_class.allowed_topologies:
        try:
            requirements = tuple(
                new_requirement(expression.key, Operator.IN, values=expression.values)
                for expression in term.match_label_expressions
            )
        except SelectorError:
            continue
        if requirements:
            allowed |= has_labels(nodes, Selector(requirements))
    return allowed


class Capacities:
    """The capacities that CSI drivers have published, by storage class."""

    def __init__(self, capacities: Store[CSIStorageCapacity], drivers: Store[CSIDriver]) -> None:
        self._store = capacities
        self._drivers = drivers
        self._changes = capacities.change_reader()
        self._known: dict[str, KnownCapacity] = {}
        self._by_class: dict[str, dict[str, KnownCapacity]] = {}

    def sufficient(self, nodes: Nodes, claim: WaitingClaim) -> SufficientCapacities | None:
        """Where a volume for the claim can be provisioned; None: anywhere, as capacity is not tracked."""
        if claim.size is None:
            return None
        driver = self._drivers.get(claim.storage_class.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return None
        self._refresh()
        wanted = claim.size_bytes
        of_class = self._by_class.get(claim.class_name, {})
        enough = [known for known in of_class.values() if known.limit_bytes >= wanted]
        return SufficientCapacities(enough, first_reachable(nodes, [known.reach for known in enough])[0])

    def _refresh(self) -> None:
        changed = self._changes.read()
        if changed is None:
            changed = self._store.keys() | self._known.keys()
        for key in changed:
            old = self._known.pop(key, None)
            if old is not None:
                del self._by_class[old.capacity.storage_class_name][key]
            capacity = self._store.get_by_key(key)
            limit = None if capacity is None else volume_limit(capacity)
            if capacity is not None and limit is not None:
                known = KnownCapacity(capacity, limit, reach_of_topology(capacity.node_topology))
                self._known[key] = known
                self._by_class.setdefault(capacity.storage_class_name, {})[key] = known


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume in bytes; the maximum volume size takes precedence over the total capacity."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    try:
        return None if limit is None else value(limit)
    except QuantityError:
        return None


def total_bytes(capacity: CSIStorageCapacity) -> int:
    """The free capacity; zero if it is unknown."""
    try:
        return 0 if capacity.capacity is None else value(capacity.capacity)
    except QuantityError:
        return 0


def has_capacity(sufficient: SufficientCapacities | None, nodes: Nodes) -> Mask:
    return everywhere(nodes) if sufficient is None else np.less(sufficient.choice, len(sufficient.capacities))
