"""Watches: the changes of one resource that match a selection.

In: where to start, what to select, how long. Out: watch events in order. An object that stops matching is
reported as deleted, one that starts matching as added.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.store.store import Change, RevisionStore, SlowWatcherError, Subscription
from kuberth.local.apiserver.verbs.aliases import to_view

BOOKMARK_SECONDS: Final = 60.0
"""Interval of bookmarks for quiet watches, as upstream."""
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

Event = tuple[str, Obj]


class Watcher:
    """A watch of a resource."""

    def __init__(
        self,
        store: RevisionStore,
        row: ServedResource,
        *,
        matches: Callable[[Obj], bool] | None,
        initial: Sequence[Obj] | None,
        since: int,
        allow_bookmarks: bool,
        mark_initial_end: bool,
        timeout_seconds: float | None,
    ) -> None:
        """`matches` None is a watch of everything."""
        self._store = store
        self._row = row
        self._matches = matches
        self._initial = initial
        self._since = since
        self._allow_bookmarks = allow_bookmarks
        self._mark_initial_end = mark_initial_end
        self._timeout = timeout_seconds
        # Subscribed before the first await, so that nothing between list and watch is missed.
        self._changes: Subscription = store.subscribe(row.stored_as, since=since)

    async def events(self) -> AsyncIterator[Event]:
        loop = asyncio.get_running_loop()
        deadline = None if self._timeout is None else loop.time() + self._timeout
        try:
            if self._initial is not None:
                for obj in self._initial:
                    if self._matches is None or self._matches(obj):
                        yield "ADDED", to_view(self._row, obj)
                if self._mark_initial_end:
                    yield self._bookmark(self._since, annotations={INITIAL_EVENTS_END: "true"})
            next_bookmark = loop.time() + BOOKMARK_SECONDS if self._allow_bookmarks else None
            while True:
                # Nothing is awaited while there is something to read.
                while (change := self._changes.read_nowait()) is not None:
                    event = self._event(change)
                    if event is not None:
                        yield event
                    if deadline is not None and loop.time() >= deadline:
                        return
                # What is committed now is in the subscription already; if nothing comes, all was delivered.
                settled = self._store.revision
                wake = min((at for at in (deadline, next_bookmark) if at is not None), default=None)
                try:
                    async with asyncio.timeout_at(wake):
                        if not await self._changes.wait():
                            return
                except TimeoutError:
                    if self._allow_bookmarks:
                        yield self._bookmark(settled)
                    if deadline is not None and loop.time() >= deadline:
                        return
                    next_bookmark = loop.time() + BOOKMARK_SECONDS
        except SlowWatcherError:
            # As upstream: the connection ends and the client resumes from the last version it saw.
            return
        finally:
            self._changes.close()

    def _event(self, change: Change) -> Event | None:
        old, new = change.old, change.new
        if self._matches is None and new is not None:
            return ("ADDED" if old is None else "MODIFIED"), to_view(self._row, new)
        new_matches = new is not None and (self._matches is None or self._matches(new))
        old_matches = old is not None and (self._matches is None or self._matches(old))
        if new is not None and new_matches:
            return ("MODIFIED" if old_matches else "ADDED"), to_view(self._row, new)
        if old is None or not old_matches:
            return None
        # As upstream: what the object was while it was selected, at the version that took it out.
        old = {**old, "metadata": {**old["metadata"], "resourceVersion": str(change.revision)}}
        return "DELETED", to_view(self._row, old)

    def _bookmark(self, revision: int, *, annotations: dict[str, str] | None = None) -> Event:
        metadata: Obj = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        return "BOOKMARK", {
            "kind": self._row.kind,
            "apiVersion": self._row.api_version,
            "metadata": metadata,
        }
