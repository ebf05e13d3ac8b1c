from __future__ import annotations

import asyncio

import pytest

from kuberth.client.connecting.rate_limit import RateLimiter
from kuberth.testing import run_in_virtual_time


async def moments(limiter: RateLimiter, number: int) -> list[float]:
    """When each of `number` concurrent callers gets its token."""
    loop = asyncio.get_running_loop()
    found: list[float] = []

    async def one() -> None:
        await limiter.acquire()
        found.append(loop.time())

    async with asyncio.TaskGroup() as group:
        for each in range(number):
            group.create_task(one(), name=str(each))
    return found


def test_a_burst_is_free_and_the_rest_comes_at_the_rate() -> None:
    found = run_in_virtual_time(lambda: moments(RateLimiter(50, 100), 150))
    assert found[:100] == [0.0] * 100
    assert found[100:] == pytest.approx([(each + 1) / 50 for each in range(50)], abs=1e-3)


def test_an_idle_bucket_fills_up_to_its_burst() -> None:
    async def main() -> list[float]:
        limiter = RateLimiter(10, 5)
        await moments(limiter, 5)
        await asyncio.sleep(100)
        return await moments(limiter, 6)

    found = run_in_virtual_time(main)
    assert found == pytest.approx([100.0] * 5 + [100.1], abs=1e-3)


def test_a_negative_rate_is_no_limit() -> None:
    assert run_in_virtual_time(lambda: moments(RateLimiter(-1, 1), 1000)) == [0.0] * 1000


def test_zeros_are_client_gos_defaults() -> None:
    found = run_in_virtual_time(lambda: moments(RateLimiter(0, 0), 12))
    assert found == pytest.approx([0.0] * 10 + [0.2, 0.4], abs=1e-3)


def test_first_come_first_served_and_cancelled_callers_take_no_token() -> None:
    async def main() -> list[tuple[str, float]]:
        limiter = RateLimiter(1, 1)
        served: list[tuple[str, float]] = []

        async def one(name: str) -> None:
            await limiter.acquire()
            served.append((name, asyncio.get_running_loop().time()))

        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(one(name), name=name) for name in "abcd"}
            await asyncio.sleep(0.5)
            assert limiter.waiting == 3
            assert not limiter.acquire_nowait()
            tasks["b"].cancel()
        return served

    served = run_in_virtual_time(main)
    assert [name for name, _ in served] == ["a", "c", "d"]
    assert [at for _, at in served] == pytest.approx([0.0, 1.0, 2.0], abs=1e-3)


def test_a_token_that_came_too_late_is_given_back() -> None:
    async def main() -> float:
        limiter = RateLimiter(1, 1)
        await limiter.acquire()
        first = asyncio.ensure_future(limiter.acquire())
        second = asyncio.ensure_future(limiter.acquire())
        loop = asyncio.get_running_loop()
        # Cancelled in the same turn of the loop in which its token comes.
        loop.call_at(1.0, first.cancel)
        await second
        assert first.cancelled()
        return loop.time()

    assert run_in_virtual_time(main) == pytest.approx(1.0, abs=0.01)
