"""Pops pods and schedules them one after the other, until stopped.

In: a queue that never raises (`kuberth.queue.guard`). Out: placements, passed to the binding cycles, and
rejections, passed to the failure handler. Pods that equal a rejected one are rejected without an attempt,
many of them in one turn of the event loop. If an attempt raises, the loop logs what failed, returns the pod
to the queue, and continues with the next one. A pod that an extender is interested in is scheduled in a
separate task, and other pods do not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kuberth.cluster.table import ClusterTable
from kuberth.errors import KuberthError, QueueError
from kuberth.framework.equal_pods import KeptRejection
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

logger = logging.getLogger(__name__)

MIN_TICK_SECONDS: Final = 0.001
FIRM_TICK_SECONDS: Final = 1.5
"""The shortest interval between ticks that a queue can request."""
REJECTED_AT_ONCE: Final = 100
"""Pods that are rejected like equal pods in one turn of the event loop: about a millisecond."""


@dataclass(eq=False, kw_only=True)
class SchedulingLoop:
    """Serial scheduling cycles over one queue and one cluster table."""

    queue: SchedulingQueue
    cluster: ClusterTable
    runners: Mapping[str, Runner]
    cycle: SchedulingCycle
    failures: FailureHandler
    recorder: EventRecorder
    bind: Callable[[Placement], None]
    may_bind: Callable[[], bool]
    """Returns False while too many bindings are in flight; call `wake` when that changes."""
    extended: ExtendedCycle
    spawn: Spawner
    parallelism: int = 16
    """How many cycles that wait for extenders may overlap at first."""
    groups: GroupCycle | None = None
    """Tries pods of a pod group together (feature gate GenericWorkload)."""
    ended: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set when the loop has ended, normally or by an error."""

    def __post_init__(self) -> None:
        self._overlapping = Overlapping(
            self._schedule_waiting, spawn=self.spawn, limit=self.parallelism, requeue=self._requeue
        )
        self._standstill: StandstillCheck | None = None
        self._ready, self._tick_due = asyncio.Event(), asyncio.Event()
        self._stopping = False
        self.queue.when_ready(self.wake)
        self.queue.when_due(self._tick_due.set)

    def allow_overlapping(self, parallelism: int) -> None:
        """Set how many cycles that wait for extenders may overlap."""
        self._overlapping.allow(parallelism)

    async def run(self) -> None:
        """Schedule pods until `stop`."""
        self._standstill = StandstillCheck(asyncio.get_running_loop().time)
        try:
            while not self._stopping:
                if not (self._is_deciding or self.may_bind()) or not self.schedule_one():
                    self._ready.clear()
                    await self._ready.wait()
                # Handle events and bindings between two attempts that called plugins.
                await asyncio.sleep(0)
        finally:
            while self.groups is not None and self.groups.resume():
                pass  # a gang is bound as a whole, or not at all
            self.ended.set()

    @property
    def _is_deciding(self) -> bool:
        """Whether a group is being tried over several turns of the event loop."""
        return self.groups is not None and self.groups.is_deciding

    def wake(self) -> None:
        """Wake the loop to check for pods."""
        self._ready.set()

    async def run_ticks(self) -> None:
        """Call the queue's `tick` when it is due, until `stop`."""
        while not self._stopping:
            self._tick_due.clear()
            seconds = self.queue.tick()
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
        if self.groups is None:
            is_busy, queued = self._pop_rejecting()
        else:
            is_busy, queued = self.groups.resume(), None
            if not self.groups.is_deciding:
                queued = self.groups.next_held() or self.queue.pop_nowait()
        if queued is None:
            return is_busy
        if self._standstill is not None:
            self._standstill.record_attempt(queued)
        try:
            self._schedule_popped(queued)
        except Exception:  # an internal error must not lose the pod or stop the loop
            logger.exception("the scheduling loop failed with pod %s; it is queued again", queued.key)
            self._requeue(queued)
        return True

    def _pop_rejecting(self) -> tuple[bool, QueuedPod | None]:
        """The next pod that has to be tried; and if there is none, whether to call again soon.

        Pods are rejected as equal pods were, many of them in one turn of the event loop. Nothing else runs
        meanwhile, so a rejection that holds for one pod of a batch holds for all of them.
        """
        rejected: dict[str, list[tuple[QueuedPod, KeptRejection]]] = {}
        known: dict[str, dict[bytes, KeptRejection | None]] = {}
        started = time.perf_counter()

        def rejection_of(queued: QueuedPod) -> KeptRejection | None:
            """How an equal pod was rejected, if nothing but that can come of an attempt."""
            info = queued.info
            pod = info.pod
            profile = pod.spec.scheduler_name
            runner = self.runners.get(profile)
            plans = None if runner is None else runner.plans
            if runner is None or plans is None:
                return None
            signature = plans.signature(info)
            if signature is None:
                return None
            of_profile = known.get(profile)
            if of_profile is None:
                of_profile = known[profile] = {}
            try:
                kept = of_profile[signature]
            except KeyError:
                kept = plans.rejection(info)
                if kept is not None and self.cycle.is_check_due():
                    return None
                of_profile[signature] = kept
            if (
                kept is None
                or pod.metadata.deletion_timestamp is not None
                or self.cluster.is_assumed(info.uid)
                or plans.rejections.has_nomination(info)
                or not self.failures.is_present_version(queued)
                or (runner.extenders and runner.extenders.decide_about(pod))
            ):
                return None
            return kept

        def reject(queued: QueuedPod, kept: KeptRejection) -> None:
            profile = queued.info.pod.spec.scheduler_name
            rejected.setdefault(profile, []).append((queued, kept))
            self.cycle.count_repeated()
            self.failures.prepare_repeated(queued, kept, self.runners[profile], started)

        popped = self.queue.pop_rejecting(rejection_of, reject, limit=REJECTED_AT_ONCE)
        if rejected:
            seconds = time.perf_counter() - started
            for profile, pods in rejected.items():
                self.failures.report_repeated(pods, self.runners[profile], seconds)
        return popped

    def _schedule_popped(self, queued: QueuedPod) -> None:
        runner = self.runners.get(queued.pod.spec.scheduler_name)
        if runner is None:
            self._drop_unknown_scheduler(queued)
        elif self.groups is not None and self.groups.takes(queued, runner):
            self.groups.run(queued, self._conclude, self._needs_no_scheduling)
            while self._overlapping.running and self.groups.is_deciding:
                self.groups.resume()  # other cycles would see the group's pods on nodes
        elif self._needs_no_scheduling(queued):
            self.queue.done(queued.uid)
        elif runner.extenders and runner.extenders.decide_about(queued.pod):
            self._overlapping.add(queued)
        else:
            self._schedule(queued, runner)

    def _drop_unknown_scheduler(self, queued: QueuedPod) -> None:
        name = queued.pod.spec.scheduler_name
        logger.error("pod %s has schedulerName %r; no profile has this name", queued.key, name)
        self.queue.done(queued.uid)

    def _schedule(self, queued: QueuedPod, runner: Runner) -> None:
        started = time.perf_counter()
        outcome: Placement | Rejection
        if verbosity.level >= 3:
            verbosity.log(3, "Attempting to schedule pod", pod=queued.pod)
        try:
            outcome = self.cycle.run(queued, runner)
        except Exception as exc:
            outcome = self._failed(queued, runner, exc, started)
        self._conclude(outcome)

    async def _schedule_waiting(self, queued: QueuedPod) -> None:
        started = time.perf_counter()
        outcome: Placement | Rejection | None
        # The pod may have been in the line since before a reload.
        runner = self.runners.get(queued.pod.spec.scheduler_name)
        if runner is None:
            self._drop_unknown_scheduler(queued)
            return
        try:
            if verbosity.level >= 3:
                verbosity.log(3, "Attempting to schedule pod", pod=queued.pod)
            try:
                outcome = await self.extended.run(queued, runner)
            except Exception as exc:
                outcome = self._failed(queued, runner, exc, started)
            if outcome is None:
                logger.info("pod %s is gone, assigned or being deleted; it is not scheduled", queued.key)
                self.queue.done(queued.uid)
            else:
                self._conclude(outcome)
        except Exception:  # as in schedule_one
            logger.exception("the scheduling loop failed with pod %s; it is queued again", queued.key)
            self._requeue(queued)

    def _failed(self, queued: QueuedPod, runner: Runner, exc: Exception, started: float) -> Rejection:
        logger.error("the scheduling cycle failed with pod %s; it is queued again", queued.key, exc_info=exc)
        self.cluster.forget_pod(queued.uid)
        return Rejection(queued, Status.error(exc), runner, started)

    def _conclude(self, outcome: Placement | Rejection) -> None:
        queued, runner = outcome.queued, outcome.runner
        if isinstance(outcome, Placement):
            if outcome.state.pods_to_activate:
                self.queue.activate(outcome.state.pods_to_activate)
                outcome.state.pods_to_activate = {}
            try:
                self.bind(outcome)
                return
            except Exception as exc:
                logger.exception(
                    "the binding of pod %s to node %s did not start; the pod is queued again",
                    queued.key,
                    outcome.node_name,
                )
                runner.reserving.run_unreserve(outcome.state, outcome.pod, outcome.node_name)
                self.cluster.forget_pod(queued.uid)
                outcome = Rejection(queued, Status.error(exc), runner, outcome.started)
        if verbosity.level >= 2 and outcome.status.is_rejected:
            verbosity.log(2, verbosity.NO_FIT, pod=queued.pod, err=outcome.status.message)
        self.failures.handle(outcome)

    def _requeue(self, queued: QueuedPod) -> None:
        queued.unschedulable_plugins = set()
        queued.pending_plugins = set()
        try:
            self.queue.requeue(queued)
        except QueueError:
            logger.info("pod %s waits in the queue already", queued.key)

    def _needs_no_scheduling(self, queued: QueuedPod) -> bool:
        pod = queued.pod
        if pod.metadata.deletion_timestamp is not None:
            try:
                note = f"skip schedule deleting pod: {queued.key}"
                self.recorder.record(PodEvent(pod, "FailedScheduling", "Scheduling", note, warning=True))
            except Exception:
                logger.exception("the event that pod %s is being deleted was not recorded", queued.key)
            return True
        # An update that arrived during the binding may have queued the pod again.
        return self.cluster.is_assumed(queued.uid)


MAX_ATTEMPTS: Final = 1000
"""The maximum number of attempts of one pod at the same moment."""


class StandstillCheck:
    """Counts the attempts of each pod at the same moment."""

    def __init__(self, time: Callable[[], float]) -> None:
        """`time`: the event loop's clock."""
        self._time = time
        self._moment = -1.0
        self._attempts: dict[str, int] = {}
        """By UID: the number of attempts that the pod had at its first one of this moment."""

    def record_attempt(self, queued: QueuedPod) -> None:
        """Record an attempt; raises KuberthError if there are too many at the same moment.

        On virtual time, a test or a simulation would otherwise not end.
        """
        if (moment := self._time()) != self._moment:
            self._moment = moment
            self._attempts.clear()
        number = queued.attempts - self._attempts.setdefault(queued.uid, queued.attempts)
        if number >= MAX_ATTEMPTS:
            by = f"; {', '.join(sorted(queued.rejectors))} rejected it" if queued.rejectors else ""
            raise KuberthError(
                f"pod {queued.key} was tried {MAX_ATTEMPTS:,} times while virtual time stood at "
                f"{moment:g} s{by}. Hold pods longer on Permit, or state the plugin's events "
                "(EnqueueExtensions), so that not every event brings its pods back"
            )
