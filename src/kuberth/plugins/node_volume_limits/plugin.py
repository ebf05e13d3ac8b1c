"""The plugin: compares the limits in CSINodes with attached volumes and those of the pod."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import PersistentVolumeClaim, Pod, Volume
from kuberth.api.storage import CSIDriver, CSINode, CSINodeDriver, VolumeAttachment
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_volumes import is_attachable
from kuberth.cluster.selection import nowhere
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import EnqueueExtensions, FilterPlugin, PreFilterPlugin
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import has_node, on_any, on_deletion, on_new
from kuberth.plugins.node_volume_limits.attached import Attachable, AttachedVolumes, VolumeResolver
from kuberth.plugins.verdict_builder import VerdictBuilder
from kuberth.plugins.volumes import csi_migration
from kuberth.plugins.volumes.claims import USERS_OF_CLAIM, attachable_volumes, concerns_claim
from kuberth.plugins.volumes.csi_nodes import CSINodeColumns

_EXCEEDED: Final = Status.unschedulable("node(s) exceed max volume count")


class _NewVolumes(NamedTuple):
    """The pod's volumes, on nodes with a CSINode and on others; or why they are unknown."""

    with_csi_node: Sequence[Attachable] | Status
    without: Sequence[Attachable] | Status


_STATE: Final = StateKey[_NewVolumes]("NodeVolumeLimits")


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    name = "NodeVolumeLimits"
    inputs = Inputs(
        {"metadata.namespace", "metadata.name", "spec.volumes"},
        only_with={"info.attachable_volumes"},
        pre_filter=DependsOn.ANYTHING,
        filter=DependsOn.ANYTHING,
    )

    def __init__(self, _args: object, handle: Handle) -> None:
        self._drivers = handle.stores.of(CSIDriver)
        self._csi_nodes = CSINodeColumns(handle.cluster, handle.stores.of(CSINode))
        self._resolver = VolumeResolver(handle)
        self._attached = AttachedVolumes(handle, self._resolver)
        self._limit_scaling = handle.feature_gates.enabled("VolumeLimitScaling")

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        volumes = attachable_volumes(state, pod)
        if not volumes:
            return SKIP
        state.write(_STATE, self._new_volumes(pod, volumes))
        return None

    def _new_volumes(self, pod: Pod, volumes: Iterable[Volume]) -> _NewVolumes:
        self._attached.refresh()
        return _NewVolumes(
            self._resolver.for_new_pod(pod, volumes, migrated=True),
            self._resolver.for_new_pod(pod, volumes, migrated=False),
        )

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        new = state.get(_STATE)
        if new is None:
            # PreFilter may be disabled on its own.
            new = self._new_volumes(pod, attachable_volumes(state, pod))
        self._csi_nodes.refresh()
        builder = VerdictBuilder(nodes)
        known = nodes.take(self._csi_nodes.known)
        for volumes, there in ((new.with_csi_node, known), (new.without, ~known)):
            if isinstance(volumes, Status):
                builder.add(there, volumes)
            elif volumes:
                if self._limit_scaling:
                    self._check_drivers(nodes, {volume.driver for volume in volumes}, there, builder)
                if volumes is new.with_csi_node:
                    self._check_limits(nodes, volumes, builder)
        return builder.verdict()

    def _check_drivers(
        self, nodes: Nodes, drivers: Iterable[str], there: Mask, builder: VerdictBuilder
    ) -> None:
        """A driver can require that pods only use nodes where it is installed (KEP-5030)."""
        for name in sorted(drivers):
            driver = self._drivers.get(name)
            if driver is not None and driver.spec.prevent_pod_scheduling_if_missing:
                missing = there & ~nodes.take(self._csi_nodes.installed(name))
                builder.add(missing, Status.unschedulable(f"{name} CSI driver is not installed on the node"))

    def _check_limits(self, nodes: Nodes, volumes: Iterable[Attachable], builder: VerdictBuilder) -> None:
        self._attached.refresh()
        limited = nodes.take(self._csi_nodes.has_limits())
        if not limited.any():
            return
        for row, error in self._attached.errors.items():
            position = nodes.position(nodes.table.names[row])
            if position is not None and limited[position]:
                builder.add_codes(np.array([position]), np.array([builder.code(error)]))
        exceeded = nowhere(nodes)
        brought = {volume.key: volume.driver for volume in volumes}
        for driver in set(brought.values()):
            limit = nodes.take(self._csi_nodes.limit(driver))
            wanted = self._missing(nodes, [key for key, its in brought.items() if its == driver])
            attached = nodes.take(self._attached.count(driver))
            exceeded |= (wanted > 0) & (wanted + attached > limit)
        builder.add(exceeded, _EXCEEDED)

    def _missing(self, nodes: Nodes, volumes: Sequence[str]) -> NDArray[np.int64]:
        """The number of volumes that no pod on the node uses yet."""
        missing = np.full(nodes.table.slots, len(volumes), np.int64)
        for volume in volumes:
            missing[self._attached.rows_with(volume)] -= 1
        return nodes.take(missing)

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [
            on_any(CSINode, Action.ADD),
            on_new(CSINode, Action.UPDATE, _raises_limit),
            on_deletion(Pod, _detaches_volume),
            on_new(PersistentVolumeClaim, Action.ADD, concerns_claim, USERS_OF_CLAIM),
            on_deletion(VolumeAttachment, _may_attach_instead),
        ]


def _raises_limit(_pod: Pod, before: CSINode | None, after: CSINode) -> bool:
    """Whether some driver's limit has increased; a driver without a limit counts as zero."""
    limits = {} if before is None else {driver.name: _limit(driver) for driver in before.spec.drivers}
    return any(_limit(driver) > limits.get(driver.name, 0) for driver in after.spec.drivers)


def _detaches_volume(_pod: Pod, deleted: Pod) -> bool:
    return has_node(deleted) and any(map(is_attachable, deleted.spec.volumes))


def _may_attach_instead(pod: Pod, deleted: VolumeAttachment) -> bool:
    """Whether the pod has a claim, or an inline volume of the driver that detached one."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        plugin = csi_migration.plugin_of(volume)
        if plugin is None:
            continue
        plugin.handle_of(volume)  # raises for a volume the driver cannot have
        if plugin.driver == deleted.spec.attacher:
            return True
    return False


def _limit(driver: CSINodeDriver) -> int:
    return (driver.allocatable.count if driver.allocatable is not None else None) or 0
