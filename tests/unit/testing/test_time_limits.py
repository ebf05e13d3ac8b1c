"""Code that does not end by itself is ended, where it stands."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from kuberth.framework import FilterPlugin, Status
from kuberth.framework.extension_points import PermitPlugin
from kuberth.testing import plugin_contract
from kuberth.testing.plugin_contract import RuleOutcome, check_plugin
from kuberth.testing.time_limits import RuleTimeoutError, time_limit


@pytest.fixture(autouse=True)
def no_other_timer() -> Iterator[None]:
    """That of pytest-timeout stands still meanwhile."""
    seconds, interval = signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.setitimer(signal.ITIMER_REAL, seconds, interval)


def endless() -> None:
    while True:
        pass


def stubborn() -> None:
    try:
        endless()
    except RuleTimeoutError:
        endless()


def test_the_line_is_named() -> None:
    words = r"^took longer than 0.01 s, and was in endless \(.*, line \d+\)$"
    with pytest.raises(RuleTimeoutError, match=words), time_limit(0.01, __name__):
        endless()
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_it_goes_on_until_the_block_ends() -> None:
    with pytest.raises(RuleTimeoutError), time_limit(0.01, __name__):
        stubborn()


@pytest.mark.parametrize("where", ["a timer runs", "another thread"])
def test_where_there_is_no_timer_nothing_is_ended(where: str) -> None:
    handlers = []

    def look() -> None:
        with time_limit(1000, __name__):
            handlers.append(signal.getsignal(signal.SIGALRM))

    before = signal.getsignal(signal.SIGALRM)
    if where == "another thread":
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    else:
        signal.setitimer(signal.ITIMER_REAL, 900)
        look()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
    assert handlers == [before]


class Hanging(FilterPlugin):
    name = "Hanging"

    def filter(self, *_: object) -> Status | None:
        endless()
        return None


class HangingLater(PermitPlugin):
    name = "HangingLater"

    def permit(self, *_: object) -> None:
        endless()


class HangingFirst(Hanging):
    name = "HangingFirst"

    def __init__(self, args: object, handle: object) -> None:
        endless()


@pytest.mark.parametrize(
    ("plugin", "rule"), [(Hanging, "answers"), (HangingLater, "scheduling"), (HangingFirst, "construction")]
)
def test_a_plugin_that_never_answers(plugin: type, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_contract, "RULE_SECONDS", 0.5)
    (broken,) = [each for each in check_plugin(plugin).findings if each.outcome is RuleOutcome.FAILED]
    assert broken.rule == rule
    assert "RuleTimeoutError: took longer than 0.5 s, and was in endless" in broken.message
