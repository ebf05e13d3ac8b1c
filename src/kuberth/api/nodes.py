"""Nodes of the core group, and the node selectors that pods and volumes choose them by."""

from __future__ import annotations

import datetime

import msgspec

from kuberth.api.meta import ObjectMeta
from kuberth.api.references import ResourceList
from kuberth.api.wire import Wire, always


class NodeSelectorRequirement(Wire):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class Taint(Wire):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime.datetime | None = None


class NodeSpec(Wire):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] = msgspec.field(default=(), name="podCIDRs")
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeCondition(Wire):
    type: str = ""
    status: str = ""
    last_heartbeat_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None
    reason: str = ""
    message: str = ""


class ContainerImage(Wire):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class AttachedVolume(Wire):
    name: str = ""
    device_path: str = ""


class NodeSystemInfo(Wire):
    kubelet_version: str = ""
    operating_system: str = ""
    architecture: str = ""
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""


class NodeAddress(Wire):
    type: str = ""
    address: str = ""


class NodeStatus(Wire):
    capacity: ResourceList = msgspec.field(default_factory=dict)
    allocatable: ResourceList = msgspec.field(default_factory=dict)
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Wire):
    api_version: str = always("v1")
    kind: str = always("Node")
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
