"""The inventory: devices and allocations; one for all plugins of all profiles.

In: the stores of slices, claims and classes, and the cluster table. Out: sites with the current usage of
their pools (`refresh`), how many devices of a class each node has and how many are allocated, and for the
plugins about resources, which extended resources of a pod devices back (`Backing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kuberth.api.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from kuberth.cel import compile_selector
from kuberth.cluster.arrays import Column
from kuberth.cluster.nodes import Nodes
from kuberth.config.plugin_args import ResourceSpec
from kuberth.errors import CelCompileError, CelRuntimeError
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Versioned
from kuberth.plugins.devices.claims import EXTENDED_RESOURCE_CLAIM, KnownClaims
from kuberth.plugins.devices.classes import KnownClasses, may_be_backed
from kuberth.plugins.devices.features import DeviceFeatures
from kuberth.plugins.devices.sites import Sites, reached
from kuberth.plugins.devices.slices import DeviceId, KnownDevice, KnownSlice
from kuberth.plugins.devices.usage import AllocatedDevice, DeviceUsage, allocated_devices

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
        self._nodes_of: dict[DeviceId, list[Where]] = {}
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
        for device in self._nodes_of.keys() if changed is None else changed:
            is_taken = self._usage.is_taken(device)
            if is_taken == (device in self._taken):
                continue
            (self._taken.add if is_taken else self._taken.discard)(device)
            for where in self._nodes_of.get(device, ()):
                self.taken[where] += 1 if is_taken else -1
        self.taken[self._unclear] = 0

    def _add(self, slice_: KnownSlice, device_class: DeviceClass, nodes: Nodes) -> None:
        of_slice = None if slice_.is_per_device else _nodes_of(slice_, nodes)
        for device in slice_.devices:
            where = of_slice
            if device.reach is not None and device.reach.is_set:
                where = reached(nodes, device.reach)
            if where is None:
                continue
            try:
                if _is_in_class(device_class, device, lists=self._lists):
                    self._nodes_of.setdefault(device.id, []).append(where)
                    self.offered[where] += 1
            except (CelCompileError, CelRuntimeError):
                self._unclear[where] = True


def _nodes_of(slice_: KnownSlice, nodes: Nodes) -> Where | None:
    """None: no nodes."""
    if slice_.reach.node_name and not slice_.reach.everywhere:
        return nodes.position(slice_.reach.node_name)
    # For upstream, a slice without any node counts everywhere.
    return reached(nodes, slice_.reach) if slice_.reach.is_set else np.ones(len(nodes), np.bool_)


def _is_in_class(device_class: DeviceClass, device: KnownDevice, *, lists: bool) -> bool:
    return all(
        compile_selector(selector.cel.expression, lists=lists).matches(device.content)
        for selector in device_class.spec.selectors
        if selector.cel is not None
    )


class Inventory:
    def __init__(self, handle: Handle) -> None:
        stores = handle.stores
        self.claims = KnownClaims(stores.of(ResourceClaim), handle.clock)
        self.classes = KnownClasses(stores.of(DeviceClass))
        self.features = DeviceFeatures.of(handle.feature_gates)
        has_rules = handle.feature_gates.enabled("DRADeviceTaintRules")
        self.sites = Sites(
            stores.of(ResourceSlice),
            handle.cluster,
            features=self.features,
            rules=stores.of(DeviceTaintRule) if has_rules else None,
        )
        self.usage = DeviceUsage()
        self._takes: dict[str, tuple[AllocatedDevice, ...]] = {}
        """By namespace/name: the devices of a claim."""
        self._pending: dict[str, tuple[AllocatedDevice, ...]] = {}
        """By UID: the devices of a pending allocation."""
        self._created_for: dict[str, dict[str, None]] = {}
        """By UID of a pod: keys of the claims created for its extended resources."""
        self._pod_of: dict[str, str] = {}
        self._table = handle.cluster
        self._counts: dict[str, ClassCounts] = {}
        self._counted_at = (-1, -1, -1)

    @classmethod
    def shared(cls, handle: Handle) -> Inventory:
        """The inventory that all plugins share."""
        return handle.shared.of(cls, lambda: cls(handle))

    def refresh(self) -> None:
        """Apply all changes."""
        self.sites.refresh()
        keys, uids = self.claims.take_changes()
        if keys is None:
            keys = self.claims.keys() | self._takes.keys() | self._pod_of.keys()
        for key in keys:
            claim = self.claims.get_by_key(key)
            self._replace(self._takes, key, claim)
            self._record_owner(key, claim)
        for uid in uids:
            self._replace(self._pending, uid, self.claims.in_flight.get(uid))

    def claim_created_for(self, pod_uid: str) -> ResourceClaim | None:
        """The claim created for the pod's extended resources, if it exists. Call `refresh` first."""
        for key in self._created_for.get(pod_uid, ()):
            return self.claims.get_by_key(key)
        return None

    def _replace(
        self, devices_by: dict[str, tuple[AllocatedDevice, ...]], key: str, claim: ResourceClaim | None
    ) -> None:
        """Replace the devices of a claim, or of a pending allocation, with those of its new version."""
        allocation = None if claim is None else claim.status.allocation
        takes: tuple[AllocatedDevice, ...] = ()
        if allocation is not None:
            takes = tuple(allocated_devices(allocation, shares=self.features.has_shares))
        old = devices_by.pop(key, ())
        if takes:
            devices_by[key] = takes
        if old == takes:
            return
        for take in old:
            self.usage.remove(take)
        for take in takes:
            self.usage.add(take)
        for pool_id in {take.device[:2] for take in (*old, *takes)}:
            self.sites.pool_changed(pool_id)

    def _record_owner(self, key: str, claim: ResourceClaim | None) -> None:
        pod_uid = ""
        if claim is not None and claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
            owners = claim.metadata.owner_references
            pod_uid = next((owner.uid for owner in owners if owner.controller), "")
        before = self._pod_of.pop(key, "")
        if before and before != pod_uid:
            claims = self._created_for[before]
            claims.pop(key, None)
            if not claims:
                del self._created_for[before]
        if pod_uid:
            self._pod_of[key] = pod_uid
            self._created_for.setdefault(pod_uid, {})[key] = None

    # Counting devices of a class, for scores

    def totals(self, device_class: DeviceClass, nodes: Nodes) -> tuple[Column, Column]:
        """Per node, the number of devices of the class, and how many of them are allocated."""
        self.refresh()
        version = (self.sites.version, self._table.selection.version, self.classes.store.version)
        if version != self._counted_at:
            self._counted_at = version
            self._counts.clear()
        counts = self._counts.get(device_class.metadata.name)
        if counts is None:
            counts = ClassCounts(
                device_class,
                self.sites,
                self._table.all_nodes(),
                self.usage,
                lists=self.features.has_lists,
            )
            self._counts[device_class.metadata.name] = counts
        counts.catch_up()
        return nodes.take(counts.offered), nodes.take(counts.taken)


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
