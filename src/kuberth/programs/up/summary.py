"""Summarizes a cluster: phases of pods, why they are pending, and the binding rate.

In: the store's objects, the scheduler's pending pods, the time. Out: a `Summary`. Creating one reads all
pods; `pause_seconds` is the time to wait before the next.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kuberth.framework.waiting_pods import WaitingPods
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.verbs.core import Core

RATE_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 1.0
_SHARE: Final = 0.05
"""The maximum share of the event loop's time for summaries."""

GATED: Final = "gated"
UNSCHEDULED: Final = "unscheduled"
IN_PERMIT: Final = "waiting in Permit"
_UNTRIED: Final = "not tried yet"
_PLACED: Final = "placed, waiting in PreBind"


@dataclass(frozen=True, slots=True)
class Summary:
    """The state of the cluster; `bound_per_second` is ignored in comparisons."""

    nodes: int
    pods: Mapping[str, int]
    """Pods by phase; pods without a node are `unscheduled`, `gated` or `waiting in Permit` instead."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why pods are pending, with the number of pods for each reason."""
    bound_per_second: float = field(default=0.0, compare=False)


class Observer:
    """Creates summaries of one cluster."""

    def __init__(
        self,
        core: Core,
        *,
        waiting_pods: WaitingPods | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._waiting_pods = WaitingPods() if waiting_pods is None else waiting_pods
        self._now = now
        self._bound: frozenset[str] | None = None
        """UIDs of the pods that had a node in the last summary."""
        self._newly_bound: deque[tuple[float, int]] = deque()
        """Times of summaries, with the number of pods placed since the previous one."""
        self._took_seconds = 0.0

    @property
    def pause_seconds(self) -> float:
        return max(PAUSE_SECONDS, self._took_seconds / _SHARE)

    async def summarize(self) -> Summary:
        began = self._now()
        nodes = (await self._core.list("nodes"))["items"]
        pods = (await self._core.list("pods"))["items"]
        phases: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        bound = []
        in_permit = {waiting.pod.metadata.uid: waiting.pending_plugins for waiting in self._waiting_pods}
        for pod in pods:
            uid, spec = pod["metadata"]["uid"], _section(pod, "spec")
            phase = str(_section(pod, "status").get("phase") or "Pending")
            if spec.get("nodeName"):
                bound.append(uid)
                phases[phase] += 1
                continue
            if phase == "Pending":
                phase = GATED if spec.get("schedulingGates") else UNSCHEDULED
            if phase == UNSCHEDULED and uid in in_permit:
                phase = IN_PERMIT
                reasons[f"waiting in Permit for {', '.join(in_permit[uid])}"] += 1
            elif phase in (UNSCHEDULED, GATED):
                reasons[_reason(pod, phase)] += 1
            phases[phase] += 1
        summary = Summary(len(nodes), dict(phases), dict(reasons), self._rate(began, frozenset(bound)))
        self._took_seconds = self._now() - began
        return summary

    def _rate(self, now: float, bound: frozenset[str]) -> float:
        # Pods that were bound before the first summary may have been bound long ago.
        fresh = 0 if self._bound is None else len(bound - self._bound)
        self._bound = bound
        history = self._newly_bound
        history.append((now, fresh))
        while len(history) > 1 and history[1][0] <= now - RATE_SECONDS:
            history.popleft()
        # The first entry's pods were bound before the measured time.
        seconds = now - history[0][0]
        total = sum(number for _, number in history) - history[0][1]
        return total / seconds if seconds > 0 else 0.0


def _section(obj: Obj, name: str) -> Obj:
    part: Any = obj.get(name)
    return part if isinstance(part, dict) else {}


def _reason(pod: Obj, phase: str) -> str:
    if phase == GATED:
        gates = (
            gate.get("name") for gate in _section(pod, "spec")["schedulingGates"] if isinstance(gate, dict)
        )
        return f"gated by {', '.join(map(str, gates))}"
    status = _section(pod, "status")
    for condition in status.get("conditions") or ():
        if isinstance(condition, dict) and condition.get("type") == "PodScheduled":
            message = str(condition.get("message") or "")
            # The second sentence is about preemption, which differs from pod to pod and would hide the common
            # reason.
            if text := message.partition(". ")[0] if message.startswith("0/") else message:
                return text
    return _PLACED if status.get("nominatedNodeName") else _UNTRIED
