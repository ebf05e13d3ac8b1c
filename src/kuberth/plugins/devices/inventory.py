"""The inventory: devices and allocations; one for all plugins of all profiles.

In: the stores of slices, claims and classes, and the cluster table. Out: sites with the current usage of
their pools (`refresh`), and how many devices of a class each node has and how many are allocated.
"""

from __future__ import annotations

from kuberth.api.resource import (
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from kuberth.cluster.arrays import Column
from kuberth.cluster.nodes import Nodes
from kuberth.framework.handle import Handle
from kuberth.plugins.devices.claims import EXTENDED_RESOURCE_CLAIM, KnownClaims
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.counting import ClassCounts
from kuberth.plugins.devices.features import DeviceFeatures
from kuberth.plugins.devices.sites import Sites
from kuberth.plugins.devices.usage import DeviceUsage, Take, takes_of


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
        self._takes: dict[str, tuple[Take, ...]] = {}
        """By namespace/name: the devices of a claim."""
        self._flying: dict[str, tuple[Take, ...]] = {}
        """By UID: the devices of a pending allocation."""
        self._made_for: dict[str, dict[str, None]] = {}
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
            allocation = None if claim is None else claim.status.allocation
            takes = self._takes_of(allocation)
            self._replace(self._takes, key, takes)
            self._note_owner(key, claim)
        for uid in uids:
            flying = self.claims.in_flight.get(uid)
            allocation = None if flying is None else flying.status.allocation
            self._replace(self._flying, uid, self._takes_of(allocation))

    def _takes_of(self, allocation: AllocationResult | None) -> tuple[Take, ...]:
        return () if allocation is None else tuple(takes_of(allocation, shares=self.features.has_shares))

    def made_for(self, pod_uid: str) -> ResourceClaim | None:
        """The claim created for the pod's extended resources, if it exists. Call `refresh` first."""
        for key in self._made_for.get(pod_uid, ()):
            return self.claims.get_by_key(key)
        return None

    def _replace(self, takes_by: dict[str, tuple[Take, ...]], key: str, takes: tuple[Take, ...]) -> None:
        old = takes_by.pop(key, ())
        if takes:
            takes_by[key] = takes
        if old == takes:
            return
        for take in old:
            self.usage.remove(take)
        for take in takes:
            self.usage.add(take)
        for pool_id in {take.device[:2] for take in (*old, *takes)}:
            self.sites.pool_changed(pool_id)

    def _note_owner(self, key: str, claim: ResourceClaim | None) -> None:
        pod_uid = ""
        if claim is not None and claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
            owners = claim.metadata.owner_references
            pod_uid = next((owner.uid for owner in owners if owner.controller), "")
        before = self._pod_of.pop(key, "")
        if before and before != pod_uid:
            claims = self._made_for[before]
            claims.pop(key, None)
            if not claims:
                del self._made_for[before]
        if pod_uid:
            self._pod_of[key] = pod_uid
            self._made_for.setdefault(pod_uid, {})[key] = None

    # Counting devices of a class, for scores

    def totals(self, device_class: DeviceClass, nodes: Nodes) -> tuple[Column, Column]:
        """Per node, the number of devices of the class, and how many of them are allocated."""
        self.refresh()
        version = (self.sites.version, self._table.selection.version, self.classes.version)
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
