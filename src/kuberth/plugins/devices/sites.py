"""Sites: nodes that see the same pools form one site, and are evaluated together.

In: slices and nodes as they change. Out: the site of every row of the cluster table, and for every site its
pools in the order in which they are tried. A node with local devices is its own site; nodes without any share
one, and so do those that see the same network-attached pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.resource import DeviceTaintRule, ResourceSlice
from kuberth.cluster.arrays import Column, Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import everywhere, meets_node_selector, named, nowhere
from kuberth.cluster.table import ClusterTable
from kuberth.informers.store import Store
from kuberth.plugins.devices.features import ALL_FEATURES, DeviceFeatures
from kuberth.plugins.devices.slices import (
    DeviceId,
    DevicePool,
    DeviceReach,
    KnownDevice,
    KnownSlice,
    PoolId,
    pool_of,
    tainted,
)

_Seen = list[tuple[KnownSlice, tuple[bool, ...]]]
"""Slices that concern a node, each with the devices that the node can use; (): all devices."""
_UNKNOWN: Final = -1
_ABANDONED: Final = 4096
"""How many sites without nodes may remain before all are rebuilt."""


class DeviceCandidate(NamedTuple):
    """A device that could be allocated."""

    device: KnownDevice
    pool: DevicePool
    is_reachable: bool


class Site:
    """The pools that some nodes see."""

    __slots__ = ("candidates", "index", "is_broken", "pools", "problem")

    def __init__(self, index: int, pools: Sequence[DevicePool], problem: str) -> None:
        self.index = index
        """Its index in columns over sites."""
        self.pools = pools
        self.problem = problem
        """Why these nodes cannot be evaluated; usually ""."""
        self.is_broken = any(pool.invalid_reason for pool in pools)
        """Whether some pool is invalid."""
        self.candidates = tuple(
            DeviceCandidate(device, pool, is_reachable)
            for pool in pools
            if pool.is_usable
            for device, is_reachable in zip(pool.devices, pool.reachable, strict=True)
        )
        """The devices of all usable pools, in the order in which they are tried."""


class Sites:
    """The sites of all nodes."""

    def __init__(
        self,
        slices: Store[ResourceSlice],
        table: ClusterTable,
        *,
        features: DeviceFeatures = ALL_FEATURES,
        rules: Store[DeviceTaintRule] | None = None,
    ) -> None:
        """`rules`: taints set by DeviceTaintRules; None: rules are ignored."""
        self._features = features
        self._rules = Store[DeviceTaintRule]() if rules is None else rules
        self._rule_changes = self._rules.change_reader()
        self._store = slices
        self._slice_changes = slices.change_reader()
        self._table = table
        self._selection_version = -1
        self._generation = 0
        self._slices: dict[str, KnownSlice] = {}
        self._by_pool: dict[PoolId, dict[str, KnownSlice]] = {}
        self._local: dict[str, dict[str, KnownSlice]] = {}
        """Slices by node, then by name."""
        self._shared: dict[str, KnownSlice] = {}
        self._pools: dict[tuple[object, ...], DevicePool | None] = {}
        self._site_of: dict[tuple[int, ...], Site] = {}
        self._sites_with: dict[PoolId, set[int]] = {}
        self.sites: list[Site] = []
        self.of_row: Column = np.zeros(0, np.int64)
        """int64[row]: the index of the row's site."""
        self.changed_at: Column = np.zeros(0, np.int64)
        """int64[site]: grows whenever one of its devices is allocated or released."""
        self.epoch = 0
        """Grows when the sites are rebuilt, which changes their indices."""

    @property
    def version(self) -> int:
        """The version of the slices."""
        return self._store.version

    def slices(self) -> Iterator[KnownSlice]:
        return iter(self._slices.values())

    def device(self, device_id: DeviceId) -> KnownDevice | None:
        """A device in its newest slice."""
        slices = self._by_pool.get(device_id[:2], {}).values()
        found = (each for slice_ in slices for each in slice_.devices if each.id == device_id)
        return max(found, key=lambda device: device.slice.generation, default=None)

    def refresh(self) -> None:
        """Apply changes of slices and nodes."""
        table = self._table
        rows: Iterable[int] = ()
        if not (self._slice_changes.is_current and self._rule_changes.is_current):
            nodes = self._read_slices()
            if nodes is None:
                self._reset()
            else:
                rows = [row for name in nodes if (row := table.row_of(name)) is not None]
        if len(self.of_row) < len(table.live):
            grown = np.full(len(table.live), _UNKNOWN, np.int64)
            grown[: len(self.of_row)] = self.of_row
            self.of_row = grown
        if self._selection_version != table.selection.version:
            renewed = np.flatnonzero(table.node_generation[: table.slots] > self._generation).tolist()
            rows = {*rows, *renewed}
            self._selection_version, self._generation = table.selection.version, table.generation
        if len(self.sites) > table.slots + _ABANDONED:
            self._reset()
        if self._site_of == {}:
            rows = range(table.slots)
        if rows:
            self._assign(np.fromiter(rows, np.int64))

    def pool_changed(self, pool_id: PoolId) -> None:
        """Record that a device of the pool was allocated or released."""
        sites = self._sites_with.get(pool_id)
        if sites is not None:
            if len(sites) == 1:
                self.changed_at[next(iter(sites))] += 1
            else:
                self.changed_at[list(sites)] += 1

    # Slices

    def _read_slices(self) -> set[str] | None:
        """Names of the nodes whose pools may have changed; None: all."""
        changed, rules = self._slice_changes.read(), self._rule_changes.read()
        if changed is None or rules != frozenset():
            changed = self._store.keys() | self._slices.keys()
        touched: list[KnownSlice] = []
        for name in changed:
            if (old := self._slices.pop(name, None)) is not None:
                self._forget(old)
                touched.append(old)
            if (stored := self._store.get_by_key(name)) is not None:
                new = KnownSlice(tainted(stored, self._rules), self._features)
                self._remember(new)
                touched.append(new)
        pools = {slice_.pool_id for slice_ in touched}
        if pools:
            self._pools = {key: pool for key, pool in self._pools.items() if key[0] not in pools}
        # All slices of a pool determine whether it is complete.
        touched += [each for pool_id in pools for each in self._by_pool.get(pool_id, {}).values()]
        if not all(slice_.is_local for slice_ in touched):
            return None
        return {slice_.reach.node_name for slice_ in touched}

    def _remember(self, slice_: KnownSlice) -> None:
        self._slices[slice_.name] = slice_
        self._by_pool.setdefault(slice_.pool_id, {})[slice_.name] = slice_
        if slice_.is_local:
            self._local.setdefault(slice_.reach.node_name, {})[slice_.name] = slice_
        else:
            self._shared[slice_.name] = slice_

    def _forget(self, slice_: KnownSlice) -> None:
        of_pool = self._by_pool[slice_.pool_id]
        del of_pool[slice_.name]
        if not of_pool:
            del self._by_pool[slice_.pool_id]
        if not slice_.is_local:
            del self._shared[slice_.name]
            return
        of_node = self._local[slice_.reach.node_name]
        del of_node[slice_.name]
        if not of_node:
            del self._local[slice_.reach.node_name]

    # Sites

    def _reset(self) -> None:
        self.epoch += 1
        self.sites = []
        self._site_of, self._sites_with = {}, {}
        if len(self._pools) > len(self._by_pool) + _ABANDONED:
            self._pools = {}
        self.changed_at = np.zeros(0, np.int64)

    def _assign(self, rows: Column) -> None:
        """The sites of rows."""
        table = self._table
        shared = list(self._shared.values())
        if not shared:
            for row in rows.tolist():
                name = table.names[row]
                self.of_row[row] = self._site([(each, ()) for each in self._local_to(name)]).index
            return
        view = Nodes(table, rows)
        relevant = [_relevance(view, slice_) for slice_ in shared]
        problem = next((_problem(slice_) for slice_ in shared if _problem(slice_)), "")
        # Nodes with the same shared slices are one site, unless they have local slices.
        apart = [mask for mask, _ in relevant]
        apart += [
            each
            for slice_, (_, by_device) in zip(shared, relevant, strict=True)
            if slice_.is_per_device
            for each in by_device
        ]
        alike = np.packbits(np.array(apart, np.bool_), axis=0)
        seen_by: dict[bytes, _Seen] = {}
        sites: dict[bytes, Site] = {}
        for position, row in enumerate(rows.tolist()):
            key = alike[:, position].tobytes()
            seen = seen_by.get(key)
            if seen is None:
                seen = seen_by[key] = [
                    (slice_, tuple(by_device[:, position].tolist()))
                    for slice_, (mask, by_device) in zip(shared, relevant, strict=True)
                    if mask[position]
                ]
            own: _Seen = [(each, ()) for each in self._local_to(table.names[row])]
            site = None if own else sites.get(key)
            if site is None:
                site = self._site([*own, *seen], problem)
                if not own:
                    sites[key] = site
            self.of_row[row] = site.index

    def _local_to(self, node_name: str) -> Iterable[KnownSlice]:
        return self._local.get(node_name, {}).values()

    def _site(self, seen: _Seen, problem: str = "") -> Site:
        by_pool: dict[PoolId, _Seen] = {}
        for slice_, reachable in seen:
            if not slice_.is_read or not (
                slice_.reach.is_set or slice_.is_per_device or slice_.spec.shared_counters
            ):
                continue
            by_pool.setdefault(slice_.pool_id, []).append((slice_, reachable))
        pools = [
            pool for pool_id, slices in by_pool.items() if (pool := self._pool(pool_id, slices)) is not None
        ]
        pools.sort(key=lambda pool: (pool.has_binding_conditions, pool.id[0].encode(), pool.id[1].encode()))
        key = tuple(map(id, pools))
        site = self._site_of.get(key)
        if site is None:
            site = self._site_of[key] = Site(len(self.sites), tuple(pools), problem)
            self.sites.append(site)
            if len(self.changed_at) < len(self.sites):
                self.changed_at = np.concatenate((self.changed_at, np.zeros(len(self.sites), np.int64)))
            for pool in pools:
                self._sites_with.setdefault(pool.id, set()).add(site.index)
        return site

    def _pool(self, pool_id: PoolId, seen: _Seen) -> DevicePool | None:
        """The object shared by all nodes with the same slices."""
        key = (pool_id, *((id(slice_), reachable) for slice_, reachable in seen))
        if key not in self._pools:
            relevant = [(slice_, reachable or (True,) * len(slice_.devices)) for slice_, reachable in seen]
            self._pools[key] = pool_of(pool_id, relevant, self._by_pool[pool_id].values())
        return self._pools[key]


def _relevance(view: Nodes, slice_: KnownSlice) -> tuple[Mask, NDArray[np.bool_]]:
    """Which nodes the slice concerns, and [device, node] which of them can use which device."""
    shape = len(slice_.devices), len(view)
    by_device = np.broadcast_to(np.True_, shape)
    if slice_.is_per_device:
        masks = [reached(view, device.reach) for device in slice_.devices]
        by_device = np.array(masks, np.bool_).reshape(shape)
    if slice_.spec.shared_counters:
        return everywhere(view), by_device
    if slice_.reach.is_set:
        return reached(view, slice_.reach), by_device
    return (np.logical_or.reduce(by_device, axis=0) if slice_.is_per_device else nowhere(view)), by_device


def reached(view: Nodes, reach: DeviceReach | None) -> Mask:
    if reach is None:
        return everywhere(view)
    if reach.node_name:
        return named(view, reach.node_name)
    if reach.everywhere:
        return everywhere(view)
    return nowhere(view) if reach.selector is None else meets_node_selector(view, reach.selector)


def _problem(slice_: KnownSlice) -> str:
    """An invalid selector; upstream fails for every node that the slice concerns."""
    if slice_.spec.shared_counters:
        return ""
    for reach in (slice_.reach, *(device.reach for device in slice_.devices if device.reach is not None)):
        if reach.selector is not None and reach.selector.errors:
            return (
                f"gather pool information: failed to perform node selection for slice {slice_.name}: "
                f"{'; '.join(reach.selector.errors)}"
            )
    return ""
