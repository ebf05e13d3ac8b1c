"""PersistentVolumes that a claim may get, and the one it gets on each node: the smallest that fits.

In: the store of PersistentVolumes with assumptions, and a pod's waiting claims. Out: the candidates for the
claims, free ones by class and ascending size, reserved ones by claim, updated volume by volume; and for every
claim and node its volume. No volume is used twice on the same node. Volumes of other claims cost nothing.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim
from kuberth.api.quantity import parse
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import everywhere
from kuberth.errors import QuantityError
from kuberth.plugins.volume_binding.assumptions import Assumptions
from kuberth.plugins.volume_binding.claims import FILESYSTEM, WaitingClaim, exact_nano
from kuberth.plugins.volume_binding.reach import NONE, Ranks, Reach, first_reachable, reach_of_affinity
from kuberth.plugins.volumes.claims import volume_class

AVAILABLE: Final = "Available"


class VolumeShape(NamedTuple):
    """What claims compare of a volume, except labels and topology. Many volumes have few shapes."""

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


VolumesOf = Mapping[str, Sequence[KnownVolume]]
"""By storage class: the candidates, free ones by ascending size. A choice is an index into these."""


def match_claims(nodes: Nodes, claims: Iterable[WaitingClaim], volumes: VolumesOf) -> list[Ranks]:
    """Per claim and node: the index of its volume, or `NONE`. Pass the smallest claims first."""
    taken: dict[str, list[Ranks]] = {}
    choices = []
    for claim in claims:
        # A volume belongs to one class, so only claims of the same class compete.
        before = taken.setdefault(claim.class_name, [])
        choice = _match(nodes, claim, volumes[claim.class_name], before)
        before.append(choice)
        choices.append(choice)
    return choices


def _match(
    nodes: Nodes, claim: WaitingClaim, volumes: Sequence[KnownVolume], taken: Sequence[Ranks]
) -> Ranks:
    choice = np.full(len(nodes), NONE, np.int64)
    undecided = everywhere(nodes)
    reserved, free = _candidates(claim, volumes)
    for index in reserved:
        # A volume reserved for the claim is the only candidate, even where it is not reachable.
        here = undecided & ~_is_taken(np.int64(index), taken, len(nodes))
        choice[here & volumes[index].reach.mask(nodes)] = index
        undecided &= ~here
    if not free or not undecided.any():
        return choice
    firsts = first_reachable(nodes, [volumes[index].reach for index in free], number=1 + len(taken))
    index_of = np.array([*free, NONE], np.int64)
    for level in firsts:
        offered = index_of[np.minimum(level, len(free))]
        given = undecided & (offered != NONE) & ~_is_taken(offered, taken, len(nodes))
        choice[given] = offered[given]
        undecided &= ~given
    return choice


def _is_taken(index: Ranks | np.int64, taken: Iterable[Ranks], length: int) -> Mask:
    mask = np.zeros(length, np.bool_)
    for other in taken:
        mask |= other == index
    return mask


def _candidates(claim: WaitingClaim, volumes: Sequence[KnownVolume]) -> tuple[list[int], list[int]]:
    """Indices of the volumes reserved for the claim, and of suitable free ones."""
    reserved: list[int] = []
    free: list[int] = []
    verdicts: dict[VolumeShape, tuple[bool, bool]] = {}
    for index, known in enumerate(volumes):
        verdict = verdicts.get(known.shape)
        if verdict is None:
            verdict = verdicts[known.shape] = _suits(claim, known.shape)
        is_usable, has_modes = verdict
        if known.is_free:
            if has_modes and (claim.selector is None or claim.selector.matches(known.volume.metadata.labels)):
                free.append(index)
        elif is_usable and is_for(known.volume, claim.claim):
            reserved.append(index)
    return reserved, free


def _suits(claim: WaitingClaim, shape: VolumeShape) -> tuple[bool, bool]:
    """Whether a volume of this shape can serve the claim, and with its access modes too."""
    is_usable = (
        shape.size_nano >= claim.size_nano
        and shape.volume_mode == claim.volume_mode
        and shape.attributes_class == claim.attributes_class
    )
    return is_usable, is_usable and set(claim.claim.spec.access_modes) <= set(shape.access_modes)
