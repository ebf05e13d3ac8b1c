"""Reloads the configuration of a running scheduler.

In: sources that may change (a file, an object of the cluster, the modules of plugins) and how to read them.
Out: a scheduler with the new rules; if they are invalid, the old rules stay, and the error is logged, counted
and recorded as an event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from kuberth.assembly.scheduler import Scheduler
from kuberth.config import KubeSchedulerConfiguration
from kuberth.errors import KuberthError
from kuberth.framework.handle import PodEvent
from kuberth.framework.registry import Registry
from kuberth.programs.memory import unfreeze_objects
from kuberth.queue.interface import QueueFactory

logger = logging.getLogger(__name__)

CHECK_SECONDS: Final = 1.0
"""Time between two checks of the sources."""
RELOADED: Final = "ConfigurationReloaded"
REJECTED: Final = "ConfigurationRejected"

_AT_START_ONLY: Final = (
    "leader_election",
    "client_connection",
    "enable_profiling",
    "enable_contention_profiling",
    "delay_cache_until_active",
)


class Rules(NamedTuple):
    """A configuration with its plugins and queue."""

    config: KubeSchedulerConfiguration
    registry: Registry | None = None
    """The registry of plugins; None if the plugins are the same."""
    queue: QueueFactory | None = None
    """The factory of the queue; None if it is the same."""


class RuleSource(NamedTuple):
    """A source of rules."""

    name: str
    state: Callable[[], Coroutine[Any, Any, object]]
    """A value that differs when the source has changed; it must be quick."""


def file_source(path: Path) -> RuleSource:
    """A file, possibly a symbolic link that changes, as in a mounted ConfigMap."""

    async def state() -> object:
        return _state_of(path)

    return RuleSource(f"file {path}", state)


def _state_of(path: Path) -> object:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


@dataclass(eq=False)
class Reloading:
    """Watches the sources of one scheduler's rules."""

    scheduler: Scheduler
    read: Callable[[], Awaitable[Rules]]
    sources: Sequence[RuleSource]
    regarding: Callable[[], Any]
    """Returns the object of events."""
    report: Callable[[str], None] = logger.info
    """Receives messages about success."""

    def __post_init__(self) -> None:
        self._requested = asyncio.Event()

    def request(self) -> None:
        """Read the rules again even if nothing seems to have changed."""
        self._requested.set()

    async def run(self) -> None:
        """Check the sources repeatedly until cancelled."""
        seen = [await source.state() for source in self.sources]
        while True:
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._requested.wait()
            except TimeoutError:
                pass
            now = [await source.state() for source in self.sources]
            changed = [
                source.name for source, old, new in zip(self.sources, seen, now, strict=True) if old != new
            ]
            if changed or self._requested.is_set():
                self._requested.clear()
                seen = now
                await self.reload(because=", ".join(changed) or "it was asked for")

    async def reload(self, *, because: str) -> bool:
        """Apply the current rules. False if they are invalid, and the old ones stay."""
        metrics, before = self.scheduler.metrics, self.scheduler.config
        try:
            rules = await self.read()
            await self.scheduler.reconfigure(rules.config, registry=rules.registry, queue=rules.queue)
        except KuberthError as exc:
            logger.error("the new configuration (%s) is rejected; keeping the old one: %s", because, exc)
            metrics.configuration_reloads.inc(("error",))
            self._record(REJECTED, f"The old configuration stays in force: {exc}", warning=True)
            return False
        metrics.configuration_reloads.inc(("success",))
        unfreeze_objects()  # replaced objects are in reference cycles
        for part in _AT_START_ONLY:
            if getattr(before, part) != getattr(rules.config, part):
                logger.warning("the new %s takes effect at the next start", part.replace("_", " "))
        profiles = ", ".join(profile.scheduler_name for profile in rules.config.profiles)
        self.report(f"a new configuration is in force ({because}); profiles: {profiles}")
        self._record(RELOADED, f"A new configuration is in force; profiles: {profiles}")
        return True

    def _record(self, reason: str, note: str, *, warning: bool = False) -> None:
        event = PodEvent(self.regarding(), reason, "Reloading", note[:1024], warning=warning)
        self.scheduler.recorder.record(event)
