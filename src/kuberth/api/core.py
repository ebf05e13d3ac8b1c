"""The core group (v1): pods, nodes, volumes and the smaller kinds.

The parts of pods, nodes and volumes that only their plugins read are imported from `kuberth.api.pods`,
`kuberth.api.nodes` and `kuberth.api.volumes`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import msgspec

from kuberth.api.meta import ObjectMeta
from kuberth.api.nodes import (
    ContainerImage,
    Node,
    NodeCondition,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
)
from kuberth.api.pods import (
    Affinity,
    Container,
    ContainerExtendedResourceRequest,
    NodeAffinity,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodResourceClaim,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from kuberth.api.references import ObjectReference
from kuberth.api.volumes import PersistentVolume, PersistentVolumeClaim, Volume
from kuberth.api.wire import MicroTime, Wire, always

__all__ = [
    "Affinity",
    "Binding",
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerImage",
    "Event",
    "EventSource",
    "Namespace",
    "Node",
    "NodeAffinity",
    "NodeAllocatableResourceClaimStatus",
    "NodeCondition",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "ObjectReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodCondition",
    "PodExtendedResourceClaimStatus",
    "PodResourceClaim",
    "PodSchedulingGroup",
    "PodSpec",
    "PodStatus",
    "PreferredSchedulingTerm",
    "ReplicationController",
    "ResourceRequirements",
    "Service",
    "ServiceSpec",
    "Taint",
    "Toleration",
    "TopologySpreadConstraint",
    "Volume",
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
    """The event of core/v1, as `kubectl get events` lists it.

    For pods, the scheduler writes `kuberth.api.events.Event`.
    """

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
