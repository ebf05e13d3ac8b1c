"""A scheduler with an overview beside it, on virtual time, and readers of its stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kuberth.clock import LoopClock
from kuberth.overview import Overview
from kuberth.overview.overview import Subscriber
from kuberth.overview.reading import EventReader, StreamState
from kuberth.testing import World, running


class Reader:
    """A subscriber: `read` takes the pending messages and merges them."""

    def __init__(self, overview: Overview) -> None:
        self.subscriber: Subscriber = overview.subscribe()
        self.seen = StreamState()
        self.events: list[tuple[str, Any]] = []
        self._reader = EventReader()

    def read(self) -> list[tuple[str, Any]]:
        new = [event for piece in self.subscriber.take() for event in self._reader.feed(piece)]
        for name, tree in new:
            self.seen.take(name, tree)
        self.events += new
        return new


@asynccontextmanager
async def watching(*objects: Any, always_records: bool = False, **options: Any) -> AsyncIterator[Watched]:
    async with running(*objects, **options) as world:
        clock = LoopClock(asyncio.get_running_loop())
        overview = Overview(
            world.scheduler,
            clock=clock,
            program="up",
            cluster="test",
            writable=True,
            always_records=always_records,
        )
        running_overview = asyncio.create_task(overview.run(), name="overview")
        try:
            yield Watched(world, overview)
        finally:
            running_overview.cancel()
            await asyncio.wait([running_overview])


class Watched:
    def __init__(self, world: World, overview: Overview) -> None:
        self.world = world
        self.overview = overview

    def moves(self, name: str) -> list[tuple[str, str]]:
        """The queues a pod went to, each with the event or note that goes with it."""
        history = self.overview.histories.named(f"default/{name}")
        assert history is not None
        return [(move.to, move.event or move.note) for move in history.moves]
