"""Changes wait while a question is asked, and happen in order afterwards."""

from __future__ import annotations

import asyncio

import pytest

from kuberth.holding import Hold
from kuberth.testing import run_in_virtual_time


def test_what_comes_during_a_question_is_called_at_its_end_in_order() -> None:
    hold, calls = Hold(), list[str]()
    hold.when_ended(lambda: calls.append("before"))
    hold.begin()
    hold.when_ended(lambda: calls.append("first"))
    hold.when_ended(lambda: calls.append("second"))
    assert calls == ["before"]
    hold.end()
    hold.when_ended(lambda: calls.append("after"))
    assert calls == ["before", "first", "second", "after"]


def _fail() -> None:
    raise ValueError("broken")


def test_a_change_that_fails_costs_no_other_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    hold, calls = Hold(), list[str]()
    hold.begin()
    hold.when_ended(_fail)
    hold.when_ended(lambda: calls.append("second"))
    hold.end()
    assert calls == ["second"]
    assert "a delayed change failed" in caplog.text


def test_who_awaits_goes_on_when_nothing_is_asked() -> None:
    async def main() -> list[str]:
        hold, seen = Hold(), list[str]()

        async def change() -> None:
            await hold.ended()
            seen.append("held" if hold.is_held else "free")

        hold.begin()
        gone = asyncio.ensure_future(change())
        waiting = asyncio.ensure_future(change())
        await asyncio.sleep(1)
        gone.cancel()
        hold.end()
        hold.begin()  # the next question begins before those that wait have their turn
        await asyncio.sleep(1)
        assert seen == []
        hold.end()
        await waiting
        await change()
        return seen

    assert run_in_virtual_time(main) == ["free", "free"]
