"""The inventory: what there is, what is taken, and by whom; one for all plugins of all profiles.

In: the stores of slices, claims and classes, and the cluster table. Out: sites with what is taken of their
pools, as of now (`refresh`), and how many devices of a class a node has and has given away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from kuberth.cel import compile_selector
from kuberth.cluster.nodes import Nodes
from kuberth.errors import CelCompileError, CelRuntimeError
from kuberth.framework.handle import Handle
from kuberth.plugins.devices.claims import EXTENDED_RESOURCE_CLAIM, KnownClaims
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.sites import Sites, reached
from kuberth.plugins.devices.slices import KnownDevice, KnownSlice
from kuberth.plugins.devices.usage import DeviceUsage, Take, takes_of

Column = NDArray[np.int64]


class Inventory:
    def __init__(self, handle: Handle) -> None:
        stores = handle.stores
        self.claims = KnownClaims(stores.of(ResourceClaim), handle.clock)
        self.classes = KnownClasses(stores.of(DeviceClass))
        self.sites = Sites(stores.of(ResourceSlice), handle.cluster)
        self.usage = DeviceUsage()
        self._takes: dict[str, tuple[Take, ...]] = {}
        """By namespace/name: what a claim takes."""
        self._flying: dict[str, tuple[Take, ...]] = {}
        """By UID: what an allocation on its way takes."""
        self._made_for: dict[str, dict[str, None]] = {}
        """By UID of a pod: keys of the claims that were made for its extended resources."""
        self._pod_of: dict[str, str] = {}

    @classmethod
    def shared(cls, handle: Handle) -> Inventory:
        """The one that all plugins share."""
        return handle.shared.of(cls, lambda: cls(handle))

    def refresh(self) -> None:
        """Follow all changes to where things are now."""
        self.sites.refresh()
        keys, uids = self.claims.take_changes()
        if keys is None:
            keys = self.claims.store.keys() | self._takes.keys() | self._pod_of.keys()
        for key in keys:
            claim = self.claims.get_by_key(key)
            allocation = None if claim is None else claim.status.allocation
            takes = () if allocation is None else tuple(takes_of(allocation))
            self._replace(self._takes, key, takes)
            self._note_owner(key, claim)
        for uid in uids:
            flying = self.claims.in_flight.get(uid)
            allocation = None if flying is None else flying.status.allocation
            self._replace(self._flying, uid, () if allocation is None else tuple(takes_of(allocation)))

    def made_for(self, pod_uid: str) -> ResourceClaim | None:
        """The claim that was made for a pod's extended resources, if it is there. After `refresh`."""
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
        """Per node how many devices of the class there are, and how many of them are taken.

        As upstream counts for scores: all slices, whatever their generation. A selector that has no answer
        makes both zero.
        """
        self.refresh()
        offered, taken = np.zeros((2, len(nodes)), np.int64)
        try:
            for slice_ in self.sites.slices():
                self._count(slice_, device_class, nodes, offered, taken)
        except (CelCompileError, CelRuntimeError):
            offered[:], taken[:] = 0, 0
        return offered, taken

    def _count(
        self, slice_: KnownSlice, device_class: DeviceClass, nodes: Nodes, offered: Column, taken: Column
    ) -> None:
        where: NDArray[np.bool_] | int | None
        if not slice_.is_per_device:
            where = self._where(slice_, nodes)
            if where is None:
                return
        for device in slice_.devices:
            if slice_.is_per_device:
                assert device.reach is not None
                if not device.reach.is_set:
                    continue
                where = reached(nodes, device.reach)
            if _is_of(device_class, device):
                offered[where] += 1
                if self.usage.is_taken(device.id):
                    taken[where] += 1

    def _where(self, slice_: KnownSlice, nodes: Nodes) -> NDArray[np.bool_] | int | None:
        """A place in the view, or a mask over it; None: nowhere."""
        if slice_.reach.node_name and not slice_.reach.everywhere:
            return nodes.position(slice_.reach.node_name)
        # Upstream counts a slice that says nothing about nodes everywhere.
        return np.ones(len(nodes), np.bool_) if not slice_.reach.is_set else reached(nodes, slice_.reach)


def _is_of(device_class: DeviceClass, device: KnownDevice) -> bool:
    return all(
        compile_selector(selector.cel.expression).matches(device.content)
        for selector in device_class.spec.selectors
        if selector.cel is not None
    )
