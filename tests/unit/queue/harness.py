"""A queue with few words: contexts, plugins whose answers a test decides, and where a queue's pods are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from kuberth.api.core import Pod
from kuberth.clock import NANOSECONDS, Clock
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint, HintFunction, Resource
from kuberth.framework.extension_points import QueueSortPlugin
from kuberth.framework.nominator import Nominator
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import SUCCESS, Status
from kuberth.informers.store import Stores
from kuberth.observe.metrics import Counter as MetricCounter
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.queue.interface import PreEnqueue, QueueContext, SchedulingQueue
from kuberth.queue.priority_queue import POD_POPPED, PriorityQueue
from kuberth.testing import FakeClock, MemoryApi, make_pod
from tests.unit.framework.harness import Outside

Q = TypeVar("Q", bound=SchedulingQueue)

SCHEDULER: Final = "default-scheduler"
START_NS: Final = 1_700_000_000 * NANOSECONDS
GATES: Final = "SchedulingGates"
GATES_GONE: Final = ClusterEvent(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
NODE_ADD: Final = ClusterEvent(Resource.NODE, Action.ADD)
NODE_TAINT: Final = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
NODE_LABEL: Final = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
POD_ALL: Final = ClusterEvent(Resource.POD, Action.ALL)


class ByPriority(QueueSortPlugin):
    """What PrioritySort does; the queue and its tests know no plugin of the tree."""

    name = "ByPriority"

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: QueuedPod) -> tuple[int, int]:
        return -queued.info.priority, queued.timestamp_ns


def scheduling_gates(pod: Pod, _first: str = "") -> Status:
    """PreEnqueue of a profile that only has a plugin for scheduling gates."""
    return Status.unresolvable("it has gates").by(GATES) if pod.spec.scheduling_gates else SUCCESS


def after_own_gates_are_gone(pod: Pod, _old: object, new: object) -> Hint:
    is_this_pod = isinstance(new, Pod) and new.metadata.uid == pod.metadata.uid
    return Hint.QUEUE if is_this_pod else Hint.SKIP


def always(answer: Hint) -> HintFunction:
    return lambda _pod, _old, _new: answer


def failing(_pod: Pod, _old: object, _new: object) -> Hint:
    raise RuntimeError("this hint is broken")


def on(plugin: str, *events: ClusterEvent, hint: HintFunction | None = None) -> list[RegisteredHint]:
    """A plugin's registrations; without a hint every event queues."""
    return [RegisteredHint(plugin, event, hint) for event in events]


def make_context(
    clock: Clock | None = None,
    *,
    sort: QueueSortPlugin | None = None,
    hints: Iterable[RegisteredHint] = (),
    pre_enqueue: PreEnqueue = scheduling_gates,
    cluster: ClusterTable | None = None,
    **settings: Any,
) -> QueueContext:
    outside = Outside()
    defaults: dict[str, Any] = {
        "sort": sort or ByPriority(),
        "clock": clock or FakeClock(START_NS),
        "cluster": cluster or ClusterTable(),
        "nominator": Nominator(),
        "metrics": SchedulerMetrics(),
        "stores": Stores(),
        "api": MemoryApi(),
        "recorder": outside,
        "spawn": outside.spawn,
        "pre_enqueue": {SCHEDULER: pre_enqueue},
        "hints": {SCHEDULER: [*hints, *on(GATES, GATES_GONE, hint=after_own_gates_are_gone)]},
    }
    return QueueContext(**{**defaults, **settings})


class QueueHarness:
    """A queue on a clock that stands still, with the few steps every test takes."""

    def __init__(
        self,
        *,
        make: Callable[[QueueContext], PriorityQueue] = PriorityQueue,
        start_ns: int = START_NS,
        **settings: Any,
    ) -> None:
        self.clock = FakeClock(start_ns)
        self.context = make_context(self.clock, **settings)
        self.queue = make(self.context)
        self.metrics = self.context.metrics

    def add(self, name: str, **pod: Any) -> Pod:
        made = make_pod(name, **pod)
        self.queue.add(PodInfo(made))
        return made

    def update(self, old: Pod, new: Pod) -> Pod:
        self.queue.update(old, PodInfo(new))
        return new

    def pop(self, name: str) -> QueuedPod:
        return pop_named(self.queue, name)

    def pop_names(self) -> list[str]:
        """Pop until nothing is left."""
        names: list[str] = []
        while (queued := self.queue.pop_nowait()) is not None:
            names.append(queued.pod.metadata.name)
        return names

    def reject(self, queued: QueuedPod, *plugins: str, pending: Sequence[str] = ()) -> None:
        """The attempt failed: by these plugins, or by an error if there are none."""
        requeue_rejected(self.queue, queued, *plugins, pending=pending)

    def fail(self, name: str, *plugins: str, pending: Sequence[str] = (), **pod: Any) -> Pod:
        """Add a pod to an empty queue and let its first attempt fail."""
        made = self.add(name, **pod)
        self.reject(self.pop(name), *plugins, pending=pending)
        return made

    @property
    def queues(self) -> dict[str, str]:
        """Which queue every waiting pod is in."""
        return queue_of_each(self.queue)


def pop_named(queue: SchedulingQueue, name: str) -> QueuedPod:
    """Pop a pod, which must be this one."""
    queued = queue.pop_nowait()
    assert queued is not None, f"nothing to pop where {name} is expected"
    assert queued.pod.metadata.name == name
    return queued


def requeue_rejected(
    queue: SchedulingQueue, queued: QueuedPod, *plugins: str, pending: Sequence[str] = ()
) -> None:
    """Return a popped pod that these plugins rejected; without plugins its attempt ended with an error."""
    queued.unschedulable_plugins = set(plugins)
    queued.pending_plugins = set(pending)
    queue.requeue(queued)


def queue_of_each(queue: SchedulingQueue) -> dict[str, str]:
    found = [
        (queued.pod.metadata.name, name) for name, pods in queue.pending_pods().items() for queued in pods
    ]
    twice = [name for name, times in Counter(name for name, _queue in found).items() if times > 1]
    assert not twice, f"in two queues: {twice}"
    return dict(found)


def not_zero(metric: MetricCounter) -> Mapping[tuple[str, ...], float]:
    return {labels: number for labels, number in metric.values.items() if number}


def kept_events(metrics: SchedulerMetrics) -> float:
    """How many events a queue keeps for pods in flight."""
    return sum(
        number for (label,), number in not_zero(metrics.inflight_events).items() if label != POD_POPPED
    )


def with_spec(pod: Pod, **changes: Any) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **changes))


def with_metadata(pod: Pod, **changes: Any) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **changes))


def with_status(pod: Pod, **changes: Any) -> Pod:
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, **changes))


def ungated(pod: Pod) -> Pod:
    return with_spec(pod, scheduling_gates=())
