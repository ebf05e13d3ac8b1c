"""Pods of the core group: the parts of spec and status that scheduling reads."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Final

import msgspec

from kuberth.api.meta import LabelSelector, ObjectMeta
from kuberth.api.nodes import NodeSelector, NodeSelectorTerm
from kuberth.api.references import ResourceList
from kuberth.api.volumes import Volume
from kuberth.api.wire import Wire, always

FINISHED: Final = ("Succeeded", "Failed")
"""The phases of pods that use no resources any more, even while their objects still exist."""
UNFINISHED: Final = ",".join(f"status.phase!={phase}" for phase in FINISHED)
"""The field selector for all other pods."""


class ResourceClaimReference(Wire):
    """A container's claim (upstream: ResourceClaim in core/v1), naming one of the pod's resourceClaims."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Wire):
    requests: ResourceList = msgspec.field(default_factory=dict)
    limits: ResourceList = msgspec.field(default_factory=dict)
    claims: tuple[ResourceClaimReference, ...] = ()


class ContainerPort(Wire):
    name: str = ""
    host_port: int = 0
    container_port: int = 0
    protocol: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")


class ContainerRestartRule(Wire):
    action: str = ""


class Container(Wire):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class PreferredSchedulingTerm(Wire):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Wire):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Wire):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Wire):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Wire):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Wire):
    name: str = ""


class PodSchedulingGroup(Wire):
    pod_group_name: str | None = None


class PodResourceClaim(Wire):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodOS(Wire):
    name: str = ""


class PodSpec(Wire):
    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = msgspec.field(default_factory=dict)
    host_network: bool = False
    host_users: bool | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    os: PodOS | None = None
    runtime_class_name: str | None = None
    service_account_name: str = ""


class PodCondition(Wire):
    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_probe_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None
    reason: str = ""
    message: str = ""


class ContainerStatus(Wire):
    name: str = ""
    image: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = msgspec.field(default_factory=dict)


class PodResourceClaimStatus(Wire):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Wire):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Wire):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(Wire):
    """The resources of the node that the devices of a claim use."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: ResourceList = msgspec.field(default_factory=dict)


class PodStatus(Wire):
    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: datetime.datetime | None = None
    qos_class: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = msgspec.field(default_factory=dict)
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(Wire):
    api_version: str = always("v1")
    kind: str = always("Pod")
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
