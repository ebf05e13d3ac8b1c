"""Ends code that takes too long, such as a plugin that never answers, with an exception where it stands.

In: seconds and a module. Out: `RuleTimeoutError`, which names the line of the module that ran. Only the main
thread is ended, and only where no other timer runs, such as pytest-timeout's.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

AGAIN_SECONDS: Final = 0.1
"""Other exceptions follow the first one, as the framework may take it for the plugin's."""


class RuleTimeoutError(Exception):
    """A rule was not checked in time."""


@contextmanager
def time_limit(seconds: float, module: str) -> Iterator[None]:
    """Raise `RuleTimeoutError` in the block once it has taken `seconds`."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    if any(signal.getitimer(signal.ITIMER_REAL)):
        yield
        return

    def end(_signal: int, frame: FrameType | None) -> None:
        raise RuleTimeoutError(f"took longer than {seconds:g} s{_place(frame, module)}")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _place(frame: FrameType | None, module: str) -> str:
    """The innermost line of the module that runs, if any."""
    while frame is not None:
        if frame.f_globals.get("__name__") == module:
            code = frame.f_code
            return f", and was in {code.co_qualname} ({code.co_filename}, line {frame.f_lineno})"
        frame = frame.f_back
    return ""
