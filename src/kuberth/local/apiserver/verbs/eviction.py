"""Evictions: deletions that disruption budgets may reject.

In: a pod, an Eviction, the budgets of its namespace. Out: the changes to stage on the budget and on the pod,
or 429 with upstream's message.
"""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.conditions import condition, find_condition, is_true, with_condition
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.refusals import forbidden, too_many_requests
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import Cause, StatusError
from kuberth.local.apiserver.verbs.bodies import decode
from kuberth.local.selecting import labels_of, selector_of

EVICTION: Final = ServedResource("policy", "v1", "Eviction", "evictions", schema="policy.v1.Eviction")
_BUDGETS: Final = ServedResource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudget")
_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_MAX_DISRUPTED: Final = 2000


def read_eviction(body: Any) -> Obj:
    if isinstance(body, dict) and body.get("apiVersion") == "policy/v1beta1":
        body = {**body, "apiVersion": "policy/v1"}
    return decode(EVICTION, body)


def judge(pod: Obj, budgets: list[Obj], *, now: str) -> Obj | None:
    """The pod's budget with the disruption counted, if it has one; 429 if it allows no eviction."""
    status = pod.get("status", {})
    if status.get("phase") in ("Succeeded", "Failed", "Pending") or pod["metadata"].get("deletionTimestamp"):
        return None
    matching = [budget for budget in budgets if _selects(budget, pod)]
    if not matching:
        return None
    if len(matching) > 1:
        # Upstream answers 500; here a 5xx is kept for faults of the server.
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
        raise StatusError(422, "Invalid", message)
    budget = matching[0]
    if not is_true(pod, "Ready") and _lets_unhealthy_go(budget):
        return None
    return _decremented(budget, pod, now)


def marked_pod(pod: Obj, *, now: str) -> Obj:
    """The pod with the condition about its eviction."""
    target = condition("DisruptionTarget", True, "EvictionByEvictionAPI", "Eviction API: evicting")
    return {**pod, "status": with_condition(pod.get("status", {}), target, now=now)}


def _selects(budget: Obj, pod: Obj) -> bool:
    return selector_of(budget.get("spec", {}).get("selector")).matches(labels_of(pod))


def _lets_unhealthy_go(budget: Obj) -> bool:
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
    counted = {
        **status,
        "disruptionsAllowed": allowed - 1,
        "disruptedPods": {**disrupted, name_of(pod): now},
    }
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
