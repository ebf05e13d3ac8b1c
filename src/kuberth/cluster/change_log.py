"""Which rows were written to lately, in order: for whoever remembers something by row.

In: rows as they are written to. Out: the rows written to since a reader last looked. A reader that was away
for too long is told so, and looks at generations instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

KEPT: Final = 4096


class ChangeLog:
    """The last writes. A position in it counts all writes that ever were."""

    __slots__ = ("_dropped", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._dropped = 0

    def note(self, row: int) -> None:
        """The row was written to."""
        if len(self._rows) == 2 * KEPT:
            del self._rows[:KEPT]
            self._dropped += KEPT
        self._rows.append(row)

    @property
    def end(self) -> int:
        """The position after the last write."""
        return self._dropped + len(self._rows)

    def since(self, position: int) -> Sequence[int] | None:
        """The rows written to from `position` on, with repetitions; None if that is too long ago."""
        return None if position < self._dropped else self._rows[position - self._dropped :]
