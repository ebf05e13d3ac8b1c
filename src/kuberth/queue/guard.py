"""Protects the scheduler from queues that raise: an exception affects one pod, for a limited time.

In: the calls of `SchedulingQueue`. Out: the same calls to the guarded queue. A call that raises is logged
with the queue's class and method, and retried at later ticks with growing delays, so that no pod is lost.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Final, NamedTuple, TypeVar

from kuberth.api.core import Pod
from kuberth.clock import NANOSECONDS, Clock
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import QueueError, reraise_interrupt
from kuberth.framework.cluster_events import Action, ClusterEvent, Resource
from kuberth.framework.queued_pod import QueuedPod
from kuberth.informers.store import object_key
from kuberth.queue.interface import PreCheck, R, SchedulingQueue
from kuberth.queue.observing import QueueObserver

V = TypeVar("V")

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS: Final = 1
LAST_RETRY_SECONDS: Final = 60
TICK_SECONDS: Final = 1.0
"""The interval between ticks if the queue's `tick` fails."""

LOST_EVENT: Final = ClusterEvent(Resource.ANY, Action.ALL, "LostEvent")
"""Replaces the events for which a queue raised: any pod may have waited for one of them."""
_EVENTS: Final = ("event", "")
_PODS: Final = ("pods", "")
_ADDITION: Final = "addition"


class _Retry(NamedTuple):
    call: Callable[[], None]
    failures: int
    due_ns: int


class GuardedQueue(SchedulingQueue):
    """Wraps any queue: its exceptions do not reach the scheduler, and no pod is lost or stays in flight."""

    def __init__(self, queue: SchedulingQueue, clock: Clock) -> None:
        self._queue = queue
        self.gives_out_of_order = queue.gives_out_of_order
        self._clock = clock
        self._name = name_of(queue)
        self._notify: Callable[[], None] = lambda: None
        self._notify_due: Callable[[], None] | None = None
        self._notifies_when_ready = True
        self._pop_failed = False
        self._in_flight: set[str] = set()
        self._retries: dict[tuple[str, str], _Retry] = {}
        self._observer: QueueObserver | None = None
        self.reports_moves = False
        """Whether the queue reports moves to its observer; otherwise, poll `pending_pods`."""

    # Pods come and go

    def add(self, info: PodInfo) -> None:
        self._drop_retries(info.key)
        try:
            self._queue.add(info)
        except BaseException as exc:
            self._log_failure(exc, "add", info.key, then="it will be added again")
            self._retry_later(_addition(info.key), partial(self._add_again, info))

    def update(self, old: Pod, new: PodInfo) -> None:
        pending = self._retries.get(_addition(new.key))
        if pending is not None:
            self._retries[_addition(new.key)] = pending._replace(call=partial(self._add_again, new))
            return
        try:
            self._queue.update(old, new)
        except BaseException as exc:
            if new.uid in self._in_flight:
                self._log_failure(exc, "update", new.key, then="its attempt goes on")
                return
            self._log_failure(exc, "update", new.key, then="it will be added again")
            self._retry_later(_addition(new.key), partial(self._add_again, new))

    def delete(self, pod: Pod) -> None:
        key = object_key(pod)
        self._drop_retries(key)
        try:
            self._queue.delete(pod)
        except BaseException as exc:
            self._log_failure(exc, "delete", key, then="it will be deleted again")
            self._retry_later(_deletion(key), partial(self._queue.delete, pod))
        if self._observer is not None:
            self._observer.pod_deleted(pod.metadata.uid)

    def _add_again(self, info: PodInfo) -> None:
        # It is unknown how much of the call the queue completed before it failed.
        self._queue.done(info.uid)
        self._queue.delete(info.pod)
        self._queue.add(info)

    # Attempts

    def pop_nowait(self) -> QueuedPod | None:
        return self._popped(lambda: (False, self._queue.pop_nowait()), "pop_nowait")[1]

    def pop_rejecting(
        self,
        rejection_of: Callable[[QueuedPod], R | None],
        reject: Callable[[QueuedPod, R], None],
        *,
        limit: int,
    ) -> tuple[bool, QueuedPod | None]:
        if self._retries or not self._queue.rejects_while_popping:
            return False, self.pop_nowait()
        observer = self._observer

        def observed(queued: QueuedPod, rejection: R) -> None:
            if observer is not None:
                observer.pod_popped(queued)
            reject(queued, rejection)

        called = reject if observer is None else observed
        return self._popped(
            lambda: self._queue.pop_rejecting(rejection_of, called, limit=limit), "pop_rejecting"
        )

    def _popped(
        self, pop: Callable[[], tuple[bool, QueuedPod | None]], method: str
    ) -> tuple[bool, QueuedPod | None]:
        try:
            any_rejected, queued = pop()
            if queued is None:
                return any_rejected, None
            if not isinstance(queued, QueuedPod):
                raise TypeError(f"popped {queued!r:.200} where a QueuedPod or None is expected")
        except BaseException as exc:
            self._log_failure(exc, method, then="asking again at its next tick")
            if self._notify_due is None:
                self._pop_failed = True
            else:
                self._retry_later(_PODS, self._notify)  # the next tick may be far
            return False, None
        deleted = _deletion(queued.key) in self._retries
        self._drop_retries(queued.key)
        if deleted:
            self.done(queued.uid)
            return any_rejected, self.pop_nowait()
        return any_rejected, self._record_popped(queued)

    def _record_popped(self, queued: QueuedPod) -> QueuedPod:
        self._in_flight.add(queued.uid)
        if self._observer is not None:
            self._observer.pod_popped(queued)
        return queued

    def take_nowait(self, pod: Pod) -> QueuedPod | None:
        key = object_key(pod)
        if _deletion(key) in self._retries:
            return None
        try:
            queued = self._queue.take_nowait(pod)
            if queued is None:
                return None
            if not isinstance(queued, QueuedPod) or queued.key != key:
                raise TypeError(f"gave {queued!r:.200} where the QueuedPod of {key} or None is expected")
        except BaseException as exc:
            self._log_failure(exc, "take_nowait", key, then="its group is tried without it")
            return None
        self._drop_retries(key)
        return self._record_popped(queued)

    def requeue(self, queued: QueuedPod) -> None:
        self._in_flight.discard(queued.uid)
        try:
            self._queue.requeue(queued)
        except BaseException as exc:
            if isinstance(exc, QueueError) and self.get(queued.key) is not None:
                raise  # the pod is in a queue already, as the interface specifies
            self._log_failure(exc, "requeue", queued.key, then="it will be added again")
            self.done(queued.uid)
            self._retry_later(_addition(queued.key), partial(self._add_again, queued.info))

    def done(self, uid: str) -> None:
        self._in_flight.discard(uid)
        try:
            self._queue.done(uid)
        except BaseException as exc:
            self._log_failure(exc, "done", f"with uid {uid}", then="it will be repeated")
            self._retry_later(("done", uid), partial(self._queue.done, uid))
        if self._observer is not None:
            self._observer.pod_done(uid)

    def replace(self, queue: SchedulingQueue) -> None:
        """Replace the queue and move all pending pods to the new one; the caller closes the old queue."""
        old, waiting = (
            self._queue,
            [queued.info for pods in self.pending_pods().values() for queued in pods],
        )
        self._queue, self._name = queue, name_of(queue)
        self.gives_out_of_order = queue.gives_out_of_order
        # The new queue must receive the pods that the old one failed to add; other retries are obsolete.
        self._retries = {key: retry for key, retry in self._retries.items() if key[0] == _ADDITION}
        self._notifies_when_ready, self._pop_failed = True, False
        self.when_ready(self._notify)
        if self._notify_due is not None:
            self.when_due(self._notify_due)
            self._notify_due()
        if self._observer is not None:
            self.observe(self._observer)
        try:
            queue.take_over(old)
        except BaseException as exc:
            self._log_failure(exc, "take_over", then="its pending pods are added again")
        for info in waiting:
            if self.get(info.key) is None:
                self.add(info)
        self._notify()

    # Events

    def move(
        self, event: ClusterEvent, old: object, new: object, *, pre_check: PreCheck | None = None
    ) -> None:
        try:
            self._queue.move(event, old, new, pre_check=pre_check)
        except BaseException as exc:
            self._log_failure(exc, f"move at event {event.label}", then="all pending pods are tried again")
            self._retry_event()

    def activate(self, pods: Mapping[str, Pod]) -> None:
        try:
            self._queue.activate(pods)
        except BaseException as exc:
            self._log_failure(exc, "activate", ", ".join(pods), then="all pending pods are tried again")
            self._retry_event()

    # Time passes

    def tick(self) -> float:
        try:
            seconds = self._queue.tick()
            if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
                raise TypeError(f"returned {seconds!r:.200} where a number of seconds is expected")
        except BaseException as exc:
            self._log_failure(exc, "tick", then=f"ticking again in {TICK_SECONDS:g} s")
            seconds = TICK_SECONDS
        self._run_retries()
        if self._pop_failed or not self._notifies_when_ready:
            self._pop_failed = False
            self._notify()
            seconds = min(seconds, TICK_SECONDS)
        return min((seconds, *(self._seconds_until(retry.due_ns) for retry in self._retries.values())))

    def _run_retries(self) -> None:
        for key, retry in list(self._retries.items()):
            if retry.due_ns > self._clock.now_ns():
                continue
            del self._retries[key]
            try:
                retry.call()
            except BaseException as exc:
                self._log_failure(exc, f"a retry of {key[0]}", key[1], then="it will be retried again")
                self._retry_later(key, retry.call, failures=retry.failures + 1)

    # Observing

    @property
    def uids_in_flight(self) -> Set[str]:
        """The pods that were popped and neither requeued nor done, whatever the queue itself records."""
        return self._in_flight

    def when_ready(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        try:
            self._queue.when_ready(notify)
        except BaseException as exc:
            self._log_failure(exc, "when_ready", then="asking for pods at every tick")
            self._notifies_when_ready = False

    def when_due(self, notify: Callable[[], None]) -> None:
        self._notify_due = notify
        try:
            self._queue.when_due(notify)
        except BaseException as exc:
            self._log_failure(exc, "when_due", then="ticking as often as it says")

    def observe(self, observer: QueueObserver | None) -> bool:
        self._observer = observer
        try:
            self.reports_moves = self._queue.observe(observer)
        except BaseException as exc:
            self._log_failure(exc, "observe", then="polling its pending pods instead")
            self.reports_moves = False
        return self.reports_moves

    def waiting_count(self) -> int:
        return self._query("waiting_count", self._queue.waiting_count, 0, then="taking it for empty")

    def pending_pods(self) -> Mapping[str, Sequence[QueuedPod]]:
        return self._query("pending_pods", self._queue.pending_pods, {}, then="showing none")

    def in_flight(self) -> Sequence[Pod]:
        return self._query("in_flight", self._queue.in_flight, (), then="showing none")

    def get(self, key: str) -> QueuedPod | None:
        return self._query("get", partial(self._queue.get, key), None, pod=key, then="taking it for absent")

    def queue_of(self, key: str) -> str:
        return self._query(
            "queue_of", partial(self._queue.queue_of, key), "", pod=key, then="taking it for absent"
        )

    # Failures

    def _query(self, method: str, call: Callable[[], V], default: V, *, pod: str = "", then: str) -> V:
        try:
            return call()
        except BaseException as exc:
            self._log_failure(exc, method, pod, then=then)
            return default

    def _log_failure(self, exc: BaseException, method: str, pod: str = "", *, then: str) -> None:
        reraise_interrupt(exc)
        about = f" for pod {pod}" if pod else ""
        logger.error("queue %s failed in %s%s; %s", self._name, method, about, then, exc_info=exc)

    def _retry_later(self, key: tuple[str, str], call: Callable[[], None], *, failures: int = 0) -> None:
        seconds = min(FIRST_RETRY_SECONDS << min(failures, 16), LAST_RETRY_SECONDS)
        due_ns = self._clock.now_ns() + seconds * NANOSECONDS
        self._retries[key] = _Retry(call, failures, due_ns)
        if self._notify_due is not None:
            self._notify_due()

    def _retry_event(self) -> None:
        # One for all: if a queue fails at every event, not all pods are retried for each of them.
        if _EVENTS not in self._retries:
            self._retry_later(_EVENTS, partial(self._queue.move, LOST_EVENT, None, None))

    def _drop_retries(self, key: str) -> None:
        """Drop the retries for a pod, which the next call makes obsolete."""
        self._retries.pop(_addition(key), None)
        self._retries.pop(_deletion(key), None)

    def _seconds_until(self, due_ns: int) -> float:
        return max(0, due_ns - self._clock.now_ns()) / NANOSECONDS


def name_of(queue: SchedulingQueue) -> str:
    """The name of a queue in logs: its class."""
    return f"{type(queue).__module__}.{type(queue).__qualname__}"


def _addition(key: str) -> tuple[str, str]:
    return _ADDITION, key


def _deletion(key: str) -> tuple[str, str]:
    return "deletion", key
