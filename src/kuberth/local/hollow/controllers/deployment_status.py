"""A deployment's status: counts of its replica sets, and its progress.

In: a deployment, its replica sets, the last step. Out: the status, with upstream's conditions Available,
Progressing and ReplicaFailure.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberth.clock import Clock
from kuberth.local.apiserver.conditions import condition, find_condition, without_condition
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.hollow.controllers.rollout import available_of, fenceposts, replicas_of
from kuberth.text.timestamps import seconds_since, stamp

_NO_DEADLINE = 2**31 - 1


def progressing(reason: str, message: str) -> Obj:
    return condition("Progressing", True, reason, message)


def deployment_status(
    deployment: Obj, new: Obj | None, old: Sequence[Obj], *, clock: Clock, noted: Obj | None, rolling: bool
) -> Obj:
    """`noted` is a Progressing condition to record first; `rolling`: estimate progress on top of it."""
    sets = [*old, *([] if new is None else [new])]
    available = sum(map(available_of, sets))
    counts = {
        "replicas": _total(sets, "replicas"),
        "updatedReplicas": 0 if new is None else _total([new], "replicas"),
        "readyReplicas": _total(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(map(replicas_of, sets)) - available),
    }
    before = deployment.get("status", {})
    status: Obj = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        **{name: count for name, count in counts.items() if count},
        "terminatingReplicas": _total(sets, "terminatingReplicas"),
    }
    if "collisionCount" in before:
        status["collisionCount"] = before["collisionCount"]
    now = stamp(clock)
    conditions = _set(before.get("conditions") or [], _availability(deployment, available), now)
    if _deadline(deployment) is None:
        conditions = without_condition(conditions, "Progressing")
    else:
        for condition in filter(None, (noted, _paused(deployment))):
            conditions = _set(conditions, condition, now)
        if rolling:
            conditions = _progress(deployment, new, {**status, "conditions": conditions}, clock)
    status["conditions"] = _with_failures(conditions, new, old)
    return status


def seconds_to_deadline(deployment: Obj, *, clock: Clock) -> float | None:
    """When to check again whether a rollout is stuck; None if there is no rollout."""
    condition, deadline = find_condition(deployment, "Progressing"), _deadline(deployment)
    if condition is None or deadline is None:
        return None
    if condition.get("reason") == "ProgressDeadlineExceeded":
        return None
    if _is_complete(deployment, deployment["status"]):
        return None
    # Timestamps are whole seconds: one more, so that the deadline has really passed then.
    return max(1.0, deadline - seconds_since(condition.get("lastUpdateTime"), clock) + 1.0)


def _progress(deployment: Obj, new: Obj | None, status: Obj, clock: Clock) -> list[Obj]:
    conditions: list[Obj] = status["conditions"]
    current = find_condition({"status": status}, "Progressing")
    reason = current.get("reason") if current is not None else ""
    if reason == "NewReplicaSetAvailable" and status.get("replicas", 0) == status.get("updatedReplicas", 0):
        return conditions
    now = stamp(clock)
    subject = f'Deployment "{name_of(deployment)}"' if new is None else f'ReplicaSet "{name_of(new)}"'
    if _is_complete(deployment, status):
        done = progressing("NewReplicaSetAvailable", f"{subject} has successfully progressed.")
        return _set(conditions, done, now)
    if _has_moved(deployment.get("status", {}), status):
        moving = progressing("ReplicaSetUpdated", f"{subject} is progressing.")
        # Unlike any other condition this one is renewed while it stays the same: it carries the deadline.
        since = current.get("lastTransitionTime", now) if current and current.get("status") == "True" else now
        rest = without_condition(conditions, "Progressing")
        return [*rest, {**moving, "lastUpdateTime": now, "lastTransitionTime": since}]
    if current is not None and _has_timed_out(deployment, current, clock):
        late = progressing("ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
        return _set(conditions, {**late, "status": "False"}, now)
    return conditions


def _is_complete(deployment: Obj, status: Obj) -> bool:
    wanted = replicas_of(deployment)
    counted = all(
        status.get(name, 0) == wanted for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
    return counted and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)


def _has_moved(before: Obj, after: Obj) -> bool:
    if any(after.get(name, 0) > before.get(name, 0) for name in _GROWING):
        return True
    return _outdated(after) < _outdated(before)


_GROWING = ("updatedReplicas", "readyReplicas", "availableReplicas")


def _outdated(status: Obj) -> int:
    return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))


def _has_timed_out(deployment: Obj, current: Obj, clock: Clock) -> bool:
    deadline = _deadline(deployment)
    if deadline is None or current.get("reason") == "NewReplicaSetAvailable":
        return False
    return seconds_since(current.get("lastUpdateTime"), clock) > deadline


def _deadline(deployment: Obj) -> int | None:
    seconds = deployment["spec"].get("progressDeadlineSeconds", 600)
    return None if seconds is None or seconds == _NO_DEADLINE else int(seconds)


def _availability(deployment: Obj, available: int) -> Obj:
    _, unavailable = fenceposts(deployment)
    if available >= replicas_of(deployment) - unavailable:
        reason, message = "MinimumReplicasAvailable", "Deployment has minimum availability."
        return condition("Available", True, reason, message)
    reason, message = "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
    return condition("Available", False, reason, message)


def _paused(deployment: Obj) -> Obj | None:
    """The condition for a pause or resume, which stops and restarts the deadline unless it has passed."""
    current = find_condition(deployment, "Progressing")
    reason = current.get("reason") if current is not None else ""
    if reason == "ProgressDeadlineExceeded":
        return None
    if deployment["spec"].get("paused"):
        return {**progressing("DeploymentPaused", "Deployment is paused"), "status": "Unknown"}
    if reason == "DeploymentPaused":
        return {**progressing("DeploymentResumed", "Deployment is resumed"), "status": "Unknown"}
    return None


def _with_failures(conditions: list[Obj], new: Obj | None, old: Sequence[Obj]) -> list[Obj]:
    """The first ReplicaFailure of its replica sets, the newest set's before the others'."""
    for replica_set in (*([] if new is None else [new]), *old):
        failure = find_condition(replica_set, "ReplicaFailure")
        if failure is not None:
            return _set(conditions, failure, failure.get("lastTransitionTime", ""))
    return without_condition(conditions, "ReplicaFailure")


def _set(conditions: Sequence[Obj], condition: Obj, now: str) -> list[Obj]:
    """The conditions with this one; with the same status and reason nothing changes, not even the message."""
    old = next((entry for entry in conditions if entry.get("type") == condition["type"]), None)
    if old is None:
        return [*conditions, {**condition, "lastUpdateTime": now, "lastTransitionTime": now}]
    if (old.get("status"), old.get("reason")) == (condition.get("status"), condition.get("reason")):
        return list(conditions)
    since = old.get("lastTransitionTime", now) if old.get("status") == condition.get("status") else now
    rest = without_condition(conditions, condition["type"])
    return [*rest, {**condition, "lastUpdateTime": now, "lastTransitionTime": since}]


def _total(sets: Sequence[Obj], count: str) -> int:
    return sum(int(each.get("status", {}).get(count, 0)) for each in sets)
