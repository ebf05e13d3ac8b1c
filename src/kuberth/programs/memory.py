"""Keeps the memory of a long-running process small, and the pauses of the garbage collector short.

`collecting_in_portions`: the pauses depend on recent allocations, not on the size of the cluster. Objects of
Kubernetes have no cycles: reference counting frees them. `release_memory`: once a minute, the memory that
glibc's allocator keeps after objects were freed is returned to the system; other C libraries are left alone.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

# Garbage collection

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


# Memory of the C library

RELEASE_SECONDS: Final = 60.0
MIN_FREED_BYTES: Final = 32 * 2**20
"""The minimum number of freed bytes for which returning memory is worth the time."""


class _MallInfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


class Allocator:
    """The memory of this process, in the GNU C library, 2.33 or newer."""

    def __init__(self) -> None:
        """AttributeError or OSError for any other C library."""
        library = ctypes.CDLL("libc.so.6")
        self._info, self._trim = library.mallinfo2, library.malloc_trim
        self._info.restype = _MallInfo2

    def free_bytes(self) -> int:
        """Memory that no object uses, returned to the system or not."""
        return int(self._info().fordblks)

    def trim(self) -> None:
        """Return it; its addresses stay with the process."""
        self._trim(ctypes.c_size_t(0))


def find_allocator() -> Allocator | None:
    """The allocator of this process; None if it cannot return memory."""
    try:
        return Allocator()
    except (AttributeError, OSError):
        return None


async def release_memory(allocator: Allocator | None) -> None:
    """Return memory regularly until cancelled; it happens in a thread."""
    baseline = 0
    while allocator is not None:
        await asyncio.sleep(RELEASE_SECONDS)
        free = allocator.free_bytes()
        baseline = min(baseline, free)  # objects use this memory again
        if free - baseline > MIN_FREED_BYTES:
            await asyncio.to_thread(allocator.trim)
            baseline = allocator.free_bytes()
