"""The next step of a hollow pod and its status after it: created, started, restarted, crashed, finished.

In: a pod, its status and the state of its containers so far, the current time. Out: the status after the
step, with a kubelet's messages as `kubectl get pods` shows them; for a started pod a `Step`, which also has
the new state, the events to record, and when to check again. These are pure functions: a step that could not
be written has not happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, NamedTuple

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj, is_true, name_of, namespace_of, set_condition
from kuberth.local.hollow.annotations import Behavior, behavior_of
from kuberth.text.durations import format_duration
from kuberth.text.timestamps import parse_timestamp, timestamp

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
        described = {**_container_status(pod, container), "imageID": ""}
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
    names = " ".join(each.get("name", "") for each in containers)
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
    """The status of a pod whose containers run; `with_readiness` says which of them are ready."""
    spec, status = pod["spec"], pod.get("status") or {}
    running = {
        **status,
        "phase": "Running",
        "startTime": status.get("startTime", now),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": own,
        "podIPs": [{"ip": own}],
        "containerStatuses": [
            _running(_container_status(pod, one), now) for one in spec.get("containers", ())
        ],
    }
    if initial := spec.get("initContainers"):
        running["initContainerStatuses"] = [
            # One that restarts always is a sidecar, and runs beside the others.
            {**_running(_container_status(pod, one), now), "ready": True}
            if one.get("restartPolicy") == "Always"
            else {**_terminated(_container_status(pod, one), exit_code=0, since=now, now=now), "ready": True}
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


def with_readiness(pod: Obj, status: Obj, *, ready: bool, gates_open: bool, now: str) -> Obj:
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
    updated = _each(status, lambda container: {**container, "ready": ready})
    return _observed(pod, _with(pod, updated, conditions, now))


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


def _container_status(pod: Obj, container: Obj) -> Obj:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"hollow://{image}",
        "containerID": f"hollow://{pod['metadata']['uid']}/{container['name']}",
        "restartCount": 0,
        "lastState": {},
    }


_FIRST_BACKOFF_SECONDS: Final = 10.0
_LAST_BACKOFF_SECONDS: Final = 300.0
_TOO_LONG: Final = "Pod was active on the node longer than the specified deadline"


@dataclass(frozen=True, slots=True)
class ContainersState:
    """When a pod's containers started and ended, in nanoseconds; a status has whole seconds."""

    started_ns: int
    ended_ns: int | None = None
    """When the containers ended; None if they run."""
    crashes: int = 0
    """How often they ended since they last ran long enough to reset the backoff."""
    restarts: int = 0

    def is_of(self, status: Obj) -> bool:
        """Whether a status shows this state already: a write without a response may have succeeded."""
        container = _first(status)
        shown = int(container.get("restartCount", 0)), "running" in container.get("state", {})
        return not container or shown == (self.restarts, self.ended_ns is None)

    @property
    def backoff_seconds(self) -> float:
        """The backoff after the latest crash: 0 after the first one, then longer each time."""
        if self.crashes < 2:
            return 0.0
        return min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(self.crashes - 2, 10), _LAST_BACKOFF_SECONDS)

    def seconds_to_restart(self, now_ns: int) -> float:
        """Seconds until the containers may restart; 0 or less if they run or may restart now."""
        if self.ended_ns is None:
            return 0.0
        return self.backoff_seconds - (now_ns - self.ended_ns) / NANOSECONDS

    def age(self, now_ns: int) -> float:
        """Seconds since they last started."""
        return (now_ns - self.started_ns) / NANOSECONDS

    def crash(self, now_ns: int) -> ContainersState:
        held_out = self.age(now_ns) > 2 * _LAST_BACKOFF_SECONDS
        return replace(self, ended_ns=now_ns, crashes=1 if held_out else self.crashes + 1)

    def restart(self, now_ns: int) -> ContainersState:
        return replace(self, started_ns=now_ns, ended_ns=None, restarts=self.restarts + 1)


class ContainerEvent(NamedTuple):
    """An event about a pod."""

    reason: str
    message: str
    type: str = "Warning"


class Step(NamedTuple):
    status: Obj
    state: ContainersState
    seconds: float | None
    """When to check again; None: not before something changes."""
    events: tuple[ContainerEvent, ...] = ()


def state_from(status: Obj, *, now_ns: int) -> ContainersState:
    """The state that a status of an earlier run shows."""
    container = _first(status)
    restarts, running = int(container.get("restartCount", 0)), container.get("state", {}).get("running")
    if running is not None:
        started_ns = parse_timestamp(running.get("startedAt")) or now_ns
        return ContainersState(started_ns, crashes=restarts, restarts=restarts)
    last = container.get("lastState", {}).get("terminated") or {}
    started_ns = parse_timestamp(last.get("startedAt")) or now_ns
    ended_ns = parse_timestamp(last.get("finishedAt")) or now_ns
    return ContainersState(started_ns, ended_ns, crashes=restarts + 1, restarts=restarts)


def advance(pod: Obj, status: Obj, state: ContainersState, *, node_ready: bool, now_ns: int) -> Step:
    behavior, now = behavior_of(pod), timestamp(now_ns)
    seconds, exit_code = behavior.end or (math.inf, 0)
    left = _seconds_to_deadline(pod, status, now_ns)
    if left <= 0:
        reason = "DeadlineExceeded"
        over = finished(pod, status, exit_code=KILLED, now=now, reason=reason, message=_TOO_LONG)
        return Step(over, state, None)
    events: tuple[ContainerEvent, ...] = ()
    if state.ended_ns is None and state.age(now_ns) >= seconds:
        if not _restarts(pod, exit_code):
            return Step(finished(pod, status, exit_code=exit_code, now=now), state, None)
        state, status = state.crash(now_ns), crashed(status, exit_code=exit_code, now=now)
        if state.backoff_seconds:
            status = backing_off(pod, status, seconds=state.backoff_seconds)
        events = _crash_events(pod, behavior, state)
    if state.ended_ns is not None and state.seconds_to_restart(now_ns) <= 0:
        state, status = state.restart(now_ns), restarted(status, now=now)
    runs, unready = state.ended_ns is None, behavior.ready_after_seconds - state.age(now_ns)
    ready = runs and unready <= 0 and behavior.ready and node_ready
    status = with_readiness(pod, status, ready=ready, gates_open=_gates_open(pod), now=now)
    if not runs:
        left = min(left, state.seconds_to_restart(now_ns))
    else:
        left = min(left, seconds - state.age(now_ns), unready if unready > 0 else math.inf)
    return Step(status, state, None if math.isinf(left) else left, events)


def _first(status: Obj) -> Obj:
    """The status of the first container, which represents all of them, since they are identical."""
    first: Obj = next(iter(status.get("containerStatuses") or ()), {})
    return first


def _seconds_to_deadline(pod: Obj, status: Obj, now_ns: int) -> float:
    seconds, started_ns = pod["spec"].get("activeDeadlineSeconds"), parse_timestamp(status.get("startTime"))
    if seconds is None or started_ns is None:
        return math.inf
    return float(seconds) - (now_ns - started_ns) / NANOSECONDS


def _restarts(pod: Obj, exit_code: int) -> bool:
    policy = pod["spec"].get("restartPolicy", "Always")
    return bool(policy == "Always" or (policy == "OnFailure" and exit_code != 0))


def _gates_open(pod: Obj) -> bool:
    gates = pod["spec"].get("readinessGates") or ()
    return all(is_true(pod, gate.get("conditionType", "")) for gate in gates)


def _crash_events(pod: Obj, behavior: Behavior, state: ContainersState) -> tuple[ContainerEvent, ...]:
    events = []
    for container in pod["spec"].get("containers", ()):
        name = container["name"]
        if behavior.dies_of_its_probe:
            events.append(ContainerEvent("Unhealthy", "Liveness probe failed: the annotation says so"))
            message = f"Container {name} failed liveness probe, will be restarted"
            events.append(ContainerEvent("Killing", message, "Normal"))
        if state.backoff_seconds:
            message = f"Back-off restarting failed container {name} in pod {pod_id(pod)}"
            events.append(ContainerEvent("BackOff", message))
    return tuple(events)
