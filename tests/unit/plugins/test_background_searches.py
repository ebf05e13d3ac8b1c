"""Searches for devices that go on between attempts: in turns, within limits, and not after the end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kuberth.plugins.dynamic_resources import site_results
from kuberth.plugins.dynamic_resources.site_results import BackgroundSearches, SearchBudget
from kuberth.testing import run_in_virtual_time


class Searches:
    """Done after `slices` slices; notes each in `log`."""

    def __init__(self, name: str, log: list[str], slices: int = sys.maxsize) -> None:
        self._name, self._log, self._left = name, log, slices
        self.budgets: list[tuple[int | None, int]] = []

    def resume(self, budget: SearchBudget) -> bool:
        self._log.append(self._name)
        self.budgets.append((budget.limit, budget.left))
        self._left -= 1
        return self._left > 0


def run(scenario: Callable[[BackgroundSearches, list[str]], Any], seconds: float = 60.0) -> list[str]:
    """What happened within this time. Each refresh is a dot."""
    log: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: log.append(context["message"]))
        scenario(BackgroundSearches(lambda: log.append("."), limit=1000), log)
        await asyncio.sleep(seconds)

    run_in_virtual_time(main)
    return log


def test_each_gets_a_slice_in_turn_until_it_is_done() -> None:
    made: list[Searches] = []

    def scenario(background: BackgroundSearches, log: list[str]) -> None:
        made.extend([Searches("a", log, 3), Searches("b", log, 1), Searches("c", log, 2)])
        for searches in made:
            background.add(searches)

    assert "".join(run(scenario)) == ".a.b.c.a.c.a"
    assert made[0].budgets == [(1000, site_results._SLICE_WORK)] * 3


def test_one_that_is_done_can_be_added_again() -> None:
    def scenario(background: BackgroundSearches, log: list[str]) -> None:
        background.add(Searches("a", log, 1))
        asyncio.get_running_loop().call_later(10, background.add, Searches("b", log, 1))

    assert run(scenario) == [".", "a", ".", "b"]


def test_searches_that_no_attempt_renews_end() -> None:
    def scenario(background: BackgroundSearches, log: list[str]) -> None:
        background.add(Searches("a", log))

    assert run(scenario).count("a") == site_results._SLICES


def test_an_attempt_renews_them_even_if_no_more_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_results, "_MAX_WAITING", 1)

    def scenario(background: BackgroundSearches, log: list[str]) -> None:
        searches = Searches("a", log)
        background.add(searches)
        pause = site_results._PAUSE_SECONDS
        asyncio.get_running_loop().call_later(10.5 * pause, background.add, searches)

    assert run(scenario).count("a") == site_results._SLICES + 10


def test_only_so_many_wait() -> None:
    def scenario(background: BackgroundSearches, log: list[str]) -> None:
        for number in range(site_results._MAX_WAITING + 2):
            background.add(Searches(str(number), log, 1))

    log = run(scenario)
    assert [name for name in log if name != "."] == [str(each) for each in range(site_results._MAX_WAITING)]


def test_nothing_goes_on_after_the_end() -> None:
    def scenario(background: BackgroundSearches, log: list[str]) -> None:
        background.add(Searches("a", log))
        background.close()

    assert run(scenario) == []


def test_the_end_of_idle_searches() -> None:
    assert run(lambda background, _log: background.close()) == []


def test_without_an_event_loop_attempts_alone_go_on() -> None:
    log: list[str] = []
    background = BackgroundSearches(lambda: log.append("."), limit=None)
    background.add(Searches("a", log))
    background.close()
    assert log == []
