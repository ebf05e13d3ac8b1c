"""Starts and closes plugins and queues, and owns the tasks that they spawn.

In: the plugins, or the queue, of a configuration. Out: `start` and `close` called once each, and all tasks of
a replaced plugin ended.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Protocol

from kuberth.errors import KuberthError, described, reraise_interrupt

logger = logging.getLogger(__name__)

CLOSE_SECONDS: Final = 10.0
"""The timeout of an `async` close."""
JOB_SECONDS: Final = 60.0
"""How long jobs of replaced plugins may continue."""

TaskFactory = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
"""Runs a coroutine in a named task of the scheduler; exceptions are logged."""


class Component(Protocol):
    """A plugin or a queue."""

    def start(self) -> Awaitable[None] | None: ...

    def close(self) -> Awaitable[None] | None: ...


class Components:
    """The plugins, or the queue, of one configuration.

    Coroutines that they spawn before they are active (in their constructors, or in `start`) run in the
    background until they are closed. Coroutines that they spawn later are jobs, such as writes to the API,
    which may end by themselves.
    """

    def __init__(self, *, background: TaskFactory, job: TaskFactory, close_unstarted: bool = False) -> None:
        self._components: Mapping[str, Component] = {}
        self._start_background = background
        self._start_job = job
        self._close_unstarted = close_unstarted
        self._waiting: list[tuple[Coroutine[Any, Any, None], str]] | None = []
        self._background: set[asyncio.Task[None]] = set()
        self._jobs: set[asyncio.Task[None]] = set()
        self._is_active = False
        self._to_close: list[str] = []

    def set_components(self, components: Mapping[str, Component]) -> None:
        """The names of the plugins or the queue in the log."""
        self._components = components
        if self._close_unstarted:
            self._to_close = list(components)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run `work` in a task; before `start`, keep it until then."""
        if self._waiting is not None:
            self._waiting.append((work, name))
            return
        task = (self._start_job if self._is_active else self._start_background)(work, name)
        tasks = self._jobs if self._is_active else self._background
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def start(self, *, unless: asyncio.Event) -> None:
        """Run spawned coroutines and start all components, in order, unless the event happens before.

        KuberthError: one failed, and those before it are closed.
        """
        waiting, self._waiting = self._waiting or [], None
        for work, name in waiting:
            self.spawn(work, name=name)
        for name, component in self._components.items():
            try:
                answer = component.start()
                if inspect.isawaitable(answer) and not await _finished(answer, unless):
                    return
            except BaseException as exc:
                reraise_interrupt(exc)
                if isinstance(exc, asyncio.CancelledError):
                    raise
                logger.error("%s failed in start", name, exc_info=exc)
                await self.close()
                raise KuberthError(f"{name} failed in start: {described(exc)}") from exc
            if name not in self._to_close:
                self._to_close.append(name)
        self._is_active = True

    async def close(self) -> None:
        """Close started components in reverse order, and cancel background tasks. Idempotent."""
        for work, _name in self._waiting or ():
            work.close()
        self._waiting = None
        self._is_active = True  # coroutines spawned from now on only have the remaining time
        names, self._to_close = self._to_close, []
        for name in reversed(names):
            try:
                answer = self._components[name].close()
                if inspect.isawaitable(answer):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await answer
            except BaseException as exc:
                reraise_interrupt(exc)
                if isinstance(exc, asyncio.CancelledError):
                    raise
                logger.error("%s failed in close", name, exc_info=exc)
        for task in self._background:
            task.cancel()

    async def finish_jobs(self) -> None:
        """Wait for jobs, and cancel those that take longer than `JOB_SECONDS`."""
        if not self._jobs:
            return
        _done, late = await asyncio.wait(self._jobs, timeout=JOB_SECONDS)
        if late:
            names = ", ".join(sorted(task.get_name() for task in late))
            logger.warning("cancelled tasks of replaced plugins after %g s: %s", JOB_SECONDS, names)
        for task in late:
            task.cancel()


def plugins_by_name(plugins: Iterable[tuple[str, Mapping[str, Component]]]) -> dict[str, Component]:
    """Every plugin of the profiles once, with the profile's name if there is more than one profile."""
    profiles = list(plugins)
    found: dict[str, Component] = {}
    seen: set[int] = set()
    for profile, by_name in profiles:
        for name, plugin in by_name.items():
            if id(plugin) not in seen:
                seen.add(id(plugin))
                where = f" of profile {profile!r}" if len(profiles) > 1 else ""
                found[f"plugin {name!r}{where}"] = plugin
    return found


async def _finished(work: Awaitable[None], unless: asyncio.Event) -> bool:
    """Await `work`; False if the event came first, and the work was cancelled."""
    working = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(unless.wait())
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        working.result()
        return True
    finally:
        working.cancel()
        waiting.cancel()
