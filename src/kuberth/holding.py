"""Holds changes back while a question is asked over several turns of the event loop.

In: the begin and the end of the question; what would change the state that it is asked about. Out: such
changes happen at once if nothing is asked, and otherwise when the question has ended, in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

logger = logging.getLogger(__name__)


class Hold:
    """One question at a time."""

    def __init__(self) -> None:
        self.is_held = False
        """Whether changes wait."""
        self._waiting: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Hold changes back from now on."""
        self.is_held = True

    def end(self) -> None:
        """Let changes happen. Callers of `when_ended` are called now, those that await go on next turn."""
        self.is_held = False
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            try:
                call()
            except Exception:  # one that fails must not cost the others their turn
                logger.exception("a change that was held back failed")

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call it now, or at the end of the question that is being asked."""
        if self.is_held:
            self._waiting.append(call)
        else:
            call()

    async def ended(self) -> None:
        """Return when nothing is asked. Until the caller awaits again, nothing is."""
        while self.is_held:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(partial(_resolve, future))
            await future


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
