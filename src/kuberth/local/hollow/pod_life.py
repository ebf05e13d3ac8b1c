"""The next step of a hollow pod's life: pure, so that a step that could not be written was never taken.

In: a started pod, what is remembered of its life, the present time. Out: a `Step`: its status then, what to
remember, what to tell, and when to look again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj
from kuberth.local.hollow.annotations import Course, course_of
from kuberth.local.hollow.conditions import is_true
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
class PodLife:
    """What a status, in whole seconds, is too coarse for: when the containers started and ended."""

    started_ns: int
    ended_ns: int | None = None
    """None: they run."""
    crashes: int = 0
    """How often they ended since they last held out."""
    restarts: int = 0

    def is_of(self, status: Obj) -> bool:
        """Whether a status tells the same: a write may have been done whose answer was lost."""
        container = _first(status)
        told = int(container.get("restartCount", 0)), "running" in container.get("state", {})
        return not container or told == (self.restarts, self.ended_ns is None)

    @property
    def backoff_seconds(self) -> float:
        """How long to wait after the latest crash: nothing after the first one, then longer each time."""
        if self.crashes < 2:
            return 0.0
        return min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(self.crashes - 2, 10), _LAST_BACKOFF_SECONDS)

    def seconds_to_restart(self, now_ns: int) -> float:
        """How long until they run again; 0 or less while they run, or may."""
        if self.ended_ns is None:
            return 0.0
        return self.backoff_seconds - (now_ns - self.ended_ns) / NANOSECONDS

    def age(self, now_ns: int) -> float:
        """Seconds since they last started."""
        return (now_ns - self.started_ns) / NANOSECONDS

    def crash(self, now_ns: int) -> PodLife:
        held_out = self.age(now_ns) > 2 * _LAST_BACKOFF_SECONDS
        return replace(self, ended_ns=now_ns, crashes=1 if held_out else self.crashes + 1)

    def restart(self, now_ns: int) -> PodLife:
        return replace(self, started_ns=now_ns, ended_ns=None, restarts=self.restarts + 1)


class Told(NamedTuple):
    """An event about a pod."""

    reason: str
    message: str
    type: str = "Warning"


class Step(NamedTuple):
    status: Obj
    life: PodLife
    seconds: float | None
    """When to look again; None: not before something changes."""
    told: tuple[Told, ...] = ()


def remembered(status: Obj, *, now_ns: int) -> PodLife:
    """A life as a status has it, written by an earlier run."""
    container = _first(status)
    restarts, running = int(container.get("restartCount", 0)), container.get("state", {}).get("running")
    if running is not None:
        started_ns = parse_timestamp(running.get("startedAt")) or now_ns
        return PodLife(started_ns, crashes=restarts, restarts=restarts)
    last = container.get("lastState", {}).get("terminated") or {}
    started_ns = parse_timestamp(last.get("startedAt")) or now_ns
    ended_ns = parse_timestamp(last.get("finishedAt")) or now_ns
    return PodLife(started_ns, ended_ns, crashes=restarts + 1, restarts=restarts)


def advance(pod: Obj, status: Obj, life: PodLife, *, node_ready: bool, now_ns: int) -> Step:
    """What becomes of a pod with this status now."""
    course, now = course_of(pod), timestamp(now_ns)
    seconds, exit_code = course.end or (math.inf, 0)
    left = _seconds_to_deadline(pod, status, now_ns)
    if left <= 0:
        reason = "DeadlineExceeded"
        over = finished(pod, status, exit_code=KILLED, now=now, reason=reason, message=_TOO_LONG)
        return Step(over, life, None)
    told: tuple[Told, ...] = ()
    if life.ended_ns is None and life.age(now_ns) >= seconds:
        if not _restarts(pod, exit_code):
            return Step(finished(pod, status, exit_code=exit_code, now=now), life, None)
        life, status = life.crash(now_ns), crashed(status, exit_code=exit_code, now=now)
        if life.backoff_seconds:
            status = backing_off(pod, status, seconds=life.backoff_seconds)
        told = _crash_told(pod, course, life)
    if life.ended_ns is not None and life.seconds_to_restart(now_ns) <= 0:
        life, status = life.restart(now_ns), restarted(status, now=now)
    runs, unready = life.ended_ns is None, course.ready_after_seconds - life.age(now_ns)
    ready = runs and unready <= 0 and course.ready and node_ready
    status = judged(pod, status, ready=ready, gates_open=_gates_open(pod), now=now)
    if not runs:
        left = min(left, life.seconds_to_restart(now_ns))
    else:
        left = min(left, seconds - life.age(now_ns), unready if unready > 0 else math.inf)
    return Step(status, life, None if math.isinf(left) else left, told)


def _first(status: Obj) -> Obj:
    """All containers are alike: one stands for them."""
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


def _crash_told(pod: Obj, course: Course, life: PodLife) -> tuple[Told, ...]:
    told = []
    for container in pod["spec"].get("containers", ()):
        name = container["name"]
        if course.dies_of_its_probe:
            told.append(Told("Unhealthy", "Liveness probe failed: the annotation says so"))
            message = f"Container {name} failed liveness probe, will be restarted"
            told.append(Told("Killing", message, "Normal"))
        if life.backoff_seconds:
            message = f"Back-off restarting failed container {name} in pod {pod_id(pod)}"
            told.append(Told("BackOff", message))
    return tuple(told)
