"""Room for calls within calls.

Expressions nest up to 250 deep and values as deep, each level a few Python calls: more than Python's own
limit of a thousand leaves. Calls between Python functions take no room on the C stack, so the limit may be
raised for a while.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_ROOM = 20_000


@contextmanager
def deep_calls() -> Iterator[None]:
    """Within, calls may nest far deeper than usual."""
    before = sys.getrecursionlimit()
    if before >= _ROOM:
        yield
        return
    sys.setrecursionlimit(_ROOM)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
