"""The last known version of every object, by kind.

In: objects as list and watch deliver them. Out: typed look-ups for plugins and the failure handler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


def object_key(obj: Any) -> str:
    """`namespace/name`, or just the name for kinds without a namespace."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


class Store(Generic[T]):
    """All objects of one kind."""

    __slots__ = ("_objects",)

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}

    def get(self, name: str, *, namespace: str = "") -> T | None:
        return self._objects.get(f"{namespace}/{name}" if namespace else name)

    def get_by_key(self, key: str) -> T | None:
        return self._objects.get(key)

    def set(self, obj: T) -> T | None:
        """Keep a new version; returns the one before."""
        key = object_key(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        return old

    def remove(self, obj: T) -> T | None:
        return self._objects.pop(object_key(obj), None)

    def in_namespace(self, namespace: str) -> Iterator[T]:
        prefix = f"{namespace}/"
        return (obj for key, obj in self._objects.items() if key.startswith(prefix))

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)


class Stores:
    """The stores of all kinds, by struct type."""

    def __init__(self) -> None:
        self._stores: dict[type, Store[Any]] = {}

    def of(self, kind: type[T]) -> Store[T]:
        """The store of a kind; empty if no one watches it."""
        store = self._stores.get(kind)
        if store is None:
            store = self._stores[kind] = Store()
        return cast("Store[T]", store)
