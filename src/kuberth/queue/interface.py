"""The interface of a scheduling queue: implement it to replace the whole queue (KEP-2779).

In: pods and events from intake, results of attempts. Out: one pod at a time. A queue is a state machine on
one thread: no method blocks or awaits, and time comes from the clock in its context.
"""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kuberth.api.core import Pod
from kuberth.client.protocol import Api
from kuberth.clock import Clock
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.extension_points import QueueSortPlugin
from kuberth.framework.handle import EventRecorder, Spawner
from kuberth.framework.nominator import Nominator
from kuberth.framework.profile import RegisteredHint
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import Status
from kuberth.informers.store import Stores
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.queue.observing import QueueObserver

R = TypeVar("R")

PreCheck = Callable[[Pod], bool]
"""Whether an event may concern a pending pod at all."""

PreEnqueue = Callable[[Pod, str], Status]
"""Runs a profile's PreEnqueue plugins for a pod, the named plugin first."""


@dataclass(frozen=True, slots=True)
class QueueContext:
    """What a queue is created from. A factory `(QueueContext) -> SchedulingQueue` creates the queue."""

    sort: QueueSortPlugin
    """The QueueSort plugin."""
    clock: Clock
    """The clock; use no other time."""
    cluster: ClusterTable
    """The cluster table with all placed pods; its `observe` reports changes."""
    nominator: Nominator
    """Nominated nodes of pending pods."""
    metrics: SchedulerMetrics
    """The metrics in which the queue counts incoming pods."""
    stores: Stores
    """The watched objects; a kind that the factory requests (`stores.of`) is watched too."""
    api: Api
    """The API, for the queue's own reads and writes."""
    recorder: EventRecorder
    """Writes Kubernetes events."""
    spawn: Spawner
    """Runs coroutines, such as writes to the API, since no method of a queue may await."""
    pre_enqueue: Mapping[str, PreEnqueue]
    """By scheduler name."""
    hints: Mapping[str, Sequence[RegisteredHint]]
    """By scheduler name."""
    initial_backoff_seconds: float = 1.0
    """The backoff after the first rejection."""
    max_backoff_seconds: float = 10.0
    """The maximum backoff."""
    max_unschedulable_seconds: float = 300.0
    """The time after which an unschedulable pod is tried again without an event."""
    queueing_hints: bool = True
    """Feature gate SchedulerQueueingHints."""
    pop_from_backoff: bool = True
    """Feature gate SchedulerPopFromBackoffQ."""
    pod_groups: bool = False
    """Feature gate GenericWorkload: pods of a group are tried together, and requeued by their backoff."""


QueueFactory = Callable[[QueueContext], "SchedulingQueue"]
"""Creates a queue, such as a class whose constructor takes the context."""


class SchedulingQueue(abc.ABC):
    """Holds pending pods. Every pod is in exactly one queue, or in flight, or unknown."""

    @abc.abstractmethod
    def add(self, info: PodInfo) -> None:
        """Add a new pending pod."""

    @abc.abstractmethod
    def update(self, old: Pod, new: PodInfo) -> None:
        """Update a pending pod with its new version, which may make it schedulable."""

    @abc.abstractmethod
    def delete(self, pod: Pod) -> None:
        """Remove a pod that was deleted or bound. If it is in flight, its cycle handles that."""

    @abc.abstractmethod
    def pop_nowait(self) -> QueuedPod | None:
        """Remove and return the next pod to try, which is then in flight; None if there is none."""

    rejects_while_popping: bool = False
    """Whether the queue implements `pop_rejecting`. Otherwise, every pod is popped and requeued."""

    def pop_rejecting(
        self,
        rejection_of: Callable[[QueuedPod], R | None],
        reject: Callable[[QueuedPod, R], None],
        *,
        limit: int,
    ) -> tuple[bool, QueuedPod | None]:
        """Like `pop_nowait`, but first reject pods whose rejection is known.

        For queues that set `rejects_while_popping`. For up to `limit` pods, in the order of popping, for
        which `rejection_of` returns a rejection: count the attempt, call `reject`, which sets the plugins
        that rejected the pod, and put the pod where `requeue` would. Return the first pod without a known
        rejection, which is then in flight; before it, whether to call again soon if there is none.
        """
        return False, self.pop_nowait()

    gives_out_of_order: bool = False
    """Whether the queue implements `take_nowait`. Otherwise, pods are popped until all members of a pod
    group have been found; other pods that were popped before are tried right after the group, in order."""

    def take_nowait(self, pod: Pod) -> QueuedPod | None:
        """Remove and return this pod out of order, from any queue; it is then in flight.

        For queues that set `gives_out_of_order`. None if it is gated, or not here.
        """
        return None

    @abc.abstractmethod
    def requeue(self, queued: QueuedPod) -> None:
        """Put back an in-flight pod that was not placed; it is then not in flight any more.

        `queued` names the plugins that rejected it; without any, the attempt ended with an error.
        Raises QueueError if the pod is in a queue already.
        """

    @abc.abstractmethod
    def done(self, uid: str) -> None:
        """Record that an in-flight pod will not be requeued: it is bound, deleted, or another scheduler's.

        Does nothing for a pod that is not in flight.
        """

    @abc.abstractmethod
    def move(
        self, event: ClusterEvent, old: object, new: object, *, pre_check: PreCheck | None = None
    ) -> None:
        """Handle a cluster event: requeue pods that it may help, and record it for in-flight pods."""

    @abc.abstractmethod
    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Move these pods (by namespace/name) to activeQ now, at a plugin's request."""

    @abc.abstractmethod
    def tick(self) -> float:
        """Do the periodic work that is due, and return the seconds until the next call."""

    def take_over(self, other: SchedulingQueue) -> None:
        """Take over the pending pods of another queue, which this one replaces after a reload.

        Gates and hints of the new configuration apply to them. By default, their history, such as the number
        of attempts, is lost; override this to keep it. The other queue is closed afterwards.
        """
        for queued in [queued for queue in other.pending_pods().values() for queued in queue]:
            self.add(queued.info)

    def start(self) -> Awaitable[None] | None:
        """Optional, plain or `async`: called once, before the first pod is added.

        It runs when the scheduler starts, or before a reload activates the queue. If it raises, the scheduler
        does not start, or the reload is rejected.
        """
        return None

    def close(self) -> Awaitable[None] | None:
        """Optional, plain or `async`: release files, threads and observers; this is the last call.

        The scheduler has ended, another queue has replaced this one, or this one was created for a
        configuration that was rejected, so that `start` never ran. Exceptions are logged.
        """
        return None

    @abc.abstractmethod
    def when_ready(self, notify: Callable[[], None]) -> None:
        """Set the function to call whenever `pop_nowait` may return a pod."""

    def when_due(self, notify: Callable[[], None]) -> None:  # noqa: B027 - a queue may leave it as it is
        """Set a function that the queue may call when `tick` is due earlier than `tick` last returned.

        With it, a queue needs no ticks while none of its pods waits for a time; without it, `tick` is called
        at the returned intervals.
        """

    def observe(self, observer: QueueObserver | None) -> bool:
        """Call the observer's `pod_moved` for every pod that enters a queue from now on; None ends that.

        Return False if the queue does not support it; the caller then polls `pending_pods`. The scheduler
        reports everything else to the observer.
        """
        return False

    @abc.abstractmethod
    def pending_pods(self) -> Mapping[str, Sequence[QueuedPod]]:
        """The pods by queue (active, backoff, unschedulable, gated), for metrics and displays."""

    def waiting_count(self) -> int:
        """The number of pods in all queues."""
        return sum(map(len, self.pending_pods().values()))

    @abc.abstractmethod
    def in_flight(self) -> Sequence[Pod]:
        """The pods that are being scheduled or bound."""

    def get(self, key: str) -> QueuedPod | None:
        """The pending pod with this namespace/name; None if it is not in a queue."""
        return next(
            (queued for queue in self.pending_pods().values() for queued in queue if queued.key == key), None
        )

    def queue_of(self, key: str) -> str:
        """The name of the queue that holds the pod with this namespace/name; "" if none does."""
        queues = self.pending_pods().items()
        return next((queue for queue, waiting in queues if any(queued.key == key for queued in waiting)), "")
