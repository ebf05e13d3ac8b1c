"""`python -m benchmarks.apiserver`: what the embedded API server's store does in a second.

In: pods created by many writers at a time, in memory and on disk (every write durable before the next of
its writer), and watches that read every change. Out: a table of creates and of delivered changes a second;
one writer, and one watch, is what the rest is to be compared with.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final, cast

from kuberth.api.wire import to_builtins
from kuberth.local.apiserver.objects import Obj, revision_of
from kuberth.local.apiserver.store.store import RevisionStore, Subscription
from kuberth.testing import make_pod

AT_A_TIME: Final = (1, 10, 100)
POD: Final = cast(Obj, to_builtins(make_pod("web", cpu="500m", labels={"app": "web"})))


async def _create(store: RevisionStore, first: int, number: int) -> None:
    for each in range(first, first + number):
        name = f"web-{each}"
        pod = {**POD, "metadata": {**POD["metadata"], "name": name}}
        await store.durable(revision_of(store.stage("pods", f"default/{name}", pod)))


async def _creates_per_second(path: Path | None, number: int, writers: int) -> float:
    store = await RevisionStore.open(path)
    await _create(store, number, 20)
    share = number // writers
    before = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for writer in range(writers):
            group.create_task(_create(store, writer * share, share), name=f"writer {writer}")
    seconds = time.perf_counter() - before
    await store.close()
    return share * writers / seconds


async def _read(reader: Subscription, number: int) -> None:
    for _ in range(number):
        await anext(reader)


async def _deliveries_per_second(number: int, watches: int) -> float:
    store = await RevisionStore.open(None)
    readers = [store.subscribe("pods", since=store.revision) for _ in range(watches)]
    before = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for each, reader in enumerate(readers):
            group.create_task(_read(reader, number), name=f"watch {each}")
        for writer in range(10):
            share = number // 10
            group.create_task(_create(store, writer * share, share), name=f"writer {writer}")
    seconds = time.perf_counter() - before
    await store.close()
    return number * watches / seconds


def _row(what: str, many: int, per_second: float, first: float) -> None:
    print(f"{what:32} {many:5} at a time {per_second:12,.0f} a second {per_second / first:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--creates", type=int, default=2000)
    parser.add_argument("--data", type=Path, help="a directory on the disk to measure (a temporary one)")
    options = parser.parse_args()
    number = max(100, options.creates // 100 * 100)
    for place in ("memory", "disk"):
        first = 0.0
        for writers in AT_A_TIME:
            with tempfile.TemporaryDirectory(dir=options.data) as folder:
                path = Path(folder, "store.db") if place == "disk" else None
                per_second = asyncio.run(_creates_per_second(path, number, writers))
            first = first or per_second
            _row(f"creates, in process, {place}", writers, per_second, first)
    first = 0.0
    for watches in AT_A_TIME:
        per_second = asyncio.run(_deliveries_per_second(number, watches))
        first = first or per_second
        _row("watch deliveries, in process", watches, per_second, first)


if __name__ == "__main__":
    main()
