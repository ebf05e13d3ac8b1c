"""Remembers what was compiled of parts of pods.

In: a part (terms, constraints), and what was made of it. Out: the same again for as long as it is in use. A
pod can have thousands of terms, and hints read them at every change of a node or of another pod.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

V = TypeVar("V")

MAX_LENGTH: Final = 131_072
"""Requirements and values that one memory holds, about 70 MiB: beyond this those unused for longest go."""


class Remembered(Generic[V]):
    """Remembers what was made of parts, found by their identity, which versions of a pod and replicas share.

    For one thread: every plugin has its own.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, Hashable], tuple[object, V, int]] = OrderedDict()
        """Values with the part itself: as long as it lives, nothing else has its identity."""
        self._length = 0

    def get(self, part: object, beside: Hashable = None) -> V | None:
        """`beside`: what else the answer depends on."""
        key = id(part), beside
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[1]

    def put(self, part: object, beside: Hashable, made: V, *, length: int) -> None:
        """Remember what was made, of which nothing is remembered; `length`: its requirements and values."""
        self._kept[id(part), beside] = part, made, length
        self._length += length
        while self._length > MAX_LENGTH:
            self._length -= self._kept.popitem(last=False)[1][2]
