"""What plugins share: one object of a kind for all plugins of all profiles of a scheduler.

In: a type and how to make one. Out: the one that was made first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


class SharedObjects:
    """Objects by their types. They live as long as the scheduler, whatever plugins come and go."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], Any] = {}

    def of(self, kind: type[T], make: Callable[[], T]) -> T:
        """The shared object of this type; `make` makes it at the first request."""
        found = self._objects.get(kind)
        if found is None:
            found = self._objects[kind] = make()
        return cast(T, found)
