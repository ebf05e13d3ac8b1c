"""Finds volumes for a pod on all nodes of a view at once.

In: the pod's claims, sorted, and all storage objects. Out: `Findings`: per node a verdict with its reasons,
and for nodes that pass, the volume for every waiting claim, or that one is to be provisioned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim
from kuberth.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import everywhere, named, nowhere
from kuberth.framework.handle import Handle
from kuberth.framework.status import Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.volume_binding.assumptions import AssumedVolumes
from kuberth.plugins.volume_binding.claims import PodClaims, WaitingClaim
from kuberth.plugins.volume_binding.provisioning import (
    Capacities,
    SufficientCapacities,
    allowed_nodes,
    can_provision,
    has_capacity,
)
from kuberth.plugins.volume_binding.reach import NONE, Ranks, reach_of_affinity
from kuberth.plugins.volume_binding.volumes import KnownVolumes, VolumesOf, match_claims
from kuberth.plugins.volumes import csi_migration
from kuberth.plugins.volumes.csi_migration import TranslationError
from kuberth.plugins.volumes.csi_nodes import CSINodeColumns

# A node's code is the sum of the problems with bound volumes and with waiting claims.
_NOT_REACHABLE: Final = 1
_NOT_THERE: Final = 2
_NO_VOLUME: Final = 4
_NO_CAPACITY: Final = 8
_FIRST_ERROR: Final = 16
_REASONS: Final = (
    (_NOT_REACHABLE, "node(s) didn't match PersistentVolume's node affinity"),
    (_NO_VOLUME, "node(s) didn't find available persistent volumes to bind"),
    (_NO_CAPACITY, "node(s) did not have enough free storage"),
    (_NOT_THERE, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
)


class Wanted(NamedTuple):
    """The claims of a pod's cycle, and the candidates for them at its start."""

    claims: PodClaims
    volumes: VolumesOf


class VolumeChoice(NamedTuple):
    """A claim and, per node of the view, the index of its volume; `NONE`: one is to be provisioned there."""

    claim: WaitingClaim
    volumes: Ranks
    sufficient: SufficientCapacities | None
    """The capacity to use for a volume to be provisioned."""

    @property
    def needed(self) -> Mask:
        """Where a volume is to be provisioned."""
        return np.equal(self.volumes, NONE)


class Findings(NamedTuple):
    """The result for a view. `choices` are only valid where the code is zero."""

    codes: NDArray[np.int64]
    errors: Sequence[Status]
    choices: Sequence[VolumeChoice]

    def at(self, nodes: Nodes) -> Findings:
        """The part of these findings, which are for the whole table, for a view of it."""
        take = nodes.take
        choices = [
            VolumeChoice(
                claim, take(volumes), sufficient and sufficient._replace(choice=take(sufficient.choice))
            )
            for claim, volumes, sufficient in self.choices
        ]
        return Findings(take(self.codes), self.errors, choices)

    def verdict(self) -> Verdict | None:
        if not self.codes.any():
            return None
        return Verdict(self.codes, self._status, may_fail=bool(self.errors))

    def _status(self, code: int) -> Status:
        if code >= _FIRST_ERROR:
            return self.errors[code - _FIRST_ERROR]
        return Status.unresolvable(*(reason for bit, reason in _REASONS if code & bit))


class VolumeFinder:
    """Finds volumes for a pod's claims. It holds no state of a cycle."""

    def __init__(self, handle: Handle, assumed: AssumedVolumes) -> None:
        stores = handle.stores
        self.claims, self.volumes = assumed
        self.classes = stores.of(StorageClass)
        self._known_volumes = KnownVolumes(assumed.volumes)
        self._csi_nodes = CSINodeColumns(handle.cluster, stores.of(CSINode))
        self._capacities = Capacities(stores.of(CSIStorageCapacity), stores.of(CSIDriver))

    def wanted(self, claims: PodClaims) -> Wanted:
        """The claims with the volumes they may get, in the current state."""
        by_class: dict[str, list[str]] = {}
        for claim in claims.waiting:
            by_class.setdefault(claim.class_name, []).append(claim.key)
        candidates = self._known_volumes.candidates
        return Wanted(claims, {name: candidates(name, keys) for name, keys in by_class.items()})

    def find(self, nodes: Nodes, wanted: Wanted) -> Findings:
        errors: list[Status] = []
        codes = self._check_bound(nodes, wanted.claims.bound, errors)
        if not wanted.claims.waiting:
            return Findings(codes, errors, ())
        more, choices = self._find_waiting(nodes, wanted)
        return Findings(np.where(codes >= _FIRST_ERROR, codes, codes + more), errors, choices)

    # Bound claims

    def _check_bound(
        self, nodes: Nodes, claims: Sequence[PersistentVolumeClaim], errors: list[Status]
    ) -> NDArray[np.int64]:
        """The first claim whose volume is missing or not reachable determines the code."""
        codes = np.zeros(len(nodes), np.int64)
        fine = everywhere(nodes)
        for claim in claims:
            volume = self.volumes.get(claim.spec.volume_name)
            if volume is None:
                codes[fine] = _NOT_THERE
                break
            reachable, untranslatable, problem = self._reachable(nodes, volume)
            if problem is not None:
                codes[fine & untranslatable] = _FIRST_ERROR + len(errors)
                errors.append(problem)
                fine &= ~untranslatable
            codes[fine & ~reachable] = _NOT_REACHABLE
            fine &= reachable
        return codes

    def _reachable(self, nodes: Nodes, volume: PersistentVolume) -> tuple[Mask, Mask, Status | None]:
        """Nodes that can reach the volume; nodes where its CSI driver cannot attach it, and why."""
        affinity = volume.spec.node_affinity
        reachable = reach_of_affinity(affinity.required if affinity is not None else None).mask(nodes)
        plugin = csi_migration.plugin_of(volume)
        if plugin is None or not plugin.is_migrated:
            return reachable, nowhere(nodes), None
        self._csi_nodes.refresh()
        migrated = nodes.take(self._csi_nodes.migrated(plugin.name))
        if not migrated.any():
            return reachable, nowhere(nodes), None
        try:
            translated = csi_migration.translated_affinity(plugin, volume)
        except TranslationError as exc:
            return reachable, migrated, Status.error(f"could not translate pv: {exc}")
        there = reach_of_affinity(translated).mask(nodes)
        return np.where(migrated, there, reachable), nowhere(nodes), None

    # Waiting claims

    def _find_waiting(self, nodes: Nodes, wanted: Wanted) -> tuple[NDArray[np.int64], Sequence[VolumeChoice]]:
        selected = [claim for claim in wanted.claims.waiting if claim.selected_node is not None]
        # Small claims first, so that large volumes remain for large ones.
        others = sorted(
            (claim for claim in wanted.claims.waiting if claim.selected_node is None),
            key=lambda claim: claim.size_nano,
        )
        nothing = np.full(len(nodes), NONE, np.int64)
        found = [nothing] * len(selected) + match_claims(nodes, others, wanted.volumes)
        codes = np.zeros(len(nodes), np.int64)
        codes[_not_selected(nodes, selected)] = _NO_VOLUME
        choices = []
        for claim, volumes in zip((*selected, *others), found, strict=True):
            choice = VolumeChoice(claim, volumes, None)
            if can_provision(claim.storage_class) and choice.needed.any():
                choice = choice._replace(sufficient=self._capacities.sufficient(nodes, claim))
            _check_provision(nodes, choice, codes)
            choices.append(choice)
        return codes, choices


def _check_provision(nodes: Nodes, choice: VolumeChoice, codes: NDArray[np.int64]) -> None:
    """Record a problem for nodes without one so far."""
    asked = choice.needed & (codes == 0)
    if not asked.any():
        return
    storage_class = choice.claim.storage_class
    if not can_provision(storage_class):
        codes[asked] = _NO_VOLUME
        return
    allowed = allowed_nodes(nodes, storage_class)
    codes[asked & ~allowed] = _NO_VOLUME
    codes[asked & allowed & ~has_capacity(choice.sufficient, nodes)] = _NO_CAPACITY


def _not_selected(nodes: Nodes, claims: Sequence[WaitingClaim]) -> Mask:
    """Nodes other than those on which volumes are already being provisioned."""
    elsewhere = nowhere(nodes)
    for claim in claims:
        elsewhere |= ~named(nodes, claim.selected_node or "")
    return elsewhere
