"""CronJob: creates jobs on schedule.

In: cron jobs and their jobs. Out: jobs, created at the scheduled times with upstream's names; old ones
deleted; the list of active jobs, and the last schedule and success times. If runs were missed while the
controller was stopped, one job is created for the latest of them within the deadline.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj, is_true, name_of, namespace_of, reference_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.cron import Schedule, ScheduleError, parse_schedule, zone_of
from kuberth.local.hollow.controllers.job_rules import is_over
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.ownership import OWNER_INDEX, reference_to
from kuberth.local.hollow.working import wait_all
from kuberth.text.timestamps import parse_timestamp, timestamp

_API_VERSION: Final = "batch/v1"
_SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobController(Controller):
    name = "cronjob"
    component = "cronjob-controller"

    def set_up(self) -> None:
        queue = self.queue_of("cronjobs.batch", self._sync)
        self._cron_jobs = self.watch("cronjobs.batch", queue.add_changed)
        self._jobs = self.watch_owned("jobs.batch", queue, kind="CronJob")

    async def _sync(self, cron_job: Obj) -> float | None:
        if self._cron_jobs.is_terminating(cron_job):
            return None
        jobs = self._jobs.by(OWNER_INDEX, cron_job["metadata"]["uid"])
        await self._forget_old(cron_job, jobs)
        active = [job for job in jobs if not is_over(job) and not self._jobs.is_terminating(job)]
        made, wait = await self._schedule(cron_job, active)
        await self._write_status(cron_job, jobs, active, made)
        return wait

    async def _schedule(self, cron_job: Obj, active: list[Obj]) -> tuple[float | None, float | None]:
        """Create a job if one is due; its scheduled time, and seconds until the next. Updates `active`."""
        spec, now = cron_job["spec"], self._clock.now_ns() / NANOSECONDS
        if spec.get("suspend"):
            return None, None
        try:
            schedule, zone = parse_schedule(spec.get("schedule", "")), zone_of(spec.get("timeZone"))
        except ScheduleError as error:
            self.record(cron_job, "UnparseableSchedule", f"unparseable schedule: {error}", type_="Warning")
            return None, None
        following = schedule.after(now, zone)
        wait = None if following is None else following - now
        last = _seconds(cron_job.get("status", {}).get("lastScheduleTime"))
        due = latest(schedule, zone, self._earliest(cron_job, now), now)
        if due is None or due == last:
            return None, wait
        policy = spec.get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.record(cron_job, "JobAlreadyActive", message)
            return None, wait
        if policy == "Replace":
            await wait_all(self._jobs.delete(job, propagation="Background") for job in active)
            active.clear()
        body = _new_job(cron_job, due)
        try:
            active.append(await self._jobs.create(body))
        except StatusError as error:
            # An earlier process created it and stopped before it wrote the status.
            if error.reason != "AlreadyExists":
                self.record(cron_job, "FailedCreate", f"Error creating job: {error}", type_="Warning")
                raise
        else:
            self.record(cron_job, "SuccessfulCreate", f"Created job {body['metadata']['name']}")
        return due, wait

    def _earliest(self, cron_job: Obj, now: float) -> float:
        """Scheduled times before this one were handled, or are past their deadline."""
        created = _seconds(cron_job["metadata"].get("creationTimestamp"))
        last = _seconds(cron_job.get("status", {}).get("lastScheduleTime"))
        earliest = now if created is None else created
        if last is not None:
            earliest = last
        deadline = cron_job["spec"].get("startingDeadlineSeconds")
        return earliest if deadline is None else max(earliest, now - deadline)

    async def _forget_old(self, cron_job: Obj, jobs: Sequence[Obj]) -> None:
        spec = cron_job["spec"]
        for condition, field in (
            ("Complete", "successfulJobsHistoryLimit"),
            ("Failed", "failedJobsHistoryLimit"),
        ):
            limit = spec.get(field)
            ended = [job for job in jobs if is_true(job, condition) and not self._jobs.is_terminating(job)]
            if limit is None or len(ended) <= limit:
                continue
            ended.sort(key=lambda job: (job.get("status", {}).get("startTime", ""), name_of(job)))
            old = ended[: len(ended) - limit]
            await wait_all(self._jobs.delete(job, propagation="Background") for job in old)

    async def _write_status(
        self, cron_job: Obj, jobs: Sequence[Obj], active: Sequence[Obj], made: float | None
    ) -> None:
        old = cron_job.get("status", {})
        status = {name: value for name, value in old.items() if name != "active"}
        if active:
            status["active"] = [reference_of(job) for job in sorted(active, key=name_of)]
        if made is not None:
            status["lastScheduleTime"] = timestamp(int(made) * NANOSECONDS)
        ends = [job["status"].get("completionTime", "") for job in jobs if is_true(job, "Complete")]
        if last := max([*ends, old.get("lastSuccessfulTime", "")]):
            status["lastSuccessfulTime"] = last
        await self._cron_jobs.write_status(cron_job, status)


def latest(schedule: Schedule, zone: tzinfo, earliest: float, now: float) -> float | None:
    """The last time after `earliest` and not after `now`, found without iterating over all of them."""
    first = schedule.after(earliest, zone)
    if first is None or first > now:
        return None
    second = schedule.after(first, zone)
    back = 60.0 if second is None else second - first
    while (found := schedule.after(max(earliest, now - back), zone)) is None or found > now:
        back *= 2
    while (following := schedule.after(found, zone)) is not None and following <= now:
        found = following
    return found


def _seconds(text: str | None) -> float | None:
    moment = parse_timestamp(text)
    return None if moment is None else moment / NANOSECONDS


def _new_job(cron_job: Obj, due: float) -> Obj:
    template = cron_job["spec"].get("jobTemplate", {})
    metadata = template.get("metadata") or {}
    annotations = {**metadata.get("annotations", {}), _SCHEDULED_AT: timestamp(int(due) * NANOSECONDS)}
    return {
        "apiVersion": _API_VERSION,
        "kind": "Job",
        "metadata": {
            "name": f"{name_of(cron_job)}-{int(due) // 60}",
            "namespace": namespace_of(cron_job),
            **({"labels": metadata["labels"]} if metadata.get("labels") else {}),
            "annotations": annotations,
            "ownerReferences": [reference_to(cron_job)],
        },
        "spec": template.get("spec", {}),
    }
