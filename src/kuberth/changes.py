"""Who changed since: for those who derive something from what they do not own.

In: the key of everything that changes, as it does. Out: the keys that changed after a version; the memory
is bounded, and who asks too late has to look at everything again.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K")

REMEMBERED_CHANGES: Final = 8192
"""Who asks for changes after more than this many has to look at everything again."""


class Changes(Generic[K]):
    """The last changes, in order."""

    __slots__ = ("_keys", "version")

    def __init__(self) -> None:
        self._keys: deque[K] = deque(maxlen=REMEMBERED_CHANGES)
        self.version = 0
        """Grows by one with every change."""

    def note(self, key: K) -> None:
        self.version += 1
        self._keys.append(key)

    def since(self, version: int) -> frozenset[K] | None:
        """What changed after `version`; None: too much, everything may have."""
        number = self.version - version
        if number > len(self._keys):
            return None
        return frozenset(islice(reversed(self._keys), number))
