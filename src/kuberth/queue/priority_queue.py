"""The default scheduling queue, with KEP-4247, KEP-5142 and KEP-3521, or as before with their gates off.

In: pods, events, results of attempts, and ticks. Out: the next pod to try. The package docstring lists the
queues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kuberth.api.core import Pod
from kuberth.clock import NANOSECONDS
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import QueueError
from kuberth.framework import cluster_events
from kuberth.framework.cluster_events import ClusterEvent
from kuberth.framework.object_changes import differs_for_scheduling, is_own_status_write, pod_changes
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import Status
from kuberth.informers.store import object_key
from kuberth.queue.backoff import Backoff, BackoffQueue
from kuberth.queue.hints import Hints, QueueingStrategy
from kuberth.queue.in_flight import InFlight
from kuberth.queue.interface import PreCheck, QueueContext, R, SchedulingQueue
from kuberth.queue.observing import MoveCause, QueueObserver
from kuberth.queue.slices import MOVED_AT_ONCE, WORK_OF_A_HINT, SlicedWork
from kuberth.queue.sub_queues import OrderedSubQueue, SubQueueFactory, sort_value_of
from kuberth.queue.unschedulable import ConcernedPods, EquallyRejected, UnschedulablePods

logger = logging.getLogger(__name__)

FLUSH_BACKOFF_NS: Final = NANOSECONDS
FLUSH_UNSCHEDULABLE_NS: Final = 30 * NANOSECONDS
IDLE_TICK_NS: Final = 3600 * NANOSECONDS
"""When to look again while every queue is empty; a pod that enters one sets the next time."""
POD_POPPED: Final = "PodPopped"
"""The label of a pod in flight in the metric inflight_events."""
_ADDED: Final = MoveCause.of(cluster_events.UNSCHEDULED_POD_ADD)
_UPDATED: Final = MoveCause.of(cluster_events.UNSCHEDULED_POD_UPDATE)
_ATTEMPT_FAILED: Final = MoveCause(cluster_events.SCHEDULE_ATTEMPT_FAILURE)
_BACKOFF_OVER: Final = MoveCause(cluster_events.BACKOFF_COMPLETE)
_FORCED: Final = MoveCause(cluster_events.FORCE_ACTIVATE)
_RECONFIGURED: Final = MoveCause.of(cluster_events.CONFIGURATION_CHANGE)


class PriorityQueue(SchedulingQueue):
    """Pops pods in the order of the QueueSort plugin, or of the sub-queues that `sub_queue` creates."""

    gives_out_of_order = True
    """A pod can be taken from each of the queues."""

    def __init__(self, context: QueueContext, *, sub_queue: SubQueueFactory = OrderedSubQueue) -> None:
        sort_value = sort_value_of(context.sort)
        self._context = context
        self._clock = context.clock
        self._metrics = context.metrics
        self._pre_enqueue = context.pre_enqueue
        self._hints = Hints(context.hints, context.metrics)
        self._backoff = Backoff(
            context.clock,
            initial_seconds=context.initial_backoff_seconds,
            max_seconds=context.max_backoff_seconds,
            windows=context.pop_from_backoff,
        )
        self._active = sub_queue(sort_value)
        self._backing_off = BackoffQueue(
            self._backoff,
            sort_value=sort_value,
            windows=context.pop_from_backoff,
            sub_queue=sub_queue,
            keeps_groups=context.pod_groups,
        )
        self._unschedulable = UnschedulablePods(self._hints)
        self._in_flight = InFlight()
        self._notify_due: Callable[[], None] | None = None
        self._observer: QueueObserver | None = None
        now_ns = self._clock.now_ns()
        self._next_backoff_flush_ns = now_ns - now_ns % NANOSECONDS + FLUSH_BACKOFF_NS
        self._next_unschedulable_flush_ns = now_ns + FLUSH_UNSCHEDULABLE_NS
        # Without hints, events that an in-flight pod misses are not recorded. Instead, the queue records in
        # which attempt pods were last moved, and a pod that fails in that attempt is tried again.
        self._attempt = 0
        self._attempt_of_last_move = -1
        self._moves = SlicedWork()
        """Moves that events and completed backoffs have caused."""
        own = type(self)
        is_own = own.pop_nowait is PriorityQueue.pop_nowait and own.requeue is PriorityQueue.requeue
        self.rejects_while_popping = is_own and context.queueing_hints and not context.pod_groups
        """False for subclasses that override popping or requeueing, without hints, and with pod groups."""

    # Pods come and go

    def add(self, info: PodInfo) -> None:
        before = self._remove(info.key)  # another pod of this name, whose deletion was missed
        if before is not None and before.uid != info.uid and self._observer is not None:
            self._observer.pod_deleted(before.uid)
        self._enter_active(QueuedPod(info, timestamp_ns=self._clock.now_ns()), _ADDED)

    def update(self, old: Pod, new: PodInfo) -> None:
        changes: Sequence[ClusterEvent] = ()
        if self._context.queueing_hints:
            changes = () if is_own_status_write(old, new.pod) else pod_changes(old, new.pod)
            if new.uid in self._in_flight:
                for change in changes:
                    self._record_for_in_flight(change, old, new.pod)
                return
        key = new.key
        if (queued := self._active.get(key)) is not None:
            queued.info = new
            self._active.add(queued)
        elif (queued := self._backing_off.get(key)) is not None:
            queued.info = new
            self._backing_off.resort(queued)
        elif (queued := self._unschedulable.get(key)) is not None:
            queued.info = new
            self._requeue_updated(queued, old, changes)
        else:
            queued = QueuedPod(new, timestamp_ns=self._clock.now_ns())
            self._enter_active(queued, _UPDATED)

    def _requeue_updated(self, queued: QueuedPod, old: Pod, changes: Sequence[ClusterEvent]) -> None:
        """Requeue an unschedulable pod if a change of the pod itself may help it."""
        if self._context.queueing_hints:
            for change in changes:
                strategy = self._hints.strategy_for(queued, change, old, queued.pod)
                if self._apply_strategy(queued, strategy, self._cause(change, queued.pod)):
                    return
        elif differs_for_scheduling(old, queued.pod):
            self._apply_strategy(queued, QueueingStrategy.AFTER_BACKOFF, _UPDATED)

    def delete(self, pod: Pod) -> None:
        self._remove(object_key(pod))

    def _remove(self, key: str) -> QueuedPod | None:
        queued = self._active.remove(key) or self._backing_off.remove(key) or self._unschedulable.remove(key)
        if queued is not None:
            self._count_rejectors(queued.rejectors, queued, -1)
        return queued

    # Attempts

    def pop_nowait(self) -> QueuedPod | None:
        self._moves.finish()
        while (queued := self._next()) is not None:
            if self._start(queued):
                return queued
        return None

    def _next(self) -> QueuedPod | None:
        queued = self._active.pop()
        if queued is None and self._context.pop_from_backoff:
            queued = self._backing_off.pop_early()
            if queued is not None:
                self._metrics.queue_incoming_pods.inc(("active", cluster_events.POP_FROM_BACKOFF))
        return queued

    def pop_rejecting(
        self,
        rejection_of: Callable[[QueuedPod], R | None],
        reject: Callable[[QueuedPod, R], None],
        *,
        limit: int,
    ) -> tuple[bool, QueuedPod | None]:
        if self._moves.take_turn():
            return True, None
        number = 0
        while number < limit and (queued := self._next()) is not None:
            rejection = rejection_of(queued)
            if rejection is None:
                if self._start(queued):
                    return number > 0, queued
                continue
            number += 1
            queued.attempts += 1
            self._attempt += 1
            unschedulable, pending = queued.unschedulable_plugins, queued.pending_plugins
            reject(queued, rejection)
            if unschedulable != queued.unschedulable_plugins or pending != queued.pending_plugins:
                self._count_rejectors(unschedulable | pending, queued, -1)
                self._count_rejectors(queued.rejectors, queued, 1)
            # Nothing has happened since the pod was popped, so it has missed no events.
            self._record_rejection(queued)
            self._enter_unschedulable(queued, _ATTEMPT_FAILED)
        return number > 0 or bool(self._moves), None

    def take_nowait(self, pod: Pod) -> QueuedPod | None:
        key = object_key(pod)
        if key not in self._active:
            self._move_to_active(key)
        queued = self._active.remove(key)
        return queued if queued is not None and self._start(queued) else None

    def _start(self, queued: QueuedPod) -> bool:
        """Begin an attempt: the pod is in flight. False if it already was, which is a caller's mistake."""
        queued.attempts += 1
        self._attempt += 1
        self._count_rejectors(queued.rejectors, queued, -1)
        if not self._context.queueing_hints:
            return True
        if self._in_flight.start(queued.pod):
            self._metrics.inflight_events.inc((POD_POPPED,))
            return True
        logger.error("pod %s was popped while it is being scheduled; dropping the second one", queued.key)
        return False

    def requeue(self, queued: QueuedPod) -> None:
        try:
            self._requeue(queued)
        finally:
            self.done(queued.uid)

    def _requeue(self, queued: QueuedPod) -> None:
        for queue, name in (
            (self._unschedulable, "unschedulable"),
            (self._active, "active"),
            (self._backing_off, "backoff"),
        ):
            if queued.key in queue:
                raise QueueError(f"pod {queued.key} is already present in the {name} queue")
        if queued.waits_after_error:
            queued.consecutive_errors += 1
            self._record_end(queued)
        else:
            self._record_rejection(queued)
        self._count_rejectors(queued.rejectors, queued, 1)
        strategy, cause = self._strategy_for_missed_events(queued)
        if strategy is QueueingStrategy.AFTER_BACKOFF and not self._context.queueing_hints:
            # Without hints, it waits for the next flush even if the configuration has no backoff.
            self._enter_backoff(queued, cause)
        else:
            self._apply_strategy(queued, strategy, cause)

    def _record_rejection(self, queued: QueuedPod) -> None:
        queued.unschedulable_count += 1
        queued.rejections_since_event += 1
        queued.consecutive_errors = 0
        self._record_end(queued)

    def _record_end(self, queued: QueuedPod) -> None:
        """Record that an attempt has ended now."""
        queued.timestamp_ns = self._clock.now_ns()
        queued.backoff_expires_ns = None
        queued.clear_flush()

    def _strategy_for_missed_events(self, queued: QueuedPod) -> tuple[QueueingStrategy, MoveCause]:
        if queued.waits_after_error:
            return QueueingStrategy.AFTER_BACKOFF, _ATTEMPT_FAILED
        if not self._context.queueing_hints:
            moved_meanwhile = self._attempt_of_last_move >= self._attempt
            return (
                QueueingStrategy.AFTER_BACKOFF if moved_meanwhile else QueueingStrategy.SKIP,
                _ATTEMPT_FAILED,
            )
        if self._context.pod_groups and queued.info.group:
            # What helps one pod may not help its group, so groups are only requeued by their backoff.
            return QueueingStrategy.AFTER_BACKOFF, _ATTEMPT_FAILED
        missed = self._in_flight.missed_by(queued.uid)
        if missed is None:
            logger.error("pod %s was requeued but was not in flight", queued.key)
            return QueueingStrategy.AFTER_BACKOFF, _ATTEMPT_FAILED
        best, cause = QueueingStrategy.SKIP, _ATTEMPT_FAILED
        for event, old, new in missed:
            strategy = self._hints.strategy_for(queued, event, old, new)
            if strategy is QueueingStrategy.SKIP:
                continue
            if strategy is QueueingStrategy.IMMEDIATELY or best is QueueingStrategy.SKIP:
                about = old if new is None else new
                best, cause = strategy, MoveCause(_ATTEMPT_FAILED.label, event, about, self._hints.decided_by)
            if strategy is QueueingStrategy.IMMEDIATELY or not queued.pending_plugins:
                break
        return best, cause

    def done(self, uid: str) -> None:
        if uid not in self._in_flight:
            return
        self._metrics.inflight_events.inc((POD_POPPED,), -1)
        for label, number in self._in_flight.finish(uid).items():
            self._metrics.inflight_events.inc((label,), -number)

    def take_over(self, other: SchedulingQueue) -> None:
        """Take over all pods with their history and the rest of their backoff, and requeue them, since the
        new plugins may accept them."""
        self._metrics.inflight_events.values.clear()  # those of the other queue
        for pod in other.in_flight():
            if self._context.queueing_hints and self._in_flight.start(pod):
                self._metrics.inflight_events.inc((POD_POPPED,))
        self._record_for_in_flight(cluster_events.CONFIGURATION_CHANGE, None, None)
        for queued in [queued for queue in other.pending_pods().values() for queued in queue]:
            queued.gating_plugin = ""  # the new plugins decide
            queued.backoff_expires_ns = None
            self._apply_strategy(queued, QueueingStrategy.AFTER_BACKOFF, _RECONFIGURED)
        self._attempt_of_last_move = self._attempt

    # Events

    def move(
        self, event: ClusterEvent, old: object, new: object, *, pre_check: PreCheck | None = None
    ) -> None:
        if not self._hints.concerns_any_plugin(event):
            return
        work: Iterator[int] = iter(())
        if len(self._unschedulable):
            work = self._move_in_slices(event, old, new, pre_check)
        self._begin_move(work, event, old, new)

    def _begin_move(self, work: Iterator[int], event: ClusterEvent, old: object, new: object) -> None:
        self._moves.begin(work)
        self._attempt_of_last_move = self._attempt
        if self._context.queueing_hints:
            self._record_for_in_flight(event, old, new)

    def _move_in_slices(
        self, event: ClusterEvent, old: object, new: object, pre_check: PreCheck | None
    ) -> Iterator[int]:
        """Requeue the pods that an event may help. Yields the amount of work since the last time."""
        found = yield from self._unschedulable.search(event, old, new)
        if pre_check is not None:
            found = found._replace(pods=[each for each in found.pods if pre_check(each.pod)])
        if not self._context.queueing_hints and _is_about_placed_pod(event) and isinstance(new, Pod):
            pods = [each for each in found.pods if self._may_satisfy_terms_of(each, new)]
            found = found._replace(pods=pods)
        yield from self._move_found_in_slices(found, event, old, new)

    def _move_found_in_slices(
        self, found: ConcernedPods, event: ClusterEvent, old: object, new: object
    ) -> Iterator[int]:
        about = old if new is None else new
        # A hint for an equal pod does not hold for the pod that the event is about.
        itself = object_key(about) if isinstance(about, Pod) else ""
        answers: dict[EquallyRejected, tuple[QueueingStrategy, MoveCause]] = {}
        calls_each = event.is_wildcard
        moved = 0
        for queued in found.pods:
            if not self._unschedulable.still_waits(queued, found.end):
                continue
            needs_call = calls_each or queued.info.key == itself
            answer = None if needs_call else answers.get(queued.index_entry.equality)
            if answer is None:
                yield WORK_OF_A_HINT
                if not self._unschedulable.still_waits(queued, found.end):
                    continue  # it has left meanwhile
                strategy = self._hints.strategy_for(queued, event, old, new)
                answer = strategy, self._cause(event, about)
                equality = None if needs_call else queued.index_entry.equality
                if equality is not None and self._hints.signatures_hold(equality.plugin_keys, queued):
                    answers[equality] = answer
            strategy, cause = answer
            if strategy is not QueueingStrategy.SKIP:
                self._apply_strategy(queued, strategy, cause)
                moved += 1
                if moved == MOVED_AT_ONCE:
                    yield moved
                    moved = 0
        yield moved

    def _cause(self, event: ClusterEvent, about: object) -> MoveCause:
        """The cause of a move that the last hint decided."""
        return MoveCause.of(event, about, plugin=self._hints.decided_by)

    def _record_for_in_flight(self, event: ClusterEvent, old: object, new: object) -> None:
        if self._in_flight.record(event, old, new):
            self._metrics.inflight_events.inc((event.label,))

    def _may_satisfy_terms_of(self, queued: QueuedPod, placed: Pod) -> bool:
        """Without hints: whether a placed pod may satisfy the pod's affinity or spread constraints."""
        namespace = placed.metadata.namespace
        if "PodTopologySpread" in queued.unschedulable_plugins and queued.info.namespace == namespace:
            return True
        namespace_labels = self._context.cluster.terms.namespace_labels(namespace)
        return any(
            term.pods.matches(namespace, placed.metadata.labels, namespace_labels)
            for term in queued.info.required_affinity
        )

    def activate(self, pods: Mapping[str, Pod]) -> None:
        for key, pod in pods.items():
            if (queued := self.get(key)) is not None:
                queued.rejections_since_event = 0
            if not self._move_to_active(key):
                if pod.metadata.uid in self._in_flight:
                    self._record_for_in_flight(cluster_events.FORCED_ACTIVATION, None, pod)
                self._attempt_of_last_move = self._attempt

    def _move_to_active(self, key: str) -> bool:
        """Move a pod to activeQ. False if it is gated, in activeQ already, or unknown."""
        queued = self._unschedulable.get(key)
        if queued is not None:
            return self._enter_active(queued, _FORCED)
        queued = self._backing_off.remove(key)
        if queued is None:
            return False
        return self._enter_active(queued, _FORCED, from_backoff=True)

    # Time passes

    def tick(self) -> float:
        now_ns = self._clock.now_ns()
        if now_ns >= self._next_backoff_flush_ns:
            self.flush_backoff_completed()
            self._next_backoff_flush_ns = now_ns - now_ns % NANOSECONDS + FLUSH_BACKOFF_NS
        if now_ns >= self._next_unschedulable_flush_ns:
            self.flush_unschedulable_leftover()
            self._pass_flushes(now_ns)
        due_ns = self._next_unschedulable_flush_ns
        if not len(self._unschedulable) and self._notify_due is not None:
            due_ns = now_ns + IDLE_TICK_NS
        if len(self._backing_off) or self._notify_due is None:
            due_ns = min(due_ns, self._next_backoff_flush_ns)
        return max(0, due_ns - now_ns) / NANOSECONDS

    def _pass_flushes(self, now_ns: int) -> None:
        """Move the next flush of unschedulable pods past now, without shifting its period."""
        late_ns = now_ns - self._next_unschedulable_flush_ns
        if late_ns >= 0:
            flushes = late_ns // FLUSH_UNSCHEDULABLE_NS + 1
            self._next_unschedulable_flush_ns += flushes * FLUSH_UNSCHEDULABLE_NS

    def flush_backoff_completed(self) -> None:
        """Move pods whose backoff has completed to activeQ."""
        self._moves.begin(self._flush_in_slices())

    def _flush_in_slices(self) -> Iterator[int]:
        for number, queued in enumerate(self._backing_off.pop_completed(), start=1):
            self._enter_active(queued, _BACKOFF_OVER, from_backoff=True)
            if number % MOVED_AT_ONCE == 0:
                yield MOVED_AT_ONCE

    def flush_unschedulable_leftover(self) -> None:
        """Requeue pods that have been unschedulable for so long that an event may have been missed."""
        now_ns = self._clock.now_ns()
        limit_ns = round(self._context.max_unschedulable_seconds * NANOSECONDS)
        timeout = cluster_events.UNSCHEDULABLE_TIMEOUT
        waiting, end = self._unschedulable.concerned_by(timeout, None, None)
        overdue = [each for each in waiting if now_ns - each.waiting_since_ns > limit_ns]
        for each in overdue:
            each.record_flush(now_ns)
        if overdue:
            self._begin_move(
                self._move_found_in_slices(ConcernedPods(overdue, end), timeout, None, None),
                timeout,
                None,
                None,
            )

    # Queues

    def when_ready(self, notify: Callable[[], None]) -> None:
        self._moves.on_ready = notify

    def when_due(self, notify: Callable[[], None]) -> None:
        self._notify_due = notify

    def observe(self, observer: QueueObserver | None) -> bool:
        self._observer = observer
        return True

    def waiting_count(self) -> int:
        return len(self._active) + len(self._backing_off) + len(self._unschedulable)

    def pending_pods(self) -> Mapping[str, Sequence[QueuedPod]]:
        return {
            "active": tuple(self._active),
            "backoff": tuple(self._backing_off),
            "unschedulable": tuple(queued for queued in self._unschedulable if not queued.gated),
            "gated": tuple(queued for queued in self._unschedulable if queued.gated),
        }

    def in_flight(self) -> Sequence[Pod]:
        return tuple(self._in_flight.pods())

    def get(self, key: str) -> QueuedPod | None:
        return self._backing_off.get(key) or self._unschedulable.get(key) or self._active.get(key)

    def queue_of(self, key: str) -> str:
        if key in self._active:
            return "active"
        if key in self._backing_off:
            return "backoff"
        queued = self._unschedulable.get(key)
        return "" if queued is None else "gated" if queued.gated else "unschedulable"

    def _apply_strategy(self, queued: QueuedPod, strategy: QueueingStrategy, cause: MoveCause) -> bool:
        """Put a pod into the queue that the strategy demands. True unless it stays unschedulable."""
        if strategy is QueueingStrategy.SKIP:
            self._enter_unschedulable(queued, cause)
            return False
        if cause.event is not None and cause.event is not cluster_events.UNSCHEDULABLE_TIMEOUT:
            queued.rejections_since_event = 0
        if strategy is QueueingStrategy.AFTER_BACKOFF and self._backoff.is_waiting(queued):
            return self._enter_backoff(queued, cause)
        return self._enter_active(queued, cause)

    def _enter_active(self, queued: QueuedPod, cause: MoveCause, *, from_backoff: bool = False) -> bool:
        # With KEP-5142, PreEnqueue ran when the pod entered backoffQ.
        if not (self._context.pop_from_backoff and from_backoff):
            self._run_pre_enqueue(queued)
            if queued.gated:
                if queued.key not in self._active and queued.key not in self._backing_off:
                    queued.clear_flush_flag()
                    self._enter_unschedulable(queued, cause)
                return False
        if queued.first_attempt_ns is None:
            queued.first_attempt_ns = self._clock.now_ns()
        self._unschedulable.remove(queued.key)
        self._backing_off.remove(queued.key)
        self._active.add(queued)
        self._metrics.queue_incoming_pods.inc(("active", cause.label))
        if self._observer is not None:
            self._observer.pod_moved(queued, "active", cause)
        self._moves.notify_ready()
        return True

    def _enter_backoff(self, queued: QueuedPod, cause: MoveCause) -> bool:
        if self._context.pop_from_backoff:
            self._run_pre_enqueue(queued)
            if queued.gated:
                queued.clear_flush_flag()
                self._enter_unschedulable(queued, cause)
                return False
        self._unschedulable.remove(queued.info.key)
        if self._notify_due is not None and not len(self._backing_off):
            # `tick` was not called for a while; keep flushes aligned to whole seconds.
            now_ns = self._clock.now_ns()
            self._next_backoff_flush_ns = now_ns - now_ns % NANOSECONDS + FLUSH_BACKOFF_NS
            self._notify_due()
        self._backing_off.add(queued)
        self._metrics.queue_incoming_pods.inc(("backoff", cause.label))
        if self._observer is not None:
            self._observer.pod_moved(queued, "backoff", cause)
        if self._context.pop_from_backoff:
            self._moves.notify_ready()
        return True

    def _enter_unschedulable(self, queued: QueuedPod, cause: MoveCause) -> None:
        if self._notify_due is not None and not len(self._unschedulable):
            # As in `_enter_backoff`.
            self._pass_flushes(self._clock.now_ns())
            self._notify_due()
        if self._unschedulable.add(queued):
            self._metrics.queue_incoming_pods.inc(("unschedulable", cause.label))
        if self._observer is not None:
            self._observer.pod_moved(queued, "gated" if queued.gated else "unschedulable", cause)

    def _run_pre_enqueue(self, queued: QueuedPod) -> None:
        """Run PreEnqueue; a plugin that rejects the pod becomes its gating plugin."""
        pod = queued.info.pod
        profile = pod.spec.scheduler_name
        pre_enqueue = self._pre_enqueue.get(profile)
        status: Status | None = pre_enqueue(pod, queued.gating_plugin) if pre_enqueue else None
        if status is None or status.is_success:
            queued.gating_plugin = ""
            return
        if status.plugin not in queued.rejectors:
            self._metrics.unschedulable_pods.inc((status.plugin, profile))
        queued.unschedulable_plugins = {*queued.unschedulable_plugins, status.plugin}  # rejections share sets
        queued.gating_plugin = status.plugin

    def _count_rejectors(self, plugins: Iterable[str], queued: QueuedPod, number: int) -> None:
        for plugin in plugins:
            self._metrics.unschedulable_pods.inc((plugin, queued.pod.spec.scheduler_name), number)


def _is_about_placed_pod(event: ClusterEvent) -> bool:
    """An addition or update of an assigned pod, unless it frees resources."""
    return (
        event.resource == cluster_events.Resource.ASSIGNED_POD
        and not event.action & cluster_events.Action.DELETE
        and event.action != cluster_events.Action.UPDATE_POD_SCALE_DOWN
    )
