"""Why the API server rejects pods that a controller creates: a quota, a policy, a webhook.

In: a workload as a tree, and the Kubernetes events about it. Out: one sentence about the last rejection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

Tree = Mapping[str, Any]

FAILED_CREATE: Final = "FailedCreate"
"""The reason of the events that controllers write about pods that they cannot create."""
_SHORT_OF_PODS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "StatefulSet": (("spec", "replicas"), ("status", "replicas")),
    "DaemonSet": (("status", "desiredNumberScheduled"), ("status", "currentNumberScheduled")),
}
"""By kind: the fields with the desired and the current number of pods."""


def refusal(workload: Tree, events: Iterable[Tree] = ()) -> str:
    """Why pods of the workload could not be created; "" if this is unknown, or they could."""
    for condition in _at(workload, ("status", "conditions")) or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return f"cannot create pods: {condition.get('message', '')}"
    fields = _SHORT_OF_PODS.get(str(workload.get("kind")))
    if fields is not None and (_at(workload, fields[0]) or 0) <= (_at(workload, fields[1]) or 0):
        return ""
    last = max((event for event in events if _is_refusal(event, workload)), key=_time, default=None)
    return "" if last is None else f"could not create a pod at {_time(last)}: {last.get('message', '')}"


def _is_refusal(event: Tree, workload: Tree) -> bool:
    about, metadata = event.get("involvedObject") or {}, workload.get("metadata") or {}
    return (
        event.get("reason") == FAILED_CREATE
        and about.get("kind") == workload.get("kind")
        and about.get("name") == metadata.get("name")
        and about.get("namespace", "default") == (metadata.get("namespace") or "default")
        # An object of the same name may have existed before.
        and about.get("uid") in (None, "", metadata.get("uid"))
    )


def _time(event: Tree) -> str:
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return max((str(each) for each in times if each), default="an unknown time")


def _at(tree: Any, path: Iterable[str]) -> Any:
    for field in path:
        tree = tree.get(field) if isinstance(tree, Mapping) else None
    return tree
