"""Committed changes for watches.

In: changes in the order of their revisions. Out: a log of recent changes for each resource, and readers that
go through it from any revision that it still contains. Readers share the log, so another reader costs no
memory, and one that falls too far behind gets an error instead of delaying the others.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from kuberth.errors import KuberthError
from kuberth.local.apiserver.objects import Obj

_REVISION: Final = attrgetter("revision")


class CompactedError(KuberthError):
    """The changes since this revision are not available: list again and watch from there."""


class SlowWatcherError(KuberthError):
    """A watcher did not read fast enough; it may resume from the last revision that it saw."""


class Change(NamedTuple):
    """A change of an object from `old` to `new`; `new` is None for a deletion.

    Both carry their own revision as metadata.resourceVersion.
    """

    revision: int
    resource: str
    key: str
    old: Obj | None
    new: Obj | None


class ChangeLog:
    """The recent changes of one resource, and its subscriptions."""

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self.start = 0
        """How many changes were dropped from the front; positions include these."""
        self._changes: list[Change] = []
        self._readers: dict[Subscription, None] = {}  # woken in order, which is the same in every run

    @property
    def end(self) -> int:
        return self.start + len(self._changes)

    def __getitem__(self, position: int) -> Change:
        return self._changes[position - self.start]

    def since(self, revision: int) -> Sequence[Change]:
        return self._changes[bisect_right(self._changes, revision, key=_REVISION) :]

    def append(self, change: Change) -> None:
        self._changes.append(change)

    def wake_readers(self) -> None:
        for reader in self._readers:
            reader._wake()

    def drop_until(self, revision: int) -> None:
        count = bisect_right(self._changes, revision, key=_REVISION)
        del self._changes[:count]
        self.start += count

    def subscribe(self, *, since: int, limit: int) -> Subscription:
        reader = Subscription(self, position=self.end - len(self.since(since)), limit=limit)
        self._readers[reader] = None
        return reader

    def unsubscribe(self, reader: Subscription) -> None:
        self._readers.pop(reader, None)

    def close(self) -> None:
        for reader in tuple(self._readers):
            reader.close()


class Subscription:
    """An async iterator of committed changes, in order; one task reads it, and it ends when closed."""

    def __init__(self, log: ChangeLog, *, position: int, limit: int) -> None:
        self._log = log
        self._position = position
        self._subscribed_at = log.end
        self._limit = limit
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def lag(self) -> int:
        """How many committed changes wait to be read."""
        return self._log.end - self._position

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Change:
        # The position moves only after the last await: a read that is cancelled loses nothing.
        while True:
            change = self.read_nowait()
            if change is not None:
                return change
            if not await self.wait():
                raise StopAsyncIteration

    def read_nowait(self) -> Change | None:
        if self._closed or self._position >= (end := self._log.end):
            return None
        self._expect_within_limit(end)
        change = self._log[self._position]
        self._position += 1
        return change

    async def wait(self) -> bool:
        """Return when there may be something to read; False when the log has ended."""
        if not self._closed and self._position >= self._log.end:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return not self._closed

    def close(self) -> None:
        self._closed = True
        self._log.unsubscribe(self)
        self._wake()

    def _expect_within_limit(self, end: int) -> None:
        # Changes from before the subscription do not count as unread.
        unread = end - max(self._position, self._subscribed_at)
        if self._position >= self._log.start and unread <= self._limit:
            return
        self.close()
        raise SlowWatcherError(
            f"a watch of {self._log.resource} fell {self.lag} changes behind; "
            "resume it from the last revision it saw"
        )

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
