"""The scheduler's pages over HTTPS.

In: routes, access control, certificates, an address. Out: a listening server while the `async with` block
lasts.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping
from types import AsyncGeneratorType
from typing import Any, Final, Self, TypeVar, cast

from kuberth.https.certificates import Certificates
from kuberth.https.connection_limit import Limits
from kuberth.https.listener import AddressFlags, Listener, in_thread
from kuberth.https.messages import Request, Response
from kuberth.serving.access import OPEN_PATHS, Access
from kuberth.serving.messages import Handler
from kuberth.serving.page_service import PageService

logger = logging.getLogger(__name__)

T = TypeVar("T")


LIMITS: Final = Limits(connections=1000, reserved=10, per_address=500, unread_seconds=30.0, idle_seconds=90)
_FLAGS: Final = AddressFlags("--bind-address", "--secure-port")


class ForwardingService:
    """Answers probes in the listener's thread; the event loop of the pages answers everything else.

    A probe must be answered while a scheduling cycle keeps the event loop busy. Other pages read state that
    cycles change, so they run between two cycles.
    """

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
    # The client may have disconnected meanwhile; its task is cancelled in one of the next turns.
    while pieces.ag_running:  # noqa: ASYNC110 - a generator has no event for it
        await asyncio.sleep(0)
    await pieces.aclose()


class Server:
    """Serves while it is entered; `port` is then the actual port.

    A thread handles connections and answers probes; the handlers of all other pages run in the event loop
    that entered the server.
    """

    def __init__(
        self,
        routes: Mapping[str, Handler],
        *,
        access: Access,
        certificates: Certificates,
        host: str = "0.0.0.0",
        port: int = 10259,
        limits: Limits = LIMITS,
        request_seconds: float = 30.0,
    ) -> None:
        """`port` 0 picks a free port."""
        self._pages = PageService(routes, access=access, request_seconds=request_seconds)
        self._certificates = certificates
        self._limits = limits
        self.host = host
        self.port = port

    async def __aenter__(self) -> Self:
        listener = Listener(
            ForwardingService(self._pages, asyncio.get_running_loop()),
            certificates=self._certificates,
            host=self.host,
            port=self.port,
            flags=_FLAGS,
            limits=self._limits,
        )
        self._serving = in_thread(listener)
        await self._serving.__aenter__()
        self.port = listener.port
        logger.info("serving on https://%s:%d", self.host, self.port)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._serving.__aexit__(None, None, None)
