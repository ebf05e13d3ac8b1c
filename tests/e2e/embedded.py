"""The embedded API server in a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kuberth.clock import SystemClock
from kuberth.local.apiserver.http.credentials import ClusterCredentials, kubeconfig
from kuberth.local.apiserver.http.server import HttpServer
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core

COMMAND_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Embedded:
    url: str
    credentials: ClusterCredentials
    kubeconfig: Path


@contextmanager
def embedded_server(folder: Path, *, feature_gates: Mapping[str, bool] | None = None) -> Iterator[Embedded]:
    """An empty cluster with the namespaces every cluster has."""
    credentials = ClusterCredentials.in_directory(folder / "pki")
    started = threading.Event()
    stopping: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    urls: list[str] = []

    async def serve() -> None:
        clock = SystemClock()
        store = await RevisionStore.open(folder / "cluster.db")
        try:
            core = Core(store, clock=clock, feature_gates=feature_gates)
            async with HttpServer(core, credentials=credentials, clock=clock) as server:
                stop = asyncio.Event()
                stopping.append((asyncio.get_running_loop(), stop))
                urls.append(server.url)
                started.set()
                await stop.wait()
        finally:
            await store.close()
            started.set()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="embedded server")
    thread.start()
    try:
        assert started.wait(20.0)
        assert urls, "the server did not start; see its error above"
        path = folder / "kubeconfig"
        path.touch(mode=0o600)
        path.write_text(kubeconfig(urls[0], credentials), encoding="utf-8")
        yield Embedded(urls[0], credentials, path)
    finally:
        for loop, stop in stopping:
            loop.call_soon_threadsafe(stop.set)
        thread.join(20.0)
        assert not thread.is_alive()


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Real kubectl against an embedded server, with a cache of its own."""

    program: Path
    cluster: Embedded
    cache: Path

    def command(self, *arguments: str) -> list[str]:
        return [
            str(self.program),
            f"--kubeconfig={self.cluster.kubeconfig}",
            f"--cache-dir={self.cache}",
            *arguments,
        ]

    def run(self, *arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What it printed; it must succeed."""
        return self.run(*arguments, stdin=stdin).stdout

    def refused(self, *arguments: str, stdin: str = "") -> str:
        """What it complained of; it must fail."""
        done = self.run(*arguments, stdin=stdin, check=False)
        assert done.returncode != 0, done.stdout
        return done.stderr
