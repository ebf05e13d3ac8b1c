"""The storage.k8s.io group (v1): classes, CSI drivers and nodes, capacities, attachments."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuberth.api.meta import LabelSelector, ObjectMeta
from kuberth.api.references import QuantityValue
from kuberth.api.volumes import PersistentVolumeSpec
from kuberth.api.wire import Wire, always


class TopologySelectorLabelRequirement(Wire):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Wire):
    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("StorageClass")
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    reclaim_policy: str | None = None
    allow_volume_expansion: bool | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Wire):
    count: int | None = None


class CSINodeDriver(Wire):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Wire):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Wire):
    """Annotations in its metadata list the in-tree plugins that were migrated to CSI on the node."""

    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("CSINode")
    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Wire):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    volume_lifecycle_modes: tuple[str, ...] = ()
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Wire):
    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("CSIDriver")
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Wire):
    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("CSIStorageCapacity")
    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: QuantityValue | None = None
    maximum_volume_size: QuantityValue | None = None


class VolumeAttachmentSource(Wire):
    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Wire):
    attacher: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()
    node_name: str = ""


class VolumeAttachmentStatus(Wire):
    attached: bool = False


class VolumeAttachment(Wire):
    api_version: str = always("storage.k8s.io/v1")
    kind: str = always("VolumeAttachment")
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
