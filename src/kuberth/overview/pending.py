"""Pending pods as rows of the stream: in a scheduling queue, in flight, or waiting on Permit.

In: notifications of the queue and the cluster table, which only mark a pod as changed. Out, at every tick:
the changed rows, the pods that are no longer pending with the reason, and the length of each queue. Of a very
long queue, only the oldest pods have rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.assembly.scheduler import Scheduler
from kuberth.clock import NANOSECONDS, Clock
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.queued_pod import QueuedPod

PermitWait = tuple[str, float, float]
"""Plugin, since when it holds the pod, and its timeout, in Unix seconds."""
PodLine = tuple[str, str, str, str, int, int, float, str, str, list[PermitWait]]
"""UID, namespace, name, queue, priority, attempts, since (Unix seconds), reason, profile, Permit waits."""

IN_FLIGHT: Final = "inflight"
PERMIT: Final = "permit"
PLACED: Final = "placed"
QUEUES: Final = ("active", "backoff", "unschedulable", "gated", IN_FLIGHT, PERMIT)
DELETED: Final = "deleted"
SHOWN_PER_QUEUE: Final = 2000
"""The maximum number of rows of one queue."""
GATES_PLUGIN: Final = "SchedulingGates"


class PodChanges(NamedTuple):
    """Changes since the last `refresh`."""

    changed: frozenset[str]
    """UIDs of pods with a new or changed row."""
    gone: Mapping[str, str]
    """By UID: `placed:NODE`, `deleted`, or `cut:QUEUE` for one beyond the rows of its queue."""


@dataclass(slots=True, eq=False)
class _TrackedPod:
    """A pending pod, in the state that the queue reported last."""

    pod: Pod
    queued: QueuedPod | None
    """None if the pod was in flight before the first subscriber connected."""
    queue: str
    done: bool = False
    """Whether the queue has released it."""


class PendingPods:
    """The rows of all pending pods, updated by `refresh`."""

    def __init__(self, scheduler: Scheduler, *, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._cluster = scheduler.cluster
        self._max_shown = SHOWN_PER_QUEUE
        self._tracked: dict[str, _TrackedPod] = {}
        self._marked: dict[str, None] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        """By UID of the pods in Permit: the plugins that hold them."""
        self._queue_of: dict[str, str] = {}
        self._members: dict[str, dict[str, None]] = {queue: {} for queue in QUEUES}
        self._shown: dict[str, set[str]] = {queue: set() for queue in QUEUES}
        self.rows: dict[str, PodLine] = {}
        """By UID."""
        self.scan_queue()
        self._scan_bindings()
        self.refresh()

    # Called by the queue

    def moved(self, queued: QueuedPod, queue: str) -> None:
        self._tracked[queued.uid] = _TrackedPod(queued.pod, queued, queue)
        self._marked[queued.uid] = None

    def popped(self, queued: QueuedPod) -> None:
        self.moved(queued, IN_FLIGHT)

    def done(self, uid: str) -> None:
        tracked = self._tracked.get(uid)
        if tracked is not None and tracked.queue == IN_FLIGHT:
            tracked.done = True
            self._marked[uid] = None

    def deleted(self, uid: str) -> None:
        tracked = self._tracked.get(uid)
        if tracked is not None and tracked.queue != IN_FLIGHT:
            tracked.queue, tracked.done = IN_FLIGHT, True
            self._marked[uid] = None

    def pod_placed(self, info: PodInfo) -> None:
        """Called by the cluster table."""
        if info.uid in self._tracked:
            self._marked[info.uid] = None

    pod_removed = pod_placed

    # Reading

    def scan_queue(self) -> list[tuple[QueuedPod, str]]:
        """Read all queues; returns the pods whose queue differs from the last reported one."""
        moved: list[tuple[QueuedPod, str]] = []
        present: set[str] = set()
        for name, pods in self._scheduler.queue.pending_pods().items():
            queue = name if name in QUEUES else "active"
            present.update(queued.uid for queued in pods)
            moved += (
                (queued, queue)
                for queued in pods
                if (known := self._tracked.get(queued.uid)) is None or known.queue != queue
            )
        for queued, queue in sorted(moved, key=lambda each: each[0].timestamp_ns):
            self.moved(queued, queue)
        for pod in self._scheduler.queue.in_flight():
            if pod.metadata.uid not in present:
                present.add(pod.metadata.uid)
                self._put_in_flight(pod)
        for uid in self._tracked.keys() - present:
            self.deleted(uid)
            self.done(uid)
        return moved

    def _scan_bindings(self) -> None:
        """Find pods whose binding began before the first subscriber connected; no queue contains them."""
        if self._cluster.assumed_count:
            for info in self._cluster.placed_pods():
                if self._cluster.is_assumed(info.uid) and info.uid not in self._tracked:
                    self._put_in_flight(info.pod)
                    self.done(info.uid)

    def _put_in_flight(self, pod: Pod) -> None:
        known = self._tracked.get(pod.metadata.uid)
        if known is None or known.queue != IN_FLIGHT:
            queued = None if known is None else known.queued
            self._tracked[pod.metadata.uid] = _TrackedPod(pod, queued, IN_FLIGHT)
            self._marked[pod.metadata.uid] = None

    def refresh(self) -> PodChanges:
        """Update the rows of marked pods."""
        self._mark_permit()
        if not self._marked:
            return PodChanges(frozenset(), {})
        marked, self._marked = self._marked, {}
        touched: set[str] = set()
        reasons_gone: dict[str, str] = {}
        for uid in marked:
            before, (queue, where) = self._queue_of.get(uid), self._find(uid)
            if not queue:
                reasons_gone[uid] = where
                self._tracked.pop(uid, None)
            if queue == before:
                continue
            if before is not None:
                del self._members[before][uid]
                touched.add(before)
            if queue:
                self._queue_of[uid] = queue
                self._members[queue][uid] = None
                touched.add(queue)
            else:
                self._queue_of.pop(uid, None)
        return self._compare(marked, touched, reasons_gone)

    def _compare(
        self, marked: Mapping[str, None], touched: set[str], reasons_gone: Mapping[str, str]
    ) -> PodChanges:
        appeared: set[str] = set()
        vanished: set[str] = set()
        for queue in touched:
            shown = set(islice(self._members[queue], self._max_shown))
            appeared |= shown - self._shown[queue]
            vanished |= self._shown[queue] - shown
            self._shown[queue] = shown
        changed = set()
        for uid in appeared | (marked.keys() & self.rows.keys()) - vanished:
            line = self._line(uid, self._queue_of[uid])
            if self.rows.get(uid) != line:
                self.rows[uid] = line
                changed.add(uid)
        gone = {}
        for uid in vanished - appeared:
            if self.rows.pop(uid, None) is not None:
                gone[uid] = reasons_gone.get(uid) or f"cut:{self._queue_of[uid]}"
        return PodChanges(frozenset(changed), gone)

    def counts(self) -> dict[str, int]:
        """Number of pods in each queue, and on nodes."""
        numbers = {queue: len(members) for queue, members in self._members.items()}
        return numbers | {PLACED: self._cluster.placed_count - self._cluster.assumed_count}

    def cut(self) -> dict[str, int]:
        """Number of pods without a row, by queue."""
        return {
            queue: len(members) - self._max_shown
            for queue, members in self._members.items()
            if len(members) > self._max_shown
        }

    def _mark_permit(self) -> None:
        if self._held or len(self._scheduler.waiting_pods):
            held = {each.pod.metadata.uid: each.pending_plugins for each in self._scheduler.waiting_pods}
            changed = {uid for uid, _ in held.items() ^ self._held.items()}
            self._marked |= dict.fromkeys(changed & self._tracked.keys())
            self._held = held

    def _find(self, uid: str) -> tuple[str, str]:
        """The queue of a pod and ""; or "" and why the pod is no longer pending."""
        tracked = self._tracked.get(uid)
        if tracked is None:
            return "", DELETED
        if tracked.queue != IN_FLIGHT:
            return tracked.queue, ""
        placed = self._cluster.placed(uid)
        if placed is None:
            return ("", DELETED) if tracked.done else (IN_FLIGHT, "")
        if not self._cluster.is_assumed(uid):
            return "", f"placed:{placed.node_name}"
        return (PERMIT if uid in self._held else IN_FLIGHT), ""

    def _line(self, uid: str, queue: str) -> PodLine:
        tracked = self._tracked[uid]
        queued = tracked.queued
        pod = tracked.pod if queued is None else queued.pod
        holds = self._permit_waits(uid) if queue == PERMIT else []
        since = 0.0 if queued is None else round(queued.timestamp_ns / NANOSECONDS, 3)
        return (
            uid,
            pod.metadata.namespace,
            pod.metadata.name,
            queue,
            pod_priority(pod),
            self._attempts(uid) if queued is None else queued.attempts,
            min((hold[1] for hold in holds), default=since),
            ", ".join(hold[0] for hold in holds) or reason_of(queued, queue, self._scheduler),
            pod.spec.scheduler_name,
            holds,
        )

    def _attempts(self, uid: str) -> int:
        """The attempts of a pod that was in flight before the first subscriber connected; 0 if unknown."""
        waiting = self._scheduler.waiting_pods.get(uid)
        return 0 if waiting is None else waiting.attempts

    def _permit_waits(self, uid: str) -> list[PermitWait]:
        waiting = self._scheduler.waiting_pods.get(uid)
        if waiting is None:
            return []
        now, limits = self._clock.now_ns() / NANOSECONDS, waiting.timeouts_seconds
        return [
            (plugin, round(now + left - limits[plugin], 1), round(now + left, 1))
            for plugin, left in waiting.seconds_left().items()
        ]


def reason_of(queued: QueuedPod | None, queue: str, scheduler: Scheduler) -> str:
    """The gates or plugins that reject the pod; "" if there are none."""
    if queued is None:
        return ""
    if queue == PERMIT:
        waiting = scheduler.waiting_pods.get(queued.uid)
        return "" if waiting is None else ", ".join(waiting.pending_plugins)
    if queue == "gated":
        gates = queued.pod.spec.scheduling_gates if queued.gating_plugin == GATES_PLUGIN else ()
        return ", ".join(gate.name for gate in gates) or queued.gating_plugin
    if queue in ("active", IN_FLIGHT):
        return ""
    return ", ".join(sorted(queued.rejectors))
