"""A controller's queue: keys in, `sync(key)` out, never twice at a time for one key.

In: keys of objects that may need work, any number of times. Out: calls of a sync function, for several keys
at a time; after a failure again, with a growing delay. A sync that compares the current state with the
desired one and takes one step tolerates conflicts, restarts and lost events. No failure ends a controller: it
is logged and the key is retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from kuberth.local.apiserver.objects import Obj, key_of
from kuberth.local.apiserver.status_errors import StatusError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_RETRY_SECONDS: Final = 0.02
_LAST_RETRY_SECONDS: Final = 30.0

COALESCE_SECONDS: Final = 0.05
"""How long a controller waits for further changes of its pods, so that a thousand changes do not cause a
thousand syncs and status writes."""

_SECONDS_PER_POD: Final = 20e-6
_MAX_SYNC_SHARE: Final = 0.1
"""The maximum share of the event loop's time for syncs over all pods."""

Sync = Callable[[str], Awaitable[float | None]]
"""Processes a key; a returned number requests another call after that many seconds."""


def coalesce_seconds(number: int) -> float:
    """How long to batch changes of `number` pods if a sync reads all of them."""
    return max(COALESCE_SECONDS, number * _SECONDS_PER_POD / _MAX_SYNC_SHARE)


def retry_seconds(failures: int) -> float:
    """How long to wait after this number of failures in a row."""
    return min(_FIRST_RETRY_SECONDS * 2.0 ** min(failures, 20), _LAST_RETRY_SECONDS)


async def keep_running(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run a coroutine function until it is cancelled; when it fails, start it again."""
    loop, failures = asyncio.get_running_loop(), 0
    while True:
        started = loop.time()
        try:
            await run()
            return
        except Exception:
            failures = 1 if loop.time() - started > _LAST_RETRY_SECONDS else failures + 1
            seconds = retry_seconds(failures)
            logger.exception("%s failed; it is started again in %.2f s", name, seconds)
        await asyncio.sleep(seconds)


async def wait_all(works: Iterable[Awaitable[T]]) -> list[T]:
    """Wait for all of them, then raise the first failure, so that none outlives its sync."""
    results = await asyncio.gather(*works, return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


class Worker:
    """Runs `sync` for keys until cancelled."""

    def __init__(self, name: str, sync: Sync, *, parallel: int = 8) -> None:
        self.name = name
        self._sync = sync
        self._parallel = parallel
        self._waiting: deque[str] = deque()
        self._known: set[str] = set()
        """Keys in `_waiting`."""
        self._running: set[str] = set()
        self._again: set[str] = set()
        """Running keys that were added meanwhile."""
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._ready = asyncio.Semaphore(0)
        """Counts the keys in `_waiting`: each wakes one task, where an event would wake all."""

    def add(self, key: str) -> None:
        if key in self._running:
            self._again.add(key)
        elif key not in self._known:
            self._known.add(key)
            self._waiting.append(key)
            self._ready.release()

    def add_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Add the key of an object that changed: a handler for informers."""
        self.add(key_of(new or old or {}))

    def add_after(self, key: str, seconds: float) -> None:
        """Add the key later; the earliest of several such calls counts."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(seconds, 0.0)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._due, key)

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                for index in range(self._parallel):
                    tasks.create_task(self._work(), name=f"hollow-{self.name}-{index}")
        finally:
            for key, timer in self._timers.items():
                timer.cancel()
                self.add(key)  # for the next run, if there is one
            self._timers.clear()

    def _due(self, key: str) -> None:
        del self._timers[key]
        self.add(key)

    async def _work(self) -> None:
        while True:
            await self._ready.acquire()
            key = self._waiting.popleft()
            self._known.discard(key)
            self._running.add(key)
            try:
                await self._run(key)
            finally:
                self._running.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)
            # A sync may have nothing to await, and keys may add each other forever.
            await asyncio.sleep(0)

    async def _run(self, key: str) -> None:
        try:
            seconds = await self._sync(key)
        except StatusError as error:
            # 409: another client wrote first; 404: the object is gone. The next sync settles both.
            level = logging.DEBUG if error.code in (404, 409) else logging.WARNING
            logger.log(level, "%s %s: %s; trying again", self.name, key, error)
        except Exception:
            logger.exception("%s %s failed; trying again", self.name, key)
        else:
            self._failures.pop(key, None)
            if seconds is not None:
                self.add_after(key, seconds)
            return
        count = self._failures[key] = self._failures.get(key, 0) + 1
        self.add_after(key, retry_seconds(count))
