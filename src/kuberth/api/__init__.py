"""Kubernetes objects as structs: the first and the last step of a pod's way.

In: JSON from the API server, or trees from YAML. Out: frozen structs, and what follows from their fields:
quantities, compiled selectors, tolerated taints, a pod's requests; and JSON for the objects that the
scheduler writes. Nothing here does I/O or has state.
"""

from __future__ import annotations

from kuberth.api.apps import ReplicaSet, StatefulSet
from kuberth.api.coordination import Lease
from kuberth.api.core import (
    Affinity,
    Binding,
    Container,
    Namespace,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodStatus,
    ReplicationController,
    Service,
    Taint,
    Toleration,
)
from kuberth.api.events import Event
from kuberth.api.kinds import KINDS, KindInfo, register_kind
from kuberth.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kuberth.api.plain import PlainObject
from kuberth.api.pod_resources import PodRequest, compute_pod_request, pod_priority, pod_requests
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.quantity import Quantity, format_quantity, milli_value, parse, value
from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kuberth.api.scheduling import PodGroup, PriorityClass, Workload
from kuberth.api.selectors import (
    FieldSelector,
    Selector,
    compile_label_selector,
    compile_node_selector,
    parse_field_selector,
    parse_selector,
    selector_from_set,
)
from kuberth.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from kuberth.api.taints import find_untolerated, toleration_tolerates
from kuberth.api.wire import MicroTime, Wire, always, convert, decode, encode, to_builtins

__all__ = [
    "KINDS",
    "Affinity",
    "Binding",
    "CSIDriver",
    "CSINode",
    "CSIStorageCapacity",
    "Container",
    "DeviceClass",
    "Event",
    "FieldSelector",
    "KindInfo",
    "LabelSelector",
    "Lease",
    "MicroTime",
    "Namespace",
    "Node",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PlainObject",
    "Pod",
    "PodDisruptionBudget",
    "PodGroup",
    "PodRequest",
    "PodSpec",
    "PodStatus",
    "PriorityClass",
    "Quantity",
    "ReplicaSet",
    "ReplicationController",
    "ResourceClaim",
    "ResourceClaimTemplate",
    "ResourceSlice",
    "Selector",
    "Service",
    "StatefulSet",
    "StorageClass",
    "Taint",
    "Toleration",
    "VolumeAttachment",
    "Wire",
    "Workload",
    "always",
    "compile_label_selector",
    "compile_node_selector",
    "compute_pod_request",
    "convert",
    "decode",
    "encode",
    "find_untolerated",
    "format_quantity",
    "milli_value",
    "parse",
    "parse_field_selector",
    "parse_selector",
    "pod_priority",
    "pod_requests",
    "register_kind",
    "selector_from_set",
    "to_builtins",
    "toleration_tolerates",
    "value",
]
