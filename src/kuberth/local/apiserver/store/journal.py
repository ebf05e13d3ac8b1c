"""The store on disk: every change is a row of one SQLite file.

In: groups of changes, each written in one transaction, and revisions that are not needed any more. Out: the
rows, after a restart. An acknowledged write is on disk (write-ahead log, full sync), whenever the process is
killed. All work of SQLite happens in a separate thread. Damage to the file is detected when it is opened:
every row has a checksum, SQLite checks its own structure, and the minimum revision that the file must reach
is written to a second file. SQLite alone treats a damaged write-ahead log as one that ends there, and changes
would be missing without an error.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from kuberth.errors import KuberthError

T = TypeVar("T")

_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)

SCHEMA: Final = 2
_CREATE: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    # No index but the revision: rows are written and deleted by it, and read all at once.
    "CREATE TABLE changes"
    " (revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, key TEXT NOT NULL, body BLOB,"
    " checksum INTEGER)",
    f"INSERT INTO meta VALUES ('schema', {SCHEMA}), ('compacted', 0)",
)


_UPGRADE: Final = {
    # Rows from before have no checksum.
    1: ("ALTER TABLE changes ADD COLUMN checksum INTEGER", "UPDATE meta SET value = 2 WHERE name = 'schema'"),
}


class StorageError(KuberthError):
    """The store's file cannot be opened, read or written."""


class Row(NamedTuple):
    """A change as it is on disk: the object's JSON, or None where it was deleted."""

    revision: int
    resource: str
    key: str
    body: bytes | None

    @property
    def checksum(self) -> int:
        head = f"{self.revision} {self.resource} {self.key} {self.body is None} ".encode()
        return zlib.crc32(self.body or b"", zlib.crc32(head))


class Journal:
    """An open journal file. No other process can open it until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kuberth-journal")
        self._connection: sqlite3.Connection | None = None
        self._compacted = 0
        self._mark = _Mark(path.with_name(f"{path.name}-revision"))

    async def open(self) -> tuple[int, list[Row]]:
        """The compacted revision, and every row in the order of the revisions."""
        try:
            return await self._run(self._open)
        except BaseException:
            await self.close()
            raise

    async def write(self, rows: Sequence[Row], *, garbage: Sequence[int], compacted: int) -> None:
        """Add rows and delete those of the garbage's revisions, both or neither."""
        await self._run(lambda: self._write(rows, garbage, compacted))

    async def close(self) -> None:
        try:
            await self._run(self._close)
        finally:
            self._executor.shutdown(wait=False)

    def damaged(self, what: str) -> StorageError:
        return StorageError(
            f"{self._path} is damaged: {what}; put a copy in its place, "
            f"or move it and {self._mark.path.name} away to start with an empty store"
        )

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE:
                raise self.damaged(str(error)) from error
            raise StorageError(f"{self._path}: {error}") from error
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self._path}: {error}") from error

    # From here on, in the journal's thread

    def _open(self) -> tuple[int, list[Row]]:
        self._create_file()
        # Autocommit: transactions begin and end explicitly. No waiting for locks: another process that holds
        # the file keeps it.
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=0)
        self._connection = connection
        try:
            # Exclusive before the first access: one owner, and no shared memory file beside the log.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            schema = self._check_schema(connection)
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StorageError(f"{self._path}: its file system cannot keep a write-ahead log")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                raise StorageError(
                    f"{self._path} is in use by another server: stop it, or choose another directory"
                ) from error
            raise
        for statement in _CREATE if schema is None else _UPGRADE.get(schema, ()):
            connection.execute(statement)
        connection.execute("COMMIT")
        self._sync_log()
        ((found,),) = connection.execute("PRAGMA quick_check(1)")
        if found != "ok":
            raise self.damaged(found)
        ((self._compacted,),) = connection.execute("SELECT value FROM meta WHERE name = 'compacted'")
        rows = self._read(connection)
        revision = max(rows[-1].revision if rows else 0, self._compacted)
        if revision < (noted := self._mark.read()):
            raise self.damaged(f"it ends at revision {revision}, but {noted} was written")
        self._mark.write(revision)
        return self._compacted, rows

    def _read(self, connection: sqlite3.Connection) -> list[Row]:
        """Every row as it was written, read as bytes: a damaged one may not be text."""
        connection.text_factory = bytes
        rows = []
        for revision, resource, key, body, checksum in connection.execute(
            "SELECT revision, resource, key, body, checksum FROM changes ORDER BY revision"
        ):
            try:
                row = Row(revision, resource.decode(), key.decode(), body)
                intact = checksum is None or checksum == row.checksum
            except (AttributeError, UnicodeDecodeError, TypeError):
                intact = False
            if not intact:
                raise self.damaged(f"revision {revision} is not as it was written")
            rows.append(row)
        return rows

    def _sync_log(self) -> None:
        """Sync what is read next: a killed process may have written it without syncing."""
        with suppress(FileNotFoundError):
            descriptor = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def _create_file(self) -> None:
        """Restrict the file to its user.

        Objects may be confidential, and SQLite creates the log with the same mode. An existing file is not
        opened here: closing it again would release this process's locks on it.
        """
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def _check_schema(self, connection: sqlite3.Connection) -> int | None:
        """The schema version, None if the file is new; StorageError if it belongs to another program."""
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if not tables:
            return None
        if not {"meta", "changes"} <= tables:
            raise StorageError(f"{self._path} is a database of another program: choose another file")
        schema: int | None = dict(connection.execute("SELECT name, value FROM meta")).get("schema")
        if schema != SCHEMA and schema not in _UPGRADE:
            raise StorageError(
                f"{self._path} has schema {schema}, this version of Kuberth reads {SCHEMA}: "
                "use the version that wrote it, or another directory"
            )
        return schema

    def _write(self, rows: Sequence[Row], garbage: Sequence[int], compacted: int) -> None:
        connection = self._connection
        assert connection is not None
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?)", ((*row, row.checksum) for row in rows)
            )
            # Without rows this finds out whether writing works, so it must write something.
            if compacted != self._compacted or not rows:
                connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (compacted,))
            if garbage:
                connection.executemany(
                    "DELETE FROM changes WHERE revision = ?", ((each,) for each in garbage)
                )
            connection.execute("COMMIT")
            self._compacted = compacted
            if rows:
                self._mark.write(rows[-1].revision)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._mark.close()


class _Mark:
    """The last committed revision, in a separate file.

    It is written after the commit and not synced: it may lag behind, and is never ahead.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def read(self) -> int:
        """The revision in the file; 0 if it cannot be read."""
        try:
            digits, _, checksum = self.path.read_bytes().strip().partition(b" ")
            return int(digits) if int(checksum, 16) == zlib.crc32(digits) else 0
        except (FileNotFoundError, ValueError):
            return 0

    def write(self, revision: int) -> None:
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o600)
        digits = b"%020d" % revision
        with suppress(OSError):  # the commit is valid, and the next one writes a later revision
            os.pwrite(self._descriptor, b"%s %08x\n" % (digits, zlib.crc32(digits)), 0)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
