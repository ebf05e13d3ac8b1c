"""Job: pods until enough of them succeeded, or too many failed.

In: jobs and their pods. Out: pods made and deleted, and the status with the conditions that
`kubectl wait --for=condition=complete` waits for. What ended is counted from the pods that are there, as
Kubernetes did before it tracked them with finalizers: a finished pod that is deleted before its job is
done runs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, key_of, name_of, namespace_of
from kuberth.local.hollow.conditions import find_condition, is_true, set_condition, without_condition
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.ownership import OWNER_INDEX, index_owners, owner_key, reference_to
from kuberth.local.hollow.pod_states import deletion_order, is_finished, is_ready, phase
from kuberth.local.hollow.working import COALESCE_SECONDS, Worker, together
from kuberth.text.timestamps import seconds_since, stamp

_API_VERSION: Final = "batch/v1"
_KIND: Final = "Job"
_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_BURST: Final = 500
_FIRST_BACKOFF_SECONDS: Final = 10.0
_LAST_BACKOFF_SECONDS: Final = 600.0


class JobController:
    name = "job"

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        self._clock = clock
        self._jobs = informers.of("jobs.batch")
        self._pods = informers.of("pods")
        self._worker = Worker(self.name, self._sync)
        index_owners(self._pods)
        self._jobs.add_handler(lambda old, new: self._worker.add(key_of(new or old or {})))
        self._pods.add_handler(self._note_pod)

    async def run(self) -> None:
        await self._jobs.synced.wait()
        await self._pods.synced.wait()
        await self._worker.run()

    def _note_pod(self, old: Obj | None, new: Obj | None) -> None:
        for pod in (old, new):
            if pod is not None and (key := owner_key(pod, _KIND)) is not None:
                self._worker.add_after(key, COALESCE_SECONDS)

    async def _sync(self, key: str) -> float | None:
        job = self._jobs.get(key)
        if job is None or self._jobs.is_leaving(job):
            return None
        if _is_over(job):
            return await self._expire(job)
        pods = self._pods.by(OWNER_INDEX, job["metadata"]["uid"])
        ended = [pod for pod in pods if is_finished(pod)]
        active = [pod for pod in pods if not is_finished(pod) and not self._pods.is_leaving(pod)]
        if (end := self._end(job, ended)) is not None:
            await together(self._pods.delete(pod) for pod in active)
            await self._write_status(job, [], ended, end=end)
            return None
        wait = None
        if job["spec"].get("suspend"):
            await together(self._pods.delete(pod) for pod in active)
            active = []
        else:
            active, wait = await self._manage(job, active, ended)
        job = await self._write_status(job, active, ended)
        deadline = self._seconds_to_deadline(job)
        return min((each for each in (wait, deadline) if each is not None), default=None)

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

    def _end(self, job: Obj, ended: Sequence[Obj]) -> tuple[str, str, str] | None:
        """Type, reason and message of the condition that ends the job now; None while it goes on."""
        spec = job["spec"]
        failed = sum(phase(pod) == "Failed" for pod in ended)
        if failed > spec.get("backoffLimit", 6):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        left = self._seconds_to_deadline(job)
        if left is not None and left <= 0:
            return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
        succeeded = _succeeded(job, ended)
        completions = spec.get("completions")
        if completions is None:
            # A work queue: one success says that there is no more work, and the rest may finish theirs.
            pods = self._pods.by(OWNER_INDEX, job["metadata"]["uid"])
            done = succeeded > 0 and all(map(is_finished, pods))
        else:
            done = succeeded >= completions
        if done:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _seconds_to_deadline(self, job: Obj) -> float | None:
        seconds, started = job["spec"].get("activeDeadlineSeconds"), job.get("status", {}).get("startTime")
        if seconds is None or started is None or job["spec"].get("suspend"):
            return None
        return float(seconds - seconds_since(started, self._clock))

    async def _manage(
        self, job: Obj, active: list[Obj], ended: Sequence[Obj]
    ) -> tuple[list[Obj], float | None]:
        """Make or delete pods; the active ones afterwards, and when to go on after a failure."""
        spec = job["spec"]
        parallel, completions = spec.get("parallelism", 1), spec.get("completions")
        succeeded = _succeeded(job, ended)
        if completions is not None:
            wanted = min(parallel, max(0, completions - succeeded))
        else:
            wanted = parallel if succeeded == 0 else min(parallel, len(active))
        if len(active) > wanted:
            active.sort(key=lambda pod: deletion_order(pod, doubled=0))
            await together(self._pods.delete(pod) for pod in active[: len(active) - wanted])
            return active[len(active) - wanted :], None
        if (missing := wanted - len(active)) == 0:
            return active, None
        if (wait := self._backoff_seconds(ended)) > 0:
            return active, wait
        indexes: list[int] | list[None] = [None] * missing
        if _is_indexed(job):
            taken = {_index(pod) for pod in (*active, *ended) if phase(pod) != "Failed"}
            indexes = [index for index in range(completions or 0) if index not in taken][:missing]
        made = await together(self._pods.create(_new_pod(job, index=index)) for index in indexes[:_BURST])
        if len(indexes) > _BURST:
            self._worker.add(key_of(job))
        return [*active, *made], None

    def _backoff_seconds(self, ended: Sequence[Obj]) -> float:
        """How long to wait after failures: ten seconds, twice that, and so on, since the last one."""
        failures = [pod for pod in ended if phase(pod) == "Failed"]
        if not failures:
            return 0.0
        delay = min(_FIRST_BACKOFF_SECONDS * 2.0 ** (len(failures) - 1), _LAST_BACKOFF_SECONDS)
        ages = [seconds_since(_finish_time(pod), self._clock) for pod in failures]
        return delay - min(ages)

    async def _write_status(
        self,
        job: Obj,
        active: Sequence[Obj],
        ended: Sequence[Obj],
        *,
        end: tuple[str, str, str] | None = None,
    ) -> Obj:
        old, now = job.get("status", {}), stamp(self._clock)
        suspended = bool(job["spec"].get("suspend"))
        counts = {
            "active": len(active),
            "succeeded": _succeeded(job, ended),
            "failed": sum(phase(pod) == "Failed" for pod in ended),
        }
        status: Obj = {
            **{name: count for name, count in counts.items() if count},
            "ready": sum(map(is_ready, active)),
            "terminating": 0,
            "uncountedTerminatedPods": {},
        }
        if not suspended:
            status["startTime"] = old.get("startTime", now)
        if _is_indexed(job):
            done = {_index(pod) for pod in ended if phase(pod) == "Succeeded"}
            status["completedIndexes"] = _ranges(sorted(index for index in done if index is not None))
        conditions = self._conditions(old.get("conditions") or [], suspended=suspended, end=end, now=now)
        if conditions:
            status["conditions"] = conditions
        if end is not None and end[0] == "Complete":
            status["completionTime"] = now
        if status == old:
            return job
        return await self._jobs.update({**job, "status": status}, subresource="status")

    def _conditions(
        self, conditions: list[Obj], *, suspended: bool, end: tuple[str, str, str] | None, now: str
    ) -> list[Obj]:
        def add(type_: str, status: str, reason: str, message: str) -> None:
            nonlocal conditions
            condition = {"type": type_, "status": status, "reason": reason, "message": message}
            conditions = set_condition(conditions, {**condition, "lastProbeTime": now}, now=now)

        held = any(condition.get("type") == "Suspended" for condition in conditions)
        if suspended and not is_true({"status": {"conditions": conditions}}, "Suspended"):
            add("Suspended", "True", "JobSuspended", "Job suspended")
        elif not suspended and held:
            conditions = without_condition(conditions, "Suspended")
            add("Suspended", "False", "JobResumed", "Job resumed")
        if end is not None:
            type_, reason, message = end
            add("SuccessCriteriaMet" if type_ == "Complete" else "FailureTarget", "True", reason, message)
            add(type_, "True", reason, message)
        return conditions


def _is_over(job: Obj) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _is_indexed(job: Obj) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def _index(pod: Obj) -> int | None:
    text = (pod["metadata"].get("annotations") or {}).get(_INDEX, "")
    return int(text) if text.isdecimal() else None


def _succeeded(job: Obj, ended: Sequence[Obj]) -> int:
    succeeded = [pod for pod in ended if phase(pod) == "Succeeded"]
    return len({_index(pod) for pod in succeeded}) if _is_indexed(job) else len(succeeded)


def _finish_time(pod: Obj) -> str:
    for status in pod.get("status", {}).get("containerStatuses") or ():
        if at := (status.get("state", {}).get("terminated") or {}).get("finishedAt"):
            return str(at)
    return str(pod["metadata"].get("creationTimestamp", ""))


def _ranges(indexes: Sequence[int]) -> str:
    """Sorted numbers as upstream writes them: 0-2,5,7-9."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _new_pod(job: Obj, *, index: int | None) -> Obj:
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
        annotations[_INDEX] = labels[_INDEX] = str(index)
        prefix = f"{name}-{index}-"
        spec = {**spec, "hostname": spec.get("hostname", f"{name}-{index}"[:63])}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": prefix,
            "namespace": namespace_of(job),
            "labels": labels,
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [reference_to(job, api_version=_API_VERSION, kind=_KIND)],
        },
        "spec": spec,
    }
