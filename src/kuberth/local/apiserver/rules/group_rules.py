"""Rules of workloads and pod groups (scheduling.k8s.io/v1alpha2).

In: objects, and the one before for an update. Out: fields dropped whose feature gate is off, priorities
resolved, causes in upstream's words. What a group is for never changes once it exists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.refusals import forbidden
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.admission import priority_from_class
from kuberth.local.apiserver.rules.metadata_validation import (
    duplicate,
    invalid_value,
    invalid_values,
    not_supported,
    required,
)
from kuberth.local.apiserver.rules.situation import Situation
from kuberth.local.apiserver.status_errors import Cause

WORKLOADS: Final = "workloads.scheduling.k8s.io"
_POD_GROUPS: Final = ServedResource("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups")
_HIGHEST_PRIORITY: Final = 1_000_000_000
_MODES: Final = ("Pod", "PodGroup")
_GATED: Final[Mapping[str, str]] = {
    "schedulingConstraints": "TopologyAwareWorkloadScheduling",
    "resourceClaims": "DRAWorkloadResourceClaims",
    "disruptionMode": "WorkloadAwarePreemption",
    "priorityClassName": "WorkloadAwarePreemption",
    "priority": "WorkloadAwarePreemption",
}
"""Fields that are dropped with their gate off, save on objects that have them from before."""
_FIXED: Final = ("podGroupTemplateRef", "schedulingPolicy", *_GATED)


def prepare_pod_group(new: Obj, old: Obj | None, situation: Situation) -> None:
    spec = new.setdefault("spec", {})
    _drop_disabled(spec, (old or {}).get("spec", {}), situation)
    if old is not None:
        return
    new["status"] = {}
    if situation.gates.get("WorkloadAwarePreemption", False):
        value = priority_from_class(_POD_GROUPS, new, situation)[0]
        if spec.get("priority", value) != value:
            why = (
                f"priority set in the pod group ({spec['priority']}) must match the priority computed "
                f"({value}) based on the priority class set in the spec"
            )
            raise forbidden(_POD_GROUPS, name_of(new), why)
        spec["priority"] = value
    _expect_template(new, situation)


def prepare_pod_group_status(new: Obj, old: Obj, situation: Situation) -> None:
    if not situation.gates.get(_GATED["resourceClaims"], False) and not old["spec"].get("resourceClaims"):
        new["status"].pop("resourceClaimStatuses", None)


def _expect_template(group: Obj, situation: Situation) -> None:
    """The workload that a group names has to exist, and to have the template."""
    reference = (group["spec"].get("podGroupTemplateRef") or {}).get("workload")
    if reference is None or validate_pod_group(group, None):
        return  # what is wrong with it is told first
    name, template = reference.get("workloadName", ""), reference.get("podGroupTemplateName", "")
    found = situation.store.latest(WORKLOADS, f"{group['metadata'].get('namespace', '')}/{name}")
    if found is None:
        why = f'PodGroup rejected: Workload "{name}" not found'
    elif found["metadata"].get("deletionTimestamp"):
        why = f'PodGroup rejected: Workload "{name}" is being deleted'
    elif template not in [each.get("name") for each in found["spec"].get("podGroupTemplates", ())]:
        why = f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{name}"'
    else:
        return
    raise forbidden(_POD_GROUPS, name_of(group), why)


def prepare_workload(new: Obj, old: Obj | None, situation: Situation) -> None:
    before = {each.get("name"): each for each in (old or {}).get("spec", {}).get("podGroupTemplates", ())}
    for template in new.get("spec", {}).get("podGroupTemplates") or ():
        _drop_disabled(template, before.get(template.get("name"), {}), situation)


def _drop_disabled(spec: Obj, old: Obj, situation: Situation) -> None:
    for field, gate in _GATED.items():
        if not situation.gates.get(gate, False) and field not in old:
            spec.pop(field, None)


def validate_pod_group(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    if old is not None:
        before = old["spec"]
        return [
            invalid_value(f"spec.{field}", None, "field is immutable")
            for field in _FIXED
            if spec.get(field) != before.get(field)
        ]
    causes = _group_causes(spec, "spec")
    reference = spec.get("podGroupTemplateRef")
    if reference is not None:
        causes += _template_causes(reference, "spec.podGroupTemplateRef")
    return causes


def validate_pod_group_status(new: Obj, _old: Obj | None) -> list[Cause]:
    statuses = new.get("status", {}).get("resourceClaimStatuses") or []
    known = [each.get("name") for each in new["spec"].get("resourceClaims") or ()]
    path, why = "status.resourceClaimStatuses", "must match the name of an entry in `spec.resourceClaims`"
    causes = [
        invalid_value(f"{path}[{index}].name", status.get("name", ""), why)
        for index, status in enumerate(statuses)
        if status.get("name") not in known
    ]
    if too_many := _too_many(statuses, path, most=4):
        return causes + too_many
    seen: set[str] = set()
    for index, status in enumerate(statuses):
        where, name, claim = f"{path}[{index}]", status.get("name", ""), status.get("resourceClaimName")
        if name in seen:
            causes.append(duplicate(where, status))
        seen.add(name)
        if claim is not None:
            problems = names.subdomain_problems(claim)
            causes += invalid_values(f"{where}.resourceClaimName", claim, problems)
    return causes


def _template_causes(reference: Obj, path: str) -> list[Cause]:
    workload = reference.get("workload")
    if workload is None:
        return [invalid_value(path, "", "must specify one of: `workload`")]
    return [
        *_name_causes(workload, "workloadName", f"{path}.workload", names.subdomain_problems),
        *_name_causes(workload, "podGroupTemplateName", f"{path}.workload", names.label_problems),
    ]


def _group_causes(spec: Obj, path: str) -> list[Cause]:
    """What a group and a template of one have in common."""
    causes: list[Cause] = []
    policy = spec.get("schedulingPolicy") or {}
    given = [name for name in ("basic", "gang") if policy.get(name) is not None]
    if not given:
        causes.append(invalid_value(f"{path}.schedulingPolicy", "", "must specify one of: `basic`, `gang`"))
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        why = "must specify exactly one of: `basic`, `gang`"
        causes.append(invalid_value(f"{path}.schedulingPolicy", shown, why))
    elif "gang" in given:
        least = policy["gang"].get("minCount", 0)
        where = f"{path}.schedulingPolicy.gang.minCount"
        if least == 0:
            causes.append(required(where))
        elif least < 1:
            causes.append(invalid_value(where, least, "must be greater than or equal to 1"))
    constraints = (spec.get("schedulingConstraints") or {}).get("topology") or []
    where = f"{path}.schedulingConstraints.topology"
    causes += _too_many(constraints, where, most=1)
    for index, constraint in enumerate(constraints):
        causes += _name_causes(constraint, "key", f"{where}[{index}]", names.label_key_problems)
    causes += _claim_causes(spec.get("resourceClaims") or [], f"{path}.resourceClaims")
    mode = spec.get("disruptionMode")
    if mode is not None and mode not in _MODES:
        causes.append(not_supported(f"{path}.disruptionMode", mode, _MODES))
    class_name = spec.get("priorityClassName")
    if class_name:
        where = f"{path}.priorityClassName"
        causes += invalid_values(where, class_name, names.subdomain_problems(class_name))
    if spec.get("priority", 0) > _HIGHEST_PRIORITY:
        why = f"must be less than or equal to {_HIGHEST_PRIORITY}"
        causes.append(invalid_value(f"{path}.priority", spec["priority"], why))
    return causes


def _claim_causes(claims: list[Obj], path: str) -> list[Cause]:
    causes = _too_many(claims, path, most=4)
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where = f"{path}[{index}]"
        causes += _name_causes(claim, "name", where, names.label_problems)
        if claim.get("name") in seen:
            causes.append(duplicate(where, claim))
        seen.add(claim.get("name", ""))
        given = [name for name in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(name)]
        members = "`resourceClaimName`, `resourceClaimTemplateName`"
        if not given:
            causes.append(invalid_value(where, "", f"must specify one of: {members}"))
        elif len(given) > 1:
            shown = f"{{{', '.join(given)}}}"
            causes.append(invalid_value(where, shown, f"must specify exactly one of: {members}"))
    return causes


def validate_workload(new: Obj, old: Obj | None) -> list[Cause]:
    spec = new.get("spec", {})
    if old is not None:
        before = old["spec"]
        return [
            invalid_value(f"spec.{field}", None, "field is immutable")
            for field in ("controllerRef", "podGroupTemplates")
            if spec.get(field) != before.get(field)
            and not (field == "controllerRef" and before.get(field) is None)
        ]
    causes: list[Cause] = []
    reference = spec.get("controllerRef")
    if reference is not None:
        where = "spec.controllerRef"
        if group := reference.get("apiGroup"):
            causes += invalid_values(f"{where}.apiGroup", group, names.subdomain_problems(group))
        causes += _name_causes(reference, "kind", where, names.path_segment_problems)
        causes += _name_causes(reference, "name", where, names.path_segment_problems)
    templates = spec.get("podGroupTemplates") or []
    where = "spec.podGroupTemplates"
    if not templates:
        causes.append(required(where))
    causes += _too_many(templates, where, most=8)
    seen: set[str] = set()
    for index, template in enumerate(templates):
        at = f"{where}[{index}]"
        causes += _name_causes(template, "name", at, names.label_problems)
        if template.get("name") in seen:
            # Here upstream shows a struct: its fields in their order, and one that is never left out.
            shown = {"name": "", "schedulingPolicy": {}, "schedulingConstraints": None, **template}
            text = json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
            causes.append(Cause(at, f"Duplicate value: {text}", "FieldValueDuplicate"))
        seen.add(template.get("name", ""))
        causes += _group_causes(template, at)
    return causes


def _name_causes(obj: Obj, field: str, path: str, problems: Callable[[str], list[str]]) -> list[Cause]:
    value = obj.get(field, "")
    where = f"{path}.{field}"
    return invalid_values(where, value, problems(value)) if value else [required(where)]


def _too_many(items: list[Any], path: str, *, most: int) -> list[Cause]:
    if len(items) <= most:
        return []
    what = "item" if most == 1 else "items"
    message = f"Too many: {len(items)}: must have at most {most} {what}"
    return [Cause(path, message, "FieldValueTooMany")]
