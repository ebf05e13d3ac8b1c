"""The loop ticks its queue after as many seconds as the queue last said."""

from __future__ import annotations

import asyncio

import pytest

from kuberth.clock import LoopClock, run_in_virtual_time
from tests.unit.scheduling.harness import make_harness


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([0.25, 1.0, 0.5, 0.125], id="short"),
        pytest.param([0.25, 7.0, 0.5, 30.0, 2.0], id="short-and-long"),
        pytest.param([0.0, 0.0, 1.0], id="at-least-a-millisecond"),
    ],
)
def test_every_answer_counts_for_one_wait(answers: list[float]) -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        scheduler = make_harness(clock=LoopClock(loop))
        left, times = iter(answers), list[float]()

        def tick() -> float:
            times.append(loop.time() - began)
            seconds = next(left, None)
            if seconds is None:
                scheduler.loop.stop()
                return 0.0
            return seconds

        scheduler.queue.tick = tick  # type: ignore[method-assign]  # a queue whose mind changes
        began = loop.time()
        await scheduler.loop.run_ticks()
        return times

    expected = [0.0]
    for seconds in answers:
        expected.append(expected[-1] + max(seconds, 0.001))
    assert run_in_virtual_time(main) == pytest.approx(expected)


def test_a_queue_may_ask_for_an_earlier_tick() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        scheduler = make_harness(clock=LoopClock(loop))
        times = list[float]()

        def tick() -> float:
            times.append(loop.time() - began)
            if len(times) == 3:
                scheduler.loop.stop()
                return 0.0
            return 100.0

        scheduler.queue.tick = tick  # type: ignore[method-assign]  # as above
        began = loop.time()
        loop.call_later(5, scheduler.loop._tick_due.set)  # what `when_due` hands to the queue
        await scheduler.loop.run_ticks()
        return times

    assert run_in_virtual_time(main) == pytest.approx([0.0, 5.0, 105.0])
