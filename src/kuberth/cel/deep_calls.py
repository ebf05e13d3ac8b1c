"""Room for calls within calls.

Expressions nest up to 250 deep and values as deep, each level a few Python calls: more than Python's own
limit of a thousand leaves. Calls between Python functions take no room on the C stack, so the limit may be
raised for a while.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_ROOM: Final = 20_000


class _Limit:
    """The limit is one for all threads: the first that goes deep raises it, the last lowers it again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._deep = 0
        self._usual = 0

    def enter(self) -> None:
        with self._lock:
            if not self._deep:
                self._usual = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._usual, _ROOM))
            self._deep += 1

    def leave(self) -> None:
        with self._lock:
            self._deep -= 1
            if not self._deep:
                sys.setrecursionlimit(self._usual)


_LIMIT: Final = _Limit()


@contextmanager
def deep_calls() -> Iterator[None]:
    """Within, calls may nest far deeper than usual."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()
