"""Programs under test as processes that never outlive the tests.

Each runs in a process group of its own, writes to a log file, and is killed with its group at exit. The
kernel kills it too should the test process itself be killed, where `setpriv` is there to ask for that.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_SETPRIV = shutil.which("setpriv")
_running: set[Process] = set()


class Process:
    """One program; made means started."""

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        prefix = [_SETPRIV, "--pdeathsig", "KILL", "--"] if _SETPRIV else []
        with log.open("ab") as output:
            self._popen = _spawn([*prefix, *command], output, env)
        _running.add(self)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        return self._popen.poll()

    @property
    def alive(self) -> bool:
        return self.returncode is None

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait(self, seconds: float) -> int:
        """Its exit code; fails if it does not end in time."""
        try:
            code = self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds:g} s; {self.tail()}") from None
        _running.discard(self)
        return code

    def terminate(self, *, seconds: float = 15.0) -> int:
        """Ask it to end (SIGTERM) and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """End it and whatever it started, at once."""
        self.signal(signal.SIGKILL)
        self._popen.wait(10)
        _running.discard(self)

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def tail(self, lines: int = 40) -> str:
        last = "\n".join(self.output().splitlines()[-lines:])
        return f"last lines of {self.log}:\n{last}"


def _spawn(command: list[str], output: IO[bytes], env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )


@atexit.register
def _kill_all() -> None:
    for process in list(_running):
        process.kill()
