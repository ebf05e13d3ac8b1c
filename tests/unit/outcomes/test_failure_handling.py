from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from kuberth.api.core import Pod, PodCondition
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import FilterPlugin, PostFilterPlugin, PostFilterResult, QueuedPod, Status
from kuberth.framework.equal_pods import KeptRejection
from kuberth.outcomes.event_recorder import SERIES_SECONDS, ApiEventRecorder
from kuberth.outcomes.failure_handling import NOTE_LIMIT, FailureHandler, shortened
from kuberth.outcomes.rejection import NO_NODES
from kuberth.testing import FakeClock, MemoryApi, make_pod
from tests.unit.framework.harness import plugin
from tests.unit.scheduling.harness import CycleHarness, make_harness


def failed(*plugins: Any, pod: Pod | None = None, **options: Any) -> tuple[CycleHarness, QueuedPod]:
    """A pod that fails in a scheduler of these plugins, already handled."""
    scheduler = make_harness(*plugins, **options)
    rejection = scheduler.reject(make_pod("p", uid="u") if pod is None else pod)
    scheduler.failures.handle(rejection)
    return scheduler, rejection.queued


NO_ROOM = plugin("Fit", FilterPlugin, filter=Status.unschedulable("no room"))


@pytest.mark.parametrize(
    "answer, queue, result, reason, unschedulable, pending",
    [
        pytest.param(
            Status.unschedulable("no room"),
            "unschedulable",
            "unschedulable",
            "Unschedulable",
            {"Fit"},
            set(),
            id="rejected",
        ),
        pytest.param(
            Status.pending("soon"),
            "unschedulable",
            "unschedulable",
            "Unschedulable",
            {"Fit"},
            {"Fit"},
            id="pending",
        ),
        pytest.param(Status.error("lost"), "backoff", "error", "SchedulerError", set(), set(), id="error"),
        pytest.param(ValueError("lost"), "backoff", "error", "SchedulerError", set(), set(), id="raised"),
    ],
)
def test_a_pod_goes_back_with_the_plugins_that_rejected_it(
    answer: Any, queue: str, result: str, reason: str, unschedulable: set[str], pending: set[str]
) -> None:
    scheduler, queued = failed(plugin("Fit", FilterPlugin, filter=answer))
    assert scheduler.queues() == {queue: ["p"]}
    assert (queued.unschedulable_plugins, queued.pending_plugins) == (unschedulable, pending)
    assert scheduler.queue.in_flight() == ()
    assert scheduler.made.metrics.schedule_attempts.values == {(result, "default-scheduler"): 1}
    ((name, condition, _nomination),) = scheduler.written.writes
    assert name == "p"
    assert condition is not None
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", reason)
    ((pod, event, note),) = scheduler.made.outside.events
    assert (pod, event, note) == ("p", "FailedScheduling", condition.message)


def test_plugins_of_an_earlier_attempt_are_forgotten() -> None:
    scheduler = make_harness(plugin("Fit", FilterPlugin, filter=Status.error("lost")))
    rejection = scheduler.reject(make_pod("p"))
    rejection.queued.unschedulable_plugins = {"Earlier"}
    rejection.queued.pending_plugins = {"Earlier"}
    scheduler.failures.handle(rejection)
    assert rejection.queued.rejectors == set()


def test_no_nodes_is_nobodys_rejection() -> None:
    scheduler, queued = failed(nodes=[])
    assert queued.rejectors == set()
    assert scheduler.queues() == {"backoff": ["p"]}
    ((_, condition, _),) = scheduler.written.writes
    assert condition is not None
    assert (condition.reason, condition.message) == ("Unschedulable", NO_NODES)


@pytest.mark.parametrize(
    "of, method, step",
    [
        pytest.param("failures", "_count", "counting the attempt", id="metrics"),
        pytest.param("nominator", "nominate", "nominating a node", id="nominator"),
        pytest.param("outside", "record", "recording the FailedScheduling event", id="recorder"),
        pytest.param("written", "write", "writing the PodScheduled condition", id="writer"),
        pytest.param("failures", "derive", "reading its present version", id="present-version"),
        pytest.param("failures", "_record_rejectors", "noting the rejecting plugins", id="rejectors"),
    ],
)
def test_a_step_that_fails_costs_neither_the_pod_nor_the_other_steps(
    of: str, method: str, step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = make_harness(NO_ROOM)
    rejection = scheduler.reject(make_pod("p", uid="u"))
    scheduler.pods.set(make_pod("p", uid="u", labels={"newer": "yes"}))

    def fail(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("broken")

    owner = getattr(scheduler, of, None) or getattr(scheduler.made, of)
    monkeypatch.setattr(owner, method, fail)
    scheduler.failures.handle(rejection)
    queue = "backoff" if method == "_record_rejectors" else "unschedulable"
    assert scheduler.queues() == {queue: ["p"]}
    assert scheduler.queue.in_flight() == ()
    assert len(scheduler.made.outside.events) == (0 if of == "outside" else 1)
    assert len(scheduler.written.writes) == (0 if of == "written" else 1)
    assert f"pod default/p was not placed, and {step} failed" in caplog.text


# The pod meanwhile


def handled_after(change: Any) -> CycleHarness:
    scheduler = make_harness(NO_ROOM)
    rejection = scheduler.reject(make_pod("p", uid="u"))
    change(scheduler.pods)
    scheduler.failures.handle(rejection)
    return scheduler


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pods: pods.remove(make_pod("p")), id="deleted"),
        pytest.param(lambda pods: pods.set(make_pod("p", uid="another")), id="made-again"),
        pytest.param(lambda pods: pods.set(make_pod("p", uid="u", node="n1")), id="bound-by-someone-else"),
    ],
)
def test_a_pod_that_needs_no_scheduling_any_more_is_let_go(change: Any) -> None:
    scheduler = handled_after(change)
    assert scheduler.queues() == {}
    assert scheduler.queue.in_flight() == ()
    assert (scheduler.written.writes, scheduler.made.outside.events) == ([], [])
    assert scheduler.made.metrics.schedule_attempts.values == {("unschedulable", "default-scheduler"): 1}


def test_its_present_version_goes_back() -> None:
    scheduler = handled_after(lambda pods: pods.set(make_pod("p", uid="u", labels={"fresh": "yes"})))
    queued = scheduler.queue.get("default/p")
    assert queued is not None
    assert queued.pod.metadata.labels == {"fresh": "yes"}
    assert queued.attempts == 1


def test_a_pod_that_waits_already_is_not_queued_twice(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = make_harness(NO_ROOM)
    pod = make_pod("p", uid="u")
    rejection = scheduler.reject(pod)
    scheduler.queue.add(PodInfo(pod))
    scheduler.failures.handle(rejection)
    assert scheduler.queues() == {"active": ["p"]}
    assert "pod default/p cannot be queued again" in caplog.text


# Nominations


@pytest.mark.parametrize(
    "answer, before, after, written",
    [
        pytest.param((PostFilterResult("n2"), None), "", "n2", "n2", id="nominated"),
        pytest.param((PostFilterResult("n2"), None), "n1", "n2", "n2", id="nominated-another"),
        pytest.param((PostFilterResult(""), Status.unschedulable("x")), "n1", "", "", id="taken-back"),
        pytest.param((None, Status.unschedulable("x")), "n1", "n1", None, id="left-as-it-is"),
        pytest.param((None, Status.unschedulable("x")), "", "", None, id="never-was"),
    ],
)
def test_a_nomination_is_stored_and_written(
    answer: Any, before: str, after: str, written: str | None
) -> None:
    pod = make_pod("p", uid="u", status={"nominatedNodeName": before} if before else None)
    scheduler, _queued = failed(NO_ROOM, plugin("P", PostFilterPlugin, post_filter=answer), pod=pod)
    assert scheduler.made.nominator.node_of("u") == after
    assert scheduler.written.writes[0][2] == written


def test_the_condition_has_the_observed_generation() -> None:
    scheduler, _queued = failed(NO_ROOM, pod=make_pod("p", metadata={"generation": 7}))
    ((_, condition, _),) = scheduler.written.writes
    assert condition is not None
    assert condition.observed_generation == 7


# Notes


@pytest.mark.parametrize(
    "note, length",
    [
        pytest.param("x" * NOTE_LIMIT, NOTE_LIMIT, id="just-fits"),
        pytest.param("x" * (NOTE_LIMIT + 1), NOTE_LIMIT, id="too-long"),
        pytest.param("é" * NOTE_LIMIT, NOTE_LIMIT, id="counted-in-bytes"),
        pytest.param("", 0, id="empty"),
    ],
)
def test_a_note_fits_into_an_event(note: str, length: int) -> None:
    short = shortened(note)
    assert len(short.encode()) <= length
    assert short == note or (short.endswith(" ...") and note.startswith(short[:-4]))


def test_the_event_is_shortened_and_the_condition_is_not() -> None:
    scheduler, _queued = failed(plugin("Fit", FilterPlugin, filter=Status.unschedulable("x" * 2000)))
    assert len(scheduler.made.outside.events[0].note) == NOTE_LIMIT
    ((_, condition, _),) = scheduler.written.writes
    assert condition is not None
    assert len(condition.message) > 2000


class CountingWriter:
    """Says of every condition that the API has it, or that it does not."""

    def __init__(self, *, is_known: bool) -> None:
        self.is_known = is_known
        self.messages: list[str] = []

    def write(self, _pod: Pod, *, condition: PodCondition | None, nomination: str | None) -> bool:
        assert nomination is None
        self.messages.append("" if condition is None else condition.message)
        return self.is_known

    def is_writing(self, uid: str) -> bool:
        return False

    async def finish(self, uid: str) -> None: ...


class Repeated:
    """A pod that is rejected as an equal one was, again and again."""

    def __init__(self, *, is_known: bool = True) -> None:
        scheduler = make_harness(NO_ROOM)
        self.runner, self.clock = scheduler.runner, FakeClock()
        self.recorder = ApiEventRecorder(MemoryApi(), self.clock, controllers=["default-scheduler"])
        self.writer = CountingWriter(is_known=is_known)
        self.failures = FailureHandler(
            queue=scheduler.queue,
            nominator=scheduler.made.nominator,
            pods=scheduler.pods,
            recorder=self.recorder,
            writer=self.writer,
            metrics=scheduler.made.metrics,
        )
        self.queued = QueuedPod(PodInfo(make_pod("p", uid="u")), timestamp_ns=0)

    def reject(self, message: str = "no room") -> None:
        status = Status.unschedulable(message)
        kept = KeptRejection(status, None, 0, 0, frozenset({"Fit"}), frozenset())
        self.failures.report_repeated([(self.queued, kept)], self.runner, 0.001)

    @property
    def counted(self) -> list[int]:
        """The length of each series of events."""
        return [series.times for series in self.recorder._series.values()]


def test_an_unchanged_reason_that_the_api_has_is_only_counted() -> None:
    repeated = Repeated()
    for _ in range(5):
        repeated.reject()
    assert repeated.counted == [5]
    assert repeated.writer.messages == ["no room"] * 2, "until the series is written"


def _new_version(repeated: Repeated) -> None:
    repeated.queued.info = PodInfo(make_pod("p", uid="u", labels={"newer": "yes"}))


@pytest.mark.parametrize(
    "between, message, series",
    [
        (lambda repeated: None, "other words", [5]),
        (_new_version, "no room", [5]),
        (lambda repeated: repeated.clock.advance(SERIES_SECONDS + 1), "no room", [1]),
    ],
    ids=["other words", "another version of the pod", "the series has ended"],
)
def test_everything_is_recorded_anew_once_something_differs(
    between: Callable[[Repeated], None], message: str, series: list[int]
) -> None:
    repeated = Repeated()
    for _ in range(4):
        repeated.reject()
    between(repeated)
    repeated.reject(message)
    assert repeated.writer.messages == ["no room", "no room", message]
    assert repeated.counted == series


def test_a_reason_that_the_api_may_not_have_is_written_each_time() -> None:
    repeated = Repeated(is_known=False)
    for _ in range(5):
        repeated.reject()
    assert repeated.counted == [5]
    assert len(repeated.writer.messages) == 5
