from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.clock import NANOSECONDS
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.backoff import NO_BACKOFF, Backoff, BackoffQueue
from kuberth.testing import FakeClock, make_pod
from tests.unit.queue.harness import START_NS


def failed(
    name: str = "p",
    *,
    rejections: int = 0,
    errors: int = 0,
    at_ns: int = START_NS,
    priority: int = 0,
    plugins: tuple[str, ...] = ("A",),
) -> QueuedPod:
    queued = QueuedPod(PodInfo(make_pod(name, priority=priority)), timestamp_ns=at_ns)
    queued.unschedulable_count = rejections
    queued.consecutive_errors = errors
    queued.unschedulable_plugins = set(plugins)
    return queued


def backoff(
    clock: FakeClock | None = None, *, initial: float = 1.0, maximum: float = 10.0, windows: bool = False
) -> Backoff:
    return Backoff(
        clock or FakeClock(START_NS), initial_seconds=initial, max_seconds=maximum, windows=windows
    )


@pytest.mark.parametrize(
    ("rejections", "errors", "seconds"),
    [
        (1, 0, 1),
        (2, 0, 2),
        (3, 0, 4),
        (4, 0, 8),
        (5, 0, 10),
        (6, 0, 10),
        (63, 0, 10),
        (64, 0, 10),
        (10**6, 0, 10),
        (0, 1, 1),
        (0, 10**6, 10),
        (9, 1, 1),
        (1, 3, 4),
    ],
    ids=lambda number: str(number),
)
def test_delay_doubles_up_to_the_maximum_and_errors_count_for_themselves(
    rejections: int, errors: int, seconds: int
) -> None:
    queued = failed(rejections=rejections, errors=errors)
    assert backoff().expires_ns(queued) == START_NS + seconds * NANOSECONDS


@given(
    failures=st.integers(1, 2000),
    initial=st.integers(1, 1000),
    maximum=st.integers(1, 10**6),
    at_ns=st.integers(0, 10**19),
    windows=st.booleans(),
)
def test_expiry_is_failure_time_and_a_capped_power_of_two(
    failures: int, initial: int, maximum: int, at_ns: int, windows: bool
) -> None:
    rule = backoff(initial=initial, maximum=max(initial, maximum), windows=windows)
    expected = at_ns + min(initial * 2 ** (failures - 1), max(initial, maximum)) * NANOSECONDS
    if windows:
        expected -= expected % NANOSECONDS
    assert rule.expires_ns(failed(rejections=failures, at_ns=at_ns)) == expected


@pytest.mark.parametrize("start_ns", [0, START_NS], ids=["virtual-clock", "real-clock"])
@pytest.mark.parametrize("windows", [False, True], ids=["exact", "windows"])
def test_pods_that_never_failed_do_not_back_off(windows: bool, start_ns: int) -> None:
    clock = FakeClock(start_ns)
    new = failed(at_ns=start_ns)
    assert backoff(clock, windows=windows).expires_ns(new) == NO_BACKOFF
    assert not backoff(clock, windows=windows).is_waiting(new)
    assert not backoff(clock, maximum=0, windows=windows).is_waiting(failed(rejections=7, at_ns=start_ns))


@pytest.mark.parametrize(
    ("windows", "failed_at", "now", "waiting"),
    [
        (False, 0.3, 1.299, True),
        (False, 0.3, 1.3, True),
        (False, 0.3, 1.301, False),
        (True, 0.3, 1.299, True),
        (True, 0.3, 1.301, True),
        (True, 0.3, 1.999, True),
        (True, 0.3, 2.0, False),
        (True, 0.0, 1.999, True),
        (True, 0.999, 2.0, False),
    ],
)
def test_windows_let_go_at_the_next_whole_second(
    windows: bool, failed_at: float, now: float, waiting: bool
) -> None:
    clock = FakeClock(START_NS)
    clock.advance(failed_at)
    queued = failed(rejections=1, at_ns=clock.now_ns())
    clock.advance(now - failed_at)
    assert backoff(clock, windows=windows).is_waiting(queued) is waiting


def test_expiry_is_worked_out_once_per_failure() -> None:
    rule, queued = backoff(), failed(rejections=1)
    first = rule.expires_ns(queued)
    queued.unschedulable_count = 5
    assert rule.expires_ns(queued) == first
    queued.backoff_expires_ns = None
    assert rule.expires_ns(queued) > first


def make_queue(clock: FakeClock, *, windows: bool) -> BackoffQueue:
    return BackoffQueue(
        backoff(clock, windows=windows),
        sort_value=lambda queued: (-queued.info.priority, queued.timestamp_ns),
        windows=windows,
    )


@pytest.mark.parametrize(
    ("windows", "order"),
    [(True, ["high", "low", "late"]), (False, ["low", "high", "late"])],
    ids=["windows", "exact"],
)
def test_priority_decides_within_one_second(windows: bool, order: list[str]) -> None:
    queue = make_queue(FakeClock(START_NS), windows=windows)
    queue.add(failed("late", rejections=1, at_ns=START_NS + NANOSECONDS, priority=9))
    queue.add(failed("low", rejections=1, at_ns=START_NS + 100, priority=1))
    queue.add(failed("high", rejections=1, at_ns=START_NS + NANOSECONDS - 1, priority=5))
    popped = [queue.pop_early() for _ in range(3)]
    assert [queued.pod.metadata.name for queued in popped if queued is not None] == order


def test_a_new_version_is_sorted_again() -> None:
    queue = make_queue(FakeClock(START_NS), windows=True)
    first, second = failed("first", rejections=1, priority=5), failed("second", rejections=1, priority=1)
    queue.add(first)
    queue.add(second)
    second.info = failed("second", priority=9).info
    queue.resort(second)
    assert queue.pop_early() is second
    assert queue.pop_early() is first


def test_errors_wait_apart_and_are_never_popped_early() -> None:
    clock = FakeClock(START_NS)
    queue = make_queue(clock, windows=True)
    after_error = failed("error", errors=1, plugins=())
    queue.add(after_error)
    assert queue.pop_early() is None
    queue.add(failed("rejected", rejections=1))
    assert len(queue) == 2
    assert {queued.pod.metadata.name for queued in queue} == {"error", "rejected"}
    clock.advance(1.5)
    assert list(queue.pop_completed()) == []
    clock.advance(0.5)
    assert {queued.pod.metadata.name for queued in queue.pop_completed()} == {"error", "rejected"}
    assert len(queue) == 0


def test_a_pod_is_in_one_of_the_twins_only() -> None:
    queue = make_queue(FakeClock(START_NS), windows=True)
    queued = failed(errors=1, plugins=())
    queue.add(queued)
    queued.unschedulable_plugins = {"A"}
    queue.resort(queued)
    assert queue.pop_early() is None, "a new version does not change the queue"
    queue.add(queued)
    assert queue.pop_early() is queued
    queue.add(queued)
    assert len(queue) == 1
    assert queued.key in queue
    assert queue.get(queued.key) is queued
    assert queue.remove(queued.key) is queued
    assert queue.remove(queued.key) is None
    assert queue.get(queued.key) is None
    assert queued.key not in queue
