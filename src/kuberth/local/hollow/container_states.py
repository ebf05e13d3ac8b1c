"""The next step of a hollow pod, as a pure function: a step that could not be written has not happened.

In: a started pod, the state of its containers, the current time. Out: a `Step`: the new status and state, the
events to record, and when to check again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.conditions import is_true
from kuberth.local.apiserver.objects import Obj
from kuberth.local.hollow.annotations import Behavior, behavior_of
from kuberth.local.hollow.pod_statuses import (
    KILLED,
    backing_off,
    crashed,
    finished,
    judged,
    pod_id,
    restarted,
)
from kuberth.text.timestamps import parse_timestamp, timestamp

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
    status = judged(pod, status, ready=ready, gates_open=_gates_open(pod), now=now)
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
