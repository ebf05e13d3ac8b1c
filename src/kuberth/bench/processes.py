"""Runs other programs, and ends them with this process.

In: a command. Out: a process in its own group that writes to a log file, and its resource usage. Where
`setpriv` is installed, the kernel ends the process if this one is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from kuberth.bench.collecting import ProcessUsage
from kuberth.errors import KuberthError

_SETPRIV: Final = shutil.which("setpriv")
_POLL_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 5.0
_PORTS: Final = (20_000, 32_000)
_TRIES: Final = 100
_RANDOM: Final = random.SystemRandom()


class ChildProcess:
    """A running program."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self._popen = popen
        self._log = log

    def check_alive(self) -> None:
        """Raise KuberthError with the end of the log if the program has ended."""
        code = self._popen.poll()
        if code is not None:
            raise KuberthError(f"{self.name} ended with {code}; the end of its log:\n{self.tail()}")

    def tail(self, lines: int = 15) -> str:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    async def until_ready(self, ready: Callable[[], Awaitable[bool]], *, seconds: float) -> None:
        """Return when `ready` returns True; KuberthError if the program ends, or is not ready in time."""
        until = asyncio.get_running_loop().time() + seconds
        while not await ready():
            self.check_alive()
            if asyncio.get_running_loop().time() > until:
                raise KuberthError(
                    f"{self.name} was not ready within {seconds:g} s; the end of its log:\n{self.tail()}"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def watch(self) -> None:
        """Raise when it ends."""
        while True:
            self.check_alive()
            await asyncio.sleep(0.5)

    def usage(self) -> ProcessUsage:
        return usage_of(self._popen.pid)

    async def end(self) -> None:
        """Send SIGTERM, and wait until the program ends or the grace period is over."""
        self._signal(signal.SIGTERM)
        for _ in range(int(_GRACE_SECONDS / _POLL_SECONDS)):
            if self._popen.poll() is not None:
                break
            await asyncio.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._popen.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, number)


@asynccontextmanager
async def running(
    name: str, command: Sequence[str], *, folder: Path, graceful: bool = False
) -> AsyncIterator[ChildProcess]:
    """Run the program while the block lasts. `graceful`: SIGTERM before SIGKILL."""
    program = _start(name, command, folder / f"{name}.log")
    try:
        yield program
        if graceful:
            await program.end()
    finally:
        program.kill()


def _start(name: str, command: Sequence[str], log: Path) -> ChildProcess:
    prefix = [_SETPRIV, "--pdeathsig", "KILL", "--"] if _SETPRIV else []
    try:
        with log.open("ab") as output:
            popen = subprocess.Popen(
                [*prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C interrupts only this process, which ends the program
            )
    except OSError as error:
        raise KuberthError(f"{command[0]} cannot be started: {error.strerror}") from error
    return ChildProcess(name, popen, log)


def usage_of(pid: int) -> ProcessUsage:
    """The usage of a process as /proc shows it; empty where there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return ProcessUsage(None, None)
    after_name = stat.rpartition(")")[2].split()
    cpu_seconds = (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
    peak = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), None)
    return ProcessUsage(cpu_seconds, None if peak is None else int(peak) / 1024)


def free_port() -> int:
    """A free port on loopback, outside of the range from which systems give ports to outgoing connections."""
    for _ in range(_TRIES):
        port = _RANDOM.randrange(*_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise KuberthError(f"no port between {_PORTS[0]} and {_PORTS[1]} is free on 127.0.0.1")


async def is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
