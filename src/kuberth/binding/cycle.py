"""One binding cycle: wait on Permit, PreBind, Bind, PostBind; or Unreserve and back to the queue.

In: a `Placement`. Out: the pod bound, or a `Rejection` for the failure handler.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.client.adaptive_limit import STALLED_SECONDS, AdaptiveLimit
from kuberth.clock import NANOSECONDS, Clock
from kuberth.cluster.table import ClusterTable
from kuberth.errors import AnswerLostError, UnreachableError
from kuberth.framework.cluster_events import ASSIGNED_POD_DELETE
from kuberth.framework.handle import EventRecorder, PodEvent, Spawner
from kuberth.framework.running.binding import BindUnderWay
from kuberth.framework.status import SKIP, SUCCESS, Code, Status
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.holding import Hold
from kuberth.observe import verbosity
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.failure_handling import FailureHandler, StatusWriter
from kuberth.outcomes.observing import OutcomeObserver
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection, rejected_on
from kuberth.queue.interface import SchedulingQueue

logger = logging.getLogger(__name__)

_SLOW_SECONDS: Final = 2.0
"""PreBind phases that take longer are reported with an event."""
_BINDING: Final = ("binding",)


@dataclass(eq=False, kw_only=True)
class BindingCycle:
    """Binds placed pods concurrently: in a task each, or without one if no task is needed."""

    queue: SchedulingQueue
    cluster: ClusterTable
    waiting_pods: WaitingPods
    failures: FailureHandler
    recorder: EventRecorder
    writer: StatusWriter
    metrics: SchedulerMetrics
    clock: Clock
    spawn: Spawner
    announce_nomination: bool
    limit: AdaptiveLimit
    """Limits the bindings that wait only for the API server.

    Pods beyond the limit stay in the queue, where they keep their order, a pod of higher priority can go
    first, and no deadline runs.
    """
    hold: Hold
    """While it is held, no placement is undone."""
    observer: OutcomeObserver | None = None
    _under_way: dict[asyncio.Future[Any], Placement] = field(default_factory=dict, init=False)
    _stall_timer: asyncio.TimerHandle | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        # Not a field: as a field's default, the function would be a method.
        self._notify_capacity: Callable[[], None] = lambda: None

    def has_capacity(self) -> bool:
        """Whether the next pod should be placed now; if not, `when_capacity_returns` gives a later signal."""
        has_room = self.limit.has_room()
        if not has_room and self._stall_timer is None:
            loop = asyncio.get_running_loop()
            self._stall_timer = loop.call_later(STALLED_SECONDS, self._recheck_capacity)
        return has_room

    def _recheck_capacity(self) -> None:
        """The server may have stalled without an answer."""
        self._stall_timer = None
        self._notify_capacity()

    def when_capacity_returns(self, notify: Callable[[], None]) -> None:
        """Call `notify` when bindings are possible again after the limit was reached."""
        self._notify_capacity = notify

    def start_waiting(self, placement: Placement) -> None:
        """Let plugins see, approve and reject the pod from now on, if Permit holds it."""
        if placement.permit_timeouts and self.waiting_pods.get(placement.info.uid) is None:
            self.waiting_pods.add(
                placement.pod, placement.permit_timeouts, attempts=placement.queued.attempts
            )
            if self.observer is not None:
                self.observer.pod_held(placement)

    def start(self, placement: Placement) -> None:
        """Bind the pod, in a task if one is needed. If this raises, the binding has not begun."""
        self.start_waiting(placement)
        try:
            if not self._begin(placement):
                self.spawn(self.run(placement), name=binding_name(placement))
        except Exception:
            self.waiting_pods.remove(placement.info.uid)
            raise

    def _begin(self, placement: Placement) -> bool:
        """Bind the pod without a task if only the API server has to be awaited; False: use `run`.

        This is the case for most pods: no plugin holds them on Permit or has anything to do before the
        binding.
        """
        self._end_permit_wait(placement)
        if placement.permit_timeouts or not self.announce_nomination:
            return False
        runner, state, node_name = placement.runner, placement.state, placement.node_name
        if self.writer.is_writing(placement.info.uid) or self._pre_flight(placement) is not SKIP:
            return False
        under_way = runner.binding.begin_bind(state, placement.info.pod, node_name)
        if under_way is None:
            return False
        if verbosity.level >= 3:
            verbosity.log(3, "Attempting to bind pod to node", pod=placement.info.pod, node=node_name)
        self.queue.done(placement.info.uid)
        self.metrics.goroutines.inc(_BINDING)
        self._under_way[under_way.future] = placement
        under_way.future.add_done_callback(partial(self._end, placement, under_way, self.limit.start()))
        return True

    def _end_permit_wait(self, placement: Placement) -> None:
        """Remove a pod from the waiting pods if its gang allowed it before its binding began."""
        if placement.permit_timeouts:
            waiting = self.waiting_pods.get(placement.info.uid)
            if waiting is not None and waiting.is_allowed:
                self.waiting_pods.remove(placement.info.uid)
                placement.permit_timeouts = {}
                self.metrics.permit_wait_duration.observe((SUCCESS.code.label,), 0.0)

    def _end(
        self, placement: Placement, under_way: BindUnderWay, started_ns: int, future: asyncio.Future[Any]
    ) -> None:
        """Finish a binding that had no task, like `run` does with a task; never raises."""
        self.metrics.goroutines.inc(_BINDING, -1)
        if self.limit.end(started_ns, answered=_is_answered(future)):
            self._notify_capacity()
        if self._under_way.pop(future, None) is None:
            return  # shut down
        try:
            if not future.cancelled() and isinstance(future.exception(), AnswerLostError):
                # The plugin has to find out whether the pod is bound, which needs a task.
                self.spawn(self.run(placement), name=binding_name(placement))
                return
            status = placement.runner.binding.end_bind(under_way, placement.state)
        except Exception as exc:  # an internal error must not lose the pod
            logger.exception("binding pod %s failed", placement.info.key)
            status = Status.error(exc)
        try:
            self._conclude(placement, status)
        except Exception:
            logger.exception("%s failed", binding_name(placement))

    @property
    def under_way(self) -> Mapping[asyncio.Future[Any], Placement]:
        """Bindings without a task, by the future of their end."""
        return self._under_way

    def give_up(self) -> None:
        """Abandon all bindings; which of them take effect is unknown."""
        abandoned = list(self._under_way)
        self._under_way.clear()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        for future in abandoned:
            future.cancel()

    async def run(self, placement: Placement) -> None:
        """Run the whole binding cycle of a pod; never raises."""
        self.metrics.goroutines.inc(_BINDING)
        try:
            status = await self._bind(placement)
        except Exception as exc:  # an internal error must not lose the pod
            logger.exception("binding pod %s failed", placement.info.key)
            status = Status.error(exc)
        finally:
            self.metrics.goroutines.inc(_BINDING, -1)
        self._conclude(placement, status)

    def _conclude(self, placement: Placement, status: Status) -> None:
        if status.is_success:
            self._succeed(placement)
        else:
            self.hold.when_ended(partial(self._fail, placement, status))

    async def _bind(self, placement: Placement) -> Status:
        runner, state, pod, node_name = (
            placement.runner,
            placement.state,
            placement.pod,
            placement.node_name,
        )
        status = self._prepare(placement)
        if not status.is_success:
            return status
        status = await self._wait_on_permit(placement)
        if not status.is_success:
            return rejected_on(node_name, status)
        # Permit was the last point at which a plugin can make the pod unschedulable. Later failures cannot be
        # fixed by an event: no missed events are kept, and the error backoff applies.
        self.queue.done(placement.info.uid)
        slow = asyncio.get_running_loop().call_later(
            _SLOW_SECONDS, self._record_waiting, placement, "PreBind", "PreBind has not finished yet"
        )
        try:
            status = await runner.binding.run_pre_bind(state, pod, node_name)
        finally:
            slow.cancel()
        if not status.is_success:
            return status
        if verbosity.level >= 3:
            verbosity.log(3, "Attempting to bind pod to node", pod=pod, node=node_name)
        await self.writer.finish(placement.info.uid)
        status = await runner.binding.run_bind(state, pod, node_name)
        if status.code == Code.SKIP:
            return Status.error(f"no bind plugin of profile {runner.profile.scheduler_name!r} took the pod")
        return status

    def _prepare(self, placement: Placement) -> Status:
        """Write the pod's nomination early if the binding will take a while."""
        if not self.announce_nomination:
            return SUCCESS
        status = self._pre_flight(placement)
        if status.is_success or (status is SKIP and placement.permit_timeouts):
            self.writer.write(placement.queued.pod, condition=None, nomination=placement.node_name)
        return SUCCESS if status.code == Code.SKIP else status

    def _pre_flight(self, placement: Placement) -> Status:
        if placement.pre_flight is None:
            placement.pre_flight = placement.runner.binding.run_pre_bind_pre_flights(
                placement.state, placement.pod, placement.node_name
            )
        return placement.pre_flight

    async def _wait_on_permit(self, placement: Placement) -> Status:
        waiting = self.waiting_pods.get(placement.info.uid)
        if waiting is None:
            return SUCCESS
        started = time.perf_counter()
        if plugins := waiting.pending_plugins:
            self._record_waiting(
                placement, "Permit", f"waiting for {', '.join(plugins)} to permit the binding"
            )
        try:
            status = await waiting.wait()
        finally:
            self.waiting_pods.remove(placement.info.uid)
        self.metrics.permit_wait_duration.observe((status.code.label,), time.perf_counter() - started)
        return status

    def _record_waiting(self, placement: Placement, point: str, why: str) -> None:
        """Record an event that upstream does not have: users see why a placed pod is not bound yet."""
        note = f"Placed on {placement.node_name}, {why}"
        self.recorder.record(PodEvent(placement.info.pod, f"WaitingOn{point}", point, note))

    def _succeed(self, placement: Placement) -> None:
        info, queued = placement.info, placement.queued
        if verbosity.level >= 2:
            verbosity.log(
                2,
                "Successfully bound pod to node",
                pod=info.pod,
                node=placement.node_name,
                evaluatedNodes=placement.choice.evaluated_nodes,
                feasibleNodes=placement.choice.feasible_nodes,
            )
        labels = ("scheduled", placement.runner.profile.scheduler_name)
        took = time.perf_counter() - placement.started
        self.metrics.schedule_attempts.inc(labels)
        self.metrics.attempt_duration.observe(labels, took)
        if self.observer is not None:
            self.observer.pod_bound(placement, took)
        self.metrics.pod_scheduling_attempts.observe((), queued.attempts)
        if queued.first_attempt_ns is not None:
            attempts = str(queued.attempts) if queued.attempts < 15 else "15+"
            since_first = (self.clock.now_ns() - queued.first_attempt_ns) / NANOSECONDS
            self.metrics.pod_scheduling_sli_duration.observe((attempts,), since_first)
        if queued.was_flushed:
            self.metrics.scheduled_after_flush.inc()
        note = f"Successfully assigned {info.key} to {placement.node_name}"
        self.recorder.record(PodEvent(info.pod, "Scheduled", "Binding", note))
        placement.runner.binding.run_post_bind(placement.state, info.pod, placement.node_name)
        if placement.state.pods_to_activate:
            self.queue.activate(placement.state.pods_to_activate)

    def _fail(self, placement: Placement, status: Status) -> None:
        """Undo the placement; the released resources are an event for pending pods."""
        info = placement.info
        # It may have failed before it waited; the next attempt must not find this one's verdict.
        self.waiting_pods.remove(info.uid)
        placement.runner.reserving.run_unreserve(placement.state, info.pod, placement.node_name)
        forgotten = self.cluster.forget_pod(info.uid)
        rejection = Rejection(placement.queued, status, placement.runner, placement.started)

        def is_another(pod: Pod) -> bool:
            return pod.metadata.uid != info.uid

        if status.is_rejected:
            if verbosity.level >= 2:
                verbosity.log(2, verbosity.NO_FIT, pod=info.pod, err=status.message)
            # Removing the pod must not requeue the rejected pod itself at once.
            self.failures.handle(rejection)
            if forgotten:
                self.queue.move(ASSIGNED_POD_DELETE, info.pod, None, pre_check=is_another)
        else:
            if forgotten:
                self.queue.move(ASSIGNED_POD_DELETE, info.pod, None)
            self.failures.handle(rejection)


def _is_answered(future: asyncio.Future[Any]) -> bool:
    """Whether the server responded, successfully or not."""
    return not future.cancelled() and not isinstance(future.exception(), AnswerLostError | UnreachableError)


def binding_name(placement: Placement) -> str:
    """The name of the binding in logs and as a task."""
    return f"bind {placement.info.key}"
