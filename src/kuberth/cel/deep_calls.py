"""A higher recursion limit for deeply nested expressions.

Expressions and values nest up to 250 levels, each with several Python calls: more than Python's limit of a
thousand. Calls between Python functions do not use the C stack, so the limit may be raised for a while.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_RAISED_LIMIT: Final = 20_000


class _Limit:
    """The limit of all threads: the first one that enters raises it, the last one that leaves restores it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._deep = 0
        self._usual = 0

    def enter(self) -> None:
        with self._lock:
            if not self._deep:
                self._usual = sys.getrecursionlimit()
                sys.setrecursionlimit(max(self._usual, _RAISED_LIMIT))
            self._deep += 1

    def leave(self) -> None:
        with self._lock:
            self._deep -= 1
            if not self._deep:
                sys.setrecursionlimit(self._usual)


_LIMIT: Final = _Limit()


@contextmanager
def deep_calls() -> Iterator[None]:
    """Raise the recursion limit while the block lasts."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()
