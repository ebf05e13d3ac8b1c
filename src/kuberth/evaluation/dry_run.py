"""An API for dry runs: reads come from the stores, writes have no lasting effect.

In: the verbs of `kuberth.client.protocol.Api`. Out: objects of the stores. A deleted object is missing from
its store until `undo_deletions`; other writes return what a server would.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeVar

from kuberth.client.protocol import Api, ObjectList, WatchEvent
from kuberth.client.writes import Verb, Write
from kuberth.errors import NotFoundError
from kuberth.informers.store import Stores

T = TypeVar("T")


class DryRunApi(Api):
    """Reads from stores; deletions can be undone, and other writes have no effect."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._deleted: dict[str, Any] = {}

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        return ObjectList(tuple(self._stores.of(kind)), "0")

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        changes: tuple[WatchEvent, ...] = ()
        for change in changes:
            yield change

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        obj = self._stores.of(kind).get(name, namespace=namespace)
        if obj is None:
            raise NotFoundError(f"{kind.__name__} {namespace}/{name} is not among the objects")
        return obj

    async def write(self, write: Write) -> Any:
        if write.verb in (Verb.CREATE, Verb.UPDATE):
            return write.body
        obj = await self.get(write.kind, write.name, namespace=write.namespace)
        if write.verb is Verb.PATCH:
            return obj
        self._stores.of(write.kind).remove(obj)
        self._deleted[f"{write.namespace}/{write.name}" if write.namespace else write.name] = obj
        return None

    def undo_deletions(self) -> Iterable[str]:
        """Restore all deleted objects; returns their keys."""
        deleted, self._deleted = self._deleted, {}
        for obj in deleted.values():
            self._stores.of(type(obj)).set(obj)
        return deleted
