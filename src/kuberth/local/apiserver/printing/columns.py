"""Table columns of the built-in kinds, as upstream prints them: each kind is a tuple of columns."""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.printing.ages import since
from kuberth.local.apiserver.printing.cells import (
    NONE,
    UNSET,
    age,
    at,
    claim_capacity,
    claim_modes,
    claim_of,
    claim_state,
    class_name,
    class_of,
    container_images,
    container_names,
    event_count,
    event_first,
    event_last,
    event_message,
    event_object,
    event_path,
    event_source,
    group_policy,
    group_status,
    group_workload,
    job_completions,
    job_duration,
    job_status,
    kernel_version,
    lifecycle_modes,
    modes,
    node_address,
    node_roles,
    node_status,
    phase,
    pod_ip,
    readiness_gates,
    ready_of_wanted,
    selector,
    service_cluster_ip,
    service_external_ip,
    service_ports,
    shown,
    text,
    token_audiences,
)
from kuberth.local.apiserver.printing.json_paths import compile_path
from kuberth.local.apiserver.printing.pod_summary import pod_ready, pod_restarts, pod_status
from kuberth.local.apiserver.resources import Column

NAME: Final = Column(
    "Name",
    shown(name_of),
    format="name",
    description="Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically. Name is "
    "primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
)
AGE: Final = Column(
    "Age",
    age,
    description="CreationTimestamp is a timestamp representing the server time when this object was created.",
)
_CONTAINERS: Final = Column(
    "Containers",
    shown(container_names),
    priority=1,
    description="Names of each container in the template.",
)
_IMAGES: Final = Column(
    "Images",
    shown(container_images),
    priority=1,
    description="Images referenced by each container in the template.",
)
_SELECTOR: Final = Column(
    "Selector", shown(selector), priority=1, description="Label selector for the pods it owns."
)
_VOLUME_MODE: Final = Column("VolumeMode", at("spec.volumeMode", UNSET), priority=1)

NAME_AND_AGE: Final = (NAME, AGE)
NAMESPACE: Final = (
    NAME,
    Column("Status", at("status.phase"), description="The status of the namespace"),
    AGE,
)
NODE: Final = (
    NAME,
    Column("Status", shown(node_status), description="The status of the node"),
    Column("Roles", shown(node_roles), description="The roles of the node"),
    AGE,
    Column("Version", at("status.nodeInfo.kubeletVersion")),
    Column("Internal-IP", node_address("InternalIP"), priority=1),
    Column("External-IP", node_address("ExternalIP"), priority=1),
    Column("OS-Image", at("status.nodeInfo.osImage", "<unknown>"), priority=1),
    Column("Kernel-Version", shown(kernel_version), priority=1),
    Column("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", "<unknown>"), priority=1),
)
POD: Final = (
    NAME,
    Column(
        "Ready",
        shown(pod_ready),
        description="The aggregate readiness state of this pod for accepting traffic.",
    ),
    Column("Status", shown(pod_status), description="The aggregate status of the containers in this pod."),
    Column(
        "Restarts",
        pod_restarts,
        description="The number of times the containers in this pod have been restarted and when the last "
        "container in this pod has restarted.",
    ),
    AGE,
    Column("IP", shown(pod_ip), priority=1),
    Column("Node", at("spec.nodeName", NONE), priority=1),
    Column("Nominated Node", at("status.nominatedNodeName", NONE), priority=1),
    Column("Readiness Gates", shown(readiness_gates), priority=1),
)
SERVICE: Final = (
    NAME,
    Column("Type", at("spec.type")),
    Column("Cluster-IP", shown(service_cluster_ip)),
    Column("External-IP", shown(service_external_ip)),
    Column("Port(s)", shown(service_ports)),
    AGE,
    _SELECTOR,
)
REPLICA_SET: Final = (
    NAME,
    Column("Desired", at("spec.replicas", 0), type="integer"),
    Column("Current", at("status.replicas", 0), type="integer"),
    Column("Ready", at("status.readyReplicas", 0), type="integer"),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
PERSISTENT_VOLUME: Final = (
    NAME,
    Column("Capacity", at("spec.capacity.storage")),
    Column("Access Modes", shown(lambda obj: modes(obj.get("spec", {}).get("accessModes")))),
    Column("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy")),
    Column("Status", shown(phase)),
    Column("Claim", shown(claim_of)),
    Column("StorageClass", shown(class_of), description="StorageClass of the pv"),
    Column(
        "VolumeAttributesClass",
        at("spec.volumeAttributesClassName", UNSET),
        description="VolumeAttributesClass of the pv",
    ),
    Column("Reason", at("status.reason")),
    AGE,
    _VOLUME_MODE,
)
PERSISTENT_VOLUME_CLAIM: Final = (
    NAME,
    Column("Status", shown(phase)),
    Column("Volume", at("spec.volumeName")),
    Column("Capacity", shown(claim_capacity)),
    Column("Access Modes", shown(claim_modes)),
    Column("StorageClass", shown(class_of), description="StorageClass of the pvc"),
    Column(
        "VolumeAttributesClass",
        at("spec.volumeAttributesClassName", UNSET),
        description="VolumeAttributesClass of the pvc",
    ),
    AGE,
    _VOLUME_MODE,
)
EVENT: Final = (
    Column("Last Seen", event_last),
    Column("Type", at("type")),
    Column("Reason", at("reason")),
    Column("Object", shown(event_object)),
    Column("Subobject", shown(event_path), priority=1),
    Column("Source", shown(event_source), priority=1),
    Column("Message", shown(event_message)),
    Column("First Seen", event_first, priority=1),
    Column("Count", shown(event_count), priority=1),
    Column("Name", NAME.cell, format="name", priority=1, description=NAME.description),
)
CONFIG_MAP: Final = (
    NAME,
    Column("Data", shown(lambda obj: len(obj.get("data", {})) + len(obj.get("binaryData", {})))),
    AGE,
)
DEPLOYMENT: Final = (
    NAME,
    Column("Ready", shown(ready_of_wanted), description="Number of the pod with ready state"),
    Column("Up-to-date", at("status.updatedReplicas", 0)),
    Column("Available", at("status.availableReplicas", 0)),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
STATEFUL_SET: Final = (
    NAME,
    Column("Ready", shown(ready_of_wanted), description="Number of the pod with ready state"),
    AGE,
    _CONTAINERS,
    _IMAGES,
)
JOB: Final = (
    NAME,
    Column("Status", shown(job_status), description="Status of the job."),
    Column("Completions", shown(job_completions)),
    Column("Duration", job_duration, description="Time required to complete the job."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
POD_DISRUPTION_BUDGET: Final = (
    NAME,
    Column(
        "Min Available",
        text("spec.minAvailable", "N/A"),
        description="The minimum number of pods that must be available.",
    ),
    Column(
        "Max Unavailable",
        text("spec.maxUnavailable", "N/A"),
        description="The maximum number of pods that may be unavailable.",
    ),
    Column(
        "Allowed Disruptions",
        at("status.disruptionsAllowed", 0),
        type="integer",
        description="Calculated number of pods that may be disrupted at this time.",
    ),
    AGE,
)
PRIORITY_CLASS: Final = (
    NAME,
    Column("Value", at("value", 0), type="integer"),
    Column("Global-Default", at("globalDefault", False), type="boolean"),
    AGE,
    Column("PreemptionPolicy", at("preemptionPolicy")),
)
POD_GROUP: Final = (
    NAME,
    Column("Policy", shown(group_policy)),
    Column("Workload", shown(group_workload)),
    Column("Status", shown(group_status)),
    AGE,
)
STORAGE_CLASS: Final = (
    Column("Name", shown(class_name), format="name", description=NAME.description),
    Column("Provisioner", at("provisioner")),
    Column("ReclaimPolicy", at("reclaimPolicy", "Delete")),
    Column("VolumeBindingMode", at("volumeBindingMode", "Immediate")),
    Column("AllowVolumeExpansion", at("allowVolumeExpansion", False)),
    AGE,
)
CSI_NODE: Final = (
    NAME,
    Column("Drivers", shown(lambda obj: len(obj.get("spec", {}).get("drivers", ()))), type="integer"),
    AGE,
)
CSI_DRIVER: Final = (
    NAME,
    Column("AttachRequired", at("spec.attachRequired", True), type="boolean"),
    Column("PodInfoOnMount", at("spec.podInfoOnMount", False), type="boolean"),
    Column("StorageCapacity", at("spec.storageCapacity", False), type="boolean"),
    Column(
        "TokenRequests",
        shown(token_audiences),
    ),
    Column("RequiresRepublish", at("spec.requiresRepublish", False), type="boolean"),
    Column("Modes", shown(lifecycle_modes)),
    AGE,
)
CSI_STORAGE_CAPACITY: Final = (
    NAME,
    Column("StorageClassName", at("storageClassName")),
    Column("Capacity", at("capacity", UNSET)),
)
VOLUME_ATTACHMENT: Final = (
    NAME,
    Column("Attacher", at("spec.attacher"), format="name"),
    Column("PV", at("spec.source.persistentVolumeName")),
    Column("Node", at("spec.nodeName")),
    Column("Attached", at("status.attached", False), type="boolean"),
    AGE,
)
LEASE: Final = (NAME, Column("Holder", at("spec.holderIdentity")), AGE)
RESOURCE_CLAIM: Final = (
    NAME,
    Column(
        "State",
        shown(claim_state),
        description="A summary of the current state (allocated, pending, reserved, etc.).",
    ),
    AGE,
)
RESOURCE_SLICE: Final = (
    NAME,
    Column("Node", at("spec.nodeName")),
    Column("Driver", at("spec.driver")),
    Column("Pool", at("spec.pool.name")),
    AGE,
)
DEVICE_TAINT_RULE: Final = (
    NAME,
    Column("Key", at("spec.taint.key")),
    Column("Value", at("spec.taint.value")),
    Column("Effect", at("spec.taint.effect")),
    Column("TimeAdded", lambda rule, now: _since(at("spec.taint.timeAdded")(rule, now), now)),
    AGE,
)
CUSTOM_RESOURCE_DEFINITION: Final = (
    NAME,
    Column("Created At", at("metadata.creationTimestamp"), type="date"),
)


def custom_columns(definitions: list[Obj]) -> tuple[Column, ...]:
    """The columns a custom kind defines, after the name; a path nobody can read shows nothing."""
    return (NAME, *map(_custom_column, definitions))


def _since(text: Any, now: int) -> str:
    return since(text, now) if text else ""


def _custom_column(definition: Obj) -> Column:
    find = compile_path(str(definition.get("jsonPath", "")))
    kind = str(definition.get("type", "string"))

    def cell(obj: Obj, now: int) -> Any:
        found = find(obj)
        if found is None:
            return None if kind != "date" else "<unknown>"
        if kind == "date":
            return since(found, now)
        if kind == "string":
            return found if isinstance(found, str) else str(found)
        return found

    return Column(
        str(definition.get("name", "")),
        cell,
        type="string" if kind == "date" else kind,
        format=str(definition.get("format", "")),
        priority=int(definition.get("priority", 0)),
        description=str(definition.get("description", "")),
    )
