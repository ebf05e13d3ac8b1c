"""What commands run on: uvloop's event loop where it is installed, Python's own otherwise."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_COLLECTED_AFTER: Final = (20_000, 10, 20)
"""Allocations, and collections of the younger generation, between two searches for cycles."""


def run_on_fastest_loop(main: Coroutine[Any, Any, T], *, holds_cluster: bool = False) -> T:
    if holds_cluster:
        # It is hundreds of thousands of trees without a cycle: looking for cycles among them every few
        # hundred allocations is time for nothing.
        gc.set_threshold(*_COLLECTED_AFTER)
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
