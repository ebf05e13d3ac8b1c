"""When a job is complete or has failed: the rules of its spec, without I/O.

In: a job and its pods. Out: which indexes are completed or failed, the result of the job's policies for a
failed pod, and the `JobEnd` that ends the job, with upstream's messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from kuberth.local.apiserver.objects import (
    Obj,
    annotated_number,
    find_condition,
    is_true,
    name_of,
    namespace_of,
)
from kuberth.local.hollow.pod_states import phase

INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""How often an index had failed before this pod was made for it."""
_MOST_INDEXES: Final = 1_000_000
"""Higher indexes in a status or policy are ignored."""


class JobEnd(NamedTuple):
    """The condition with which a job ends, first as a target, then permanently when its pods are gone."""

    succeeded: bool
    reason: str
    message: str

    @property
    def target(self) -> str:
        return "SuccessCriteriaMet" if self.succeeded else "FailureTarget"

    @property
    def final(self) -> str:
        return "Complete" if self.succeeded else "Failed"


COMPLETED: Final = JobEnd(True, "CompletionsReached", "Reached expected number of succeeded pods")
BACKOFF: Final = JobEnd(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE: Final = JobEnd(False, "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY_INDEXES: Final = JobEnd(
    False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES: Final = JobEnd(False, "FailedIndexes", "Job has failed indexes")


def earlier_end(job: Obj) -> JobEnd | None:
    """The end that was decided before and waits for pods to terminate."""
    for type_, succeeded in (("SuccessCriteriaMet", True), ("FailureTarget", False)):
        found = find_condition(job, type_)
        if found is not None and found.get("status") == "True":
            return JobEnd(succeeded, found.get("reason", ""), found.get("message", ""))
    return None


def is_over(job: Obj) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def is_indexed(job: Obj) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def waits_for_failure(job: Obj) -> bool:
    """Whether a pod that is being deleted is neither failed nor replaced before it has ended."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def index_of(job: Obj, pod: Obj) -> int | None:
    index = annotated_number(pod, INDEX)
    return index if index is not None and index < _completions(job) else None


def status_indexes(job: Obj, field: str) -> set[int]:
    """Indexes that a field of the job's status lists."""
    return parse_indexes(job.get("status", {}).get(field) or "", below=_completions(job))


def _completions(job: Obj) -> int:
    return int(job["spec"].get("completions") or 0)


# Pods that failed


def is_failed(job: Obj, pod: Obj, *, leaving: bool) -> bool:
    """Whether a pod counts as failed: it has, or it terminates and the job does not wait for its end."""
    if phase(pod) == "Failed":
        return True
    return leaving and phase(pod) != "Succeeded" and not waits_for_failure(job)


def policy_rule(job: Obj, pod: Obj) -> tuple[int, str, str] | None:
    """Number and action of the first rule of the podFailurePolicy a failed pod matches, and why it does."""
    for number, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action = rule.get("action", "")
        why = _exit_code_match(rule.get("onExitCodes"), pod)
        if why is None:
            why = _condition_match(rule.get("onPodConditions") or (), pod)
        if why is not None:
            return number, action, f"{why} matching {action} rule at index {number}"
    return None


def is_ignored(job: Obj, pod: Obj) -> bool:
    """Whether a failure is not counted towards any limit."""
    rule = policy_rule(job, pod)
    return rule is not None and rule[1] == "Ignore"


def policy_end(job: Obj, failed: Iterable[Obj]) -> JobEnd | None:
    for pod in failed:
        rule = policy_rule(job, pod)
        if rule is not None and rule[1] == "FailJob":
            return JobEnd(False, "PodFailurePolicy", rule[2])
    return None


def restarts_exceed(job: Obj, active: Iterable[Obj]) -> bool:
    """Whether containers that are restarted in place used up the backoff limit."""
    spec = job["spec"]
    if spec.get("template", {}).get("spec", {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        int(container.get("restartCount", 0))
        for pod in active
        for group in ("initContainerStatuses", "containerStatuses")
        for container in pod.get("status", {}).get(group) or ()
    )
    limit = spec.get("backoffLimit", 6)
    return bool(restarts > 0 if limit == 0 else restarts >= limit)


def index_failures(pod: Obj) -> int:
    """How often the index of this pod had failed before it."""
    return annotated_number(pod, INDEX_FAILURES) or 0


def failed_indexes(job: Obj, failed: Iterable[Obj], *, done: Collection[int]) -> set[int]:
    """Indexes that are given up: failed too often, or by a rule."""
    limit = job["spec"].get("backoffLimitPerIndex")
    if limit is None:
        return set()
    given_up = status_indexes(job, "failedIndexes")
    for pod in failed:
        index, rule = index_of(job, pod), policy_rule(job, pod)
        action = "" if rule is None else rule[1]
        if index is not None and (
            action == "FailIndex" or (action != "Ignore" and index_failures(pod) >= limit)
        ):
            given_up.add(index)
    return given_up - set(done)


def index_end(job: Obj, *, done: Collection[int], given_up: Collection[int]) -> JobEnd | None:
    most = job["spec"].get("maxFailedIndexes")
    if most is not None and len(given_up) > most:
        return TOO_MANY_INDEXES
    if given_up and len(given_up) + len(done) >= _completions(job):
        return FAILED_INDEXES
    return None


def success_end(job: Obj, done: Collection[int]) -> JobEnd | None:
    """The end that the successPolicy gives the job once these indexes are done; None if it does not end."""
    for number, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        count, wanted, counted = rule.get("succeededCount"), None, set(done)
        if rule.get("succeededIndexes"):
            wanted = parse_indexes(rule["succeededIndexes"], below=_completions(job))
            counted &= wanted
        enough = count is not None and len(counted) >= count
        if done and (enough or (wanted and counted == wanted)):
            return JobEnd(True, "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _exit_code_match(wanted: Obj | None, pod: Obj) -> str | None:
    if wanted is None:
        return None
    name, values = wanted.get("containerName"), wanted.get("values") or ()
    for group in ("containerStatuses", "initContainerStatuses"):
        for container in pod.get("status", {}).get(group) or ():
            code = (container.get("state", {}).get("terminated") or {}).get("exitCode", 0)
            if code == 0 or name not in (None, container.get("name")):
                continue
            if (code in values) == (wanted.get("operator") == "In"):
                who = f"pod {namespace_of(pod)}/{name_of(pod)}"
                return f"Container {container.get('name')} for {who} failed with exit code {code}"
    return None


def _condition_match(patterns: Sequence[Obj], pod: Obj) -> str | None:
    for condition in pod.get("status", {}).get("conditions") or ():
        for pattern in patterns:
            same_type = pattern.get("type") == condition.get("type")
            if same_type and pattern.get("status", "True") == condition.get("status"):
                return f"Pod {namespace_of(pod)}/{name_of(pod)} has condition {condition.get('type')}"
    return None


# Indexes in words


def write_indexes(indexes: Iterable[int]) -> str:
    """Indexes as upstream writes them: 0-2,5,7-9; two neighbours are listed, not ranged."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(_run(first, last) for first, last in runs)


def parse_indexes(text: str, *, below: int) -> set[int]:
    """Indexes of a text; unreadable ones and those that the job does not have are left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        last = last or first
        if first.isdecimal() and last.isdecimal():
            found.update(range(int(first), min(int(last), below - 1, _MOST_INDEXES) + 1))
    return found


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}{',' if last == first + 1 else '-'}{last}"
