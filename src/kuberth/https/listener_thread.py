"""A listener in a thread of its own, whose event loop nothing in the caller's delays.

In: a listener that is not entered yet. Out: a listening server while the `async with` block lasts. The
service is called in the thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from kuberth.https.listener import Listener

logger = logging.getLogger(__name__)


class ListenerThread:
    """Enters and leaves a listener in its thread."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._entered: Future[None] = Future()
        self._stop: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="serving", daemon=True)

    async def __aenter__(self) -> Self:
        """Return once it listens; raises what the listener raises."""
        self._thread.start()
        try:
            await asyncio.shield(asyncio.wrap_future(self._entered))
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        self._stop.set_result(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._entered.done():
                logger.exception("serving on port %d ended", self._listener.port)
            else:
                self._entered.set_exception(error)

    async def _serve(self) -> None:
        async with self._listener:
            self._entered.set_result(None)
            await asyncio.wrap_future(self._stop)
