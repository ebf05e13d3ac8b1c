"""The watchdog: its rules on a clock of our own, and the real thing in a process of its own."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kuberth.framework.extension_points import FilterPlugin
from kuberth.framework.running.calls import Calls
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.programs.run.watchdog import Watchdog, WatchdogLimits, running_plugin

LIMITS = WatchdogLimits(beat=1, blocked=10, again=60, signal=5)


class Harness:
    def __init__(self) -> None:
        self.now = 100.0
        self.ends: list[int] = []
        self.dog = Watchdog(LIMITS, now=lambda: self.now, end=self.ends.append)

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.dog.check()


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message.splitlines()[0] for record in caplog.records]


def test_a_loop_that_turns_is_not_worth_a_word(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    for _ in range(100):
        harness.dog.beat()
        harness.after(1)
    assert logged(caplog) == []


def test_a_blocked_loop_is_logged_once_and_again_after_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    for _ in range(9):
        harness.after(1)
    assert logged(caplog) == []
    for _ in range(60):
        harness.after(1)
    (line,) = logged(caplog)
    assert line.startswith("the event loop has been blocked for 10 s: no plugin is running. ")
    assert "test_watchdog.py" in caplog.text, "the stack is part of it"
    harness.after(1)
    assert len(logged(caplog)) == 2
    harness.dog.beat()
    harness.after(1)
    assert logged(caplog)[2:] == ["the event loop runs again"]


def test_a_signal_that_is_heeded_ends_nothing_by_force() -> None:
    harness = Harness()
    harness.dog.signalled()
    harness.now += 1
    harness.dog.beat()
    for _ in range(60):
        harness.after(1)
        harness.dog.beat()
    assert harness.ends == []


def test_an_unhandled_signal_ends_the_process(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    harness.now += 3
    harness.dog.signalled()
    harness.after(4)
    assert harness.ends == []
    harness.after(1)
    assert harness.ends == [1]
    assert logged(caplog)[-1] == "a signal came 5 s ago and no plugin is running; ending without it"


def test_the_second_signal_ends_at_once(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    harness.dog.signalled()
    assert harness.ends == []
    harness.dog.signalled()
    assert harness.ends == [1]
    assert logged(caplog) == ["second signal; ending at once"]


class Looking(FilterPlugin):
    name = "Looking"

    def __init__(self, look: Callable[[], None]) -> None:
        self.look = look

    def filter(self, *_: object) -> None:
        self.look()


def test_the_plugin_that_blocks_the_loop_is_read_from_the_stack() -> None:
    found: list[object] = []
    plugin = Looking(lambda: found.append(running_plugin(sys._getframe())))
    Calls("default-scheduler", SchedulerMetrics()).call(plugin, "Filter", plugin.filter, None, None, None)
    assert found == [("Looking", "Filter")]
    assert running_plugin(sys._getframe()) is None
    assert running_plugin(None) is None


SCRIPT = """
import asyncio, logging, signal, sys, threading, time
from kuberth.framework.running.calls import Calls
from kuberth.framework.extension_points import FilterPlugin
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.programs.run.watchdog import WatchdogLimits, Watchdog

logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")


class Blocking(FilterPlugin):
    name = "Blocking"

    def filter(self, *_):
        print("blocking", flush=True)
        time.sleep(600)


class Deaf(Blocking):
    # Another thread gets the signal, so that the call of the main thread goes on.
    def filter(self, *_):
        def signal_here():
            time.sleep(0.1)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

        threading.Thread(target=signal_here).start()
        super().filter()


class Busy(Blocking):
    def filter(self, *_):
        print("blocking", flush=True)
        while True:
            pass


async def main():
    stop = asyncio.Event()
    with Watchdog(WatchdogLimits(beat=0.05, blocked=0.2, signal=0.2)).watching(stop.set):
        if sys.argv[1] != "none":
            plugin = {"sleep": Blocking, "spin": Busy, "deaf": Deaf}[sys.argv[1]]()
            await asyncio.sleep(0.1)
            Calls("default-scheduler", SchedulerMetrics()).call(plugin, "Filter", plugin.filter)
        print("waiting", flush=True)
        await stop.wait()
    print("ended well", flush=True)

if sys.argv[2] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    with process:
        """Waits for it and closes its pipes."""


@pytest.fixture(params=["asyncio", "uvloop"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], subprocess.Popen[str]]:
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    script = tmp_path / "blocked.py"
    script.write_text(textwrap.dedent(SCRIPT))

    def run(plugin: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(script), plugin, request.param],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        request.addfinalizer(partial(_end, process))
        assert process.stdout is not None
        assert process.stdout.readline() in ("blocking\n", "waiting\n")
        return process

    return run


@pytest.mark.parametrize("plugin", ["sleep", "spin"])
def test_a_blocked_process_says_why_and_ends_at_a_signal(
    start: Callable[[str], subprocess.Popen[str]], plugin: str
) -> None:
    process = start(plugin)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert re.match(r"the event loop has been blocked for \d+ s: plugin Blocking is running at Filter", line)
    assert any("in filter" in line for line in process.stderr), "the stack shows where"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 1
    rest = process.stderr.read()
    assert "plugin Blocking is running at Filter and has not returned; ending without it" in rest


def test_a_signal_that_came_before_a_long_call_ends_the_process(
    start: Callable[[str], subprocess.Popen[str]],
) -> None:
    assert start("deaf").wait(timeout=60) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_healthy_process_well(
    start: Callable[[str], subprocess.Popen[str]], number: signal.Signals
) -> None:
    process = start("none")
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, "ended well\n", "")


def test_signal_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> None:
        with Watchdog().watching(lambda: None):
            assert signal.getsignal(signal.SIGTERM) is not before

    asyncio.run(main())
    assert signal.getsignal(signal.SIGTERM) is before
