"""Delays changes while a computation spans several turns of the event loop.

In: the beginning and the end of the computation, and changes to the state that it uses. Out: changes are
applied at once if no computation is active, and otherwise in order when it has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

logger = logging.getLogger(__name__)


class Hold:
    """Delays changes during one computation at a time."""

    def __init__(self) -> None:
        self.is_held = False
        """Whether changes are delayed."""
        self._waiting: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Delay changes from now on."""
        self.is_held = True

    def end(self) -> None:
        """Apply delayed changes and call the callbacks of `when_ended`; coroutines continue next turn."""
        self.is_held = False
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            try:
                call()
            except Exception:  # a failing callback must not stop the others
                logger.exception("a delayed change failed")

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call it now, or when the active computation has ended."""
        if self.is_held:
            self._waiting.append(call)
        else:
            call()

    async def ended(self) -> None:
        """Return when no computation is active; this stays so until the caller awaits again."""
        while self.is_held:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(partial(_resolve, future))
            await future


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
