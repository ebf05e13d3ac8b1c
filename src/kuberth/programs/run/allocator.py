"""Gives memory back that the C library keeps after objects are gone.

In: the figures of glibc's allocator, once a minute. Out: what became free is returned to the system. With
another C library nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final, Protocol

EVERY_SECONDS: Final = 60.0
MUCH: Final = 32 * 2**20
"""Bytes: so much has to become free before it is worth the system's time."""


class Allocator(Protocol):
    """The memory of this process."""

    def free_bytes(self) -> int:
        """Memory that no object uses, returned to the system or not."""
        ...

    def trim(self) -> None:
        """Return it; its addresses stay with the process."""
        ...


class _MallInfo2(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks"),
            "keepcost",
        )
    )


class Glibc:
    """Allocator of the GNU C library, 2.33 or newer."""

    def __init__(self) -> None:
        """AttributeError or OSError: it is another one."""
        library = ctypes.CDLL("libc.so.6")
        self._info, self._trim = library.mallinfo2, library.malloc_trim
        self._info.restype = _MallInfo2

    def free_bytes(self) -> int:
        return int(self._info().fordblks)

    def trim(self) -> None:
        self._trim(ctypes.c_size_t(0))


def find_allocator() -> Allocator | None:
    """The allocator of this process; None: nothing can be given back."""
    try:
        return Glibc()
    except (AttributeError, OSError):
        return None


async def give_back_memory(allocator: Allocator | None) -> None:
    """Look after the memory for as long as the task lives; the system takes it in a thread."""
    used_up = 0
    while allocator is not None:
        await asyncio.sleep(EVERY_SECONDS)
        free = allocator.free_bytes()
        used_up = min(used_up, free)  # what is in use again is not the system's any more
        if free - used_up > MUCH:
            await asyncio.to_thread(allocator.trim)
            used_up = allocator.free_bytes()
