"""Objects by resource and key, and all their changes.

In: objects staged by the verbs, each with the next revision. Out: the committed objects for reads, and the
committed changes for watches. Staging is synchronous, so reading, checking and staging are one step on the
event loop. All changes staged while one commit runs form the next one, and only writers see a change before
its commit.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kuberth.local.apiserver.objects import Obj, revision_of
from kuberth.local.apiserver.store.journal import Journal, Row, StorageError
from kuberth.local.apiserver.store.subscriptions import (
    Change,
    ChangeLog,
    CompactedError,
    SlowWatcherError,
    Subscription,
)

__all__ = ["Change", "CompactedError", "RevisionStore", "SlowWatcherError", "StorageError", "Subscription"]

FIRST_REVISION: Final = 1
"""The revision of an empty store: zero means "any" in the API."""
GROUP_CHANGES: Final = 1_000
"""The maximum number of changes in one commit: watches read between commits, so a long list of writes delays
none."""
PRUNE_ROWS: Final = 500
"""The number of superseded rows that a commit deletes; larger commits delete more."""

RETRY_SECONDS: Final = 1.0
"""How often a store that cannot write retries."""

logger = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Obj).decode
# `list` is a verb inside the classes below.
_Objects = list[Obj]
_Keys = list[str]


class RevisionStore:
    """Stores all objects by revision, for one owner in one event loop. Stored objects are never modified."""

    def __init__(self, journal: Journal | None, *, keep_changes: int, keep_bytes: int) -> None:
        self._journal = journal
        self._keep_changes = keep_changes
        self._keep_bytes = keep_bytes
        self._tables: dict[str, _Table] = {}
        self._logs: dict[str, ChangeLog] = {}
        self._recent: deque[_Recent] = deque()
        """The changes in the logs, oldest first."""
        self._recent_bytes = 0
        self._superseded: deque[_Superseded] = deque()
        self._revision = FIRST_REVISION
        self._compacted = self._compacted_on_disk = 0
        self._last_staged = FIRST_REVISION
        self._staged: dict[str, dict[str, Change]] = {}
        """The newest uncommitted change of every object that has one."""
        self._groups: deque[_Group] = deque()
        """The staged changes, in commits: the first may be running, the last may still grow."""
        self._versions: Counter[str] = Counter()
        self._lost: list[_Lost] = []
        self._failure: StorageError | None = None
        self._work = asyncio.Event()
        self._closing = False
        self._writer: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls, path: Path | None, *, keep_changes: int = 20_000, keep_bytes: int = 128 * 1024 * 1024
    ) -> RevisionStore:
        """Read the file, which is created if it does not exist; without a path, the store is in memory only.

        The other parameters limit the number and the size of changes kept for resuming watches.
        """
        journal = None if path is None else Journal(path)
        store = cls(journal, keep_changes=keep_changes, keep_bytes=keep_bytes)
        if journal is not None:
            compacted, rows = await journal.open()
            try:
                store._load(compacted, rows)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                await journal.close()
                raise journal.damaged(str(error)) from error
            except BaseException:
                await journal.close()
                raise
        store._writer = asyncio.create_task(store._write_groups(), name="store-writer")
        return store

    async def close(self) -> None:
        """Commit staged changes, end the subscriptions, close the file."""
        self._closing = True
        self._work.set()
        writer, self._writer = self._writer, None
        if writer is None:
            return
        await asyncio.wait([writer])
        for log in self._logs.values():
            log.close()
        if self._journal is not None:
            await self._journal.close()
        writer.result()

    # The committed view, for reads and watches

    @property
    def revision(self) -> int:
        """The last committed revision."""
        return self._revision

    @property
    def failure(self) -> StorageError | None:
        """Why writes currently fail; None if they do not."""
        return self._failure

    @property
    def compacted_revision(self) -> int:
        """Changes up to this revision are compacted."""
        return self._compacted

    def get(self, resource: str, key: str) -> Obj | None:
        table = self._tables.get(resource)
        return None if table is None else table.objects.get(key)

    def list(self, resource: str, *, namespace: str = "") -> _Objects:
        table = self._tables.get(resource)
        return [] if table is None else table.list(namespace)

    def changes_since(self, resource: str, revision: int) -> Sequence[Change]:
        """CompactedError if some of them are compacted."""
        self._expect_known(revision)
        log = self._logs.get(resource)
        return [] if log is None else log.since(revision)

    def subscribe(self, resource: str, *, since: int, limit: int = 10_000) -> Subscription:
        """Subscribe to all changes after `since`, future ones included."""
        self._expect_known(since)
        return self._log(resource).subscribe(since=since, limit=limit)

    # The staged view, for writers

    def latest(self, resource: str, key: str) -> Obj | None:
        """The newest version, committed or not."""
        change = self._staged.get(resource, {}).get(key)
        return self.get(resource, key) if change is None else change.new

    def latest_list(self, resource: str, *, namespace: str = "") -> _Objects:
        staged = self._staged.get(resource)
        if not staged:
            return self.list(resource, namespace=namespace)
        table = self._tables.get(resource) or _Table()
        newest: dict[str, Obj | None] = {key: table.objects[key] for key in table.keys_in(namespace)}
        prefix = f"{namespace}/" if namespace else ""
        newest.update((key, change.new) for key, change in staged.items() if key.startswith(prefix))
        return [obj for _, obj in sorted(newest.items()) if obj is not None]

    def version(self, resource: str) -> int:
        """A number that changes whenever `latest` may return another object of this resource."""
        return self._versions[resource]

    def stage(self, resource: str, key: str, new: Obj | None) -> Obj:
        """Assign the next revision to a new version (None: a deletion); KeyError for a missing object.

        Returns the stored object, which only writers see until `durable` returns.
        """
        if self._closing:
            raise StorageError("the store is closed")
        revision = self._last_staged + 1
        old = self.latest(resource, key)
        if new is not None:
            stored = _stamped(new, revision)
        elif old is not None:
            stored = _stamped(old, revision)
        else:
            raise KeyError(f"{resource} {key} is not there to be deleted")
        # Encoded here, so that an invalid object fails alone and not with other writes.
        f"{resource} {key}".encode()
        body = _encode(stored)
        change = Change(revision, resource, key, old, None if new is None else stored)
        self._last_staged = revision
        self._versions[resource] += 1
        self._staged.setdefault(resource, {})[key] = change
        if not self._groups or self._groups[-1].sealed or len(self._groups[-1].changes) >= GROUP_CHANGES:
            self._groups.append(_Group())
        self._groups[-1].add(change, None if new is None else body, size=len(body))
        self._work.set()
        return stored

    async def durable(self, revision: int) -> None:
        """Return when this staged revision is committed; StorageError if it was lost."""
        if revision > self._last_staged:
            raise ValueError(f"revision {revision} was never staged")
        for group in self._groups:
            if group.changes[0].revision <= revision <= group.changes[-1].revision:
                # A future each: a shared one would be cancelled for all waiters with the first.
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                group.waiters.append(waiter)
                await waiter
                return
        for lost in reversed(self._lost):
            if lost.first <= revision <= lost.last:
                raise _failure(lost.error)

    async def settled(self) -> None:
        """Return when all that is staged now is committed; StorageError if it was lost."""
        if self._groups:
            await self.durable(self._groups[-1].changes[-1].revision)

    def compact(self, revision: int) -> None:
        """Compact the changes up to this revision; the objects stay."""
        if revision > self._revision:
            raise ValueError(f"cannot compact at {revision}, the store is at {self._revision}")
        if revision <= self._compacted:
            return
        self._compacted = revision
        for log in self._logs.values():
            log.drop_until(revision)
        while self._recent and self._recent[0].revision <= revision:
            self._recent_bytes -= self._recent.popleft().size
        self._work.set()

    # Commits

    async def _write_groups(self) -> None:
        try:
            while True:
                if self._failure is None:
                    await self._work.wait()
                else:
                    # Whether writing works again is found out by writing.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(RETRY_SECONDS):
                            await self._work.wait()
                self._work.clear()
                while self._groups or self._prunable() or self._failure is not None:
                    if not await self._write_group():
                        break
                if self._closing:
                    return
        except BaseException as error:
            # A bug, or the loop is stopping: no writer may wait forever.
            self._closing = True
            self._roll_back(StorageError(f"the store's writer ended: {error!r}"))
            raise

    async def _write_group(self) -> bool:
        """Commit the first group and delete some superseded rows; returns whether that succeeded."""
        group = self._groups[0] if self._groups else _Group()
        group.sealed = True
        compacted = self._compacted
        garbage = self._garbage(max(PRUNE_ROWS, 2 * len(group.changes)))
        try:
            if self._journal is None:
                await asyncio.sleep(0)
            else:
                await self._journal.write(group.rows, garbage=garbage, compacted=compacted)
        except StorageError as error:
            if self._groups or self._failure is None:
                lost = sum(len(group.changes) for group in self._groups)
                logger.error("the store cannot write, %d changes are lost: %s", lost, error)
            self._failure = error
            self._roll_back(error)
            return False
        if self._failure is not None:
            logger.warning("the store can write again")
            self._failure = None
        self._compacted_on_disk = compacted
        for _ in garbage:
            self._superseded.popleft()
        if group.changes:
            self._groups.popleft()
            self._commit(group)
        return True

    def _prunable(self) -> bool:
        if self._compacted != self._compacted_on_disk:
            return True
        return bool(self._superseded) and self._superseded[0].by <= self._compacted

    def _garbage(self, most: int) -> Sequence[int]:
        """Superseded rows, in an order that may stop anywhere: first those that a tombstone hides."""
        oldest = takewhile(lambda old: old.by <= self._compacted, islice(self._superseded, most))
        return [old.revision for old in oldest]

    def _commit(self, group: _Group) -> None:
        touched = {}
        for change, size in zip(group.changes, group.sizes, strict=True):
            touched[change.resource] = self._apply(change, size)
            staged = self._staged[change.resource]
            if staged[change.key] is change:
                del staged[change.key]
        for log in touched.values():
            log.wake_readers()
        group.settle(None)
        self._forget_oldest()

    def _roll_back(self, error: StorageError) -> None:
        """Drop all staged changes: later changes were based on the one that failed."""
        groups = tuple(self._groups)
        self._groups.clear()
        self._versions.update(self._staged.keys())
        self._staged.clear()
        if groups:
            # Their revisions are never used again: a failed commit may have left traces.
            first, last = groups[0].changes[0].revision, groups[-1].changes[-1].revision
            if self._lost and self._lost[-1].last + 1 == first:
                first = self._lost.pop().first
            self._lost.append(_Lost(first, last, error))
        for group in groups:
            group.settle(error)

    def _apply(self, change: Change, size: int) -> ChangeLog:
        table = self._tables.setdefault(change.resource, _Table())
        old = table.objects.get(change.key)
        if old is not None:
            self._superseded.append(_Superseded(change.revision, revision_of(old)))
        if change.new is None:
            table.remove(change.key)
            self._superseded.append(_Superseded(change.revision, change.revision))
        else:
            table.put(change.key, change.new)
        self._revision = change.revision
        log = self._log(change.resource)
        log.append(change)
        self._recent.append(_Recent(change.revision, size))
        self._recent_bytes += size
        return log

    def _forget_oldest(self) -> None:
        # Some slack, for dropping changes has a cost per log.
        if len(self._recent) > self._keep_changes + self._keep_changes // 4:
            self.compact(self._recent[-self._keep_changes - 1].revision)
        if self._recent_bytes > self._keep_bytes:
            left, wanted = self._recent_bytes, self._keep_bytes * 3 // 4
            for recent in self._recent:
                left -= recent.size
                if left <= wanted:
                    self.compact(recent.revision)
                    break

    def _load(self, compacted: int, rows: Sequence[Row]) -> None:
        for row in rows:
            old = self.get(row.resource, row.key)
            new = None if row.body is None else _decode(row.body)
            size = len(row.body or _encode(old))
            self._apply(Change(row.revision, row.resource, row.key, old, new), size)
        # The newest row may have been a tombstone that is pruned.
        self._revision = self._last_staged = max(self._revision, compacted)
        self._compacted_on_disk = compacted
        self.compact(compacted)
        self._forget_oldest()

    def _log(self, resource: str) -> ChangeLog:
        log = self._logs.get(resource)
        if log is None:
            log = self._logs[resource] = ChangeLog(resource)
        return log

    def _expect_known(self, revision: int) -> None:
        if revision < self._compacted:
            raise CompactedError(
                f"changes since {revision} are compacted, known are those since {self._compacted}"
            )
        if revision > self._revision:
            # As after a restart without data: the client has seen another history.
            raise CompactedError(f"revision {revision} is in the future, the store is at {self._revision}")


class _Table:
    """The objects of one resource, and their keys in order."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self._keys: _Keys = []

    def put(self, key: str, obj: Obj) -> None:
        if key not in self.objects:
            insort(self._keys, key)
        self.objects[key] = obj

    def remove(self, key: str) -> None:
        if self.objects.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def keys_in(self, namespace: str) -> Sequence[str]:
        if not namespace:
            return self._keys
        # "0" is the character after "/".
        return self._keys[bisect_left(self._keys, f"{namespace}/") : bisect_left(self._keys, f"{namespace}0")]

    def list(self, namespace: str) -> _Objects:
        return [self.objects[key] for key in self.keys_in(namespace)]


@dataclass(slots=True, eq=False)
class _Group:
    """The changes of one transaction, and the writers that wait for it."""

    changes: list[Change] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    sealed: bool = False
    """Whether its commit has begun: no change is added any more."""

    def add(self, change: Change, body: bytes | None, *, size: int) -> None:
        self.changes.append(change)
        self.sizes.append(size)
        self.rows.append(Row(change.revision, change.resource, change.key, body))

    def settle(self, error: StorageError | None) -> None:
        for waiter in self.waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(_failure(error))


class _Recent(NamedTuple):
    """A change in the logs, and the bytes of JSON it keeps in memory."""

    revision: int
    size: int


class _Superseded(NamedTuple):
    """A row that can be deleted once the change `by` is compacted."""

    by: int
    revision: int


class _Lost(NamedTuple):
    """Staged revisions that could not be written."""

    first: int
    last: int
    error: StorageError


def _failure(error: StorageError) -> StorageError:
    """An error for one writer: raising the same one in many tasks would pile up their tracebacks in it."""
    failure = StorageError(str(error))
    failure.__cause__ = error
    return failure


def _stamped(obj: Obj, revision: int) -> Obj:
    return {**obj, "metadata": {**obj.get("metadata", {}), "resourceVersion": str(revision)}}
