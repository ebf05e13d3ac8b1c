"""How many volumes each CSI driver has attached to each node, updated as pods and objects change.

In: the cluster table, pods' volumes with the claims, PersistentVolumes and storage classes behind them, and
VolumeAttachments. Out: a pod's volumes by driver and handle; a count per row and driver, and the rows that
already have a given volume. Only changed claims and rows are computed again, also in what-ifs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from kuberth.api.storage import StorageClass, VolumeAttachment
from kuberth.cluster.arrays import Column
from kuberth.cluster.counting import RowCounts
from kuberth.framework.handle import Handle
from kuberth.framework.status import Status
from kuberth.plugins.volumes import csi_migration
from kuberth.plugins.volumes.claims import (
    claim_class,
    claim_not_found,
    claim_of,
    claims_of,
    ownership_problem,
)
from kuberth.plugins.volumes.csi_migration import TranslationError

M = TypeVar("M", int, str)

# No driver uses such a handle, so a volume that does not exist yet is never confused with one that does.
_TO_BE_PROVISIONED: Final = "\0"


class Attachable(NamedTuple):
    """A volume as its CSI driver identifies it."""

    driver: str
    handle: str
    is_migrated: bool = False
    """Whether it counts only on nodes with a CSINode: others may still use the in-tree plugin."""

    @property
    def key(self) -> str:
        """The identity of a volume, as in upstream."""
        return f"{self.driver}/{self.handle}"


class VolumeResolver:
    """Call `refresh` before reading; it returns the claims whose result may have changed."""

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.stores.of(PersistentVolumeClaim)
        self._volumes = handle.stores.of(PersistentVolume)
        self._classes = handle.stores.of(StorageClass)
        self._claim_changes = self._claims.change_reader()
        self._volume_changes = self._volumes.change_reader()
        self._class_changes = self._classes.change_reader()
        self._known: dict[str, Attachable | None] = {}
        self._claims_of_volume: dict[str, set[str]] = {}

    def refresh(self) -> frozenset[str] | None:
        """Keys of claims that changed, or whose volumes did, since the last call; None: any may have."""
        claims, volumes = self._claim_changes.read(), self._volume_changes.read()
        classes = self._class_changes.read()
        if claims is None or volumes is None or classes != frozenset():
            self._known.clear()
            self._claims_of_volume.clear()
            return None
        changed = set(claims)
        for name in volumes:
            changed |= self._claims_of_volume.pop(name, set())
        for key in changed:
            self._known.pop(key, None)
        return frozenset(changed)

    def for_new_pod(
        self, pod: Pod, volumes: Iterable[Volume], *, migrated: bool
    ) -> list[Attachable] | Status:
        """The pod's volumes; with `migrated` on a node where in-tree volumes are CSI volumes."""
        return self._resolve(pod, volumes, migrated=migrated, must_exist=True)

    def for_placed_pod(self, pod: Pod, volumes: Iterable[Volume]) -> list[Attachable] | Status:
        """The known volumes that the pod has attached to its node."""
        return self._resolve(pod, volumes, migrated=True, must_exist=False)

    def _resolve(
        self, pod: Pod, volumes: Iterable[Volume], *, migrated: bool, must_exist: bool
    ) -> list[Attachable] | Status:
        found: list[Attachable] = []
        namespace = pod.metadata.namespace
        for volume in volumes:
            use = claim_of(pod, volume)
            if use is None:
                try:
                    inline = _of_volume(volume) if migrated else None
                except TranslationError as exc:
                    return Status.error(f"converting volume({volume.name}) from inline to csi: {exc}")
                if inline is not None:
                    found.append(inline)
                continue
            if not use.name:
                return Status.error("PersistentVolumeClaim had no name")
            claim = self._claims.get(use.name, namespace=namespace)
            if claim is None:
                if must_exist:
                    missing = claim_not_found(use.name)
                    return Status.unresolvable(f"looking up PVC {namespace}/{use.name}: {missing}")
                continue
            if use.is_ephemeral and (problem := ownership_problem(pod, claim)):
                return Status.error(problem)
            attachable = self._of_claim(f"{namespace}/{use.name}", claim)
            if attachable is not None and (migrated or not attachable.is_migrated):
                found.append(attachable)
        return found

    def _of_claim(self, key: str, claim: PersistentVolumeClaim) -> Attachable | None:
        if key not in self._known:
            self._known[key] = self._derived(key, claim)
        return self._known[key]

    def _derived(self, key: str, claim: PersistentVolumeClaim) -> Attachable | None:
        if claim.spec.volume_name:
            self._claims_of_volume.setdefault(claim.spec.volume_name, set()).add(key)
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is not None:
                try:
                    found = _of_volume(volume)
                except TranslationError:
                    return None
                return found if found is not None and found.driver and found.handle else None
        return self._to_be_provisioned(key, claim)

    def _to_be_provisioned(self, key: str, claim: PersistentVolumeClaim) -> Attachable | None:
        """A claim without a volume counts for the driver that will provision it."""
        storage_class = self._classes.get(claim_class(claim))
        if storage_class is None:
            return None
        plugin = csi_migration.BY_NAME.get(storage_class.provisioner)
        if plugin is not None:
            return Attachable(plugin.driver, _TO_BE_PROVISIONED + key, True) if plugin.is_migrated else None
        if not storage_class.provisioner:
            return None
        return Attachable(storage_class.provisioner, _TO_BE_PROVISIONED + key)


def _of_volume(volume: Volume | PersistentVolume) -> Attachable | None:
    """An inline volume of a pod, or a PersistentVolume; raises TranslationError."""
    if isinstance(volume, PersistentVolume) and volume.spec.csi is not None:
        return Attachable(volume.spec.csi.driver, volume.spec.csi.volume_handle)
    plugin = csi_migration.plugin_of(volume)
    if plugin is None or not plugin.is_migrated:
        return None
    return Attachable(plugin.driver, plugin.handle_of(volume), True)


class _Row(NamedTuple):
    """The attached volumes of one row."""

    drivers: Mapping[str, str]
    """By volume that its pods use: the driver."""
    counts: Mapping[str, int]
    """By driver: the number of volumes, including those attached without a pod that uses them."""
    claims: frozenset[str]
    """Keys of the claims behind the volumes, resolved or not."""
    error: Status | None = None


_EMPTY: Final = _Row({}, {}, frozenset())


class AttachedVolumes:
    """Call `refresh` before reading."""

    def __init__(self, handle: Handle, resolver: VolumeResolver) -> None:
        self._cluster = handle.cluster
        self._resolver = resolver
        self._attachments = _Attachments(handle)
        self._generation = -1
        self._rows: dict[int, _Row] = {}
        self._counts: dict[str, RowCounts] = {}
        self._rows_of_volume: dict[str, set[int]] = {}
        self._rows_of_claim: dict[str, set[int]] = {}
        self._errors: dict[int, Status] = {}

    def count(self, driver: str) -> Column:
        """The number of volumes of the driver per row, 0 to `slots`."""
        counts = self._counts.get(driver)
        slots = self._cluster.slots
        return np.zeros(slots, np.int64) if counts is None else counts.column(slots)

    def rows_with(self, volume: str) -> NDArray[np.int64]:
        """The rows where a pod uses the volume with this key."""
        rows = self._rows_of_volume.get(volume, ())
        return np.fromiter(rows, np.int64, len(rows))

    @property
    def errors(self) -> Mapping[int, Status]:
        """The rows with pods whose volumes are unknown, and why."""
        return self._errors

    def refresh(self) -> None:
        table = self._cluster
        rows = set(table.changed_since(self._generation).tolist())
        claims = self._resolver.refresh()
        if claims is None:
            rows.update(self._rows)
        else:
            for key in claims:
                rows |= self._rows_of_claim.get(key, set())
        rows.update(row for name in self._attachments.refresh() if (row := table.row_of(name)) is not None)
        for row in rows:
            self._replace(row, self._row(row))
        self._generation = table.generation

    def _row(self, row: int) -> _Row:
        table = self._cluster
        drivers: dict[str, str] = {}
        claims: set[str] = set()
        error: Status | None = None
        for info in table.pods_at(row):
            volumes = info.attachable_volumes
            if not volumes:
                continue
            claims.update(f"{info.namespace}/{use.name}" for use in claims_of(info.pod, volumes))
            attached = self._resolver.for_placed_pod(info.pod, volumes)
            if isinstance(attached, Status):
                error = error or attached
                continue
            for volume in attached:
                drivers[volume.key] = volume.driver
        others = self._attachments.on(table.names[row])
        if not drivers and not others and not claims and error is None:
            return _EMPTY
        counts = Counter(drivers.values())
        counts.update(driver for volume, driver in others.items() if volume not in drivers)
        return _Row(drivers, counts, frozenset(claims), error)

    def _replace(self, row: int, new: _Row) -> None:
        old = self._rows.pop(row, _EMPTY)
        if new is not _EMPTY:
            self._rows[row] = new
        if old is new:
            return
        for driver in {*old.counts, *new.counts}:
            difference = new.counts.get(driver, 0) - old.counts.get(driver, 0)
            if difference:
                self._counts.setdefault(driver, RowCounts()).add(row, difference)
        _move(self._rows_of_volume, row, old.drivers.keys(), new.drivers.keys())
        _move(self._rows_of_claim, row, old.claims, new.claims)
        if new.error is None:
            self._errors.pop(row, None)
        else:
            self._errors[row] = new.error


def _move(members_of: dict[str, set[M]], member: M, old: Iterable[str], new: Iterable[str]) -> None:
    """Move a member from the old keys to the new ones; keys without members are dropped."""
    before, after = set(old), set(new)
    for key in before - after:
        members = members_of[key]
        members.discard(member)
        if not members:
            del members_of[key]
    for key in after - before:
        members_of.setdefault(key, set()).add(member)


class _Attachments:
    """VolumeAttachments of CSI volumes, by node."""

    def __init__(self, handle: Handle) -> None:
        self._attachments = handle.stores.of(VolumeAttachment)
        self._volumes = handle.stores.of(PersistentVolume)
        self._attachment_changes = self._attachments.change_reader()
        self._volume_changes = self._volumes.change_reader()
        self._known: dict[str, tuple[str, str]] = {}
        """By attachment: its node and its volume."""
        self._on_node: dict[str, set[str]] = {}
        self._of_volume: dict[str, set[str]] = {}

    def refresh(self) -> frozenset[str]:
        """Names of the nodes whose attachments may have changed since the last call."""
        changed, volumes = self._attachment_changes.read(), self._volume_changes.read()
        if changed is None:
            changed = self._attachments.keys() | self._known.keys()
        nodes = {node for key in changed for node in self._reindex(key)}
        if volumes is None:
            return frozenset((*nodes, *self._on_node))
        for volume in volumes:
            nodes.update(self._known[key][0] for key in self._of_volume.get(volume, ()))
        return frozenset(nodes)

    def on(self, node: str) -> Mapping[str, str]:
        """By volume attached to the node: the driver."""
        found: dict[str, str] = {}
        for key in self._on_node.get(node, ()):
            attachment = self._attachments.get_by_key(key)
            volume = self._volumes.get(self._known[key][1])
            if attachment is not None and volume is not None and volume.spec.csi is not None:
                driver = attachment.spec.attacher
                found[f"{driver}/{volume.spec.csi.volume_handle}"] = driver
        return found

    def _reindex(self, key: str) -> Iterable[str]:
        """Replace the old version with the new one; returns the nodes of both."""
        old = [self._known.pop(key)] if key in self._known else []
        new: list[tuple[str, str]] = []
        attachment = self._attachments.get_by_key(key)
        if attachment is not None and attachment.spec.attacher:
            volume = attachment.spec.source.persistent_volume_name
            if volume is not None:
                self._known[key] = attachment.spec.node_name, volume
                new.append(self._known[key])
        _move(self._on_node, key, (node for node, _ in old), (node for node, _ in new))
        _move(self._of_volume, key, (volume for _, volume in old), (volume for _, volume in new))
        return {node for node, _ in (*old, *new)}
