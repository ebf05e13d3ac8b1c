"""The scheduling.k8s.io group: priority classes (v1), workloads and groups of pods (v1alpha2)."""

from __future__ import annotations

from kuberth.api.meta import Condition, ObjectMeta
from kuberth.api.wire import Wire, always


class PriorityClass(Wire):
    api_version: str = always("scheduling.k8s.io/v1")
    kind: str = always("PriorityClass")
    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None


class BasicSchedulingPolicy(Wire):
    """The pods of the group are scheduled independently."""


class GangSchedulingPolicy(Wire):
    """The minimum number of pods that are scheduled together."""

    min_count: int = 0


class PodGroupSchedulingPolicy(Wire):
    """Exactly one of the two is set."""

    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Wire):
    """Requires that all pods of the group go to nodes that share a value of this label."""

    key: str = ""


class PodGroupSchedulingConstraints(Wire):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupResourceClaim(Wire):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class WorkloadPodGroupTemplateReference(Wire):
    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateReference(Wire):
    workload: WorkloadPodGroupTemplateReference | None = None


class PodGroupSpec(Wire):
    pod_group_template_ref: PodGroupTemplateReference | None = None
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: int | None = None


class PodGroupResourceClaimStatus(Wire):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupStatus(Wire):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(Wire):
    """The pods whose `spec.schedulingGroup.podGroupName` names the group, and that are scheduled together."""

    api_version: str = always("scheduling.k8s.io/v1alpha2")
    kind: str = always("PodGroup")
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class WorkloadControllerReference(Wire):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class PodGroupTemplate(Wire):
    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: int | None = None


class WorkloadSpec(Wire):
    controller_ref: WorkloadControllerReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Wire):
    """A template from which controllers create pod groups; the scheduler does not read it."""

    api_version: str = always("scheduling.k8s.io/v1alpha2")
    kind: str = always("Workload")
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
