"""Replays a trace of queue operations and lists the queue of every pod after each."""

from __future__ import annotations

from typing import Any

from kuberth.api import wire
from kuberth.api.core import Pod
from kuberth.clock import NANOSECONDS
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.errors import QueueError
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint, HintFunction
from kuberth.framework.nominator import Nominator
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import SUCCESS, Status
from kuberth.informers.store import Stores
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.plugins.priority_sort.plugin import PrioritySort
from kuberth.plugins.scheduling_gates.plugin import SchedulingGates
from kuberth.queue.interface import QueueContext
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.testing import MemoryApi
from kuberth.testing.clock import FakeClock
from tests.unit.framework.harness import Outside

EPOCH_NS = 1_700_000_000 * NANOSECONDS
_PROFILES = ("", "default-scheduler")


def _constant(answer: str) -> HintFunction:
    def hint(_pod: Pod, _old: object, _new: object) -> Hint:
        if answer == "Error":
            raise RuntimeError("hint failed")
        return Hint(answer)

    return hint


def _build(trace: dict[str, Any], clock: FakeClock) -> PriorityQueue:
    gates = SchedulingGates()

    def pre_enqueue(pod: Pod, _first: str) -> Status:
        status = gates.pre_enqueue(pod)
        return SUCCESS if status is None else status.by(gates.name)

    hints = [
        RegisteredHint(
            plugin,
            ClusterEvent(entry["resource"], Action.from_label(entry["action"])),
            _constant(entry["hint"]),
        )
        for plugin, entries in trace["plugins"].items()
        for entry in entries
    ]
    hints += [RegisteredHint(gates.name, event, hint) for event, hint, _concern in gates.events_to_register()]
    outside = Outside()
    return PriorityQueue(
        QueueContext(
            sort=PrioritySort(),
            clock=clock,
            cluster=ClusterTable(),
            nominator=Nominator(),
            metrics=SchedulerMetrics(),
            stores=Stores(),
            api=MemoryApi(),
            recorder=outside,
            spawn=outside.spawn,
            pre_enqueue=dict.fromkeys(_PROFILES, pre_enqueue),
            hints=dict.fromkeys(_PROFILES, hints),
            initial_backoff_seconds=trace["initialBackoffSeconds"],
            max_backoff_seconds=trace["maxBackoffSeconds"],
            max_unschedulable_seconds=trace["maxInUnschedulableSeconds"],
            queueing_hints=trace["featureGates"].get("SchedulerQueueingHints", True),
            pop_from_backoff=trace["featureGates"].get("SchedulerPopFromBackoffQ", True),
        )
    )


def replay_queue(case: dict[str, Any]) -> dict[str, Any]:
    """Run the whole trace."""
    trace = case["trace"]
    clock = FakeClock(EPOCH_NS)
    queue = _build(trace, clock)
    versions: dict[str, Pod] = {}
    popped: list[QueuedPod] = []
    # A trace has details only of pods that exist: not of one deleted while it was in flight.
    known: set[str] = set()
    steps: list[dict[str, Any]] = []
    for op in trace["ops"]:
        step: dict[str, Any] = {}
        pod = wire.convert(Pod, op["pod"]) if "pod" in op else None
        match op["op"]:
            case "add":
                assert pod is not None
                versions[pod.metadata.name] = pod
                known.add(pod.metadata.name)
                queue.add(PodInfo(pod))
            case "update":
                assert pod is not None
                old = versions[pod.metadata.name]
                versions[pod.metadata.name] = pod
                queue.update(old, PodInfo(pod))
            case "delete":
                queue.delete(versions[op["name"]])
                known.discard(op["name"])
            case "pop":
                queued = queue.pop_nowait()
                step["popped"] = queued.pod.metadata.name if queued else ""
                if queued:
                    popped.append(queued)
            case "resolve":
                step["resolved"] = popped[0].pod.metadata.name if popped else ""
                if popped:
                    if op.get("done"):
                        known.discard(step["resolved"])
                    _resolve(queue, popped.pop(0), op, step)
            case "event":
                queue.move(ClusterEvent(op["resource"], Action.from_label(op["action"])), None, None)
            case "activate":
                pod = versions[op["name"]]
                queue.activate({f"{pod.metadata.namespace}/{pod.metadata.name}": pod})
            case "advance":
                clock.advance(op["seconds"])
            case "flushBackoff":
                queue.flush_backoff_completed()
            case "flushUnschedulable":
                queue.flush_unschedulable_leftover()
            case unknown:
                raise AssertionError(f"unknown operation {unknown!r}")
        steps.append({**step, **_state(queue, known)})
        clock.advance(0.001)
    return {"steps": steps}


def _resolve(queue: PriorityQueue, queued: QueuedPod, op: dict[str, Any], step: dict[str, Any]) -> None:
    if op.get("done"):
        queue.done(queued.uid)
        return
    queued.unschedulable_plugins = set(op.get("plugins") or ())
    queued.pending_plugins = set(op.get("pending") or ())
    try:
        queue.requeue(queued)
    except QueueError:
        step["error"] = "already present"


def _seconds(duration_ns: int) -> float:
    """Whole seconds and fraction added as two floats, which is how Go prints a duration in seconds."""
    whole, fraction = divmod(duration_ns, NANOSECONDS)
    return float(whole) + fraction / NANOSECONDS


def _state(queue: PriorityQueue, known: set[str]) -> dict[str, Any]:
    queues = {
        name: {queued.pod.metadata.name: queued for queued in pods}
        for name, pods in queue.pending_pods().items()
    }
    for name in [name for name in queues["gated"] if name not in known]:
        queues["unschedulable"][name] = queues["gated"].pop(name)
    state: dict[str, Any] = {queue: sorted(pods) for queue, pods in queues.items()}
    state["inFlight"] = sorted(pod.metadata.name for pod in queue.in_flight())
    expiry = {
        name: _seconds(queued.backoff_expires_ns - EPOCH_NS)
        for name, queued in queues["backoff"].items()
        if name in known and queued.backoff_expires_ns is not None
    }
    attempts = {
        name: queued.attempts for pods in queues.values() for name, queued in pods.items() if name in known
    }
    if expiry:
        state["backoffExpiry"] = expiry
    if attempts:
        state["attempts"] = attempts
    return state
