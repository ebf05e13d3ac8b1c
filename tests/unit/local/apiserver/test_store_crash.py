"""SIGKILL at random moments under load: what was acknowledged is there, revisions grow, watches resume.

Run as a program, this file is a nursery: it has everything imported, and forks a writer for every line it
is given, so that a round takes tens of milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from kuberth.local.apiserver.objects import Obj, revision_of
from kuberth.local.apiserver.store.store import RevisionStore

ROUNDS = 200 if os.environ.get("KUBERTH_LONG") == "1" else 20
WRITERS = 16
KEYS_PER_WRITER = 4


class Ack(NamedTuple):
    """A write that was answered: its revision, its key, and the value (-1: deleted)."""

    revision: int
    key: str
    value: int


# The writer


async def write_for_ever(path: Path, *, seed: int, compact_at: int) -> None:
    """Many writers, each with its own keys; a line to stdout for every write that was acknowledged."""
    store = await RevisionStore.open(path)

    async def write(writer: int) -> None:
        rng = random.Random(seed * WRITERS + writer)
        while True:
            if writer % 2:  # half of them stage while a commit is under way
                await asyncio.sleep(rng.uniform(0, 0.002))
            key = f"w{writer}/k{rng.randrange(KEYS_PER_WRITER)}"
            value = -1 if rng.random() < 0.2 and store.latest("pods", key) else rng.randrange(1_000_000)
            obj = {"metadata": {"name": key}, "value": value, "ballast": "x" * rng.randrange(2_000)}
            revision = revision_of(store.stage("pods", key, None if value < 0 else obj))
            await store.durable(revision)
            os.write(1, f"{revision} {key} {value}\n".encode())

    async with asyncio.TaskGroup() as tasks:
        for writer in range(WRITERS):
            tasks.create_task(write(writer), name=f"writer-{writer}")
        # Superseded rows are pruned while the writers write and the killer comes.
        store.compact(compact_at)


def nursery() -> None:
    for line in sys.stdin:
        path, seed, compact_at = line.split()
        pid = os.fork()
        if pid == 0:
            asyncio.run(write_for_ever(Path(path), seed=int(seed), compact_at=int(compact_at)))
        os.write(1, f"pid {pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        os.write(1, f"ended {os.waitstatus_to_exitcode(status)}\n".encode())


# The test


class Nursery:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders: IO[str] = process.stdin
        self._answers: IO[str] = process.stdout

    def kill_a_writer(self, path: Path, *, compact_at: int, rng: random.Random) -> list[Ack]:
        """Start one, kill it around a random acknowledgement, and answer all it acknowledged."""
        print(path, rng.randrange(2**32), compact_at, file=self._orders, flush=True)
        patience = rng.choice((0, 1, rng.randrange(200), rng.randrange(200)))
        pid, acks = 0, list[Ack]()
        for line in self._answers:
            first, second, *third = line.split()
            if first == "pid":
                pid = int(second)
            elif first == "ended":
                assert int(second) == -signal.SIGKILL
                return acks
            else:
                acks.append(Ack(int(first), second, int(third[0])))
            if pid and len(acks) >= patience:
                time.sleep(rng.uniform(0, 0.02 if patience == 0 else 0.003))
                os.kill(pid, signal.SIGKILL)
                pid = 0
        raise AssertionError("the nursery ended")


@contextmanager
def a_nursery() -> Iterator[Nursery]:
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Nursery(process)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(timeout=10) == 0
        finally:
            process.kill()


class Mirror:
    """A watcher that outlives the server: it resumes from the last revision it saw."""

    def __init__(self) -> None:
        self.revision = 1
        self.objects: dict[str, Obj] = {}
        self.seen: set[tuple[int, str]] = set()

    async def resume(self, store: RevisionStore) -> None:
        reader = store.subscribe("pods", since=self.revision)
        while reader.lag:
            change = await anext(reader)
            assert change.revision > self.revision
            self.revision = change.revision
            self.seen.add((change.revision, change.key))
            if change.new is None:
                assert change.old is not None
                assert self.objects.pop(change.key)["value"] == change.old["value"]
            else:
                assert self.objects.get(change.key) == change.old
                self.objects[change.key] = change.new
        reader.close()


async def look(path: Path, mirror: Mirror, acks: list[Ack]) -> int:
    """Reopen the store after a kill, and check it against all that was acknowledged."""
    store = await RevisionStore.open(path)
    before = mirror.revision
    await mirror.resume(store)
    assert store.list("pods") == [obj for _, obj in sorted(mirror.objects.items())]
    for ack in acks:
        assert (ack.revision, ack.key) in mirror.seen, f"{ack} was acknowledged and is missing"
    for ack in {ack.key: ack for ack in acks}.values():
        # A write that was under way when the killer came may have been made, too.
        later = any(
            (revision, ack.key) in mirror.seen for revision in range(ack.revision + 1, store.revision + 1)
        )
        found = store.get("pods", ack.key)
        if not later:
            assert (-1 if found is None else found["value"]) == ack.value
    assert store.revision >= before
    mirror.seen.clear()
    await store.close()
    return store.revision


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    rng, mirror, path = random.Random(20_240_229), Mirror(), tmp_path / "store.db"
    acks: list[Ack] = []
    kills = 0
    total, revision = 0, 1
    with a_nursery() as nursery:
        while kills < ROUNDS:
            # Now and then several kills in a row: the file is left as it is, twice.
            for _ in range(rng.choice((1, 1, 2, 3))):
                fresh = nursery.kill_a_writer(path, compact_at=mirror.revision, rng=rng)
                kills += 1
                assert len({ack.revision for ack in fresh}) == len(fresh)
                assert all(
                    ack.revision > max((each.revision for each in acks), default=revision) for ack in fresh
                )
                acks += sorted(fresh)
            newest = asyncio.run(look(path, mirror, acks))
            assert newest >= max((ack.revision for ack in acks), default=revision)
            total += len(acks)
            revision, acks = newest, []
    assert total > 10 * ROUNDS


if __name__ == "__main__":
    nursery()
