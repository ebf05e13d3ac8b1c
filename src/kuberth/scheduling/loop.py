"""Pops pods and schedules them one after the other, until stopped.

In: a queue that never raises (`kuberth.queue.guard`). Out: placements, passed to the binding cycles, and
rejections, passed to the failure handler. If an attempt raises, the loop logs what failed, returns the pod to
the queue, and continues with the next one. A pod that an extender is interested in is scheduled in a separate
task, and other pods do not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from kuberth.cluster.table import ClusterTable
from kuberth.errors import QueueError
from kuberth.framework.handle import EventRecorder, PodEvent, Spawner
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.status import Status
from kuberth.observe import verbosity
from kuberth.outcomes.failure_handling import FailureHandler
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.queue.interface import SchedulingQueue
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.extended_cycle import ExtendedCycle
from kuberth.scheduling.groups.cycle import GroupCycle
from kuberth.scheduling.overlapping import Overlapping
from kuberth.scheduling.repeating import Repeating
from kuberth.scheduling.standstill import StandstillCheck

logger = logging.getLogger(__name__)

MIN_TICK_SECONDS: Final = 0.001
FIRM_TICK_SECONDS: Final = 1.5
"""The shortest interval between ticks that a queue can request."""


class SchedulingLoop:
    """Serial scheduling cycles over one queue and one cluster table."""

    def __init__(
        self,
        *,
        queue: SchedulingQueue,
        cluster: ClusterTable,
        runners: Mapping[str, Runner],
        cycle: SchedulingCycle,
        failures: FailureHandler,
        recorder: EventRecorder,
        bind: Callable[[Placement], None],
        may_bind: Callable[[], bool],
        extended: ExtendedCycle,
        spawn: Spawner,
        parallelism: int = 16,
        groups: GroupCycle | None = None,
    ) -> None:
        """`may_bind`: False while too many bindings are in flight; call `wake` when that changes.

        `parallelism`: how many cycles that wait for extenders may overlap. With `groups`, pods of a pod group
        are tried together (feature gate GenericWorkload).
        """
        self._queue = queue
        self._cluster = cluster
        self._runners = runners
        self._cycle = cycle
        self._failures = failures
        self._recorder = recorder
        self._bind = bind
        self._may_bind = may_bind
        self._extended = extended
        self._overlapping = Overlapping(
            self._schedule_waiting, spawn=spawn, limit=parallelism, requeue=self._requeue
        )
        self._groups = groups
        self._repeating = Repeating(
            queue=queue, cluster=cluster, runners=runners, cycle=cycle, failures=failures
        )
        self._standstill: StandstillCheck | None = None
        self._ready = asyncio.Event()
        self._stopping = False
        self.ended = asyncio.Event()
        """Set when the loop has ended, normally or by an error."""
        self._tick_due = asyncio.Event()
        queue.when_ready(self.wake)
        queue.when_due(self._tick_due.set)

    def allow_overlapping(self, parallelism: int) -> None:
        """Set how many cycles that wait for extenders may overlap."""
        self._overlapping.allow(parallelism)

    async def run(self) -> None:
        """Schedule pods until `stop`."""
        self._standstill = StandstillCheck(asyncio.get_running_loop().time)
        try:
            while not self._stopping:
                if not (self._is_deciding or self._may_bind()) or not self.schedule_one():
                    self._ready.clear()
                    await self._ready.wait()
                # Handle events and bindings between two attempts that called plugins.
                await asyncio.sleep(0)
        finally:
            while self._groups is not None and self._groups.go_on():
                pass  # a gang is bound as a whole, or not at all
            self.ended.set()

    @property
    def _is_deciding(self) -> bool:
        """Whether a group is being tried over several turns of the event loop."""
        return self._groups is not None and self._groups.is_deciding

    def wake(self) -> None:
        """Wake the loop to check for pods."""
        self._ready.set()

    async def run_ticks(self) -> None:
        """Call the queue's `tick` when it is due, until `stop`."""
        while not self._stopping:
            self._tick_due.clear()
            seconds = self._queue.tick()
            if seconds < FIRM_TICK_SECONDS:
                await asyncio.sleep(max(seconds, MIN_TICK_SECONDS))
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._tick_due.wait()

    def stop(self) -> None:
        """Stop popping pods."""
        self._stopping = True
        self._overlapping.stop()
        self._ready.set()

    def schedule_one(self) -> bool:
        """Try the next pod, after those that are rejected like equal pods. False if the queue is empty."""
        if self._groups is None:
            is_busy, queued = self._repeating.pop()
        else:
            is_busy, queued = self._groups.go_on(), None
            if not self._groups.is_deciding:
                queued = self._groups.next_held() or self._queue.pop_nowait()
        if queued is None:
            return is_busy
        if self._standstill is not None:
            self._standstill.note(queued)
        try:
            self._schedule_popped(queued)
        except Exception:  # an internal error must not lose the pod or stop the loop
            logger.exception("the scheduling loop failed with pod %s; it is queued again", queued.key)
            self._requeue(queued)
        return True

    def _schedule_popped(self, queued: QueuedPod) -> None:
        runner = self._runners.get(queued.pod.spec.scheduler_name)
        if runner is None:
            self._drop_unknown_scheduler(queued)
        elif self._groups is not None and self._groups.takes(queued, runner):
            self._groups.run(queued, self._conclude, self._needs_no_scheduling)
            while self._overlapping.running and self._groups.is_deciding:
                self._groups.go_on()  # other cycles would see the group's pods on nodes
        elif self._needs_no_scheduling(queued):
            self._queue.done(queued.uid)
        elif runner.extenders and runner.extenders.decide_about(queued.pod):
            self._overlapping.add(queued)
        else:
            self._schedule(queued, runner)

    def _drop_unknown_scheduler(self, queued: QueuedPod) -> None:
        name = queued.pod.spec.scheduler_name
        logger.error("pod %s has schedulerName %r; no profile has this name", queued.key, name)
        self._queue.done(queued.uid)

    def _schedule(self, queued: QueuedPod, runner: Runner) -> None:
        started = time.perf_counter()
        outcome: Placement | Rejection
        if verbosity.level >= 3:
            verbosity.log(3, "Attempting to schedule pod", pod=queued.pod)
        try:
            outcome = self._cycle.run(queued, runner)
        except Exception as exc:
            outcome = self._failed(queued, runner, exc, started)
        self._conclude(outcome)

    async def _schedule_waiting(self, queued: QueuedPod) -> None:
        started = time.perf_counter()
        outcome: Placement | Rejection | None
        # The pod may have been in the line since before a reload.
        runner = self._runners.get(queued.pod.spec.scheduler_name)
        if runner is None:
            self._drop_unknown_scheduler(queued)
            return
        try:
            if verbosity.level >= 3:
                verbosity.log(3, "Attempting to schedule pod", pod=queued.pod)
            try:
                outcome = await self._extended.run(queued, runner)
            except Exception as exc:
                outcome = self._failed(queued, runner, exc, started)
            if outcome is None:
                logger.info("pod %s is gone, assigned or being deleted; it is not scheduled", queued.key)
                self._queue.done(queued.uid)
            else:
                self._conclude(outcome)
        except Exception:  # as in schedule_one
            logger.exception("the scheduling loop failed with pod %s; it is queued again", queued.key)
            self._requeue(queued)

    def _failed(self, queued: QueuedPod, runner: Runner, exc: Exception, started: float) -> Rejection:
        logger.error("the scheduling cycle failed with pod %s; it is queued again", queued.key, exc_info=exc)
        self._cluster.forget_pod(queued.uid)
        return Rejection(queued, Status.error(exc), runner, started)

    def _conclude(self, outcome: Placement | Rejection) -> None:
        queued, runner = outcome.queued, outcome.runner
        if isinstance(outcome, Placement):
            if outcome.state.pods_to_activate:
                self._queue.activate(outcome.state.pods_to_activate)
                outcome.state.pods_to_activate = {}
            try:
                self._bind(outcome)
                return
            except Exception as exc:
                logger.exception(
                    "the binding of pod %s to node %s did not start; the pod is queued again",
                    queued.key,
                    outcome.node_name,
                )
                runner.reserving.run_unreserve(outcome.state, outcome.pod, outcome.node_name)
                self._cluster.forget_pod(queued.uid)
                outcome = Rejection(queued, Status.error(exc), runner, outcome.started)
        if verbosity.level >= 2 and outcome.status.is_rejected:
            verbosity.log(2, verbosity.NO_FIT, pod=queued.pod, err=outcome.status.message)
        self._failures.handle(outcome)

    def _requeue(self, queued: QueuedPod) -> None:
        queued.unschedulable_plugins = set()
        queued.pending_plugins = set()
        try:
            self._queue.requeue(queued)
        except QueueError:
            logger.info("pod %s waits in the queue already", queued.key)

    def _needs_no_scheduling(self, queued: QueuedPod) -> bool:
        pod = queued.pod
        if pod.metadata.deletion_timestamp is not None:
            try:
                note = f"skip schedule deleting pod: {queued.key}"
                self._recorder.record(PodEvent(pod, "FailedScheduling", "Scheduling", note, warning=True))
            except Exception:
                logger.exception("the event that pod %s is being deleted was not recorded", queued.key)
            return True
        # An update that arrived during the binding may have queued the pod again.
        return self._cluster.is_assumed(queued.uid)
