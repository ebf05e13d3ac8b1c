"""Annotations that control how hollow pods and nodes behave.

In: an object's annotations. Out: a `Behavior` for a pod, and whether a node is ready and sends heartbeats. A
value that cannot be read is ignored, for annotations are not validated when they are written.

    on a pod
    kuberth.dev/run-seconds: "30"          its containers end this long after each start; without it they run
                                           until they are stopped, or for a second if the pod is a Job's or
                                           reads its input once and is not restarted (`kubectl run -i
                                           --restart=Never`)
    kuberth.dev/exit-code: "1"             how they end; 0 is the default
    kuberth.dev/stop-seconds: "20"         how long they take to stop when the pod is deleted; at most its
                                           grace period, at whose end they are killed; without it as long
                                           as a preStop hook of theirs sleeps, or no time at all
    kuberth.dev/ready: "false"             its readiness probe fails while the pod has this annotation
    kuberth.dev/ready-after-seconds: "5"   it succeeds this long after each start, and not before
    kuberth.dev/live-seconds: "60"         the liveness probe fails this long after each start

    on a node
    kuberth.dev/ready: "false"             its kubelet reports that it is not ready
    kuberth.dev/heartbeat: "stop"          its kubelet is silent: no lease, no status, nothing done to pods
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, annotation_of

RUN_SECONDS: Final = "kuberth.dev/run-seconds"
EXIT_CODE: Final = "kuberth.dev/exit-code"
STOP_SECONDS: Final = "kuberth.dev/stop-seconds"
READY: Final = "kuberth.dev/ready"
READY_AFTER_SECONDS: Final = "kuberth.dev/ready-after-seconds"
LIVE_SECONDS: Final = "kuberth.dev/live-seconds"
HEARTBEAT: Final = "kuberth.dev/heartbeat"

JOB_SECONDS: Final = 1.0
"""How long a pod that is to end runs by default."""


@dataclass(frozen=True, slots=True)
class Behavior:
    """The behavior of a pod's containers; all of them behave alike."""

    run_seconds: float | None
    """Seconds that the containers run; None: they never end."""
    exit_code: int
    stop_seconds: float
    ready: bool
    ready_after_seconds: float
    live_seconds: float | None
    """Seconds until the liveness probe fails; None: it never fails."""

    @property
    def end(self) -> tuple[float, int] | None:
        """Seconds from a container's start to its end, and its exit code; None: it does not end."""
        ends = []
        if self.run_seconds is not None:
            ends.append((self.run_seconds, self.exit_code))
        if self.live_seconds is not None:
            ends.append((self.live_seconds, 137))
        return min(ends, default=None, key=lambda end: end[0])

    @property
    def dies_of_its_probe(self) -> bool:
        """Whether the liveness probe ends the container."""
        live = self.live_seconds
        return live is not None and (self.run_seconds is None or live < self.run_seconds)


def behavior_of(pod: Obj) -> Behavior:
    def number(annotation: str) -> float | None:
        return _number(annotation_of(pod, annotation))

    stop_seconds, run_seconds = number(STOP_SECONDS), number(RUN_SECONDS)
    if run_seconds is None:
        owners = pod["metadata"].get("ownerReferences") or ()
        if any(owner.get("kind") == "Job" for owner in owners) or _ends_with_its_input(pod):
            run_seconds = JOB_SECONDS
    return Behavior(
        run_seconds=run_seconds,
        exit_code=int(number(EXIT_CODE) or 0),
        stop_seconds=_longest_sleep(pod) if stop_seconds is None else stop_seconds,
        ready=says_ready(pod),
        ready_after_seconds=number(READY_AFTER_SECONDS) or 0.0,
        live_seconds=number(LIVE_SECONDS),
    )


def _ends_with_its_input(pod: Obj) -> bool:
    """Whether a container reads a standard input that one client may write: nothing can attach to it here."""
    spec = pod["spec"]
    return spec.get("restartPolicy") == "Never" and any(
        each.get("stdin") and each.get("stdinOnce") for each in spec.get("containers", ())
    )


def says_ready(obj: Obj) -> bool:
    """Whether a pod's readiness probe succeeds, or a node's kubelet reports that it is ready."""
    return annotation_of(obj, READY) != "false"


def is_silent(node: Obj) -> bool:
    return annotation_of(node, HEARTBEAT) == "stop"


def _longest_sleep(pod: Obj) -> float:
    """The longest sleep of the preStop hooks; other hooks do nothing in a hollow container."""
    containers = (*pod["spec"].get("containers", ()), *(pod["spec"].get("initContainers") or ()))
    hooks = ((each.get("lifecycle") or {}).get("preStop") or {} for each in containers)
    return max((_number((hook.get("sleep") or {}).get("seconds")) or 0.0 for hook in hooks), default=0.0)


def _number(text: Any) -> float | None:
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 2**31 else None
