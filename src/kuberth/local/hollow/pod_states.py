"""The parts of a pod that controllers read: phase, conditions, node."""

from __future__ import annotations

from typing import Any

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, condition, find_condition, is_true, with_condition
from kuberth.text.timestamps import seconds_since, stamp


def phase(pod: Obj) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_finished(pod: Obj) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def node_of(pod: Obj) -> str:
    return str(pod.get("spec", {}).get("nodeName", ""))


def is_ready(pod: Obj) -> bool:
    return is_true(pod, "Ready")


def seconds_to_available(pod: Obj, owner: Obj, *, clock: Clock) -> float | None:
    """How long a pod must stay ready to count as available: 0 if it does, None while it is not ready."""
    ready = find_condition(pod, "Ready")
    if ready is None or ready.get("status") != "True":
        return None
    min_ready_seconds = int(owner["spec"].get("minReadySeconds", 0))
    if not min_ready_seconds:
        return 0.0
    return max(0.0, min_ready_seconds - seconds_since(ready.get("lastTransitionTime"), clock))


def disrupted(pod: Obj, *, reason: str, message: str, clock: Clock) -> Obj:
    """The pod's status with the condition DisruptionTarget."""
    target = condition("DisruptionTarget", True, reason, message)
    target["observedGeneration"] = pod["metadata"].get("generation", 1)
    return with_condition(pod.get("status") or {}, target, now=stamp(clock))


def deletion_order(pod: Obj, *, doubled: int) -> tuple[Any, ...]:
    """Sort key for the pods to delete first, as upstream's ActivePodsWithRanks.

    `doubled` is how many pods of the same owner share its node.
    """
    status = pod.get("status", {})
    ready = find_condition(pod, "Ready")
    statuses = status.get("containerStatuses") or ()
    restarts = max((int(one.get("restartCount", 0)) for one in statuses), default=0)
    return (
        bool(node_of(pod)),
        {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
        is_ready(pod),
        _deletion_cost(pod),
        -doubled,
        _Newest(ready.get("lastTransitionTime", "") if ready else ""),
        -restarts,
        _Newest(pod["metadata"].get("creationTimestamp", "")),
        pod["metadata"]["name"],
    )


class _Newest(str):
    """Text that sorts backwards: later timestamps come first."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _deletion_cost(pod: Obj) -> int:
    text = (pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    try:
        return int(text)
    except ValueError:
        return 0
