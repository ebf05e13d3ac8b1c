"""Polling with a bound: every wait of these tests says for what, and ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(
    what: str,
    probe: Callable[[], T | None],
    *,
    seconds: float = 30.0,
    every: float = 0.05,
    explain: Callable[[], object] | None = None,
) -> T:
    """The first answer of `probe` that is neither None nor False; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer is not None and answer is not False:
            return answer
        if time.monotonic() > deadline:
            more = f"; {explain()}" if explain else ""
            raise AssertionError(f"timed out after {seconds:g} s waiting for {what}{more}")
        time.sleep(every)


def stays(what: str, probe: Callable[[], bool], *, seconds: float, every: float = 0.1) -> None:
    """Fails as soon as `probe` is not true any more within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert probe(), f"not true any more: {what}"
        time.sleep(every)
