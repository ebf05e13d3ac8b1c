"""The core group (v1): pods, nodes and volumes gathered here, and the smaller kinds beside them.

Other packages import core types from this module; the split behind it only keeps files readable.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import msgspec

from kuberth.api.meta import ObjectMeta
from kuberth.api.nodes import (
    AttachedVolume,
    ContainerImage,
    Node,
    NodeAddress,
    NodeCondition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from kuberth.api.pods import (
    Affinity,
    Container,
    ContainerExtendedResourceRequest,
    ContainerPort,
    ContainerRestartRule,
    ContainerStatus,
    NodeAffinity,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodOS,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSchedulingGate,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceClaimReference,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from kuberth.api.references import (
    ObjectReference,
    QuantityValue,
    ResourceList,
)
from kuberth.api.volumes import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CinderVolumeSource,
    CSIPersistentVolumeSource,
    CSIVolumeSource,
    EphemeralVolumeSource,
    GCEPersistentDiskVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    ISCSIVolumeSource,
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolumeSource,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    PortworxVolumeSource,
    Presence,
    RBDVolumeSource,
    Volume,
    VolumeNodeAffinity,
    VolumeResourceRequirements,
    VsphereVirtualDiskVolumeSource,
)
from kuberth.api.wire import MicroTime, Wire, always

__all__ = [
    "AWSElasticBlockStoreVolumeSource",
    "Affinity",
    "AttachedVolume",
    "AzureDiskVolumeSource",
    "AzureFileVolumeSource",
    "Binding",
    "CSIPersistentVolumeSource",
    "CSIVolumeSource",
    "CinderVolumeSource",
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerImage",
    "ContainerPort",
    "ContainerRestartRule",
    "ContainerStatus",
    "EphemeralVolumeSource",
    "Event",
    "EventSeries",
    "EventSource",
    "GCEPersistentDiskVolumeSource",
    "HostPathVolumeSource",
    "ISCSIVolumeSource",
    "ImageVolumeSource",
    "LocalVolumeSource",
    "Namespace",
    "NamespaceStatus",
    "Node",
    "NodeAddress",
    "NodeAffinity",
    "NodeAllocatableResourceClaimStatus",
    "NodeCondition",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "NodeSystemInfo",
    "ObjectReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolumeSource",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodCondition",
    "PodExtendedResourceClaimStatus",
    "PodOS",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSpec",
    "PodStatus",
    "PortworxVolumeSource",
    "PreferredSchedulingTerm",
    "Presence",
    "QuantityValue",
    "RBDVolumeSource",
    "ReplicationController",
    "ReplicationControllerSpec",
    "ResourceClaimReference",
    "ResourceList",
    "ResourceRequirements",
    "Service",
    "ServiceSpec",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
    "VolumeNodeAffinity",
    "VolumeResourceRequirements",
    "VsphereVirtualDiskVolumeSource",
    "WeightedPodAffinityTerm",
]


class Binding(Wire):
    api_version: str = always("v1")
    kind: str = always("Binding")
    metadata: ObjectMeta = ObjectMeta()
    target: ObjectReference = ObjectReference()


class NamespaceStatus(Wire):
    phase: str = ""


class Namespace(Wire):
    api_version: str = always("v1")
    kind: str = always("Namespace")
    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class ServiceSpec(Wire):
    selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    type: str = ""
    cluster_ip: str = msgspec.field(default="", name="clusterIP")


class Service(Wire):
    api_version: str = always("v1")
    kind: str = always("Service")
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Wire):
    replicas: int | None = None
    selector: Mapping[str, str] = msgspec.field(default_factory=dict)


class ReplicationController(Wire):
    api_version: str = always("v1")
    kind: str = always("ReplicationController")
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class EventSource(Wire):
    component: str = ""
    host: str = ""


class EventSeries(Wire):
    count: int = 0
    last_observed_time: MicroTime | None = None


class Event(Wire):
    """The old event shape, as `kubectl get events` lists it; about pods, Kuberth writes the
    shape of `kuberth.api.events.Event`."""

    api_version: str = always("v1")
    kind: str = always("Event")
    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: datetime.datetime | None = None
    last_timestamp: datetime.datetime | None = None
    count: int = 0
    type: str = ""
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
