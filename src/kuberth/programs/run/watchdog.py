"""Detects a blocked event loop, reports what blocks it, and lets signals end the process anyway.

In: heartbeats from the event loop, signals, and a watching thread. Out: a log line with the plugin, its
extension point and the stack; and the end of the process when the loop cannot handle a signal. A plugin that
blocks in a synchronous extension point stops the loop. A separate thread answers health checks, which fail
once the loop has been blocked for `WatchdogLimits.blocked` seconds; this is how a kubelet notices. The
watching thread cannot end the plugin; it can only report it and make sure that the process can be ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

EX_FAILURE: Final = 1


class WatchdogLimits(NamedTuple):
    """Intervals and time limits in seconds."""

    beat: float = 1.0
    """Interval of the loop's heartbeats and of the thread's checks."""
    blocked: float = 10.0
    """Time without a heartbeat after which probes fail and the thread reports what blocks the loop."""
    again: float = 60.0
    """Time until the next report."""
    signal: float = 5.0
    """Time for the loop to handle a signal before the thread ends the process."""


@contextmanager
def on_signals(call: Callable[[], object], *numbers: signal.Signals) -> Iterator[None]:
    """Call a function in the running event loop for each of these signals, while the block lasts."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _interrupt_main_thread() -> None:
    """Interrupt the main thread's system call, if any; Python repeats it.

    Otherwise, a signal that came just before the call would wait for its end, because Python handles signals
    between calls.
    """
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)


class Watchdog:
    """Watches one event loop, which must run in the main thread."""

    def __init__(
        self,
        limits: WatchdogLimits | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._limits = WatchdogLimits() if limits is None else limits
        self._now = now
        self._end = end
        self._beat_at = now()
        self._logged_at: float | None = None
        self._signalled_at: float | None = None

    # In the event loop

    def beat(self) -> None:
        """Record a heartbeat."""
        self._beat_at = self._now()

    def signalled(self) -> None:
        """Handle a signal: end the process, the second time at once."""
        if self._signalled_at is not None:
            self._finish("second signal; ending at once")
        self._signalled_at = self._now()

    # In any thread

    def problem(self) -> str | None:
        """The problem that health checks report; None while the loop runs."""
        silent = self._now() - self._beat_at
        if silent < self._limits.blocked:
            return None
        return f"the event loop has been blocked for {silent:.0f} s"

    # In the thread

    def check(self) -> None:
        """Check once."""
        now, beat_at = self._now(), self._beat_at
        silent = now - beat_at
        if silent >= self._limits.signal:
            _interrupt_main_thread()
        if silent < self._limits.blocked:
            if self._logged_at is not None:
                logger.warning("the event loop runs again")
                self._logged_at = None
        elif self._logged_at is None or now - self._logged_at >= self._limits.again:
            self._logged_at = now
            self._log_blocked(silent)
        signalled_at = self._signalled_at
        if signalled_at is not None and beat_at < signalled_at and now - signalled_at >= self._limits.signal:
            self._finish(f"a signal came {now - signalled_at:.0f} s ago and {_cause()}; ending without it")

    def _log_blocked(self, silent: float) -> None:
        frame = _main_frame()
        stack = "".join(traceback.format_stack(frame)) if frame is not None else ""
        logger.error(
            "the event loop has been blocked for %.0f s: %s. Nothing is scheduled and probes fail; "
            "only a restart helps if this does not end\n%s",
            silent,
            _cause(),
            stack.rstrip(),
        )

    def _finish(self, why: str) -> None:
        logger.error("%s", why)
        for handler in logging.getLogger().handlers:
            handler.flush()
        self._end(EX_FAILURE)

    @contextmanager
    def watching(self, on_signal: Callable[[], None]) -> Iterator[None]:
        """Watch the running loop; SIGTERM and SIGINT call `on_signal` in it."""
        loop = asyncio.get_running_loop()

        def handle(_number: int, _frame: FrameType | None) -> None:
            # Python runs this between two instructions of the main thread, even inside a plugin.
            self.signalled()
            loop.call_soon_threadsafe(on_signal)

        ended = threading.Event()
        timer: asyncio.Handle | None = None

        def check_repeatedly() -> None:
            while not ended.wait(self._limits.beat):
                self.check()

        def beat() -> None:
            nonlocal timer
            self.beat()
            timer = loop.call_later(self._limits.beat, beat)

        beat()
        thread = threading.Thread(target=check_repeatedly, name="watchdog", daemon=True)
        before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
        before[signal.SIGURG] = signal.signal(signal.SIGURG, lambda _number, _frame: None)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            if timer is not None:
                timer.cancel()
            for number, handler in before.items():
                signal.signal(number, handler)
            thread.join()


def _cause() -> str:
    """What blocks the main thread, as a clause."""
    found = running_plugin(_main_frame())
    if found is None:
        return "no plugin is running"
    plugin, point = found
    return f"plugin {plugin} is running at {point} and has not returned"


def running_plugin(frame: FrameType | None) -> tuple[str, str] | None:
    """The plugin and extension point of the innermost plugin call on the stack; None if there is none."""
    called = ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(("kuberth.framework.", "kuberth.queue.")):
            here = frame.f_locals
            name = getattr(here.get("plugin"), "name", None)
            if isinstance(name, str):
                point = here.get("point")
                return name, point if isinstance(point, str) else called
            name = getattr(here.get("registered"), "plugin", None)
            if isinstance(name, str):
                return name, "QueueingHint"
        called = frame.f_code.co_name
        frame = frame.f_back
    return None


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)
