"""How many volumes each CSI driver has attached to each node, updated as pods and objects change.

In: the cluster table, resolved volumes of pods, VolumeAttachments. Out: a count per row and driver, and the
rows that already have a given volume. Only changed rows are computed again, also in what-ifs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import PersistentVolume
from kuberth.api.storage import VolumeAttachment
from kuberth.cluster.arrays import Column
from kuberth.cluster.counting import RowCounts
from kuberth.framework.handle import Handle
from kuberth.framework.status import Status
from kuberth.plugins.node_volume_limits.resolving import VolumeResolver
from kuberth.plugins.volumes.claims import claims_of


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


def _move(rows_of: dict[str, set[int]], row: int, old: Iterable[str], new: Iterable[str]) -> None:
    before, after = set(old), set(new)
    for key in before - after:
        rows = rows_of[key]
        rows.discard(row)
        if not rows:
            del rows_of[key]
    for key in after - before:
        rows_of.setdefault(key, set()).add(row)


class _Attachments:
    """VolumeAttachments of CSI volumes, by node."""

    def __init__(self, handle: Handle) -> None:
        self._attachments = handle.stores.of(VolumeAttachment)
        self._volumes = handle.stores.of(PersistentVolume)
        self._attachment_changes = self._attachments.change_reader()
        self._volume_changes = self._volumes.change_reader()
        self._node_of: dict[str, str] = {}
        self._on_node: dict[str, set[str]] = {}
        self._attachments_of_volume: dict[str, set[str]] = {}
        self._volume_of: dict[str, str] = {}

    def refresh(self) -> frozenset[str]:
        """Names of the nodes whose attachments may have changed since the last call."""
        changed, volumes = self._attachment_changes.read(), self._volume_changes.read()
        if changed is None:
            changed = self._attachments.keys() | self._node_of.keys()
        nodes = {node for key in changed for node in self._reindex(key)}
        if volumes is None:
            return frozenset((*nodes, *self._on_node))
        for volume in volumes:
            nodes.update(self._node_of[key] for key in self._attachments_of_volume.get(volume, ()))
        return frozenset(nodes)

    def on(self, node: str) -> Mapping[str, str]:
        """By volume attached to the node: the driver."""
        found: dict[str, str] = {}
        for key in self._on_node.get(node, ()):
            attachment = self._attachments.get_by_key(key)
            volume = self._volumes.get(self._volume_of[key])
            if attachment is not None and volume is not None and volume.spec.csi is not None:
                driver = attachment.spec.attacher
                found[f"{driver}/{volume.spec.csi.volume_handle}"] = driver
        return found

    def _reindex(self, key: str) -> Iterable[str]:
        """Replace the old version with the new one; returns the nodes of both."""
        touched = []
        if key in self._node_of:
            node, volume = self._node_of.pop(key), self._volume_of.pop(key)
            _drop(self._on_node, node, key)
            _drop(self._attachments_of_volume, volume, key)
            touched.append(node)
        attachment = self._attachments.get_by_key(key)
        if attachment is None:
            return touched
        spec = attachment.spec
        if spec.attacher and spec.source.persistent_volume_name is not None:
            self._node_of[key] = spec.node_name
            self._volume_of[key] = spec.source.persistent_volume_name
            self._on_node.setdefault(spec.node_name, set()).add(key)
            self._attachments_of_volume.setdefault(spec.source.persistent_volume_name, set()).add(key)
            touched.append(spec.node_name)
        return touched


def _drop(keys_of: dict[str, set[str]], owner: str, key: str) -> None:
    keys = keys_of[owner]
    keys.discard(key)
    if not keys:
        del keys_of[owner]
