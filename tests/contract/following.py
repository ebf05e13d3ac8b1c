"""What a watch brings, kept for a test to wait on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kuberth.client.protocol import Api, WatchEvent

WAIT_SECONDS = 120.0
"""A net only: nothing takes so long but a real server's bookmark."""


class Followed:
    """The events of one watch so far, bookmarks apart."""

    def __init__(self) -> None:
        self.events: list[WatchEvent] = []
        self.bookmarks: list[WatchEvent] = []
        self._came = asyncio.Event()
        self._ended = ""

    def take(self, event: WatchEvent) -> None:
        (self.bookmarks if event.object is None else self.events).append(event)
        self._came.set()

    def end(self, task: asyncio.Task[None]) -> None:
        """The watch is over: waiting callers return at once, not after the last second."""
        self._ended = "cancelled" if task.cancelled() else f"ended with {task.exception()!r}"
        self._came.set()

    async def count(self, number: int) -> list[WatchEvent]:
        """The first `number` events."""
        await self._until(lambda: len(self.events) >= number)
        return self.events[:number]

    async def received(self, number: int) -> list[str]:
        """The first `number` events as `TYPE name`."""
        return [f"{event.type} {event.object.metadata.name}" for event in await self.count(number)]

    async def bookmark(self) -> WatchEvent:
        await self._until(lambda: bool(self.bookmarks))
        return self.bookmarks[0]

    async def _until(self, condition: Any) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                assert not self._ended, f"the watch {self._ended} before what the test waits for"
                self._came.clear()
                await self._came.wait()


@asynccontextmanager
async def following(
    api: Api, kind: type[Any], version: str, *, field_selector: str = ""
) -> AsyncIterator[Followed]:
    """Watches for as long as the block lasts."""
    followed = Followed()

    async def follow() -> None:
        async for event in api.watch(kind, resource_version=version, field_selector=field_selector):
            followed.take(event)

    task = asyncio.create_task(follow(), name="follow")
    task.add_done_callback(followed.end)
    try:
        yield followed
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def first_event(api: Api, kind: type[Any], version: str) -> WatchEvent | None:
    """The first event of a watch, if there is one; raises what the watch raises."""
    async for event in api.watch(kind, resource_version=version):
        return event
    return None
