"""The store's memory beyond the process: every change as a row of one SQLite file.

In: groups of changes, each written in one transaction, and revisions that nobody needs any more. Out: the
rows again, after a restart. A write that was answered is on disk (write-ahead log, full sync), whatever
moment the process is killed at. Everything SQLite does happens in one thread of its own.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from kuberth.errors import KuberthError

T = TypeVar("T")

SCHEMA: Final = 1
_CREATE: Final = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    # No index but the revision: rows are written and deleted by it, and read all at once.
    "CREATE TABLE changes"
    " (revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, key TEXT NOT NULL, body BLOB)",
    f"INSERT INTO meta VALUES ('schema', {SCHEMA}), ('compacted', 0)",
)


class StorageError(KuberthError):
    """The store's file cannot be opened, read or written."""


class Row(NamedTuple):
    """One change as it is on disk: the object's JSON, or None where it was deleted."""

    revision: int
    resource: str
    key: str
    body: bytes | None


class Journal:
    """One open file. No other process can open it until it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kuberth-journal")
        self._connection: sqlite3.Connection | None = None
        self._compacted = 0

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

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        except (sqlite3.Error, OSError) as error:
            raise StorageError(f"{self._path}: {error}") from error

    # From here on, in the journal's thread

    def _open(self) -> tuple[int, list[Row]]:
        self._create_file()
        # Autocommit: transactions begin and end where the code says so. No waiting for locks: whoever
        # holds the file keeps it.
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=0)
        self._connection = connection
        try:
            # Exclusive before the first access: one owner, and no shared memory file beside the log.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            is_new = self._check_schema(connection)
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StorageError(f"{self._path}: its file system cannot keep a write-ahead log")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:  # whatever it is busy with
                raise StorageError(
                    f"{self._path} is in use by another server: stop that one, or take another directory"
                ) from error
            raise
        for statement in _CREATE if is_new else ():
            connection.execute(statement)
        connection.execute("COMMIT")
        ((self._compacted,),) = connection.execute("SELECT value FROM meta WHERE name = 'compacted'")
        rows = connection.execute("SELECT revision, resource, key, body FROM changes ORDER BY revision")
        return self._compacted, [Row(*row) for row in rows]

    def _create_file(self) -> None:
        """Objects may be confidential: the file, and the log that SQLite makes alike, are the user's only.

        A file that is there is not opened here: closing it again would end this process's locks on it.
        """
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def _check_schema(self, connection: sqlite3.Connection) -> bool:
        """Whether the file is new; StorageError, before anything is changed, if it is not for us."""
        tables = {
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        if not tables:
            return True
        if not {"meta", "changes"} <= tables:
            raise StorageError(f"{self._path} is a database, but not one of Kuberth's: take another file")
        schema = dict(connection.execute("SELECT name, value FROM meta")).get("schema")
        if schema != SCHEMA:
            raise StorageError(
                f"{self._path} has schema {schema}, this version of Kuberth reads {SCHEMA}: "
                "use the version that wrote it, or another directory"
            )
        return False

    def _write(self, rows: Sequence[Row], garbage: Sequence[int], compacted: int) -> None:
        connection = self._connection
        assert connection is not None
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", rows)
            if compacted != self._compacted:
                connection.execute("UPDATE meta SET value = ? WHERE name = 'compacted'", (compacted,))
            if garbage:
                connection.executemany(
                    "DELETE FROM changes WHERE revision = ?", ((each,) for each in garbage)
                )
            connection.execute("COMMIT")
            self._compacted = compacted
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
