"""Handles a pod that was not placed: returns it to the queue and records why.

In: a rejection from either cycle. Out: the pod in the right queue with the plugins that rejected it, a
FailedScheduling event, and the PodScheduled condition with its reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from kuberth.api.core import Pod, PodCondition
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import QueueError
from kuberth.framework.diagnosis import FitError
from kuberth.framework.equal_pods import KeptRejection
from kuberth.framework.handle import EventRecorder, PodEvent
from kuberth.framework.nominator import Nominator
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.runner import Runner
from kuberth.framework.status import Status
from kuberth.informers.store import Store
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.outcomes.event_recorder import ApiEventRecorder, EventSeriesState
from kuberth.outcomes.observing import OutcomeObserver
from kuberth.outcomes.rejection import NO_NODES, PodGroupError, Rejection
from kuberth.queue.interface import SchedulingQueue

logger = logging.getLogger(__name__)

NOTE_LIMIT: Final = 1024
"""The longest note the API takes in an event."""


class StatusWriter(Protocol):
    """Writes a pod's condition and nomination to the API without waiting for it."""

    def write(self, pod: Pod, *, condition: PodCondition | None, nomination: str | None) -> bool:
        """True: the API has all of it already, and nothing is written."""
        ...

    def is_writing(self, uid: str) -> bool:
        """Whether a change of this pod's status is on its way."""
        ...

    async def finish(self, uid: str) -> None:
        """Return when no change of this pod's status is on its way, and drop what is not sent yet."""
        ...


class _Report(NamedTuple):
    """What is recorded about pods that are rejected in the same way."""

    reason: str
    message: str
    note: str
    """The message, as far as it fits into an event."""
    nomination: str | None

    @classmethod
    def of(cls, status: Status, nomination: str | None) -> _Report:
        message = status.message
        reason = "Unschedulable" if status.is_rejected else "SchedulerError"
        return cls(reason, message, shortened(message), nomination)


class _Reported(NamedTuple):
    """What was recorded of a pod's last rejection."""

    report: _Report
    info: PodInfo
    """Of the version of the pod whose status says so."""
    series: EventSeriesState
    recorder: ApiEventRecorder


@dataclass(eq=False, kw_only=True)
class FailureHandler:
    """Returns a pod that was not placed."""

    queue: SchedulingQueue
    nominator: Nominator
    pods: Store[Pod]
    recorder: EventRecorder
    writer: StatusWriter
    metrics: SchedulerMetrics
    derive: Callable[[Pod], PodInfo] = PodInfo
    observer: OutcomeObserver | None = None

    def handle(self, rejection: Rejection) -> None:
        """Run the steps one by one; a step that fails is logged, and the next one still runs."""
        queued, status = rejection.queued, rejection.status
        try:
            self._count(rejection, "unschedulable" if status.is_rejected else "error")
        except Exception:
            _log_failure("counting the attempt", queued)
        try:
            self._record_rejectors(queued, rejection)
        except Exception:
            _log_failure("noting the rejecting plugins", queued)
        if not self._return(queued):
            return
        try:
            self._nominate(queued, rejection.nomination)
        except Exception:
            _log_failure("nominating a node", queued)
        self._report(queued, _Report.of(status, rejection.nomination))

    def _report(self, queued: QueuedPod, report: _Report) -> None:
        """Record why the pod was rejected, in an event and in its status."""
        last: _Reported | None = queued.reported
        if (
            last is not None
            and last.info is queued.info
            and last.report == report
            and last.recorder.record_again(last.series)
        ):
            return
        pod = queued.info.pod
        reason, message, note, nomination = report
        series, is_known = None, False
        try:
            event = PodEvent(pod, "FailedScheduling", "Scheduling", note, warning=True)
            series = self.recorder.record(event)
        except Exception:
            _log_failure("recording the FailedScheduling event", queued)
        try:
            condition = _condition(pod, reason, message)
            is_known = self.writer.write(pod, condition=condition, nomination=nomination)
        except Exception:
            _log_failure("writing the PodScheduled condition", queued)
        recorder = self.recorder
        queued.reported = (
            _Reported(report, queued.info, series, recorder)
            if is_known and isinstance(series, EventSeriesState) and isinstance(recorder, ApiEventRecorder)
            else None
        )

    # Rejections that repeat that of an equal pod

    def is_present_version(self, queued: QueuedPod) -> bool:
        """Whether the API server's last word about the pod is the version in the queue."""
        return self.pods.get_by_key(queued.key) is queued.pod

    def prepare_repeated(
        self, queued: QueuedPod, kept: KeptRejection, runner: Runner, started: float
    ) -> None:
        """The pod is rejected as an equal one was; it goes back to the queue next."""
        queued.unschedulable_plugins = kept.unschedulable_plugins
        queued.pending_plugins = kept.pending_plugins
        if self.observer is not None:
            rejection = Rejection(queued, kept.status, runner, started, kept.nomination, is_repeated=True)
            self.observer.pod_rejected(rejection, time.perf_counter() - started)

    def report_repeated(
        self, pods: Sequence[tuple[QueuedPod, KeptRejection]], runner: Runner, seconds: float
    ) -> None:
        """The pods are back in the queue: count, and record why. Their attempts took `seconds` together."""
        number = len(pods)
        labels = ("unschedulable", runner.profile.scheduler_name)
        self.metrics.schedule_attempts.inc(labels, number)
        self.metrics.repeated_rejections.inc(labels[1:], number)
        if tried := sum(kept.preemption_attempts for _queued, kept in pods):
            self.metrics.preemption_attempts.inc((), tried)
        self.metrics.attempt_duration.of(labels).observe_many(seconds / number, number)
        self.metrics.algorithm_duration.of(()).observe_many(seconds / number, number)
        first, kept = pods[0]
        logger.info("%d pods do not fit, such as %s: %s", number, first.key, kept.status.message)
        reports: dict[int, _Report] = {}
        for queued, kept in pods:
            report = reports.get(id(kept))
            if report is None:
                report = reports[id(kept)] = _Report.of(kept.status, kept.nomination)
            self._report(queued, report)

    def _nominate(self, queued: QueuedPod, nomination: str | None) -> None:
        if nomination is not None:
            self.nominator.nominate(queued.info, nomination)
        else:
            self.nominator.adopt(queued.info)

    def _count(self, rejection: Rejection, result: str) -> None:
        labels = (result, rejection.runner.profile.scheduler_name)
        took = time.perf_counter() - rejection.started
        self.metrics.schedule_attempts.inc(labels)
        self.metrics.attempt_duration.observe(labels, took)
        if self.observer is not None:
            self.observer.pod_rejected(rejection, took)

    def _record_rejectors(self, queued: QueuedPod, rejection: Rejection) -> None:
        status = rejection.status
        queued.unschedulable_plugins = set()
        queued.pending_plugins = set()
        if isinstance(status.cause, FitError):
            diagnosis = status.cause.diagnosis
            queued.unschedulable_plugins = set(diagnosis.unschedulable_plugins)
            queued.pending_plugins = set(diagnosis.pending_plugins)
            logger.info("pod %s does not fit: %s", queued.key, status.message)
        elif isinstance(status.cause, PodGroupError):
            logger.info("pod %s waits for its pod group: %s", queued.key, status.message)
        elif status.message == NO_NODES:
            logger.info("pod %s waits: there are no nodes", queued.key)
        else:
            logger.error("scheduling pod %s failed, it will be retried: %s", queued.key, status.message)

    def _return(self, queued: QueuedPod) -> bool:
        """Put the pod's present version back into the queue; False if it needs no scheduling any more."""
        metadata = queued.pod.metadata
        current = self.pods.get(metadata.name, namespace=metadata.namespace)
        if current is None or current.metadata.uid != metadata.uid or current.spec.node_name:
            what = "is gone" if current is None or not current.spec.node_name else "is assigned to a node"
            logger.info("pod %s %s; it is not queued again", queued.key, what)
            self.queue.done(queued.uid)
            return False
        if current is not queued.pod:
            try:
                queued.info = self.derive(current)
            except Exception:
                _log_failure("reading its present version", queued)
        try:
            self.queue.requeue(queued)
        except QueueError:
            logger.exception("pod %s cannot be queued again", queued.key)
        return True


def _log_failure(step: str, queued: QueuedPod) -> None:
    """Called while the exception is handled."""
    logger.exception("pod %s was not placed, and %s failed", queued.key, step)


def _condition(pod: Pod, reason: str, message: str) -> PodCondition:
    return PodCondition(
        type="PodScheduled",
        status="False",
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
    )


def shortened(note: str) -> str:
    """A note that fits into an event."""
    if 4 * len(note) <= NOTE_LIMIT or len(note.encode()) <= NOTE_LIMIT:
        return note
    ellipsis = " ..."
    return note.encode()[: NOTE_LIMIT - len(ellipsis)].decode(errors="ignore") + ellipsis
