"""Stands between the scheduler and its queue: whatever a queue raises hurts one pod, for a while.

In: the calls of `SchedulingQueue`. Out: the same calls to the queue behind it. A failing call is logged with
the queue's class and method, and followed by what loses least: what the queue did not do is a debt that it is
asked to settle later, at a tick, again and again with growing delays.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.clock import NANOSECONDS, Clock
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import QueueError, reraise_interrupt
from kuberth.framework.cluster_events import Action, ClusterEvent, Resource
from kuberth.framework.queued_pod import QueuedPod
from kuberth.informers.store import object_key
from kuberth.queue.interface import PreCheck, R, SchedulingQueue
from kuberth.queue.observing import QueueObserver

logger = logging.getLogger(__name__)

FIRST_RETRY_SECONDS: Final = 1
LAST_RETRY_SECONDS: Final = 60
TICK_SECONDS: Final = 1.0
"""When to tick again if the queue does not say."""

LOST_EVENT: Final = ClusterEvent(Resource.ANY, Action.ALL, "LostEvent")
"""Stands for events that a queue failed at: any pod may have waited for one of them."""
_EVENTS: Final = ("event", "")
_PODS: Final = ("pods", "")
_ADDITION: Final = "addition"


class _Unsettled(NamedTuple):
    settle: Callable[[], None]
    failures: int
    due_ns: int


class GuardedQueue(SchedulingQueue):
    """Any queue: nothing it raises reaches the scheduler, and no pod is lost or in flight for ever."""

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
        self._unsettled: dict[tuple[str, str], _Unsettled] = {}
        self._observer: QueueObserver | None = None
        self.reports_moves = False
        """Whether the queue reports moves to its observer; if not, only its pending pods can be looked at."""

    # Pods come and go

    def add(self, info: PodInfo) -> None:
        self._forget_unsettled(info.key)
        try:
            self._queue.add(info)
        except BaseException as exc:
            self._log_failure(exc, "add", info.key, then="it will be added again")
            self._owe(_addition(info.key), partial(self._add_again, info))

    def update(self, old: Pod, new: PodInfo) -> None:
        owed = self._unsettled.get(_addition(new.key))
        if owed is not None:
            self._unsettled[_addition(new.key)] = owed._replace(settle=partial(self._add_again, new))
            return
        try:
            self._queue.update(old, new)
        except BaseException as exc:
            if new.uid in self._in_flight:
                self._log_failure(exc, "update", new.key, then="its attempt goes on")
                return
            self._log_failure(exc, "update", new.key, then="it will be added again")
            self._owe(_addition(new.key), partial(self._add_again, new))

    def delete(self, pod: Pod) -> None:
        key = object_key(pod)
        self._forget_unsettled(key)
        try:
            self._queue.delete(pod)
        except BaseException as exc:
            self._log_failure(exc, "delete", key, then="it will be deleted again")
            self._owe(_deletion(key), partial(self._queue.delete, pod))
        if self._observer is not None:
            self._observer.pod_deleted(pod.metadata.uid)

    def _add_again(self, info: PodInfo) -> None:
        # How far the queue came before it failed is unknown.
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
        if self._unsettled or not self._queue.rejects_while_popping:
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
                self._owe(_PODS, self._notify)  # the next tick may be far
            return False, None
        deleted = _deletion(queued.key) in self._unsettled
        self._forget_unsettled(queued.key)
        if deleted:
            self.done(queued.uid)
            return any_rejected, self.pop_nowait()
        return any_rejected, self._given_out(queued)

    def _given_out(self, queued: QueuedPod) -> QueuedPod:
        self._in_flight.add(queued.uid)
        if self._observer is not None:
            self._observer.pod_popped(queued)
        return queued

    def take_nowait(self, pod: Pod) -> QueuedPod | None:
        key = object_key(pod)
        if _deletion(key) in self._unsettled:
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
        self._forget_unsettled(key)
        return self._given_out(queued)

    def requeue(self, queued: QueuedPod) -> None:
        self._in_flight.discard(queued.uid)
        try:
            self._queue.requeue(queued)
        except BaseException as exc:
            if isinstance(exc, QueueError) and self.get(queued.key) is not None:
                raise  # it waits already, as the interface has it
            self._log_failure(exc, "requeue", queued.key, then="it will be added again")
            self.done(queued.uid)
            self._owe(_addition(queued.key), partial(self._add_again, queued.info))

    def done(self, uid: str) -> None:
        self._in_flight.discard(uid)
        try:
            self._queue.done(uid)
        except BaseException as exc:
            self._log_failure(exc, "done", f"with uid {uid}", then="it will be repeated")
            self._owe(("done", uid), partial(self._queue.done, uid))
        if self._observer is not None:
            self._observer.pod_done(uid)

    def replace(self, queue: SchedulingQueue) -> None:
        """Another queue takes this one's place, with all pods that wait in it; the caller closes the old."""
        old, waiting = (
            self._queue,
            [queued.info for pods in self.pending_pods().values() for queued in pods],
        )
        self._queue, self._name = queue, name_of(queue)
        self.gives_out_of_order = queue.gives_out_of_order
        # The new queue has to take the pods that the old one had yet to take; its other debts are void.
        self._unsettled = {key: debt for key, debt in self._unsettled.items() if key[0] == _ADDITION}
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
            self._owe_an_event()

    def activate(self, pods: Mapping[str, Pod]) -> None:
        try:
            self._queue.activate(pods)
        except BaseException as exc:
            self._log_failure(exc, "activate", ", ".join(pods), then="all pending pods are tried again")
            self._owe_an_event()

    # Time passes

    def tick(self) -> float:
        try:
            seconds = self._queue.tick()
            if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
                raise TypeError(f"returned {seconds!r:.200} where a number of seconds is expected")
        except BaseException as exc:
            self._log_failure(exc, "tick", then=f"ticking again in {TICK_SECONDS:g} s")
            seconds = TICK_SECONDS
        self._settle_unsettled()
        if self._pop_failed or not self._notifies_when_ready:
            self._pop_failed = False
            self._notify()
            seconds = min(seconds, TICK_SECONDS)
        return min((seconds, *(self._seconds_until(debt.due_ns) for debt in self._unsettled.values())))

    def _settle_unsettled(self) -> None:
        for key, debt in list(self._unsettled.items()):
            if debt.due_ns > self._clock.now_ns():
                continue
            del self._unsettled[key]
            try:
                debt.settle()
            except BaseException as exc:
                self._log_failure(exc, f"the {key[0]} it owes", key[1], then="it will be asked again")
                self._owe(key, debt.settle, failures=debt.failures + 1)

    # Looking in

    @property
    def uids_in_flight(self) -> Set[str]:
        """The pods that were given out and have not come back, whatever the queue itself records."""
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
        try:
            return self._queue.waiting_count()
        except BaseException as exc:
            self._log_failure(exc, "waiting_count", then="taking it for empty")
            return 0

    def pending_pods(self) -> Mapping[str, Sequence[QueuedPod]]:
        try:
            return self._queue.pending_pods()
        except BaseException as exc:
            self._log_failure(exc, "pending_pods", then="showing none")
            return {}

    def in_flight(self) -> Sequence[Pod]:
        try:
            return self._queue.in_flight()
        except BaseException as exc:
            self._log_failure(exc, "in_flight", then="showing none")
            return ()

    def get(self, key: str) -> QueuedPod | None:
        try:
            return self._queue.get(key)
        except BaseException as exc:
            self._log_failure(exc, "get", key, then="taking it for absent")
            return None

    def queue_of(self, key: str) -> str:
        try:
            return self._queue.queue_of(key)
        except BaseException as exc:
            self._log_failure(exc, "queue_of", key, then="taking it for absent")
            return ""

    # Failures

    def _log_failure(self, exc: BaseException, method: str, pod: str = "", *, then: str) -> None:
        reraise_interrupt(exc)
        about = f" for pod {pod}" if pod else ""
        logger.error("queue %s failed in %s%s; %s", self._name, method, about, then, exc_info=exc)

    def _owe(self, key: tuple[str, str], settle: Callable[[], None], *, failures: int = 0) -> None:
        seconds = min(FIRST_RETRY_SECONDS << min(failures, 16), LAST_RETRY_SECONDS)
        due_ns = self._clock.now_ns() + seconds * NANOSECONDS
        self._unsettled[key] = _Unsettled(settle, failures, due_ns)
        if self._notify_due is not None:
            self._notify_due()

    def _owe_an_event(self) -> None:
        # One for many: a queue that fails at every event is not to try all pods again for each.
        if _EVENTS not in self._unsettled:
            self._owe(_EVENTS, partial(self._queue.move, LOST_EVENT, None, None))

    def _forget_unsettled(self, key: str) -> None:
        """What comes now makes what the queue did not do with this pod pointless."""
        self._unsettled.pop(_addition(key), None)
        self._unsettled.pop(_deletion(key), None)

    def _seconds_until(self, due_ns: int) -> float:
        return max(0, due_ns - self._clock.now_ns()) / NANOSECONDS


def name_of(queue: SchedulingQueue) -> str:
    """What the log calls a queue: its class."""
    return f"{type(queue).__module__}.{type(queue).__qualname__}"


def _addition(key: str) -> tuple[str, str]:
    return _ADDITION, key


def _deletion(key: str) -> tuple[str, str]:
    return "deletion", key
