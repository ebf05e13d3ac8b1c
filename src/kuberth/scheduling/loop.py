"""Pops pods and schedules them, one after the other, for as long as it runs.

In: a queue that has pods. Out: every placement handed to the binding cycles, every rejection to the
failure handler. Whatever goes wrong with one pod, the loop goes on with the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from kuberth.cluster.table import ClusterTable
from kuberth.framework.handle import EventRecorder
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.status import Status
from kuberth.observe import verbosity
from kuberth.outcomes.failure_handling import FailureHandler
from kuberth.outcomes.placement import Placement
from kuberth.outcomes.rejection import Rejection
from kuberth.queue.interface import SchedulingQueue
from kuberth.scheduling.cycle import SchedulingCycle

logger = logging.getLogger(__name__)

MIN_TICK_SECONDS: Final = 0.001


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
    ) -> None:
        self._queue = queue
        self._cluster = cluster
        self._runners = runners
        self._cycle = cycle
        self._failures = failures
        self._recorder = recorder
        self._bind = bind
        self._ready = asyncio.Event()
        self._stopping = False
        self.ended = asyncio.Event()
        """Set when no more pods are scheduled, asked for or not."""
        queue.when_ready(self._ready.set)

    async def run(self) -> None:
        """Schedule until `stop`."""
        try:
            while not self._stopping:
                if not self._schedule_next():
                    self._ready.clear()
                    await self._ready.wait()
                # Events and bindings get their turn between two pods.
                await asyncio.sleep(0)
        finally:
            self.ended.set()

    async def run_ticks(self) -> None:
        """Keep the queue's time going until `stop`."""
        while not self._stopping:
            try:
                seconds = self._queue.tick()
            except Exception:  # a queue of someone's own must not stop the clock for good
                logger.exception("the queue failed at its periodic work; trying again in a second")
                seconds = 1.0
            await asyncio.sleep(max(seconds, MIN_TICK_SECONDS))

    def stop(self) -> None:
        """Pop no more pods."""
        self._stopping = True
        self._ready.set()

    def _schedule_next(self) -> bool:
        """As `schedule_one`; whatever a queue of someone's own throws at us, the loop goes on."""
        try:
            return self.schedule_one()
        except Exception:
            logger.exception("the queue failed; waiting for it to be ready again")
            return False

    def schedule_one(self) -> bool:
        """Try the next pod. False: the queue has none."""
        queued = self._queue.pop_nowait()
        if queued is None:
            return False
        runner = self._runners.get(queued.pod.spec.scheduler_name)
        if runner is None:
            logger.error(
                "pod %s asks for scheduler %r, which is not here", queued.key, queued.pod.spec.scheduler_name
            )
            self._queue.done(queued.uid)
        elif self._needs_no_scheduling(queued):
            self._queue.done(queued.uid)
        else:
            self._schedule(queued, runner)
        return True

    def _schedule(self, queued: QueuedPod, runner: Runner) -> None:
        outcome: Placement | Rejection
        if verbosity.level >= 3:
            verbosity.tell(3, "Attempting to schedule pod", pod=queued.pod)
        try:
            outcome = self._cycle.run(queued, runner)
        except Exception as exc:  # a defect of ours must not cost anyone their pod, nor stop the loop
            logger.exception("scheduling pod %s failed", queued.key)
            self._cluster.forget_pod(queued.uid)
            outcome = Rejection(queued, Status.error(exc), runner, started=0.0)
        if isinstance(outcome, Rejection):
            if verbosity.level >= 2 and outcome.status.is_rejected:
                verbosity.tell(2, verbosity.NO_FIT, pod=queued.pod, err=outcome.status.message)
            self._failures.handle(outcome)
            return
        if outcome.state.pods_to_activate:
            self._queue.activate(outcome.state.pods_to_activate)
            outcome.state.pods_to_activate = {}
        self._bind(outcome)

    def _needs_no_scheduling(self, queued: QueuedPod) -> bool:
        pod = queued.pod
        if pod.metadata.deletion_timestamp is not None:
            self._recorder.record(
                pod,
                reason="FailedScheduling",
                action="Scheduling",
                note=f"skip schedule deleting pod: {queued.key}",
                warning=True,
            )
            return True
        # An update that came while the pod was being bound can bring it back here.
        return self._cluster.is_assumed(queued.uid)
