"""Keeps one kind's store current: list once, then watch, and list again when the watch cannot go on.

In: an API and a kind. Out: every change, in order, first to the store and then to the handler. Whatever
the API does (gone versions, cut watches, errors, denials), the reflector goes on trying.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

from kuberth.api.kinds import KINDS, KindInfo
from kuberth.client.protocol import Api, WatchType
from kuberth.errors import ApiError
from kuberth.informers.store import Store

logger = logging.getLogger(__name__)

T = TypeVar("T")

Handler = Callable[[T | None, T | None], None]
"""`handler(old, new)`: old is None for an addition, new is None for a deletion."""

FIRST_BACKOFF_SECONDS: Final = 0.8
MAX_BACKOFF_SECONDS: Final = 30.0
BACKOFF_RESET_SECONDS: Final = 120.0
"""After so long without trouble the next one starts small again."""
SHORT_WATCH_SECONDS: Final = 1.0
"""A watch that ends sooner and brought nothing is trouble too."""
_KIND_INFO: Final[Mapping[type, KindInfo]] = {info.type: info for info in KINDS.values()}


class Reflector(Generic[T]):
    """One kind. `synced` is set once a first list was handed on, or an optional kind was denied."""

    def __init__(
        self,
        api: Api,
        kind: type[T],
        store: Store[T],
        handler: Handler[T],
        *,
        field_selector: str = "",
        optional: bool = False,
        rng: random.Random | None = None,
    ) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self._api = api
        self._store = store
        self._handler = handler
        self._field_selector = field_selector
        self._optional = optional
        self._backoff = _Backoff(random.Random() if rng is None else rng)
        self._denied = False
        self._version = "0"
        """Where to list or watch from: at first whatever the server has at hand, then the last one seen."""

    async def run(self) -> None:
        """Follow the kind for as long as the task lives."""
        while True:
            try:
                await self.sync()
                await self._follow()
            except ApiError as error:
                await self._recover(error)

    async def sync(self) -> None:
        """Take over a whole list: what is in it is set, what is not is removed."""
        listed = await self._api.list(
            self.kind, resource_version=self._version, field_selector=self._field_selector
        )
        present = {_identity(obj) for obj in listed.items}
        for obj in listed.items:
            self._set(obj)
        for obj in [obj for obj in self._store if _identity(obj) not in present]:
            self._remove(obj)
        self._version = listed.resource_version
        if self._denied:
            logger.info("%s can be listed now", self.kind.__name__)
        self._denied = False
        self.synced.set()

    async def _follow(self) -> None:
        """Watch again and again from the last version seen, until a watch fails."""
        loop = asyncio.get_running_loop()
        while True:
            started, before = loop.time(), self._version
            await self._watch()
            if loop.time() - started < SHORT_WATCH_SECONDS and self._version == before:
                await self._backoff.wait()

    async def _watch(self) -> None:
        changes = self._api.watch(
            self.kind, resource_version=self._version, field_selector=self._field_selector
        )
        async for event in changes:
            match event.type:
                case WatchType.DELETED:
                    self._remove(event.object)
                case WatchType.ADDED | WatchType.MODIFIED:
                    self._set(event.object)
            self._version = event.resource_version

    async def _recover(self, error: ApiError) -> None:
        name = self.kind.__name__
        if error.code == 410 or _is_from_the_future(error):
            # The version is gone, or not there yet after a restored backup: take whatever is newest.
            logger.info("the watch of %s cannot go on (%s); listing again", name, error)
            self._version = ""
        elif error.code == 403:
            self._note_denial()
        else:
            logger.warning("%s cannot be followed, trying again: %s", name, error)
        await self._backoff.wait()

    def _note_denial(self) -> None:
        if not self._denied:
            level = logging.WARNING if self._optional else logging.ERROR
            rule = _missing_rule(_KIND_INFO.get(self.kind))
            logger.log(level, "%s may not be read; add to the ClusterRole: %s", self.kind.__name__, rule)
        self._denied = True
        if self._optional:
            self.synced.set()

    def _set(self, obj: T) -> None:
        old = self._store.set(obj)
        if old is not None and _uid(old) != _uid(obj):
            # Deleted and made again under the same name: the two are different objects.
            self._handler(old, None)
            old = None
        self._handler(old, obj)

    def _remove(self, obj: T) -> None:
        # The last version known here: a deletion may come with nothing but the object's name.
        self._handler(self._store.remove(obj) or obj, None)


class _Backoff:
    """Waits longer each time, with jitter, and starts afresh after a quiet while."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._seconds = FIRST_BACKOFF_SECONDS
        self._last = 0.0

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._last > BACKOFF_RESET_SECONDS:
            self._seconds = FIRST_BACKOFF_SECONDS
        seconds = self._seconds * (1 + self._rng.random())
        self._seconds = min(2 * self._seconds, MAX_BACKOFF_SECONDS)
        self._last = now + seconds
        await asyncio.sleep(min(seconds, MAX_BACKOFF_SECONDS))


def _is_from_the_future(error: ApiError) -> bool:
    return "too large resource version" in str(error).lower()


def _missing_rule(info: KindInfo | None) -> str:
    if info is None:
        return "get, list and watch on this kind"
    return f'apiGroups: ["{info.group}"], resources: ["{info.plural}"], verbs: ["get", "list", "watch"]'


def _identity(obj: Any) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name


def _uid(obj: Any) -> str:
    return str(obj.metadata.uid)
