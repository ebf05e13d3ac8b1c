"""`python -m tests.histories.serving PKI`: starts API servers quickly, one at a time.

In: lines of JSON on standard input, each a server to start. Out: a line when it is there and one when it
serves. The modules are loaded once, and every server is a fork: a process of its own that can be killed.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from kuberth.clock import SystemClock
from kuberth.errors import KuberthError
from kuberth.local.apiserver.http.credentials import ClusterCredentials
from kuberth.local.apiserver.http.server import HttpServer
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from tests.histories import disk

_PR_SET_PDEATHSIG = 1


def main() -> None:
    credentials = ClusterCredentials.in_directory(Path(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended servers are no zombies
    gc.collect()
    gc.freeze()
    report(token=credentials.token)
    for line in sys.stdin:
        wanted = json.loads(line)
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            report(pid=os.getpid())
            run(wanted, credentials)
            os._exit(0)


def report(**fields: Any) -> None:
    # One write: no other process can come between.
    os.write(sys.stdout.fileno(), (json.dumps(fields) + "\n").encode())


def run(wanted: dict[str, Any], credentials: ClusterCredentials) -> None:
    folder = Path(wanted["folder"])
    try:
        if wanted["disk"]:
            disk.begin(folder)
        asyncio.run(serve(folder, credentials, keep_changes=wanted["keep_changes"]))
    except (KuberthError, OSError) as error:
        report(failed=f"{type(error).__name__}: {error}")


async def serve(folder: Path, credentials: ClusterCredentials, *, keep_changes: int) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    clock = SystemClock()
    store = await RevisionStore.open(folder / "cluster.sqlite", keep_changes=keep_changes)
    try:
        core = Core(store, clock=clock)
        async with HttpServer(core, credentials=credentials, clock=clock) as server:
            report(port=server.port)
            await ended.wait()
    finally:
        await store.close()


if __name__ == "__main__":
    main()
