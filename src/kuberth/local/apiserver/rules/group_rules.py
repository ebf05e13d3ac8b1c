"""Rules of workloads and pod groups (scheduling.k8s.io/v1alpha2).

In: objects, and the one before for an update. Out: fields dropped whose feature gate is off, priorities
resolved, causes in upstream's words. The spec of a group is immutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.rules.admission import priority_from_class
from kuberth.local.apiserver.rules.declared_rules import declared_rules
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.status_errors import forbidden

WORKLOADS: Final = "workloads.scheduling.k8s.io"
_GATED: Final[Mapping[str, str]] = {
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
    "resourceClaims": "DRAWorkloadResourceClaims",
    "disruptionMode": "WorkloadAwarePreemption",
    "priorityClassName": "WorkloadAwarePreemption",
    "priority": "WorkloadAwarePreemption",
}
"""Fields that are dropped while their gate is off, except on objects that already have them."""


def prepare_pod_group(new: Obj, old: Obj | None, context: WriteContext) -> None:
    spec = new.setdefault("spec", {})
    _drop_disabled(spec, (old or {}).get("spec", {}), context)
    if old is not None:
        return
    if context.gates.get("WorkloadAwarePreemption", False):
        value = priority_from_class(new, context)[0]
        if spec.get("priority", value) != value:
            why = (
                f"priority set in the pod group ({spec['priority']}) must match the priority computed "
                f"({value}) based on the priority class set in the spec"
            )
            raise forbidden(context.row, name_of(new), why)
        spec["priority"] = value
    _expect_workload(new, context)


def prepare_pod_group_status(new: Obj, old: Obj, context: WriteContext) -> None:
    if not context.gates.get(_GATED["resourceClaims"], False) and not old["spec"].get("resourceClaims"):
        new["status"].pop("resourceClaimStatuses", None)


def _expect_workload(group: Obj, context: WriteContext) -> None:
    """Refuse a group whose workload, or template in it, does not exist."""
    reference = (group["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if reference is None or declared_rules()[context.row.id].causes(group, None):
        return  # validation refuses it
    name, template = reference.get("workloadName", ""), reference.get("podGroupTemplateName", "")
    found = context.store.latest(WORKLOADS, f"{group['metadata'].get('namespace', '')}/{name}")
    if found is None:
        why = f'PodGroup rejected: Workload "{name}" not found'
    elif found["metadata"].get("deletionTimestamp"):
        why = f'PodGroup rejected: Workload "{name}" is being deleted'
    elif template not in [each.get("name") for each in found["spec"].get("podGroupTemplates", ())]:
        why = f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{name}"'
    else:
        return
    raise forbidden(context.row, name_of(group), why)


def prepare_workload(new: Obj, old: Obj | None, context: WriteContext) -> None:
    before = {each.get("name"): each for each in (old or {}).get("spec", {}).get("podGroupTemplates", ())}
    for template in new.get("spec", {}).get("podGroupTemplates") or ():
        _drop_disabled(template, before.get(template.get("name"), {}), context)


def _drop_disabled(spec: Obj, old: Obj, context: WriteContext) -> None:
    for field, gate in _GATED.items():
        if not context.gates.get(gate, False) and field not in old:
            spec.pop(field, None)
