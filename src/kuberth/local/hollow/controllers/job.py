"""Job: runs pods until enough of them succeeded, or too many failed.

In: jobs and their pods. Out: pods created and deleted, and the status with the conditions for `kubectl wait
--for=condition=complete`. Every pod has a finalizer until it is counted: first its UID is recorded in the
status, then the finalizer is removed, then the count is increased, so that a pod is counted exactly once,
however it is deleted and whenever this process stops.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import (
    Obj,
    condition,
    find_condition,
    is_true,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    selector_of,
    set_condition,
    with_metadata,
    without_condition,
)
from kuberth.local.hollow.controllers import job_rules
from kuberth.local.hollow.controllers.job_rules import (
    INDEX,
    INDEX_FAILURES,
    JobEnd,
    index_of,
    is_indexed,
    is_over,
)
from kuberth.local.hollow.controlling import Controller, by_namespace
from kuberth.local.hollow.ownership import OWNER_INDEX, claim, controller_of, owner_key, pod_from_template
from kuberth.local.hollow.pod_states import deletion_order, is_finished, is_ready, phase
from kuberth.local.hollow.working import COALESCE_SECONDS, wait_all
from kuberth.text.timestamps import parse_timestamp, seconds_since, stamp

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of uncounted pods."""
_KIND: Final = "Job"
_CONTROLLER: Final = "kubernetes.io/job-controller"
_BURST: Final = 500
_FIRST_BACKOFF_SECONDS: Final = 10.0
_LAST_BACKOFF_SECONDS: Final = 600.0


@dataclass(slots=True)
class _Tally:
    """A job's pods, and the totals including pods counted before."""

    active: list[Obj]
    terminating: list[Obj]
    ended: list[Obj]
    """Succeeded or failed, counted or not."""
    new_succeeded: list[Obj]
    new_failed: list[Obj]
    """Pods that failed and, like those of `new_succeeded`, still carry the finalizer."""
    succeeded: int
    failed: int
    done: set[int]
    """Indexes that succeeded."""
    given_up: set[int]
    """Indexes that failed for good."""


class JobController(Controller):
    name = "job"
    component = "job-controller"

    def set_up(self) -> None:
        self._queue = self.queue_of("jobs.batch", self._sync)
        self._orphans = self.queue_of("pods", self._release, name="job-orphans")
        self._pods = self.watch_owned("pods", self._queue, kind=_KIND, coalesce=True)
        self._jobs = self.watch("jobs.batch", self._on_job, indexes={"namespace": by_namespace})
        self._pods.add_handler(self._on_pod)

    async def run(self) -> None:
        await self.wait_synced()
        for pod in self._pods.all():
            if _is_tracked(pod):
                self._orphans.add(key_of(pod))
        await super().run()

    def _on_job(self, old: Obj | None, new: Obj | None) -> None:
        self._queue.add(key_of(new or old or {}))
        if new is None and old is not None:
            for pod in self._pods.by(OWNER_INDEX, old["metadata"]["uid"]):
                self._orphans.add(key_of(pod))

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            return
        if _is_tracked(new) and self._owner(new) is None:
            self._orphans.add(key_of(new))
        if controller_of(new) is None:
            for job in self._jobs.by("namespace", namespace_of(new)):
                if selector_of(job["spec"].get("selector")).matches(labels_of(new)):
                    self._queue.add_after(key_of(job), COALESCE_SECONDS)

    def _owner(self, pod: Obj) -> Obj | None:
        """The job that counts a pod, if it is there."""
        key = owner_key(pod, _KIND)
        job = None if key is None else self._jobs.get(key)
        reference = controller_of(pod)
        if job is None or reference is None or job["metadata"]["uid"] != reference.get("uid"):
            return None
        return job

    async def _release(self, pod: Obj) -> None:
        """Remove the finalizer of a pod whose job is gone or has released it."""
        if _is_tracked(pod) and self._owner(pod) is None:
            await self._pods.remove_finalizer(pod, TRACKING)

    async def _sync(self, job: Obj) -> float | None:
        if job["spec"].get("managedBy", _CONTROLLER) != _CONTROLLER:
            return None
        if is_over(job):
            left = self._pods.by(OWNER_INDEX, job["metadata"]["uid"])
            await wait_all(self._pods.remove_finalizer(pod, TRACKING) for pod in left if _is_tracked(pod))
            return None if self._jobs.is_terminating(job) else await self._expire(job)
        pods = await self._claim(job)
        tally = self._tally(job, pods)
        if self._jobs.is_terminating(job):
            await self._count(job, tally, [pod for pod in pods if _is_tracked(pod)])
            return None
        end, wait = self._end(job, tally), None
        if end is not None:
            await wait_all(self._pods.delete(pod) for pod in tally.active)
            tally.terminating, tally.active = tally.terminating + tally.active, []
        elif job["spec"].get("suspend"):
            await self._discard(tally, tally.active)
        else:
            wait = await self._manage(job, tally)
            end = self._completion(job, tally)
        job = await self._count(job, tally, [*tally.new_succeeded, *tally.new_failed], end=end)
        deadline = None if end is not None else self._seconds_to_deadline(job)
        return min((each for each in (wait, deadline) if each is not None), default=None)

    async def _claim(self, job: Obj) -> list[Obj]:
        mine = {pod["metadata"]["uid"] for pod in self._pods.by(OWNER_INDEX, job["metadata"]["uid"])}
        pods = await claim(self._pods, job)
        # An adopted pod is counted like those that were created here.
        return [
            pod if pod["metadata"]["uid"] in mine or _is_tracked(pod) else await self._track(pod)
            for pod in pods
        ]

    def _tally(self, job: Obj, pods: Sequence[Obj]) -> _Tally:
        status = job.get("status", {})
        uncounted = status.get("uncountedTerminatedPods") or {}
        leaving = {pod["metadata"]["uid"] for pod in pods if self._pods.is_terminating(pod)}
        failed = [
            pod for pod in pods if job_rules.is_failed(job, pod, leaving=pod["metadata"]["uid"] in leaving)
        ]
        succeeded = [pod for pod in pods if phase(pod) == "Succeeded"]
        new_succeeded = [pod for pod in succeeded if _is_tracked(pod)]
        new_failed = [pod for pod in failed if _is_tracked(pod)]
        counted = [pod for pod in new_failed if self._counts(job, pod)]
        done = job_rules.status_indexes(job, "completedIndexes")
        done |= {index for pod in succeeded if (index := index_of(job, pod)) is not None}
        return _Tally(
            active=[pod for pod in pods if not is_finished(pod) and pod["metadata"]["uid"] not in leaving],
            terminating=[pod for pod in pods if not is_finished(pod) and pod["metadata"]["uid"] in leaving],
            ended=[pod for pod in pods if is_finished(pod)],
            new_succeeded=new_succeeded,
            new_failed=new_failed,
            succeeded=len(done)
            if is_indexed(job)
            else status.get("succeeded", 0)
            + len(_uids(new_succeeded) | set(uncounted.get("succeeded") or ())),
            failed=status.get("failed", 0) + len(_uids(counted) | set(uncounted.get("failed") or ())),
            done=done,
            given_up=job_rules.failed_indexes(job, failed, done=done),
        )

    def _counts(self, job: Obj, pod: Obj) -> bool:
        if is_indexed(job) and index_of(job, pod) is None:
            return False
        return not job_rules.is_ignored(job, pod)

    def _end(self, job: Obj, tally: _Tally) -> JobEnd | None:
        """The job's result, regardless of its active pods; None while it continues."""
        if (earlier := job_rules.earlier_end(job)) is not None:
            return earlier
        failed = [pod for pod in (*tally.ended, *tally.new_failed) if phase(pod) != "Succeeded"]
        if (by_policy := job_rules.policy_end(job, failed)) is not None:
            return by_policy
        too_often = tally.failed > job["spec"].get("backoffLimit", 6)
        if too_often or job_rules.restarts_exceed(job, tally.active):
            return job_rules.BACKOFF
        left = self._seconds_to_deadline(job)
        if left is not None and left <= 0:
            return job_rules.DEADLINE
        if not is_indexed(job):
            return None
        by_index = job_rules.index_end(job, done=tally.done, given_up=tally.given_up)
        return by_index or job_rules.success_end(job, tally.done)

    def _completion(self, job: Obj, tally: _Tally) -> JobEnd | None:
        """Whether the last pod that was needed has succeeded.

        Without a number of completions it is a work queue: one success says that there is no more work, and
        the rest may finish theirs.
        """
        completions = job["spec"].get("completions")
        enough = tally.succeeded > 0 if completions is None else tally.succeeded >= completions
        return job_rules.COMPLETED if enough and not tally.active else None

    async def _expire(self, job: Obj) -> float | None:
        """Delete a finished job when its time to live is over."""
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None:
            return None
        ended = find_condition(job, "Complete") or find_condition(job, "Failed") or {}
        left = float(seconds - seconds_since(ended.get("lastTransitionTime"), self._clock))
        if left > 0:
            return left
        await self._jobs.delete(job, propagation="Foreground")
        return None

    def _seconds_to_deadline(self, job: Obj) -> float | None:
        seconds, started = job["spec"].get("activeDeadlineSeconds"), job.get("status", {}).get("startTime")
        if seconds is None or started is None or job["spec"].get("suspend"):
            return None
        return float(seconds - seconds_since(started, self._clock))

    # Pods

    async def _manage(self, job: Obj, tally: _Tally) -> float | None:
        """Create or delete pods; seconds until the next attempt after a failure."""
        spec = job["spec"]
        parallel, completions = spec.get("parallelism", 1), spec.get("completions")
        if is_indexed(job):
            await self._discard(tally, _surplus_pods(job, tally))
        if completions is not None:
            wanted = min(parallel, max(0, completions - tally.succeeded - len(tally.given_up)))
        else:
            wanted = parallel if tally.succeeded == 0 else min(parallel, len(tally.active))
        if len(tally.active) > wanted:
            tally.active.sort(key=lambda pod: deletion_order(pod, doubled=0))
            await self._discard(tally, tally.active[: len(tally.active) - wanted])
            return None
        waiting = tally.terminating if job_rules.waits_for_failure(job) else []
        missing = wanted - len(tally.active) - len(waiting)
        if missing <= 0:
            return None
        if not is_indexed(job):
            if (wait := self._backoff_seconds(tally.ended)) > 0:
                return wait
            await self._make(job, tally, [_new_pod(job) for _ in range(missing)])
            return None
        return await self._make_indexes(job, tally, missing, waiting)

    async def _make_indexes(
        self, job: Obj, tally: _Tally, missing: int, waiting: Sequence[Obj]
    ) -> float | None:
        taken = {index_of(job, pod) for pod in (*tally.active, *waiting)} | tally.done | tally.given_up
        apart = job["spec"].get("backoffLimitPerIndex") is not None
        if not apart and (wait := self._backoff_seconds(tally.ended)) > 0:
            return wait
        failed: dict[int, list[Obj]] = {}
        for pod in (*tally.ended, *tally.new_failed) if apart else ():
            index = index_of(job, pod)
            if index is not None and phase(pod) != "Succeeded":
                failed.setdefault(index, []).append(pod)
        bodies: list[Obj] = []
        waits: list[float] = []
        for index in range(job["spec"].get("completions") or 0):
            if index in taken:
                continue
            if len(bodies) == missing:
                break
            before = failed.get(index, [])
            if before and (wait := self._backoff_seconds(before)) > 0:
                waits.append(wait)
                continue
            failures = max(
                (job_rules.index_failures(pod) + (not job_rules.is_ignored(job, pod)) for pod in before),
                default=0,
            )
            bodies.append(_new_pod(job, index=index, failures=failures if apart else None))
        await self._make(job, tally, bodies)
        return min(waits, default=None)

    async def _make(self, job: Obj, tally: _Tally, bodies: Sequence[Obj]) -> None:
        with self.reporting_refusals(job):
            tally.active += await wait_all(self._pods.create(body) for body in bodies[:_BURST])
        if len(bodies) > _BURST:
            self._queue.add(key_of(job))

    async def _discard(self, tally: _Tally, pods: Sequence[Obj]) -> None:
        """Delete pods that are not needed now; they are not counted as failures."""
        gone = list(pods)
        await wait_all(self._discard_one(pod) for pod in gone)
        tally.active = [pod for pod in tally.active if pod not in gone]
        tally.terminating += gone

    async def _discard_one(self, pod: Obj) -> None:
        await self._pods.delete(await self._pods.remove_finalizer(pod, TRACKING) if _is_tracked(pod) else pod)

    async def _track(self, pod: Obj) -> Obj:
        finalizers = [*(pod["metadata"].get("finalizers") or ()), TRACKING]
        return await self._pods.update(with_metadata(pod, finalizers=finalizers))

    def _backoff_seconds(self, ended: Iterable[Obj]) -> float:
        """How long to wait after failures since the last success: ten seconds, twice that, and so on."""
        times = [(self._finish_ns(pod), phase(pod) == "Succeeded") for pod in ended]
        success_ns = max((moment for moment, succeeded in times if succeeded), default=0)
        failures = [moment for moment, succeeded in times if not succeeded and moment >= success_ns]
        if not failures:
            return 0.0
        delay = min(_FIRST_BACKOFF_SECONDS * 2.0 ** min(len(failures) - 1, 10), _LAST_BACKOFF_SECONDS)
        return delay - (self._clock.now_ns() - max(failures)) / NANOSECONDS

    def _finish_ns(self, pod: Obj) -> int:
        moments = [
            (container.get("state", {}).get("terminated") or {}).get("finishedAt")
            for container in pod.get("status", {}).get("containerStatuses") or ()
        ]
        known = [moment for text in moments if (moment := parse_timestamp(text)) is not None]
        return max(known, default=parse_timestamp(pod["metadata"].get("creationTimestamp")) or 0)

    # The status

    async def _count(
        self, job: Obj, tally: _Tally, tracked: Sequence[Obj], *, end: JobEnd | None = None
    ) -> Obj:
        """Move ended pods into the counts, and write the status."""
        new = {
            "succeeded": [] if is_indexed(job) else sorted(_uids(tally.new_succeeded)),
            "failed": sorted(_uids(pod for pod in tally.new_failed if self._counts(job, pod))),
        }
        before = job.get("status", {}).get("uncountedTerminatedPods") or {}
        uncounted = {kind: sorted({*uids, *(before.get(kind) or ())}) for kind, uids in new.items()}
        uncounted = {kind: uids for kind, uids in uncounted.items() if uids}
        conditions = self._conditions(job, end, final=False)
        if uncounted and uncounted != before:
            status = {**job.get("status", {}), "uncountedTerminatedPods": uncounted}
            if conditions:
                status["conditions"] = conditions
            job = await self._jobs.write_status(job, status)
        await wait_all(self._pods.remove_finalizer(pod, TRACKING) for pod in tracked)
        return await self._write_status(job, tally, end)

    async def _write_status(self, job: Obj, tally: _Tally, end: JobEnd | None) -> Obj:
        old, now = job.get("status", {}), stamp(self._clock)
        counts = {"active": len(tally.active), "succeeded": tally.succeeded, "failed": tally.failed}
        status: Obj = {
            **{name: count for name, count in counts.items() if count},
            "ready": sum(map(is_ready, tally.active)),
            "terminating": len(tally.terminating),
            "uncountedTerminatedPods": {},
        }
        if not job["spec"].get("suspend"):
            status["startTime"] = old.get("startTime", now)
        if is_indexed(job):
            status["completedIndexes"] = job_rules.write_indexes(tally.done)
            if job["spec"].get("backoffLimitPerIndex") is not None:
                status["failedIndexes"] = job_rules.write_indexes(tally.given_up)
        final = end is not None and not tally.terminating
        if conditions := self._conditions(job, end, final=final):
            status["conditions"] = conditions
        if end is not None and final and end.succeeded:
            status["completionTime"] = now
        if status == old:
            return job
        written = await self._jobs.write_status(job, status)
        self._record_changes(job, written, end if final else None)
        return written

    def _conditions(self, job: Obj, end: JobEnd | None, *, final: bool) -> list[Obj]:
        conditions: list[Obj] = job.get("status", {}).get("conditions") or []
        suspended, now = bool(job["spec"].get("suspend")), stamp(self._clock)

        def add(type_: str, status: str, reason: str, message: str) -> None:
            nonlocal conditions
            added = {**condition(type_, status, reason, message), "lastProbeTime": now}
            conditions = set_condition(conditions, added, now=now)

        if end is not None:
            if not is_true(job, end.target):
                add(end.target, "True", end.reason, end.message)
            if final:
                add(end.final, "True", end.reason, end.message)
        elif suspended and not is_true(job, "Suspended"):
            add("Suspended", "True", "JobSuspended", "Job suspended")
        elif not suspended and is_true(job, "Suspended"):
            conditions = without_condition(conditions, "Suspended")
            add("Suspended", "False", "JobResumed", "Job resumed")
        return conditions

    def _record_changes(self, before: Obj, job: Obj, end: JobEnd | None) -> None:
        if end is not None and end.succeeded:
            self.record(job, "Completed", "Job completed")
        elif end is not None:
            self.record(job, end.reason, end.message, type_="Warning")
        if is_true(job, "Suspended") and not is_true(before, "Suspended"):
            self.record(job, "Suspended", "Job suspended")
        elif is_true(before, "Suspended") and not is_true(job, "Suspended"):
            self.record(job, "Resumed", "Job resumed")


def _is_tracked(pod: Obj) -> bool:
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def _uids(pods: Iterable[Obj]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def _surplus_pods(job: Obj, tally: _Tally) -> list[Obj]:
    """Active pods whose index is finished, no longer wanted, or also another pod's."""
    taken: set[int | None] = {None, *tally.done, *tally.given_up}
    useless = []
    for pod in sorted(tally.active, key=lambda pod: deletion_order(pod, doubled=0), reverse=True):
        index = index_of(job, pod)
        if index in taken:
            useless.append(pod)
        taken.add(index)
    return useless


def _new_pod(job: Obj, *, index: int | None = None, failures: int | None = None) -> Obj:
    template = job["spec"].get("template", {})
    metadata, name, uid = template.get("metadata") or {}, name_of(job), job["metadata"]["uid"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
        **(metadata.get("labels") or {}),
    }
    annotations = dict(metadata.get("annotations") or {})
    prefix, spec = f"{name}-", template.get("spec", {})
    if index is not None:
        annotations[INDEX] = labels[INDEX] = str(index)
        prefix = f"{name}-{index}-"
        spec = {**spec, "hostname": spec.get("hostname", f"{name}-{index}"[:63])}
    if failures is not None:
        annotations[INDEX_FAILURES] = str(failures)
    finalizers = [*(metadata.get("finalizers") or ()), TRACKING]
    changes: Obj = {
        "generateName": prefix,
        "labels": labels,
        "annotations": annotations,
        "finalizers": finalizers,
    }
    return {**pod_from_template(job, **changes), "spec": spec}
