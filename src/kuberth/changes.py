"""Change logs, for code that derives something from objects that it does not own.

In: the key of every changed object. Out: for every reader, the keys that changed since its last read. The log
is bounded; a reader that has missed too much has to read everything again.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, Generic, TypeVar

K = TypeVar("K")

REMEMBERED_CHANGES: Final = 8192
"""A reader that has missed more changes than this has to read everything again."""


class Version:
    """A version that grows with every change, for readers that do not need the keys."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0
        """Grows by one with every change."""


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
        """The keys that changed after `version`; None if the log does not reach back that far."""
        number = self.version - version
        if number > len(self._keys):
            return None
        if number == 1:  # the usual case
            return frozenset((self._keys[-1],))
        return frozenset(islice(reversed(self._keys), number))

    def reader(self) -> ChangeReader[K]:
        """A new reader that has read nothing yet."""
        return ChangeReader(self)


class ChangeReader(Generic[K]):
    """A position in a log of changes."""

    __slots__ = ("_changes", "_version")

    def __init__(self, changes: Changes[K]) -> None:
        self._changes = changes
        self._version = -1  # before the first version: `since` has no answer but None

    @property
    def is_current(self) -> bool:
        """Whether nothing has changed since the last `read`; False before the first one."""
        return self._version == self._changes.version

    def read(self) -> frozenset[K] | None:
        """The keys that changed since the last call; None if any may have changed, as in the first call."""
        version, self._version = self._version, self._changes.version
        return frozenset() if version == self._version else self._changes.since(version)
