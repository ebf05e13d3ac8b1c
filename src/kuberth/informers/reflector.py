"""Keeps one kind's store current: lists once, then watches, and lists again when the watch cannot continue.

In: an API and a kind. Out: every change, in order, first to the store and then to the handler. Whatever the
API does (expired versions, broken or silent watches, errors, denials, kinds that are not served yet), the
reflector retries.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from kuberth.api.core import Pod
from kuberth.api.kinds import REGISTRY
from kuberth.client.protocol import Api, WatchType
from kuberth.errors import ApiError
from kuberth.holding import Hold
from kuberth.informers.store import Store, object_key

logger = logging.getLogger(__name__)

T = TypeVar("T")

Handler = Callable[[T | None, T | None], None]
"""`handler(old, new)`: old is None for an addition, new is None for a deletion."""

FIRST_BACKOFF_SECONDS: Final = 0.8
MAX_BACKOFF_SECONDS: Final = 30.0
BACKOFF_RESET_SECONDS: Final = 120.0
"""After this number of seconds without an error, the backoff is reset."""
SHORT_WATCH_SECONDS: Final = 1.0
"""A watch that ends sooner without an event counts as an error too."""
SILENT_SECONDS: Final = 90.0
"""A watch without events or bookmarks for this long counts as dead; servers send a bookmark every minute."""
_REARM_SECONDS: Final = 1.0
"""The precision with which silence is measured, to avoid a new timer for every event."""
SLICE_SECONDS: Final = 0.01
"""Changes are handled for this long before other tasks run."""


class Reflector(Generic[T]):
    """Lists and watches one kind.

    `synced` is set after the first list, or when the kind is not available. An optional kind may be denied,
    or not served yet (a custom resource whose definition comes later): it counts as empty, and is retried.
    """

    def __init__(
        self,
        api: Api,
        kind: type[T],
        store: Store[T],
        handler: Handler[T],
        *,
        field_selector: str = "",
        optional: bool = False,
        hold: Hold | None = None,
    ) -> None:
        """`hold`: changes are delayed while it is held."""
        self.kind = kind
        self.synced = asyncio.Event()
        self._api = api
        self._steady = api.steady
        self._store = store
        self._handler = handler
        self._field_selector = field_selector
        self._optional = optional
        self._hold = Hold() if hold is None else hold
        self._share: Callable[[Any, Any], None] | None = api.share if kind is Pod else None
        self._backoff = _Backoff()
        self._missing = 0
        """The HTTP status with which the kind is currently refused."""
        self._silent = False
        self._version = "0"
        """The version to list or watch from: at first any that the server has, then the last one seen."""

    async def run(self) -> None:
        """List and watch the kind until cancelled."""
        while True:
            try:
                await self.sync()
                await self._follow()
            except ApiError as error:
                await self._recover(error)

    async def sync(self) -> None:
        """Apply a complete list: set all objects in it, and remove all others."""
        listed = await self._api.list(
            self.kind, resource_version=self._version, field_selector=self._field_selector
        )
        await self._hold.ended()
        self._take_over(listed.items)
        self._version = listed.resource_version
        if self._missing:
            logger.info("%s can be listed now", self.kind.__name__)
        self._missing, self._silent = 0, False
        self.synced.set()

    def _take_over(self, objects: Sequence[T]) -> None:
        present = {_identity(obj) for obj in objects}
        for obj in objects:
            self._set(obj)
        for obj in [obj for obj in self._store if _identity(obj) not in present]:
            self._remove(obj)

    async def _follow(self) -> None:
        """Watch repeatedly from the last version seen, until a watch fails."""
        loop = asyncio.get_running_loop()
        while True:
            started, before = loop.time(), self._version
            try:
                await self._watch()
            except TimeoutError:
                if self._silent:
                    # If it fails twice in a row, the connection is not the cause. For example, a restored
                    # server reports nothing about versions that it has not reached yet.
                    logger.warning("the watch of %s is silent again; listing", self.kind.__name__)
                    return
                self._silent = True
                logger.warning(
                    "the watch of %s was silent for %g s; watching again", self.kind.__name__, SILENT_SECONDS
                )
                continue
            if loop.time() - started < SHORT_WATCH_SECONDS and self._version == before:
                await self._backoff.wait()

    async def _watch(self) -> None:
        """Run one watch until it ends; TimeoutError if it fell silent."""
        changes = self._api.watch(
            self.kind, resource_version=self._version, field_selector=self._field_selector
        )
        time = asyncio.get_running_loop().time
        armed = turned = time()
        async with asyncio.timeout_at(None if self._steady else armed + SILENT_SECONDS) as silence:
            async for event in changes:
                if self._hold.is_held:
                    await self._hold.ended()
                match event.type:
                    case WatchType.DELETED:
                        self._remove(event.object)
                    case WatchType.ADDED | WatchType.MODIFIED:
                        if self._share is not None:
                            self._share(event.object, self._store.get_by_key(object_key(event.object)))
                        self._set(event.object)
                self._version = event.resource_version
                self._silent = False
                if self._steady:
                    continue
                if (now := time()) - turned >= SLICE_SECONDS:
                    # Decoding may be slow for many objects; let other tasks run.
                    await asyncio.sleep(0)
                    turned = now = time()
                if now - armed >= _REARM_SECONDS:
                    armed = now
                    silence.reschedule(now + SILENT_SECONDS)

    async def _recover(self, error: ApiError) -> None:
        name = self.kind.__name__
        if error.code == 410 or _is_from_the_future(error):
            # The version is gone, or does not exist yet after a restore: take the newest.
            logger.info("the watch of %s cannot continue (%s); listing again", name, error)
            self._version = ""
        elif error.code == 403 or (error.code == 404 and self._optional):
            await self._hold.ended()
            self._record_missing(error.code)
        else:
            logger.warning("%s cannot be watched, retrying: %s", name, error)
        await self._backoff.wait()

    def _record_missing(self, code: int) -> None:
        info = REGISTRY.of(self.kind)
        if code != self._missing:
            if code == 403:
                level = logging.WARNING if self._optional else logging.ERROR
                rule = info.rbac_rule("get", "list", "watch")
                logger.log(level, "%s may not be read; add to the ClusterRole: %s", info.kind, rule)
            else:
                logger.warning(
                    "%s is not served by the API server; it counts as empty until %s appears",
                    info.kind,
                    info.full_resource,
                )
        self._missing = code
        if code == 404:
            # If its definition was deleted, a custom resource has no objects any more.
            self._take_over(())
            self._version = "0"
        if self._optional:
            self.synced.set()

    def _set(self, obj: T) -> None:
        old = self._store.set(obj)
        if old is not None and _uid(old) != _uid(obj):
            # Deleted and recreated under the same name: the two are different objects.
            self._handler(old, None)
            old = None
        self._handler(old, obj)

    def _remove(self, obj: T) -> None:
        # The last known version: a deletion may contain only the object's name.
        self._handler(self._store.remove(obj) or obj, None)


class _Backoff:
    """A backoff with jitter, reset after a time without errors."""

    def __init__(self) -> None:
        self._seconds = FIRST_BACKOFF_SECONDS
        self._last = 0.0

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last > BACKOFF_RESET_SECONDS:
            self._seconds = FIRST_BACKOFF_SECONDS
        seconds = self._seconds * (1 + random.random())
        self._seconds = min(2 * self._seconds, MAX_BACKOFF_SECONDS)
        self._last = now + seconds
        await asyncio.sleep(min(seconds, MAX_BACKOFF_SECONDS))


def _is_from_the_future(error: ApiError) -> bool:
    return "too large resource version" in str(error).lower()


def _identity(obj: Any) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name


def _uid(obj: Any) -> str:
    return str(obj.metadata.uid)
