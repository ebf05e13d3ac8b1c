"""A cache that is bounded in number and in age."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from kuberth.clock import NANOSECONDS, Clock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """Drops the oldest entry when it is full."""

    def __init__(self, clock: Clock, *, seconds: float, size: int) -> None:
        self._clock = clock
        self._age_ns = round(seconds * NANOSECONDS)
        self._size = size
        self._entries: dict[K, tuple[int, V]] = {}

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        until_ns, value = entry
        if until_ns <= self._clock.now_ns():
            del self._entries[key]
            return None
        return value

    def put(self, key: K, value: V) -> None:
        self._entries.pop(key, None)
        if len(self._entries) >= self._size:
            # All entries live equally long, so the first one in is the first to expire.
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (self._clock.now_ns() + self._age_ns, value)

    def __len__(self) -> int:
        return len(self._entries)
