"""PersistentVolumes by storage class, from the smallest up, with what matching looks at worked out once.

In: the store of PersistentVolumes and the assumptions over it. Out: the volumes of a class, kept in order as
single volumes change.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Final, NamedTuple

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim
from kuberth.api.quantity import Quantity, parse
from kuberth.errors import QuantityError
from kuberth.plugins.volume_binding.assumptions import Assumptions
from kuberth.plugins.volume_binding.claims import FILESYSTEM
from kuberth.plugins.volume_binding.reach import Reach, reach_of_affinity
from kuberth.plugins.volume_claims import volume_class

AVAILABLE: Final = "Available"


class Shape(NamedTuple):
    """What makes volumes alike to a claim, labels and place aside. Many volumes have few shapes."""

    size: Quantity
    volume_mode: str
    attributes_class: str
    access_modes: tuple[str, ...]


class KnownVolume(NamedTuple):
    """A volume that is not being deleted."""

    size: Quantity
    name: str
    volume: PersistentVolume
    shape: Shape
    reach: Reach
    is_free: bool
    """Nothing claims it, and the volume controller has made it available."""

    @property
    def order(self) -> tuple[Quantity, str]:
        return self.size, self.name


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is reserved for just this claim; a reference may leave the UID open."""
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    metadata = claim.metadata
    return (
        reference.name == metadata.name
        and reference.namespace == metadata.namespace
        and reference.uid in ("", metadata.uid)
    )


class VolumesByClass:
    """All usable volumes, including those that are assumed to be claimed."""

    def __init__(self, volumes: Assumptions[PersistentVolume]) -> None:
        self._volumes = volumes
        self._version = 0
        self._class_of: dict[str, tuple[str, KnownVolume]] = {}
        self._by_class: dict[str, list[KnownVolume]] = {}

    def of_class(self, name: str) -> Sequence[KnownVolume]:
        """The volumes of a class from the smallest up; the caller's own copy."""
        self._refresh()
        return tuple(self._by_class.get(name, ()))

    def _refresh(self) -> None:
        store = self._volumes.store
        changed = store.changed_since(self._version)
        if changed is None:
            changed = store.keys() | self._class_of.keys()
        self._version = store.version
        for key in self._volumes.take_touched() | changed:
            self._remove(key)
            volume = self._volumes.get(key)
            if volume is not None and volume.metadata.deletion_timestamp is None:
                self._insert(key, volume)

    def _remove(self, key: str) -> None:
        if key not in self._class_of:
            return
        class_name, known = self._class_of.pop(key)
        volumes = self._by_class[class_name]
        del volumes[bisect_left(volumes, known.order, key=_order)]
        if not volumes:
            del self._by_class[class_name]

    def _insert(self, key: str, volume: PersistentVolume) -> None:
        known = _known(volume)
        if known is None:
            return
        class_name = volume_class(volume)
        self._class_of[key] = (class_name, known)
        insort(self._by_class.setdefault(class_name, []), known, key=_order)


def _order(known: KnownVolume) -> tuple[Quantity, str]:
    return known.order


def _known(volume: PersistentVolume) -> KnownVolume | None:
    """None if the capacity cannot be read: no claim can be sure of such a volume."""
    spec = volume.spec
    try:
        size = parse(spec.capacity.get("storage", 0))
    except QuantityError:
        return None
    return KnownVolume(
        size=size,
        name=volume.metadata.name,
        volume=volume,
        shape=Shape(
            size,
            FILESYSTEM if spec.volume_mode is None else spec.volume_mode,
            spec.volume_attributes_class_name or "",
            spec.access_modes,
        ),
        reach=reach_of_affinity(spec.node_affinity.required if spec.node_affinity is not None else None),
        is_free=spec.claim_ref is None and volume.status.phase == AVAILABLE,
    )
