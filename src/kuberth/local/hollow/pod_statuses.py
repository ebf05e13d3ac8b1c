"""A hollow pod's status, step by step: created, started, restarted, crashed, waiting to restart, finished.

In: a pod, its status so far, the current time. Out: the status after the step, with a kubelet's messages as
`kubectl get pods` shows them. Other modules decide when a step is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final

from kuberth.local.apiserver.conditions import set_condition
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.text.durations import format_duration

KILLED: Final = 137
"""Exit code of a container that SIGKILL ended."""
STOPPED: Final = 143
"""Exit code of a container that SIGTERM ended."""


def creating(pod: Obj, *, host: str, now: str) -> Obj:
    """The node admitted the pod, but cannot start its containers yet."""
    spec, status = pod["spec"], pod.get("status") or {}
    initial = spec.get("initContainers") or ()
    waiting = {"waiting": {"reason": "PodInitializing" if initial else "ContainerCreating"}}

    def wait(container: Obj) -> Obj:
        described = {**_described(pod, container), "imageID": ""}
        del described["containerID"]
        return {**described, "state": waiting, "ready": False, "started": False}

    containers = [wait(one) for one in spec.get("containers", ())]
    held = {
        **status,
        "phase": "Pending",
        "startTime": status.get("startTime", now),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "containerStatuses": containers,
        **({"initContainerStatuses": [wait(one) for one in initial]} if initial else {}),
    }
    names = " ".join(one.get("name", "") for one in containers)
    lacking = ("ContainersNotReady", f"containers with unready status: [{names}]")
    missing = " ".join(one.get("name", "") for one in initial)
    incomplete = ("ContainersNotInitialized", f"containers with incomplete status: [{missing}]")
    conditions = (
        ("PodReadyToStartContainers", False, ("", "")),
        ("Initialized", not initial, incomplete if initial else ("", "")),
        ("Ready", False, lacking),
        ("ContainersReady", False, lacking),
        ("PodScheduled", True, ("", "")),
    )
    return _observed(pod, _with(pod, held, conditions, now))


def started(pod: Obj, *, host: str, own: str, now: str) -> Obj:
    """The status of a pod whose containers run; `judged` says which of them are ready."""
    spec, status = pod["spec"], pod.get("status") or {}
    running = {
        **status,
        "phase": "Running",
        "startTime": status.get("startTime", now),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": own,
        "podIPs": [{"ip": own}],
        "containerStatuses": [_running(_described(pod, one), now) for one in spec.get("containers", ())],
    }
    if initial := spec.get("initContainers"):
        running["initContainerStatuses"] = [
            # One that restarts always is a sidecar, and runs beside the others.
            {**_running(_described(pod, one), now), "ready": True}
            if one.get("restartPolicy") == "Always"
            else {**_terminated(_described(pod, one), exit_code=0, since=now, now=now), "ready": True}
            for one in initial
        ]
    running.pop("nominatedNodeName", None)
    return running


def crashed(status: Obj, *, exit_code: int, now: str) -> Obj:
    """The status after all containers have ended."""

    def end(container: Obj) -> Obj:
        state = container.get("state") or {}
        if "terminated" in state:
            return container
        if "running" not in state:  # it waits for its restart
            return {**container, "state": container.get("lastState") or state, "started": False}
        since = state["running"].get("startedAt", now)
        return _terminated(container, exit_code=exit_code, since=since, now=now)

    return _each(status, end)


def restarted(status: Obj, *, now: str) -> Obj:
    """The status after crashed containers were restarted."""

    def restart(container: Obj) -> Obj:
        last = _last_state(container)
        count = int(container.get("restartCount", 0)) + 1
        return {**_running(container, now), "lastState": last, "restartCount": count}

    return _each(status, restart)


def backing_off(pod: Obj, status: Obj, *, seconds: float) -> Obj:
    """The status while crashed containers wait `seconds` before they run again."""
    shown = format_duration(timedelta(seconds=round(seconds)))

    def wait(container: Obj) -> Obj:
        name = container.get("name", "")
        message = f"back-off {shown} restarting failed container={name} pod={pod_id(pod)}"
        state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        return {**container, "lastState": _last_state(container), "state": state, "started": False}

    return _each(status, wait)


def judged(pod: Obj, status: Obj, *, ready: bool, gates_open: bool, now: str) -> Obj:
    """The status of a running pod, with its conditions: `ready` are its containers."""
    unready = "" if ready else " ".join(one.get("name", "") for one in status.get("containerStatuses") or ())
    lacking = ("ContainersNotReady", f"containers with unready status: [{unready}]")
    gated = ("ReadinessGatesNotReady", "corresponding condition of pod readiness gate does not exist.")
    fine = ("", "")
    conditions = (
        ("PodReadyToStartContainers", True, fine),
        ("Initialized", True, fine),
        ("Ready", ready and gates_open, lacking if not ready else fine if gates_open else gated),
        ("ContainersReady", ready, fine if ready else lacking),
        ("PodScheduled", True, fine),
    )
    judged = _each(status, lambda container: {**container, "ready": ready})
    return _observed(pod, _with(pod, judged, conditions, now))


def finished(pod: Obj, status: Obj, *, exit_code: int, now: str, reason: str = "", message: str = "") -> Obj:
    """Finished; a `reason` is given where the containers did not end by themselves."""
    succeeded = exit_code == 0 and not reason
    why = ("PodCompleted" if succeeded else "PodFailed", "")
    conditions = (
        ("PodReadyToStartContainers", False, ("", "")),
        ("Initialized", True, why if succeeded else ("", "")),
        ("Ready", False, why),
        ("ContainersReady", False, why),
    )
    ended = {
        **crashed(status, exit_code=exit_code, now=now),
        "phase": "Succeeded" if succeeded else "Failed",
        "startTime": status.get("startTime", now),
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
    }
    ended = _each(ended, lambda container: {**container, "ready": False})
    return _observed(pod, _with(pod, ended, conditions, now))


def refused(pod: Obj, *, reason: str, message: str, now: str) -> Obj:
    status = pod.get("status") or {}
    words = {"reason": reason, "message": f"Pod was rejected: {message}"}
    return _observed(pod, {**status, "phase": "Failed", "startTime": now, **words})


def pod_id(pod: Obj) -> str:
    """A pod as a kubelet names it."""
    return f"{name_of(pod)}_{namespace_of(pod)}({pod['metadata']['uid']})"


def _observed(pod: Obj, status: Obj) -> Obj:
    return {**status, "observedGeneration": pod["metadata"].get("generation", 1)}


def _with(pod: Obj, status: Obj, wanted: Iterable[tuple[str, bool, tuple[str, str]]], now: str) -> Obj:
    conditions = status.get("conditions") or []
    generation = pod["metadata"].get("generation", 1)
    for type_, holds, (reason, message) in wanted:
        condition: Obj = {
            "type": type_,
            "status": "True" if holds else "False",
            "observedGeneration": generation,
        }
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        conditions = set_condition(conditions, condition, now=now)
    return {**status, "conditions": conditions}


def _each(status: Obj, step: Callable[[Obj], Obj]) -> Obj:
    return {**status, "containerStatuses": [step(one) for one in status.get("containerStatuses") or ()]}


def _running(container: Obj, now: str) -> Obj:
    return {**container, "state": {"running": {"startedAt": now}}, "ready": False, "started": True}


def _terminated(container: Obj, *, exit_code: int, since: str, now: str) -> Obj:
    ended = {
        "exitCode": exit_code,
        "reason": "Completed" if exit_code == 0 else "Error",
        "startedAt": since,
        "finishedAt": now,
        "containerID": container.get("containerID", ""),
    }
    return {**container, "state": {"terminated": ended}, "ready": False, "started": False}


def _last_state(container: Obj) -> Obj:
    """The state in which the container ended: now, or before it began to wait."""
    state: Obj = container.get("state") or {}
    return state if "terminated" in state else container.get("lastState") or {}


def _described(pod: Obj, container: Obj) -> Obj:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"hollow://{image}",
        "containerID": f"hollow://{pod['metadata']['uid']}/{container['name']}",
        "restartCount": 0,
        "lastState": {},
    }
