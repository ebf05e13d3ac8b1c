"""Runs the reflectors of a scheduler: some from the start, more after a reload.

In: reflectors. Out: current stores, and whether all of them have synced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kuberth.errors import ConfigError
from kuberth.informers.reflector import Reflector

SYNC_SECONDS: Final = 60.0
"""How long a new configuration waits for the kinds that its plugins request."""


class Following:
    """Runs reflectors in the caller's task group."""

    def __init__(self, reflectors: Iterable[Reflector[Any]]) -> None:
        self._reflectors: dict[Reflector[Any], asyncio.Task[None] | None] = dict.fromkeys(reflectors)
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        for reflector in self._reflectors:
            self._start(reflector, tasks)

    def stop(self) -> None:
        self._tasks = None
        for task in self._reflectors.values():
            if task is not None:
                task.cancel()

    def kinds(self) -> set[type[Any]]:
        return {reflector.kind for reflector in self._reflectors}

    async def add(self, reflectors: Sequence[Reflector[Any]]) -> None:
        """Run more reflectors, and return when they have synced.

        ConfigError if they do not sync; they are stopped then.
        """
        self._reflectors |= dict.fromkeys(reflectors)
        if self._tasks is None:
            return
        for reflector in reflectors:
            self._start(reflector, self._tasks)
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                for reflector in reflectors:
                    await reflector.synced.wait()
        except TimeoutError as error:
            unknown = ", ".join(each.kind.__name__ for each in reflectors if not each.synced.is_set())
            self.drop(reflectors)
            raise ConfigError(
                f"plugins request {unknown}, which could not be listed within {SYNC_SECONDS:g} s"
            ) from error
        except BaseException:
            self.drop(reflectors)
            raise

    def drop(self, reflectors: Iterable[Reflector[Any]]) -> None:
        """Stop these reflectors."""
        for reflector in reflectors:
            task = self._reflectors.pop(reflector, None)
            if task is not None:
                task.cancel()

    @property
    def synced(self) -> bool:
        return all(reflector.synced.is_set() for reflector in self._reflectors)

    async def wait_synced(self) -> None:
        for reflector in tuple(self._reflectors):
            await reflector.synced.wait()

    def _start(self, reflector: Reflector[Any], tasks: asyncio.TaskGroup) -> None:
        name = f"watch {reflector.kind.__name__}"
        self._reflectors[reflector] = tasks.create_task(reflector.run(), name=name)
