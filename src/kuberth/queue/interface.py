"""The interface of a scheduling queue: implement it to replace the whole queue (KEP-2779).

In: pods and events from intake, outcomes from the cycles. Out: one pod at a time. A queue is a plain
state machine on one thread: no method blocks or awaits, and time comes from the clock in its context.
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
"""Whether an event may concern a waiting pod at all."""

PreEnqueue = Callable[[Pod, str], Status]
"""Runs a profile's PreEnqueue plugins for a pod, the named plugin first."""


@dataclass(frozen=True, slots=True)
class QueueContext:
    """All that a queue is built from. A factory `(QueueContext) -> SchedulingQueue` makes the queue."""

    sort: QueueSortPlugin
    """The QueueSort plugin."""
    clock: Clock
    """The only time there is."""
    cluster: ClusterTable
    """The cluster table, to see what is placed; `observe` reports changes."""
    nominator: Nominator
    """Nominated nodes of pending pods."""
    metrics: SchedulerMetrics
    """Where the queue counts what comes in."""
    stores: Stores
    """The objects that are watched; a kind that the factory asks for (`stores.of`) is watched too."""
    api: Api
    """The API, for what the queue reads or writes by itself."""
    recorder: EventRecorder
    """Writes Kubernetes events."""
    spawn: Spawner
    """Runs what awaits, such as a write to the API: no method of a queue can."""
    pre_enqueue: Mapping[str, PreEnqueue]
    """By scheduler name."""
    hints: Mapping[str, Sequence[RegisteredHint]]
    """By scheduler name."""
    initial_backoff_seconds: float = 1.0
    """How long a pod waits after its first rejection."""
    max_backoff_seconds: float = 10.0
    """How long at most, after many."""
    max_unschedulable_seconds: float = 300.0
    """After so long a rejected pod is tried again without an event."""
    queueing_hints: bool = True
    """Feature gate SchedulerQueueingHints."""
    pop_from_backoff: bool = True
    """Feature gate SchedulerPopFromBackoffQ."""
    pod_groups: bool = False
    """Feature gate GenericWorkload: pods of a group are tried together, and come back by their backoff."""


QueueFactory = Callable[[QueueContext], "SchedulingQueue"]
"""What makes a queue: a class whose constructor takes the context is one."""


class SchedulingQueue(abc.ABC):
    """Where pending pods wait. Every pod is in exactly one queue, or in flight, or unknown."""

    @abc.abstractmethod
    def add(self, info: PodInfo) -> None:
        """A pending pod is new."""

    @abc.abstractmethod
    def update(self, old: Pod, new: PodInfo) -> None:
        """A pending pod has a new version; it may become ready by that."""

    @abc.abstractmethod
    def delete(self, pod: Pod) -> None:
        """A pending pod is gone, or was bound. If it is in flight its cycle finds out by itself."""

    @abc.abstractmethod
    def pop_nowait(self) -> QueuedPod | None:
        """The next pod to try, which is in flight from now on; None if there is none."""

    rejects_while_popping: bool = False
    """Whether the queue has a `pop_rejecting`. Without one, every pod is popped and requeued."""

    def pop_rejecting(
        self,
        rejection_of: Callable[[QueuedPod], R | None],
        reject: Callable[[QueuedPod, R], None],
        *,
        limit: int,
    ) -> tuple[bool, QueuedPod | None]:
        """As `pop_nowait`, but put pods back that are known to be rejected.

        For queues that set `rejects_while_popping`.
        For up to `limit` pods whose turn it is and that `rejection_of` has a rejection for: count the
        attempt, call `reject`, which sets the plugins that rejected the pod, and have the pod wait as
        `requeue` would. Return whether to call again soon if there is no pod to try, and the first pod that
        is to be tried, which is in flight from now on.
        """
        return False, self.pop_nowait()

    gives_out_of_order: bool = False
    """Whether the queue has a `take_nowait`. Without one, a pod group is gathered by popping pods until its
    members have come; pods of others that come before them are tried right after the group, in order."""

    def take_nowait(self, pod: Pod) -> QueuedPod | None:
        """Give out this pod though it is not its turn, wherever it waits; it is in flight from now on.

        For queues that set `gives_out_of_order`. None: it does not wait here, or a gate holds it back.
        """
        return None

    @abc.abstractmethod
    def requeue(self, queued: QueuedPod) -> None:
        """A pod in flight was not placed: `queued` says which plugins rejected it (none: an error).

        It is not in flight any more. Raises QueueError if the pod waits in a queue already.
        """

    @abc.abstractmethod
    def done(self, uid: str) -> None:
        """A pod in flight will not come back: it is bound, deleted, or belongs to another scheduler.

        Does nothing for a pod that is not in flight.
        """

    @abc.abstractmethod
    def move(
        self, event: ClusterEvent, old: object, new: object, *, pre_check: PreCheck | None = None
    ) -> None:
        """Something happened in the cluster: bring back pods it may help, note it for those in flight."""

    @abc.abstractmethod
    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Bring these pods (by namespace/name) to the active queue now, as a plugin asked."""

    @abc.abstractmethod
    def tick(self) -> float:
        """Do the periodic work that is due and return in how many seconds to call again."""

    def take_over(self, other: SchedulingQueue) -> None:
        """The rules have changed, and this queue, made by the new ones, takes the place of another.

        Its pods wait here from now on, where gates and hints are asked again. What this leaves out, such
        as how often a pod was tried, is lost; a queue that can keep it does. The other one is closed then.
        """
        for queued in [queued for queue in other.pending_pods().values() for queued in queue]:
            self.add(queued.info)

    def start(self) -> Awaitable[None] | None:
        """Optional, plain or `async`: begin work, once, before the first pod is added.

        It runs when the scheduler starts, or before a reload puts the queue in force. What it raises ends the
        start of the scheduler, or refuses the reload.
        """
        return None

    def close(self) -> Awaitable[None] | None:
        """Optional, plain or `async`: release files, threads and observers; nothing more is called.

        The scheduler has ended, or another queue has taken this one's place, or this one was made for a
        configuration that is not put in force, so that `start` never ran. What it raises is logged.
        """
        return None

    @abc.abstractmethod
    def when_ready(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever `pop_nowait` may have something to give."""

    def when_due(self, notify: Callable[[], None]) -> None:  # noqa: B027 - a queue may leave it as it is
        """`notify` may be called when `tick` is due sooner than it last said.

        A queue that makes use of it need not be ticked while no pod in it waits for a time; one that
        does not is ticked as often as it says.
        """

    def observe(self, observer: QueueObserver | None) -> bool:
        """From now on call `pod_moved` of the observer, if there is one, for every pod that enters a queue.

        False: this queue does not; the caller polls `pending_pods` instead. The scheduler
        reports all other events to the observer.
        """
        return False

    @abc.abstractmethod
    def pending_pods(self) -> Mapping[str, Sequence[QueuedPod]]:
        """The pods by queue, for metrics and for people: active, backoff, unschedulable, gated."""

    def waiting_count(self) -> int:
        """How many pods wait, in all queues."""
        return sum(map(len, self.pending_pods().values()))

    @abc.abstractmethod
    def in_flight(self) -> Sequence[Pod]:
        """The pods that are being scheduled or bound."""

    def get(self, key: str) -> QueuedPod | None:
        """The waiting pod of this namespace/name."""
        return next(
            (queued for queue in self.pending_pods().values() for queued in queue if queued.key == key), None
        )

    def queue_of(self, key: str) -> str:
        """The queue in which the pod of this namespace/name waits; "" if it does not."""
        queues = self.pending_pods().items()
        return next((queue for queue, waiting in queues if any(queued.key == key for queued in waiting)), "")
