"""Volumes of the core group: a pod's volume sources, PersistentVolumes and their claims.

Only the sources that a volume plugin distinguishes have fields; `Presence` is a source whose existence alone
matters, and other sources are not decoded.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kuberth.api.meta import LabelSelector, ObjectMeta
from kuberth.api.nodes import NodeSelector
from kuberth.api.references import ObjectReference, ResourceList
from kuberth.api.wire import Wire, always


class Presence(Wire):
    """A source whose existence alone matters; its content is dropped when it is decoded."""


class GCEPersistentDiskVolumeSource(Wire):
    pd_name: str = ""
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Wire):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    partition: int = 0
    read_only: bool = False


class AzureDiskVolumeSource(Wire):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class AzureFileVolumeSource(Wire):
    """For pods and PersistentVolumes; only the latter set `secret_namespace`."""

    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False
    secret_namespace: str | None = None


class CinderVolumeSource(Wire):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class ISCSIVolumeSource(Wire):
    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    iscsi_interface: str = ""
    fs_type: str = ""
    read_only: bool = False
    portals: tuple[str, ...] = ()


class RBDVolumeSource(Wire):
    monitors: tuple[str, ...] = ()
    image: str = ""
    fs_type: str = ""
    pool: str = ""
    user: str = ""
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Wire):
    volume_path: str = ""
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = msgspec.field(default="", name="storagePolicyID")


class PortworxVolumeSource(Wire):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class CSIVolumeSource(Wire):
    """An inline ephemeral CSI volume of a pod."""

    driver: str = ""
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: Mapping[str, str] = msgspec.field(default_factory=dict)


class CSIPersistentVolumeSource(Wire):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: Mapping[str, str] = msgspec.field(default_factory=dict)


class LocalVolumeSource(Wire):
    path: str = ""
    fs_type: str | None = None


class HostPathVolumeSource(Wire):
    path: str = ""
    type: str | None = None


class PersistentVolumeClaimVolumeSource(Wire):
    claim_name: str = ""
    read_only: bool = False


class VolumeResourceRequirements(Wire):
    requests: ResourceList = msgspec.field(default_factory=dict)
    limits: ResourceList = msgspec.field(default_factory=dict)


class PersistentVolumeClaimSpec(Wire):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Wire):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Wire):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(Wire):
    reference: str = ""
    pull_policy: str = ""


class Volume(Wire):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    config_map: Presence | None = None
    secret: Presence | None = None
    empty_dir: Presence | None = None
    host_path: HostPathVolumeSource | None = None
    projected: Presence | None = None
    image: ImageVolumeSource | None = None


class VolumeNodeAffinity(Wire):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire):
    capacity: ResourceList = msgspec.field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    local: LocalVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None


class PersistentVolumeStatus(Wire):
    phase: str = ""
    message: str = ""
    reason: str = ""


class PersistentVolume(Wire):
    api_version: str = always("v1")
    kind: str = always("PersistentVolume")
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimStatus(Wire):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = msgspec.field(default_factory=dict)


class PersistentVolumeClaim(Wire):
    api_version: str = always("v1")
    kind: str = always("PersistentVolumeClaim")
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()
