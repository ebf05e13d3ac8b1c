"""Collects garbage in small portions.

In: nothing. Out: the pauses of the garbage collector depend on recent allocations, not on the size of the
cluster. Kubernetes' objects have no cycles: reference counting frees them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

COLLECTED_AFTER: Final = (5_000, 2, 2)
"""Allocations, and collections of the younger generation, between two collections. A collection examines at
most 50,000 objects, which takes about 20 ms."""


FULL_COLLECTION_SECONDS: Final = 300.0
"""The interval of full collections, which find cycles that became garbage after they were frozen, such as
connections."""
MAX_SHARE_OF_TIME: Final = 1 / 5000
"""The maximum share of the time for full collections, whose duration depends on the size of the cluster;
beyond it, they run less often."""


@contextmanager
def collecting_in_portions() -> Iterator[None]:
    """Freeze objects that survived a full collection, so that later ones skip them, while the block lasts."""
    before = gc.get_threshold()
    started, due, is_everything = 0.0, time.monotonic() + FULL_COLLECTION_SECONDS, False

    def freeze(phase: str, info: dict[str, Any]) -> None:
        nonlocal started, due, is_everything
        if info["generation"] != 2:
            return
        now = time.monotonic()
        if phase == "start":
            started = now
            return
        if is_everything:
            due = now + max(FULL_COLLECTION_SECONDS, (now - started) / MAX_SHARE_OF_TIME)
        is_everything = now >= due
        if is_everything:
            gc.unfreeze()  # for the next collection
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


def unfreeze_objects() -> None:
    """Let the next full collection examine all objects: many are not in use any more."""
    gc.unfreeze()
