"""An API that changes nothing: reads come from the objects at hand, writes are only remembered.

In: the verbs of `kuberth.client.protocol.Api`. Out: what the objects say. A pod that is deleted is gone for
those who look it up, until `take_back`; other writes are answered as if they had been done.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, TypeVar

from kuberth.api.core import Binding
from kuberth.client.protocol import ObjectList, WatchEvent
from kuberth.errors import NotFoundError
from kuberth.informers.store import Stores

T = TypeVar("T")


class DryRunApi:
    """Implements `kuberth.client.protocol.Api` over stores."""

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

    async def create(self, obj: T) -> T:
        return obj

    async def update(self, obj: T) -> T:
        return obj

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        return await self.get(kind, name, namespace=namespace)

    async def bind(self, binding: Binding) -> None:
        pass

    async def delete(
        self,
        kind: type[Any],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        obj = await self.get(kind, name, namespace=namespace)
        self._stores.of(kind).remove(obj)
        self._deleted[f"{namespace}/{name}" if namespace else name] = obj

    def take_back(self) -> Iterable[str]:
        """Undo all deletions; returns whom they were about."""
        deleted, self._deleted = self._deleted, {}
        for obj in deleted.values():
            self._stores.of(type(obj)).set(obj)
        return deleted
