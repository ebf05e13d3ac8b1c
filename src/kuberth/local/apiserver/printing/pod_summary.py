"""The READY, STATUS and RESTARTS of a pod, as `kubectl get pods` shows them.

In: a pod. Out: the three values, computed as upstream computes them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.printing.ages import human_duration
from kuberth.text.timestamps import parse_timestamp

_GATED: Final = "SchedulingGated"
_LOST_NODE: Final = "NodeLost"


class PodSummary(NamedTuple):
    ready: int
    containers: int
    reason: str
    restarts: int
    last_restart_ns: int | None


def pod_ready(pod: Obj) -> str:
    summary = summarize(pod)
    return f"{summary.ready}/{summary.containers}"


def pod_status(pod: Obj) -> str:
    return summarize(pod).reason


def pod_restarts(pod: Obj, now: int) -> str:
    summary = summarize(pod)
    if summary.restarts and summary.last_restart_ns is not None:
        return f"{summary.restarts} ({human_duration(now - summary.last_restart_ns)} ago)"
    return str(summary.restarts)


def summarize(pod: Obj) -> PodSummary:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    conditions = {each.get("type"): each for each in status.get("conditions", ())}
    reason = status.get("reason") or status.get("phase", "")
    if conditions.get("PodScheduled", {}).get("reason") == _GATED:
        reason = _GATED
    sidecars = {
        each.get("name") for each in spec.get("initContainers", ()) if each.get("restartPolicy") == "Always"
    }
    containers = len(spec.get("containers", ())) + len(sidecars)
    ready = restarts = sidecar_restarts = 0
    last: list[int] = []
    sidecar_last: list[int] = []
    initializing = False
    for index, container in enumerate(status.get("initContainerStatuses", ())):
        restarts += container.get("restartCount", 0)
        last += _ended(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            sidecar_restarts += container.get("restartCount", 0)
            sidecar_last += _ended(container)
        state = container.get("state", {})
        terminated, waiting = state.get("terminated"), state.get("waiting", {})
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            reason = f"Init:{_exit_reason(terminated)}"
        elif waiting.get("reason", "PodInitializing") != "PodInitializing":
            reason = f"Init:{waiting['reason']}"
        else:
            reason = f"Init:{index}/{len(spec.get('initContainers', ()))}"
        initializing = True
        break
    if not initializing or conditions.get("Initialized", {}).get("status") == "True":
        restarts, last = sidecar_restarts, sidecar_last
        running = False
        failure = ""
        for container in reversed(status.get("containerStatuses", ())):
            restarts += container.get("restartCount", 0)
            last += _ended(container)
            state = container.get("state", {})
            terminated = state.get("terminated")
            if state.get("waiting", {}).get("reason"):
                reason = state["waiting"]["reason"]
            elif terminated is not None:
                reason = _exit_reason(terminated)
                if terminated.get("exitCode", 0) != 0:
                    failure = reason
            elif container.get("ready") and "running" in state:
                running = True
                ready += 1
        if reason == "Completed":
            if running and conditions.get("Ready", {}).get("status") == "True":
                reason = "Running"
            elif failure:
                reason = failure
            elif running:
                reason = "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == _LOST_NODE:
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return PodSummary(ready, containers, reason, restarts, max(last, default=None))


def _ended(container: Obj) -> list[int]:
    ended = parse_timestamp(container.get("lastState", {}).get("terminated", {}).get("finishedAt"))
    return [] if ended is None else [ended]


def _exit_reason(terminated: Obj) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
