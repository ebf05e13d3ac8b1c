"""Keeps one kind's store current: list once, then watch.

In: an API and a kind. Out: every change, in order, first to the store and then to the handlers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kuberth.client.protocol import Api, WatchType
from kuberth.informers.store import Store

T = TypeVar("T")

Handler = Callable[[T | None, T | None], None]
"""`handler(old, new)`: old is None for an addition, new is None for a deletion."""


class Reflector(Generic[T]):
    """One kind. `synced` is set once the first list was handed on."""

    def __init__(self, api: Api, kind: type[T], store: Store[T], handler: Handler[T]) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self._api = api
        self._store = store
        self._handler = handler

    async def run(self) -> None:
        """List, then watch for as long as the task lives."""
        version = await self.sync()
        async for event in self._api.watch(self.kind, resource_version=version):
            if event.type is WatchType.DELETED:
                self._remove(event.object)
            else:
                self._set(event.object)

    async def sync(self) -> str:
        """Take over a whole list: what is in it is set, what is not is removed."""
        listed = await self._api.list(self.kind)
        present = {_identity(obj) for obj in listed.items}
        for obj in listed.items:
            self._set(obj)
        for obj in [obj for obj in self._store if _identity(obj) not in present]:
            self._remove(obj)
        self.synced.set()
        return listed.resource_version

    def _set(self, obj: T) -> None:
        old = self._store.set(obj)
        if old is not None and _uid(old) != _uid(obj):
            # Deleted and made again under the same name: the two are different objects.
            self._handler(old, None)
            old = None
        self._handler(old, obj)

    def _remove(self, obj: T) -> None:
        self._store.remove(obj)
        self._handler(obj, None)


def _identity(obj: Any) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name


def _uid(obj: Any) -> str:
    return str(obj.metadata.uid)
