"""Subresources with a body of their own: binding, eviction, scale.

In: an object, and a Binding, an Eviction or a Scale from a client. Out: the changed object, or an error as in
upstream: an eviction that a disruption budget rejects is answered with 429.
"""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.objects import (
    Obj,
    condition,
    find_condition,
    is_true,
    labels_of,
    name_of,
    selector_of,
    selector_text,
    with_condition,
)
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema.fields import copy_tree
from kuberth.local.apiserver.status_errors import (
    Cause,
    StatusError,
    conflict,
    forbidden,
    invalid,
    invalid_value,
    not_supported,
    required,
    too_many_requests,
)
from kuberth.local.apiserver.verbs.bodies import decode

# Binding

_ROW: Final = ServedResource("", "v1", "Binding", "bindings", schema="core.v1.Binding")
_PODS: Final = ServedResource("", "v1", "Pod", "pods")
_POD_BINDING: Final = ServedResource("", "v1", "Binding", "pods/binding")


def read_binding(body: Any) -> Obj:
    """A Binding of the right shape and content; 400 or 422 otherwise."""
    found = decode(_ROW, body)
    target = found.get("target") or {}
    causes = []
    if target.get("kind", "") not in ("", "Node"):
        causes.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        causes.append(required("target.name"))
    if causes:
        raise invalid(_ROW, name_of(found), causes)
    return found


def bound_pod(pod: Obj, binding: Obj, *, now: str, gates_hold: bool = True) -> Obj:
    """The pod with its node and the condition PodScheduled.

    `gates_hold` is off with the feature gate: pods with scheduling gates from before can then be bound.
    """
    name, wanted, metadata = name_of(pod), binding.get("metadata", {}), pod["metadata"]
    for field, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata[field]:
            why = f"Precondition failed: {title} in precondition: {wanted[field]}, {title} in object meta: "
            raise conflict(_PODS, name, why + str(metadata[field]))
    if metadata.get("deletionTimestamp"):
        raise conflict(_POD_BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
    spec = pod.get("spec", {})
    if spec.get("nodeName"):
        raise conflict(_POD_BINDING, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if gates_hold and spec.get("schedulingGates"):
        raise conflict(_POD_BINDING, name, f"pod {name} has non-empty .spec.schedulingGates")
    new_metadata = dict(metadata)
    for field in ("annotations", "labels"):
        if wanted.get(field):
            new_metadata[field] = {**metadata.get(field, {}), **wanted[field]}
    status = with_condition(pod.get("status", {}), {"type": "PodScheduled", "status": "True"}, now=now)
    # A nomination is obsolete now.
    status.pop("nominatedNodeName", None)
    return {
        **pod,
        "metadata": new_metadata,
        "spec": {**spec, "nodeName": binding["target"]["name"]},
        "status": status,
    }


# Scale: replica counts of any kind in one shape

SCALE: Final = ServedResource("autoscaling", "v1", "Scale", "scales", schema="autoscaling.v1.Scale")
_SHOWN_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(row: ServedResource, obj: Obj) -> Obj:
    metadata = {name: value for name, value in obj["metadata"].items() if name in _SHOWN_METADATA}
    status: Obj = {"replicas": _number(_at(obj, row.scale_paths.get("statusReplicas", "")))}
    if selector := selector_text(_at(obj, row.scale_paths.get("selector", ""))):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": _number(_at(obj, row.scale_paths["specReplicas"]))},
        "status": status,
    }


def scaled(row: ServedResource, obj: Obj, scale: Obj) -> Obj:
    """A copy of the object with the replicas of a Scale."""
    new: Obj = copy_tree(obj)
    _set_replicas(row, new, scale, name=name_of(obj))
    metadata = scale.get("metadata", {})
    wanted = {name: metadata[name] for name in ("uid", "resourceVersion") if metadata.get(name)}
    new["metadata"] = {**obj["metadata"], "resourceVersion": "", **wanted}
    return new


def applied_scale(row: ServedResource, scale: Obj) -> Obj:
    """The configuration of the object that corresponds to an apply patch of its Scale."""
    wanted: Obj = {"apiVersion": row.api_version, "kind": row.kind, "metadata": scale.get("metadata", {})}
    if "replicas" in scale.get("spec", {}):
        _set_replicas(row, wanted, scale, name=name_of(scale))
    return wanted


def _set_replicas(row: ServedResource, obj: Obj, scale: Obj, *, name: str) -> None:
    replicas = scale.get("spec", {}).get("replicas", 0)
    if replicas < 0:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(SCALE, name, [cause])
    parent = obj
    *path, last = row.scale_paths["specReplicas"].split(".")
    for part in path:
        if not isinstance(parent.get(part), dict):
            parent[part] = {}
        parent = parent[part]
    parent[last] = replicas


def _at(obj: Any, path: str) -> Any:
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def _number(value: Any) -> int:
    return value if type(value) is int else 0


# Eviction

EVICTION: Final = ServedResource("policy", "v1", "Eviction", "evictions", schema="policy.v1.Eviction")
_BUDGETS: Final = ServedResource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudget")
_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_MAX_DISRUPTED: Final = 2000


def read_eviction(body: Any) -> Obj:
    if isinstance(body, dict) and body.get("apiVersion") == "policy/v1beta1":
        body = {**body, "apiVersion": "policy/v1"}
    return decode(EVICTION, body)


def count_eviction(pod: Obj, budgets: list[Obj], *, now: str) -> Obj | None:
    """The pod's budget with the disruption counted, if it has one; 429 if it allows no eviction."""
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed", "Pending") or pod["metadata"].get("deletionTimestamp"):
        return None
    labels = labels_of(pod)
    matching = [one for one in budgets if selector_of(one.get("spec", {}).get("selector")).matches(labels)]
    if not matching:
        return None
    if len(matching) > 1:
        # Upstream answers 500; here a 5xx is kept for faults of the server.
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise StatusError(422, "Invalid", message)
    budget = matching[0]
    if not is_true(pod, "Ready") and _allows_unhealthy(budget):
        return None
    return _decremented(budget, pod, now)


def evicted_pod(pod: Obj, *, now: str) -> Obj:
    """The pod with the condition about its eviction."""
    target = condition("DisruptionTarget", True, "EvictionByEvictionAPI", "Eviction API: evicting")
    return {**pod, "status": with_condition(pod.get("status", {}), target, now=now)}


def _allows_unhealthy(budget: Obj) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _decremented(budget: Obj, pod: Obj, now: str) -> Obj:
    name, status = name_of(budget), budget.get("status", {})
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise too_many_requests(_VIOLATED, causes=[Cause("", message, "DisruptionBudget")], seconds=10)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden(_BUDGETS, name, "pdb disruptions allowed is negative")
    disrupted = status.get("disruptedPods", {})
    if len(disrupted) > _MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(_BUDGETS, name, why)
    if allowed == 0:
        raise too_many_requests(_VIOLATED, causes=[Cause("", _why(name, status), "DisruptionBudget")])
    counted = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, name_of(pod): now}}
    return {**budget, "status": counted}


def _why(name: str, status: Obj) -> str:
    allowed = find_condition({"status": status}, "DisruptionAllowed") or {}
    message = allowed.get("message", "") if allowed.get("status") == "False" else ""
    if message and allowed.get("reason") == "SyncFailed":
        refused = f"The disruption budget {name} does not allow evicting pods currently"
        return f"{refused} because it failed sync: {message}"
    desired, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if healthy <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
    if message:
        reason = allowed.get("reason")
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"
