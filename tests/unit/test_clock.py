from __future__ import annotations

import asyncio
import itertools
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from kuberth.clock import NANOSECONDS, LoopClock, SystemClock, VirtualTimeLoop, run_in_virtual_time
from kuberth.errors import KuberthError
from kuberth.testing import FakeClock

DAY = 24 * 3600.0


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_month_costs_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(30 * DAY)
        return now()

    started = time.monotonic()
    assert run_in_virtual_time(main, limit_seconds=31 * DAY) == pytest.approx(30 * DAY)
    assert time.monotonic() - started < 5


def test_timers_fire_in_order_and_on_time() -> None:
    async def main() -> list[tuple[str, float]]:
        fired: list[tuple[str, float]] = []

        async def wait(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            fired.append((name, now()))

        async with asyncio.TaskGroup() as tasks:
            for name, seconds in (("late", 2.5), ("early", 0.1), ("same", 2.5), ("middle", 1.0)):
                tasks.create_task(wait(name, seconds))
        return fired

    names, times = zip(*run_in_virtual_time(main), strict=True)
    assert names == ("early", "middle", "late", "same")
    assert times == pytest.approx((0.1, 1.0, 2.5, 2.5))


def test_time_stands_still_while_work_is_ready() -> None:
    async def main() -> float:
        asyncio.get_running_loop().call_later(1, lambda: None)
        for _ in range(100):
            await asyncio.sleep(0)
        return now()

    assert run_in_virtual_time(main) == 0


def test_time_limits_are_virtual_too() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        return now()

    assert run_in_virtual_time(main) == pytest.approx(3600)


def test_it_runs_where_a_loop_runs_already() -> None:
    """As the cells of a notebook do."""

    async def main() -> float:
        await asyncio.sleep(5)
        return now()

    async def cell() -> float:
        return run_in_virtual_time(main)

    assert asyncio.run(cell()) == 5


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT is ignored in a process that a shell has started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_where_a_loop_runs_already_ends_both() -> None:
    ended = threading.Event()

    async def main() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            for _ in itertools.count():
                await asyncio.sleep(1)
        finally:
            ended.set()

    async def cell() -> None:
        run_in_virtual_time(main, limit_seconds=1e12)

    with closing(asyncio.new_event_loop()) as loop, pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(cell())
    assert ended.wait(60)


@pytest.mark.parametrize("limit_seconds", [None, 10.0], ids=["a-day", "as-given"])
def test_waiting_for_what_never_comes_ends(limit_seconds: float | None) -> None:
    ended: list[float] = []

    async def main() -> None:
        try:
            for second in itertools.count(1):  # as a queue's ticks go on
                await asyncio.sleep(second - now())
        finally:
            ended.append(now())

    limit = {} if limit_seconds is None else {"limit_seconds": limit_seconds}
    with pytest.raises(TimeoutError):
        run_in_virtual_time(main, **limit)
    assert ended == [pytest.approx(limit_seconds or DAY, abs=1)]


def test_small_steps_add_up_however_late_it_is() -> None:
    async def main() -> float:
        await asyncio.sleep(1000 * DAY)
        for _ in range(10):
            await asyncio.sleep(0.001)
        fired = asyncio.Event()
        asyncio.get_running_loop().call_later(0, fired.set)
        await fired.wait()
        return now() - 1000 * DAY

    assert run_in_virtual_time(main, limit_seconds=2000 * DAY) == pytest.approx(0.01, abs=1e-6)


def test_no_timer_is_early_by_the_breadth_of_a_float() -> None:
    """With another timer just before it, a task that waits until a time finds that it has come."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        early: list[float] = []
        done = asyncio.Event()

        def look() -> None:
            if loop.time() >= 300.0:
                done.set()
                return
            early.append(loop.time())
            if len(early) < 100:
                loop.call_at(300.0, look)

        loop.call_at(300.0 - 1e-11, lambda: None)
        loop.call_at(300.0, look)
        async with asyncio.timeout(600):
            await done.wait()
        assert early == []

    run_in_virtual_time(scenario)


def test_failures_come_out() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        raise ValueError("as ever")

    with pytest.raises(ValueError, match="as ever"):
        run_in_virtual_time(main)


def test_what_comes_from_outside_is_waited_for() -> None:
    """With no timer at all the loop blocks for input, here from a thread, instead of turning idly."""

    async def main() -> str:
        return await asyncio.to_thread(lambda: "from a thread")

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(main()) == "from a thread"


def test_every_loop_starts_at_zero() -> None:
    loop = VirtualTimeLoop()
    try:
        assert loop.time() == 0
    finally:
        loop.close()


def test_the_clock_of_a_loop() -> None:
    async def main() -> list[int]:
        clock = LoopClock(asyncio.get_running_loop(), epoch_ns=5 * NANOSECONDS)
        seen = [clock.now_ns()]
        await asyncio.sleep(0.1)
        seen.append(clock.now_ns())
        return seen

    assert run_in_virtual_time(main) == [5 * NANOSECONDS, 5_100_000_000]


def test_the_system_clock_is_wall_time_that_never_runs_back() -> None:
    clock = SystemClock()
    readings = [clock.now_ns() for _ in range(100)]
    assert readings == sorted(readings)
    assert abs(readings[0] - time.time_ns()) < 60 * NANOSECONDS


def test_the_system_clock_ignores_a_jump_of_wall_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now_ns()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now_ns() >= before


def test_the_fake_clock_moves_only_by_advance() -> None:
    clock = FakeClock(7)
    assert clock.now_ns() == 7
    clock.advance(1.5)
    assert clock.now_ns() == 1_500_000_007


def test_a_loop_that_keeps_itself_busy_names_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kuberth.clock.MAX_TURNS", 1000)

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - the mistake that is to be found
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.create_task(spin(), name="restless")

    with pytest.raises(KuberthError, match=r"virtual time stands at 0 s: .* busy: 'restless'"):
        run_in_virtual_time(main)


def test_many_turns_with_time_between_them_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuberth.clock.MAX_TURNS", 100)

    async def main() -> None:
        for _ in range(50):
            for _ in range(50):
                await asyncio.sleep(0)
            await asyncio.sleep(1)

    run_in_virtual_time(main)
