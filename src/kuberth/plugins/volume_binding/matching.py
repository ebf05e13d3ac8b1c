"""Matches existing volumes to waiting claims: the smallest that fits, for every node at once.

In: a pod's waiting claims and the volumes of their classes. Out: for every claim and node its volume; no
volume is used twice on the same node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import everywhere
from kuberth.plugins.volume_binding.claims import WaitingClaim
from kuberth.plugins.volume_binding.reach import NONE, Ranks, first_reachable
from kuberth.plugins.volume_binding.volumes import KnownVolume, VolumeShape, is_for

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
            verdict = verdicts[known.shape] = _judge(claim, known.shape)
        is_usable, has_modes = verdict
        if known.is_free:
            if has_modes and (claim.selector is None or claim.selector.matches(known.volume.metadata.labels)):
                free.append(index)
        elif is_usable and is_for(known.volume, claim.claim):
            reserved.append(index)
    return reserved, free


def _judge(claim: WaitingClaim, shape: VolumeShape) -> tuple[bool, bool]:
    """Whether a volume of this shape can serve the claim, and with its access modes too."""
    is_usable = (
        shape.size_nano >= claim.size_nano
        and shape.volume_mode == claim.volume_mode
        and shape.attributes_class == claim.attributes_class
    )
    return is_usable, is_usable and set(claim.claim.spec.access_modes) <= set(shape.access_modes)
