"""The last known version of every object, by kind.

In: objects as list and watch deliver them. Out: typed look-ups for plugins and the failure handler, and
for caches derived from the objects, which of them changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, cast

from kuberth.api.kinds import REGISTRY
from kuberth.changes import ChangeReader, Changes
from kuberth.errors import KuberthError

T = TypeVar("T")


def object_key(obj: Any) -> str:
    """`namespace/name`, or just the name for kinds without a namespace."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


def _namespace_in(key: str) -> str:
    return key.rpartition("/")[0]


class Store(Generic[T]):
    """Keeps the objects of one kind."""

    __slots__ = ("_by_namespace", "_objects", "changes")

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._by_namespace: dict[str, dict[str, T]] = {}
        self.changes: Changes[str] = Changes()
        """The keys of objects that were set or removed lately."""

    @property
    def version(self) -> int:
        """Grows by one with every change."""
        return self.changes.version

    def get(self, name: str, *, namespace: str = "") -> T | None:
        return self._objects.get(f"{namespace}/{name}" if namespace else name)

    def get_by_key(self, key: str) -> T | None:
        return self._objects.get(key)

    def set(self, obj: T) -> T | None:
        """Keep a new version; returns the one before."""
        key = object_key(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        self._by_namespace.setdefault(_namespace_in(key), {})[key] = obj
        self.changes.note(key)
        return old

    def remove(self, obj: T) -> T | None:
        key = object_key(obj)
        self.changes.note(key)
        namespace = _namespace_in(key)
        peers = self._by_namespace.get(namespace, {})
        peers.pop(key, None)
        if not peers:
            self._by_namespace.pop(namespace, None)
        return self._objects.pop(key, None)

    def change_reader(self) -> ChangeReader[str]:
        """Reads the keys of the objects set or removed since it last did."""
        return self.changes.reader()

    def snapshot(self) -> list[T]:
        """The objects in a list that is made in one step, so other threads may ask, too."""
        return list(self._objects.values())

    def keys(self) -> frozenset[str]:
        return frozenset(self._objects)

    def in_namespace(self, namespace: str) -> Iterator[T]:
        return iter(self._by_namespace.get(namespace, {}).values())

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)


class Stores:
    """The stores of all kinds, by their types."""

    def __init__(self) -> None:
        self._stores: dict[type, Store[Any]] = {}
        self._sealed = False

    def of(self, kind: type[T]) -> Store[T]:
        """The store of a kind. A request at construction time makes the scheduler watch the kind.

        TypeError for a type that is no kind: see `kuberth.api.register_kind`.
        """
        store = self._stores.get(kind)
        if store is None:
            info = REGISTRY.of(kind)
            if self._sealed:
                raise KuberthError(
                    f"the store of {info.kind} was requested too late: {info.plural} are not watched; "
                    "request it when the plugin is made"
                )
            store = self._stores[kind] = Store()
        return cast("Store[T]", store)

    def seal(self) -> None:
        """Refuse further kinds from now on: their stores would stay empty."""
        self._sealed = True

    @contextmanager
    def opened(self) -> Iterator[None]:
        """While the block lasts, kinds can be asked for again; if it fails, the new ones are gone."""
        before = dict(self._stores)
        self._sealed = False
        try:
            yield
        except BaseException:
            self._stores = before
            raise
        finally:
            self._sealed = True

    def kinds(self) -> tuple[type[Any], ...]:
        """Every kind that was requested."""
        return tuple(self._stores)
