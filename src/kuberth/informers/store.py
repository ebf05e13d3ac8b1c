"""The last known version of every object, by kind.

In: objects from list and watch. Out: typed lookups for plugins and the failure handler, and the keys of
changed objects for caches.
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
    """`namespace/name`, or the name for cluster-scoped kinds."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


def is_older(obj: Any, than: Any) -> bool:
    """Whether an object's version precedes that of another; versions that are not numbers have no order."""
    version, other = obj.metadata.resource_version, than.metadata.resource_version
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


def _namespace_in(key: str) -> str:
    return key.rpartition("/")[0]


class Store(Generic[T]):
    """Stores the objects of one kind."""

    __slots__ = ("_by_namespace", "_objects", "changes")

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._by_namespace: dict[str, dict[str, T]] = {}
        self.changes: Changes[str] = Changes()
        """The keys of recently changed objects."""

    @property
    def version(self) -> int:
        """Grows by one with every change."""
        return self.changes.version

    def get(self, name: str, *, namespace: str = "") -> T | None:
        return self._objects.get(f"{namespace}/{name}" if namespace else name)

    def get_by_key(self, key: str) -> T | None:
        return self._objects.get(key)

    def set(self, obj: T) -> T | None:
        """Store a new version; returns the previous one."""
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
        """A reader of the keys of changed objects."""
        return self.changes.reader()

    def snapshot(self) -> list[T]:
        """All objects, in a list that is created in one step, so other threads may call it."""
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
    """The stores of all kinds, by type."""

    def __init__(self) -> None:
        self._stores: dict[type, Store[Any]] = {}
        self._sealed = False

    def of(self, kind: type[T]) -> Store[T]:
        """The store of a kind. If a constructor requests it, the scheduler watches the kind.

        TypeError for a type that is not a kind: see `kuberth.api.register_kind`.
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
        """Reject further kinds from now on: their stores would stay empty."""
        self._sealed = True

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Allow requests of new kinds while the block lasts; if it fails, they are removed again."""
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
        """All requested kinds."""
        return tuple(self._stores)
