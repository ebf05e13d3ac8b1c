"""The queue of a controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.working import COALESCE_SECONDS, Sync, Worker, coalesce_seconds, keep_running
from tests.unit.local.hollow.harness import virtual


@asynccontextmanager
async def working(sync: Sync, *, parallel: int = 4) -> AsyncIterator[Worker]:
    worker = Worker("test", sync, parallel=parallel)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(worker.run())
        yield worker
        running.cancel()


def test_a_key_is_never_worked_on_twice_at_a_time() -> None:
    async def main() -> None:
        now: set[str] = set()
        done: list[str] = []

        async def sync(key: str) -> None:
            assert key not in now
            now.add(key)
            await asyncio.sleep(1)
            now.discard(key)
            done.append(key)

        async with working(sync) as worker:
            for _ in range(5):
                worker.add("a")
                worker.add("b")
            await asyncio.sleep(0.5)
            for _ in range(3):
                worker.add("a")
            await asyncio.sleep(5)
            assert sorted(done) == ["a", "a", "b"]

    virtual(main)


def test_failures_are_tried_again_later_each_time() -> None:
    async def main() -> None:
        at: list[float] = []

        async def sync(key: str) -> None:
            at.append(asyncio.get_running_loop().time())
            if len(at) < 6:
                raise StatusError(409, "Conflict", "changed") if len(at) % 2 else RuntimeError("a bug")

        async with working(sync) as worker:
            worker.add("a")
            await asyncio.sleep(60)
            waits = [after - before for before, after in pairwise(at)]
            assert len(at) == 6
            assert waits == sorted(waits)
            assert waits[0] < 0.1

    virtual(main)


def test_later_wishes_are_kept_and_the_earliest_counts() -> None:
    async def main() -> None:
        at: list[float] = []

        async def sync(key: str) -> float | None:
            at.append(asyncio.get_running_loop().time())
            return 100.0 if len(at) == 1 else None

        async with working(sync) as worker:
            worker.add_after("a", 50)
            worker.add_after("a", 10)
            worker.add_after("a", 30)
            await asyncio.sleep(300)
            assert [round(moment) for moment in at] == [10, 110]

    virtual(main)


def test_keys_that_add_each_other_leave_time_for_others() -> None:
    """A sync without an await, adding keys for ever, stopped everything else."""

    async def main() -> None:
        calls = 0

        async def sync(key: str) -> None:
            nonlocal calls
            calls += 1
            if calls < 10_000:
                worker.add("b" if key == "a" else "a")

        async with working(sync) as worker:
            worker.add("a")
            for _ in range(100):
                await asyncio.sleep(0)
            assert 0 < calls < 10_000

    virtual(main)


def test_what_fails_is_named_and_started_again_later_each_time(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        at: list[float] = []

        async def run() -> None:
            at.append(asyncio.get_running_loop().time())
            if len(at) < 6:
                raise RuntimeError("a bug")

        await keep_running("controller test", run)
        waits = [after - before for before, after in pairwise(at)]
        assert len(at) == 6
        assert waits == sorted(waits)

    virtual(main)
    assert len(caplog.messages) == 5
    assert all("controller test failed" in message for message in caplog.messages)


def test_a_worker_that_is_started_again_knows_its_keys() -> None:
    async def main() -> None:
        done: list[str] = []

        async def sync(key: str) -> None:
            done.append(key)

        worker = Worker("test", sync)
        async with asyncio.TaskGroup() as tasks:
            first = tasks.create_task(worker.run())
            await asyncio.sleep(1)
            worker.add_after("later", 100)
            first.cancel()
        async with asyncio.TaskGroup() as tasks:
            second = tasks.create_task(worker.run())
            await asyncio.sleep(1)
            second.cancel()
        assert done == ["later"]

    virtual(main)


def test_the_more_there_is_to_look_at_the_longer_changes_gather() -> None:
    assert coalesce_seconds(0) == coalesce_seconds(100) == COALESCE_SECONDS
    assert coalesce_seconds(5000) == pytest.approx(1.0)


def test_a_key_wakes_one_waiting_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty-four workers that wake for every key cost more than the work."""

    async def main() -> None:
        async with working(lambda key: asyncio.sleep(0), parallel=64) as worker:
            await asyncio.sleep(1)
            loop = asyncio.get_running_loop()
            steps = 0
            call_soon = loop.call_soon

            def counted(*args: Any, **kwargs: Any) -> Any:
                nonlocal steps
                steps += 1
                return call_soon(*args, **kwargs)

            monkeypatch.setattr(loop, "call_soon", counted)  # every wake-up goes through it
            worker.add("a")
            await asyncio.sleep(1)
            assert steps < 16

    virtual(main)
