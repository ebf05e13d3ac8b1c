"""Returns memory to the system that the C library keeps after objects were freed.

In: the statistics of glibc's allocator, once a minute. Out: free memory is returned to the system. With
another C library nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final

EVERY_SECONDS: Final = 60.0
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
        await asyncio.sleep(EVERY_SECONDS)
        free = allocator.free_bytes()
        baseline = min(baseline, free)  # objects use this memory again
        if free - baseline > MIN_FREED_BYTES:
            await asyncio.to_thread(allocator.trim)
            baseline = allocator.free_bytes()
