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
from kuberth.local.apiserver.store.store import Change, RevisionStore, SlowWatcherError
from kuberth.local.apiserver.verbs.aliases import to_view

BOOKMARK_SECONDS: Final = 60.0
"""Interval of bookmarks for quiet watches, as upstream."""
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

Event = tuple[str, Obj]


def watch_events(
    store: RevisionStore,
    row: ServedResource,
    *,
    matches: Callable[[Obj], bool] | None,
    initial: Sequence[Obj] | None,
    since: int,
    allow_bookmarks: bool,
    mark_initial_end: bool,
    timeout_seconds: float | None,
) -> AsyncIterator[Event]:
    """The events of a watch; `matches` None is a watch of everything."""

    async def events() -> AsyncIterator[Event]:
        loop = asyncio.get_running_loop()
        deadline = None if timeout_seconds is None else loop.time() + timeout_seconds
        try:
            if initial is not None:
                for obj in initial:
                    if matches is None or matches(obj):
                        yield "ADDED", to_view(row, obj)
                if mark_initial_end:
                    yield _bookmark(row, since, annotations={INITIAL_EVENTS_END: "true"})
            next_bookmark = loop.time() + BOOKMARK_SECONDS if allow_bookmarks else None
            while True:
                # Nothing is awaited while there is something to read.
                while (change := changes.read_nowait()) is not None:
                    event = _event(row, change, matches)
                    if event is not None:
                        yield event
                    if deadline is not None and loop.time() >= deadline:
                        return
                # What is committed now is in the subscription already; if nothing comes, all was delivered.
                settled = store.revision
                wake = min((at for at in (deadline, next_bookmark) if at is not None), default=None)
                try:
                    async with asyncio.timeout_at(wake):
                        if not await changes.wait():
                            return
                except TimeoutError:
                    if allow_bookmarks:
                        yield _bookmark(row, settled)
                    if deadline is not None and loop.time() >= deadline:
                        return
                    next_bookmark = loop.time() + BOOKMARK_SECONDS
        except SlowWatcherError:
            # As upstream: the connection ends and the client resumes from the last version it saw.
            return
        finally:
            changes.close()

    # Subscribed before the first await, so that nothing between list and watch is missed.
    changes = store.subscribe(row.stored_as, since=since)
    return events()


def _event(row: ServedResource, change: Change, matches: Callable[[Obj], bool] | None) -> Event | None:
    old, new = change.old, change.new
    if matches is None and new is not None:
        return ("ADDED" if old is None else "MODIFIED"), to_view(row, new)
    new_matches = new is not None and (matches is None or matches(new))
    old_matches = old is not None and (matches is None or matches(old))
    if new is not None and new_matches:
        return ("MODIFIED" if old_matches else "ADDED"), to_view(row, new)
    if old is None or not old_matches:
        return None
    # As upstream: what the object was while it was selected, at the version that took it out.
    old = {**old, "metadata": {**old["metadata"], "resourceVersion": str(change.revision)}}
    return "DELETED", to_view(row, old)


def _bookmark(row: ServedResource, revision: int, *, annotations: dict[str, str] | None = None) -> Event:
    metadata: Obj = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    return "BOOKMARK", {"kind": row.kind, "apiVersion": row.api_version, "metadata": metadata}
