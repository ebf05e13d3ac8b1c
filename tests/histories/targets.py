"""The servers under test: the local cluster's API server, and kube-apiserver with etcd as the control.

In: a folder. Out: an address while the server is up, and the ways in which it goes down.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import ssl
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

from tests.e2e.assets import Assets
from tests.e2e.control_plane import ADMIN, ControlPlane, token_of
from tests.histories.disk import Disk, build_library, control_file, log_file
from tests.histories.http_client import Address

START_SECONDS: Final = 60.0
REPOSITORY: Final = Path(__file__).resolve().parents[2]


class StartError(Exception):
    """The server does not start."""


class Target(ABC):
    """One server with its data."""

    ways_down: tuple[str, ...]
    """What `restart` can do."""
    has_disk = False

    def __init__(self) -> None:
        self.up = asyncio.Event()
        self.address: Address | None = None

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def restart(self, way: str, rng: random.Random, *, pause: float) -> str:
        """Go down and come back; says what happened."""

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    def set_disk(self, *, full: bool = False, sync_seconds: float = 0.0) -> None: ...


class Launcher:
    """The process that forks the local cluster's API servers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._library = build_library(folder)
        self._token = ""
        self._tls: ssl.SSLContext | None = None
        self._log = folder / "servers.log"

    @property
    def has_disk(self) -> bool:
        return self._library is not None

    async def __aenter__(self) -> Launcher:
        paths = filter(None, (os.environ.get("PYTHONPATH"), str(REPOSITORY)))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        if self._library is not None:
            env["LD_PRELOAD"] = str(self._library)
        command = [sys.executable, "-m", "tests.histories.serving", str(self._folder / "pki")]
        pipe = asyncio.subprocess.PIPE
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=log, env=env
            )
        self._token = (await self.read())["token"]
        self._tls = ssl.create_default_context(cafile=str(self._folder / "pki" / "ca.crt"))
        return self

    async def __aexit__(self, *exc: object) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()

    async def read(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            raise StartError(f"no more servers: {self._log.read_text(encoding='utf-8')[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    async def launch(self, **wanted: Any) -> tuple[int, Address]:
        """Process id and address of a new server."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._tls is not None
        self._process.stdin.write((json.dumps(wanted) + "\n").encode())
        pid: int = (await self.read())["pid"]
        found = await self.read()
        if "port" not in found:
            await _wait_gone(pid)
            raise StartError(found["failed"])
        return pid, Address(found["port"], self._tls, self._token)


class LocalServer(Target):
    """The local cluster's API server over its SQLite file."""

    ways_down: tuple[str, ...] = ("kill", "kill", "term")

    def __init__(self, launcher: Launcher, folder: Path, *, keep_changes: int) -> None:
        super().__init__()
        folder.mkdir()
        self._launcher = launcher
        self._folder = folder
        self._keep_changes = keep_changes
        self._pid: int | None = None
        self._disk = Disk(folder) if launcher.has_disk else None
        self.has_disk = launcher.has_disk
        if self.has_disk:
            self.ways_down = (*self.ways_down, "power", "power")

    async def start(self) -> None:
        self._pid, self.address = await self._launcher.launch(
            folder=str(self._folder), keep_changes=self._keep_changes, disk=self.has_disk
        )
        self.up.set()

    async def restart(self, way: str, rng: random.Random, *, pause: float) -> str:
        await self._end(signal.SIGTERM if way == "term" else signal.SIGKILL)
        what = way
        if way == "power" and self._disk is not None:
            what = f"power, lost {self._disk.lose_power(rng)}"
        await self.start()
        return what

    async def stop(self) -> None:
        await self._end(signal.SIGKILL)
        if self._disk is not None:
            self._disk.close()

    def remove(self) -> None:
        """Remove the data of a server that was stopped."""
        shutil.rmtree(self._folder)
        for file in (control_file(self._folder), log_file(self._folder)):
            file.unlink(missing_ok=True)

    def set_disk(self, *, full: bool = False, sync_seconds: float = 0.0) -> None:
        if self._disk is not None:
            self._disk.set(full=full, sync_seconds=sync_seconds)

    async def _end(self, number: signal.Signals) -> None:
        self.up.clear()
        pid, self._pid = self._pid, None
        if pid is not None:
            os.kill(pid, number)
            await _wait_gone(pid)


async def _wait_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


class ControlServer(Target):
    """kube-apiserver and etcd. The data of one run stays for the next: starting them takes seconds."""

    ways_down = ("kill kube-apiserver", "kill etcd")

    def __init__(self, folder: Path, assets: Assets) -> None:
        super().__init__()
        self._plane = ControlPlane(folder, assets, audit=False)

    async def start(self) -> None:
        await asyncio.to_thread(self._plane.start)
        tls = ssl.create_default_context(cafile=str(self._plane.authority.file))
        self.address = Address(self._plane.address[1], tls, token_of(ADMIN))
        self.up.set()

    async def restart(self, way: str, rng: random.Random, *, pause: float) -> str:
        if way == "kill etcd":
            # The API server stays, and so do its clients.
            await asyncio.to_thread(self._plane.kill_etcd)
            await asyncio.sleep(pause)
            await asyncio.to_thread(self._plane.start_etcd)
            return way
        self.up.clear()
        await asyncio.to_thread(self._plane.kill_api_server)
        await asyncio.to_thread(self._plane.start_api_server)
        self.up.set()
        return way

    async def stop(self) -> None:
        await asyncio.to_thread(self._plane.stop)

    def set_disk(self, *, full: bool = False, sync_seconds: float = 0.0) -> None:
        """Its disk has no faults."""
