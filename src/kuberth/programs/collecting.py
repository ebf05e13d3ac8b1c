"""Searches for reference cycles in small portions.

In: nothing. Out: every pause of the garbage collector is as long as what was allocated lately, and not as the
whole cluster is large. Kubernetes' objects have no cycles: reference counting frees them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

COLLECTED_AFTER: Final = (5_000, 2, 2)
"""Allocations, and collections of the younger generation, between two searches for cycles. A search looks at
50,000 objects at most, which takes about 20 ms."""


LOOK_AT_EVERYTHING_SECONDS: Final = 300.0
"""A cycle that dies after it was frozen, such as a connection, is found by a search after this time,"""
MAX_SHARE_OF_TIME: Final = 1 / 5000
"""or later, where such a search takes more than this share of the time: it takes as long as the cluster is
large."""


@contextmanager
def collecting_in_portions() -> Iterator[None]:
    """Leave objects that survived a full search for cycles out of most later searches, in the block."""
    before = gc.get_threshold()
    started, due, is_everything = 0.0, time.monotonic() + LOOK_AT_EVERYTHING_SECONDS, False

    def freeze(phase: str, info: dict[str, Any]) -> None:
        nonlocal started, due, is_everything
        if info["generation"] != 2:
            return
        now = time.monotonic()
        if phase == "start":
            started = now
            return
        if is_everything:
            due = now + max(LOOK_AT_EVERYTHING_SECONDS, (now - started) / MAX_SHARE_OF_TIME)
        is_everything = now >= due
        if is_everything:
            gc.unfreeze()  # for the next search
        else:
            gc.freeze()

    gc.set_threshold(*COLLECTED_AFTER)
    gc.callbacks.append(freeze)
    try:
        yield
    finally:
        gc.callbacks.remove(freeze)
        gc.set_threshold(*before)
        gc.unfreeze()


def look_at_everything() -> None:
    """Let the next full search look at all objects: much that was in use is not any more."""
    gc.unfreeze()
