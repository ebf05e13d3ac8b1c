"""PersistentVolumes that a claim may get: free ones by class and ascending size, reserved ones by claim.

In: the store of PersistentVolumes and the assumptions over it. Out: the candidates for a pod's claims,
updated volume by volume. Volumes of other claims cost nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final, NamedTuple

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim
from kuberth.api.quantity import parse
from kuberth.errors import QuantityError
from kuberth.plugins.volume_binding.assumptions import Assumptions
from kuberth.plugins.volume_binding.claims import FILESYSTEM, exact_nano
from kuberth.plugins.volume_binding.reach import Reach, reach_of_affinity
from kuberth.plugins.volumes.claims import volume_class

AVAILABLE: Final = "Available"


class VolumeShape(NamedTuple):
    """The properties of a volume that claims compare, except labels and topology. Many volumes have few
    shapes."""

    size_nano: int
    """Billionths of a byte, exactly."""
    volume_mode: str
    attributes_class: str
    access_modes: tuple[str, ...]


class KnownVolume:
    """A volume with precomputed values for matching."""

    def __init__(self, volume: PersistentVolume) -> None:
        """Raises `QuantityError` for an invalid capacity."""
        spec = volume.spec
        self.volume = volume
        self.class_name = volume_class(volume)
        self.is_free = spec.claim_ref is None
        self.shape = VolumeShape(
            exact_nano(parse(spec.capacity.get("storage", 0))),
            FILESYSTEM if spec.volume_mode is None else spec.volume_mode,
            spec.volume_attributes_class_name or "",
            spec.access_modes,
        )
        self.order = (self.shape.size_nano, volume.metadata.name)

    @cached_property
    def reach(self) -> Reach:
        """The nodes that can use it; computed only for candidates."""
        affinity = self.volume.spec.node_affinity
        return reach_of_affinity(affinity.required if affinity is not None else None)

    @property
    def reserved_for(self) -> tuple[str, str]:
        """Its class, and the key of the claim that it refers to."""
        reference = self.volume.spec.claim_ref
        return self.class_name, f"{reference.namespace}/{reference.name}" if reference is not None else ""


_order = attrgetter("order")


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is reserved for exactly this claim; a reference may omit the UID."""
    reference = volume.spec.claim_ref
    if reference is None:
        return False
    metadata = claim.metadata
    return (
        reference.name == metadata.name
        and reference.namespace == metadata.namespace
        and reference.uid in ("", metadata.uid)
    )


class KnownVolumes:
    """All volumes that are not being deleted, including those assumed to be claimed."""

    def __init__(self, volumes: Assumptions[PersistentVolume]) -> None:
        self._volumes = volumes
        self._stored_changes = volumes.store.change_reader()
        self._assumed_changes = volumes.changes.reader()
        self._known: dict[str, KnownVolume] = {}
        self._free: dict[str, list[KnownVolume]] = {}
        self._reserved: dict[tuple[str, str], list[KnownVolume]] = {}

    def candidates(self, class_name: str, claims: Iterable[str]) -> Sequence[KnownVolume]:
        """The free volumes of the class by ascending size, then those reserved for any of the claims."""
        self._refresh()
        found = [*self._free.get(class_name, ())]
        for key in dict.fromkeys(claims):
            found += self._reserved.get((class_name, key), ())
        return tuple(found)

    def _refresh(self) -> None:
        stored, assumed = self._stored_changes.read(), self._assumed_changes.read()
        if stored is None or assumed is None:
            stored = assumed = self._volumes.store.keys() | self._known.keys()
        for key in stored | assumed:
            if (old := self._known.pop(key, None)) is not None:
                self._remove(old)
            volume = self._volumes.get(key)
            if volume is not None and _may_serve(volume):
                self._add(key, volume)

    def _add(self, key: str, volume: PersistentVolume) -> None:
        try:
            known = self._known[key] = KnownVolume(volume)
        except QuantityError:
            return  # no claim can rely on a volume of unknown size
        if known.is_free:
            insort(self._free.setdefault(known.class_name, []), known, key=_order)
        else:
            insort(self._reserved.setdefault(known.reserved_for, []), known, key=_order)

    def _remove(self, known: KnownVolume) -> None:
        volumes = self._free[known.class_name] if known.is_free else self._reserved[known.reserved_for]
        del volumes[bisect_left(volumes, known.order, key=_order)]
        if not volumes and not known.is_free:
            del self._reserved[known.reserved_for]


def _may_serve(volume: PersistentVolume) -> bool:
    """A volume without a claim is usable only once the volume controller has made it available."""
    if volume.metadata.deletion_timestamp is not None:
        return False
    return volume.spec.claim_ref is not None or volume.status.phase == AVAILABLE
