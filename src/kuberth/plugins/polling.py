"""Not a plugin: waits for a condition that other controllers bring about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_FIRST_PAUSE_SECONDS: Final = 0.05


async def wait_until(
    is_done: Callable[[], bool], *, timeout_seconds: float, longest_pause_seconds: float
) -> bool:
    """Check the condition in growing intervals; False if it does not hold before the timeout."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + timeout_seconds, _FIRST_PAUSE_SECONDS
    while not is_done():
        left = deadline - loop.time()
        if left <= 0:
            return False
        await asyncio.sleep(min(pause, left))
        pause = min(2 * pause, longest_pause_seconds)
    return True
