"""The store's file: its lock, what a restart restores, and what a failing disk does."""

from __future__ import annotations

import asyncio
import random
import resource
import shutil
import sqlite3
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from kuberth.clock import SystemClock
from kuberth.local.apiserver.objects import Obj, revision_of
from kuberth.local.apiserver.store.journal import SCHEMA, Journal, Row
from kuberth.local.apiserver.store.store import RevisionStore, StorageError
from kuberth.local.apiserver.verbs.core import Core


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def pod(name: str, **fields: Any) -> Obj:
    return {"metadata": {"name": name}, **fields}


async def put(store: RevisionStore, key: str, **fields: Any) -> int:
    revision = revision_of(store.stage("pods", key, pod(key, **fields)))
    await store.durable(revision)
    return revision


def rows(path: Path) -> list[tuple[int, str, bool]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT revision, key, body IS NULL FROM changes ORDER BY 1").fetchall()


@contextmanager
def no_room_on_disk() -> Iterator[None]:
    """No file can be written: what a full or read-only disk does to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_restart_brings_everything_back(path: Path) -> None:
    value: Obj = {"text": "ü\n\0", "numbers": [0, -1, 2**70, 0.1, 1e300], "none": None, "deep": {"a": [{}]}}

    async def main() -> None:
        store = await RevisionStore.open(path)
        await put(store, "a/x", value=1)
        await put(store, "a/x", value=value)
        await put(store, "a/y")
        await store.durable(revision_of(store.stage("pods", "a/y", None)))
        objects, changes = store.list("pods"), store.changes_since("pods", 1)
        await store.close()

        store = await RevisionStore.open(path)
        assert store.list("pods") == objects
        assert store.changes_since("pods", 1) == changes
        assert (store.revision, store.compacted_revision) == (5, 0)
        assert await put(store, "a/z") == 6
        await store.close()

    asyncio.run(main())


def test_compaction_deletes_superseded_rows_and_never_the_newest_of_an_object(path: Path) -> None:
    async def main() -> None:
        store = await RevisionStore.open(path)
        for number in range(3):
            await put(store, "a/x", n=number)
        await put(store, "a/gone")
        await store.durable(revision_of(store.stage("pods", "a/gone", None)))
        await put(store, "a/late")
        await store.durable(revision_of(store.stage("pods", "a/late", None)))
        store.compact(6)
        await store.close()
        assert rows(path) == [(4, "a/x", 0), (7, "a/late", 0), (8, "a/late", 1)]

        store = await RevisionStore.open(path)
        assert store.compacted_revision == 6
        assert [change.revision for change in store.changes_since("pods", 6)] == [7, 8]
        store.compact(8)
        await store.close()
        assert rows(path) == [(4, "a/x", 0)]

        store = await RevisionStore.open(path)
        assert (store.revision, store.compacted_revision) == (8, 8)
        assert await put(store, "a/x") == 9
        await store.close()

    asyncio.run(main())


def test_what_is_staged_while_a_commit_runs_makes_up_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[list[int]] = []
    begun, go_on = asyncio.Event(), asyncio.Event()
    write = Journal.write

    async def slow(journal: Journal, rows: Sequence[Row], *, garbage: Sequence[int], compacted: int) -> None:
        begun.set()
        await go_on.wait()
        groups.append([row.revision for row in rows])
        await write(journal, rows, garbage=garbage, compacted=compacted)

    monkeypatch.setattr(Journal, "write", slow)

    async def main() -> None:
        store = await RevisionStore.open(path)
        first = asyncio.ensure_future(put(store, "a/1"))
        await begun.wait()
        second, third = (asyncio.ensure_future(put(store, f"a/{each}")) for each in (2, 3))
        await asyncio.sleep(0)
        assert store.list("pods") == []
        assert len(store.latest_list("pods")) == 3
        go_on.set()
        assert [*await asyncio.gather(first, second, third)] == [2, 3, 4]
        await store.close()

    asyncio.run(main())
    assert groups == [[2], [3, 4]]
    assert len(rows(path)) == 3


def test_a_group_is_written_whole_or_not_at_all(path: Path) -> None:
    async def main() -> None:
        journal = Journal(path)
        await journal.open()
        row = Row(5, "pods", "a/x", b"{}")
        with pytest.raises(StorageError, match="UNIQUE"):
            await journal.write([row, row], garbage=[], compacted=0)
        await journal.write([row], garbage=[], compacted=0)
        await journal.close()

    asyncio.run(main())
    assert rows(path) == [(5, "a/x", 0)]


def test_pruning_may_be_cut_short_anywhere(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever rows are gone when the process is killed, the others still hold the same objects."""
    monkeypatch.setattr("kuberth.local.apiserver.store.store.PRUNE_ROWS", 1)
    written: list[Row] = []
    pruned: list[int] = []
    write = Journal.write

    async def spy(journal: Journal, rows: Sequence[Row], *, garbage: Sequence[int], compacted: int) -> None:
        written.extend(rows)
        pruned.extend(garbage)
        assert len(garbage) <= max(1, 2 * len(rows))
        await write(journal, rows, garbage=garbage, compacted=compacted)

    monkeypatch.setattr(Journal, "write", spy)

    async def main() -> None:
        store = await RevisionStore.open(path)
        for number in range(12):
            await put(store, f"a/{number % 3}", n=number)
            if number % 4 == 3:
                await store.durable(revision_of(store.stage("pods", f"a/{number % 3}", None)))
        store.compact(store.revision)
        await store.close()

    asyncio.run(main())
    for count in range(len(pruned) + 1):
        newest = {row.key: row.body for row in written if row.revision not in pruned[:count]}
        assert {key for key, body in newest.items() if body is not None} == {"a/1", "a/0"}
    assert [revision for revision, *_ in rows(path)] == sorted({r.revision for r in written} - set(pruned))


def test_the_file_does_not_grow_with_the_number_of_writes(path: Path) -> None:
    async def main() -> None:
        store = await RevisionStore.open(path, keep_changes=100)
        for round_ in range(60):
            for number in range(100):
                store.stage("pods", f"a/{number}", pod("x", n=round_))
            await store.durable(store.revision + 100)
        await store.close()

    asyncio.run(main())
    assert len(rows(path)) <= 100 + 125


def test_a_compaction_that_was_cut_short_is_taken_up_after_a_restart(path: Path) -> None:
    async def write() -> None:
        store = await RevisionStore.open(path)
        for number in range(10):
            await put(store, "a/x", n=number)
        await store.close()

    async def reopen() -> None:
        await (await RevisionStore.open(path)).close()

    asyncio.run(write())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = 9 WHERE name = 'compacted'")
    asyncio.run(reopen())
    assert [revision for revision, *_ in rows(path)] == [9, 10, 11]


def test_a_full_disk_fails_the_writers_and_leaves_what_was_committed(path: Path) -> None:
    async def main() -> None:
        store = await RevisionStore.open(path)
        await put(store, "a/x", n=1)
        reader = store.subscribe("pods", since=store.revision)
        with no_room_on_disk():
            store.stage("pods", "a/x", pod("a/x", n=2))
            first = asyncio.ensure_future(store.durable(3))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            # Staged while the commit runs that is going to fail, and built on it.
            store.stage("pods", "a/x", None)
            store.stage("pods", "a/y", pod("a/y"))
            staged = store.version("pods")
            for waiting in (first, store.durable(4), store.durable(5)):
                with pytest.raises(StorageError, match=r"store\.db"):
                    await waiting
        found = store.get("pods", "a/x")
        assert found is not None
        assert found["n"] == 1
        assert store.latest("pods", "a/x") is found
        assert store.latest_list("pods") == store.list("pods") == [found]
        assert store.revision == 2
        assert store.version("pods") != staged
        assert reader.lag == 0
        with pytest.raises(StorageError):
            await store.durable(4)

        # There is room again. Revisions that were lost are not used again.
        assert await put(store, "a/z") == 6
        assert (await anext(reader)).key == "a/z"
        with pytest.raises(StorageError):
            await store.durable(5)
        await store.durable(2)
        await store.close()
        assert [(revision, key) for revision, key, _ in rows(path)] == [(2, "a/x"), (6, "a/z")]

    asyncio.run(main())


def test_a_full_disk_while_pruning_loses_nothing(path: Path) -> None:
    async def main() -> None:
        store = await RevisionStore.open(path)
        await put(store, "a/x", n=1)
        await put(store, "a/x", n=2)
        with no_room_on_disk():
            store.compact(3)
            for _ in range(3):
                with pytest.raises(StorageError):
                    await put(store, "a/y")
        await put(store, "a/z")
        await store.close()
        assert [key for _, key, _ in rows(path)] == ["a/x", "a/z"]

    asyncio.run(main())


def test_closing_with_a_full_disk_ends(path: Path) -> None:
    async def main() -> None:
        store = await RevisionStore.open(path)
        await put(store, "a/x")
        store.stage("pods", "a/y", pod("y"))
        waiting = asyncio.ensure_future(store.durable(3))
        with no_room_on_disk():
            await store.close()
            with pytest.raises(StorageError):
                await waiting

        store = await RevisionStore.open(path)
        assert len(store.list("pods")) == 1
        await store.close()

    asyncio.run(main())


def test_a_second_server_cannot_open_the_file(path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path;"
        "from kuberth.local.apiserver.store.store import RevisionStore;"
        "asyncio.run(RevisionStore.open(Path(sys.argv[1])))"
    )

    async def main() -> None:
        store = await RevisionStore.open(path)
        with pytest.raises(StorageError, match="in use by another server"):
            await RevisionStore.open(path)
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, path, stderr=asyncio.subprocess.PIPE
        )
        _, complaint = await asyncio.wait_for(other.communicate(), 30)
        assert other.returncode == 1
        assert b"in use by another server" in complaint
        await put(store, "a/x")
        await store.close()

        store = await RevisionStore.open(path)
        assert len(store.list("pods")) == 1
        await store.close()

    asyncio.run(main())


def test_the_files_are_for_their_owner_only(path: Path) -> None:
    async def main() -> None:
        store = await RevisionStore.open(path)
        await put(store, "a/x")
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
        await store.close()
        assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.db-revision": 0o600}

    asyncio.run(main())


def _newer(path: Path) -> None:
    asyncio.run(_made(path))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE name = 'schema'", (SCHEMA + 1,))


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE birds (name TEXT)")


def _broken_object(path: Path) -> None:
    asyncio.run(_made(path))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO changes VALUES (7, 'pods', 'a/x', X'7B', NULL)")


async def _made(path: Path) -> None:
    await (await RevisionStore.open(path)).close()


@pytest.mark.parametrize(
    ("make", "message"),
    (
        (_newer, f"has schema {SCHEMA + 1}, this version of Kuberth reads {SCHEMA}: use the version"),
        (_foreign, "a database of another program"),
        (_broken_object, "store.db is damaged: Input data was truncated; put a copy in its place"),
        (lambda path: path.write_bytes(b"no database " * 1000), "not a database"),
        (lambda path: path.mkdir(), "unable to open"),
    ),
    ids=("newer schema", "foreign", "broken object", "no database", "directory"),
)
def test_a_file_that_cannot_be_used_says_why_and_is_let_go(path: Path, make: Any, message: str) -> None:
    make(path)
    for _ in range(2):  # the second time it is not "in use"
        with pytest.raises(StorageError, match=message):
            asyncio.run(RevisionStore.open(path))


async def _filled(path: Path, *, close: bool) -> list[Obj]:
    store = await RevisionStore.open(path)
    for number in range(40):
        await put(store, f"a/{number % 30}", text="x" * 300, number=number)
    await store.durable(revision_of(store.stage("pods", "a/7", None)))
    objects = store.list("pods")
    if close:
        await store.close()
    else:
        # As after a kill: the write-ahead log stays as it is.
        for each in list(path.parent.iterdir()):
            (path.parent.parent / "killed").mkdir(exist_ok=True)
            (path.parent.parent / "killed" / each.name).write_bytes(each.read_bytes())
        await store.close()
    return objects


async def _read(path: Path) -> list[Obj]:
    store = await RevisionStore.open(path)
    objects = store.list("pods")
    await store.close()
    return objects


async def _read_or_refusal(path: Path) -> list[Obj] | str:
    try:
        return await _read(path)
    except StorageError as error:
        return str(error)


async def _add(path: Path, key: str) -> None:
    store = await RevisionStore.open(path)
    await put(store, key)
    await store.close()


@pytest.mark.parametrize("name", ["store.db", "store.db-wal"])
def test_a_flipped_bit_is_reported_or_does_no_harm(tmp_path: Path, name: str) -> None:
    made, copy = tmp_path / "made", tmp_path / "copy"
    made.mkdir()
    objects = asyncio.run(_filled(made / "store.db", close=name == "store.db"))
    source = made if name == "store.db" else tmp_path / "killed"
    whole = (source / name).read_bytes()
    rng, reported = random.Random(5), 0
    for _ in range(150):
        copy.mkdir()
        for each in source.iterdir():
            (copy / each.name).write_bytes(each.read_bytes())
        flipped = bytearray(whole)
        flipped[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        (copy / name).write_bytes(flipped)
        found = asyncio.run(_read_or_refusal(copy / "store.db"))
        if isinstance(found, str):
            reported += 1
            assert str(copy / "store.db") in found
        else:
            assert found == objects
        shutil.rmtree(copy)
    assert reported > 50


def test_a_file_that_ends_before_the_last_write_is_reported(path: Path, tmp_path: Path) -> None:
    asyncio.run(_add(path, "a/x"))
    early = path.read_bytes()
    asyncio.run(_add(path, "a/y"))
    path.write_bytes(early)
    with pytest.raises(StorageError, match="it ends at revision 2, but 3 was written; put a copy"):
        asyncio.run(_read(path))
    # For users that want to continue with what is there.
    (tmp_path / "store.db-revision").unlink()
    assert [obj["metadata"]["name"] for obj in asyncio.run(_read(path))] == ["a/x"]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"00000000000000000009 00000000\n"])
def test_an_unreadable_revision_file_is_ignored(path: Path, content: bytes) -> None:
    asyncio.run(_add(path, "a/x"))
    path.with_name("store.db-revision").write_bytes(content)
    assert len(asyncio.run(_read(path))) == 1


def test_a_file_of_the_first_schema_is_taken_over(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID")
        connection.execute(
            "CREATE TABLE changes"
            " (revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, key TEXT NOT NULL, body BLOB)"
        )
        connection.execute("INSERT INTO meta VALUES ('schema', 1), ('compacted', 0)")
        body = b'{"metadata":{"name":"a/x","resourceVersion":"2"}}'
        connection.execute("INSERT INTO changes VALUES (2, 'pods', 'a/x', ?)", (body,))

    async def main() -> None:
        for number in range(2):
            store = await RevisionStore.open(path)
            assert len(store.list("pods")) == 1 + number
            await put(store, "a/y")
            await store.close()

    asyncio.run(main())


def is_failing(store: RevisionStore) -> bool:
    return store.failure is not None


def test_a_store_that_cannot_write_says_so_until_it_can(path: Path) -> None:
    async def main() -> None:
        store = await RevisionStore.open(path)
        core = Core(store, clock=SystemClock())
        await store.durable(store.revision)
        assert core.write_failure is None
        with no_room_on_disk():
            with pytest.raises(StorageError):
                await put(store, "a/x")
            assert is_failing(store)
            assert str(path) in (core.write_failure or "")
        for _ in range(6000):  # without a write: the store itself finds out
            if is_failing(store):
                await asyncio.sleep(0.01)
        assert not is_failing(store)
        await put(store, "a/x")
        await store.close()

    asyncio.run(main())


def test_opening_on_a_full_disk_fails(path: Path) -> None:
    with no_room_on_disk(), pytest.raises(StorageError):
        asyncio.run(RevisionStore.open(path))


def test_a_refusal_that_rests_on_a_lost_write_is_an_error_of_the_server(path: Path) -> None:
    async def main() -> None:
        store = await RevisionStore.open(path)
        core = Core(store, clock=SystemClock())
        await store.settled()
        body = {"metadata": {"name": "x"}}
        with no_room_on_disk():
            both = [asyncio.ensure_future(core.create("configmaps", body, namespace="default")) for _ in "ab"]
            outcomes = await asyncio.gather(*both, return_exceptions=True)
        assert [getattr(each, "code", None) for each in outcomes] == [500, 500]
        assert store.get("configmaps", "default/x") is None
        await store.close()

    asyncio.run(main())
