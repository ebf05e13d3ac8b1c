"""Objects shared by plugins: one per type for all plugins of all profiles of a scheduler.

In: a type and a factory. Out: the object that was created first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class SharedObjects:
    """Shared objects by type. They live as long as the scheduler, across reloads."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], Any] = {}

    def of(self, kind: type[T], make: Callable[[], T]) -> T:
        """The shared object of this type; `make` creates it at the first request."""
        found = self._objects.get(kind)
        if found is None:
            found = self._objects[kind] = make()
        return cast(T, found)
