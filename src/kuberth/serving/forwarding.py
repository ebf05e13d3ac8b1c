"""Answers probes in the listener's thread, and lets the event loop answer everything else.

In: requests, in the thread. Out: responses. A probe has to be answered while a scheduling cycle keeps the
event loop busy; pages read what cycles change, so they are made between two of them.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Coroutine
from types import AsyncGeneratorType
from typing import Any, TypeVar, cast

from kuberth.https.messages import Request, Response
from kuberth.serving.access import OPEN_PATHS
from kuberth.serving.page_service import PageService

T = TypeVar("T")


class ForwardingService:
    """Implements `HttpService` for pages that belong to another thread's event loop."""

    def __init__(self, pages: PageService, loop: asyncio.AbstractEventLoop) -> None:
        self._pages = pages
        self._loop = loop

    async def answer(self, request: Request) -> Response:
        if request.path in OPEN_PATHS and self.is_open(request):
            return await self._pages.answer(request)
        response = await self._in_loop(self._pages.answer(request))
        if isinstance(response.body, bytes):
            return response
        return dataclasses.replace(response, body=self._pieces(response.body))

    def refuse(self, code: int, message: str) -> Response:
        return self._pages.refuse(code, message)

    def is_open(self, request: Request) -> bool:
        return self._pages.is_open(request)

    async def _pieces(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        pieces = cast(AsyncGeneratorType[bytes, None], body)
        try:
            while (piece := await self._in_loop(_next(pieces))) is not None:
                yield piece
        finally:
            await self._in_loop(_close(pieces))

    async def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


async def _next(pieces: AsyncGeneratorType[bytes, None]) -> bytes | None:
    return await anext(pieces, None)


async def _close(pieces: AsyncGeneratorType[bytes, None]) -> None:
    # The client may have gone away while it waited for a piece; its task is cancelled in the next turns.
    while pieces.ag_running:  # noqa: ASYNC110 - a generator has no event for it
        await asyncio.sleep(0)
    await pieces.aclose()
