"""The ASGI application: access, routing, sending.

In: ASGI scopes from the HTTP server. Out: the route's answer, or why there is none; within a time limit,
and compressed for whoever asks.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from kuberth.serving.access import Access
from kuberth.serving.messages import Handler, Request, Response, internal_error

logger = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

SMALLEST_COMPRESSED: Final = 1400
"""Below a packet there is nothing to win."""
_GZIP: Final = 31
"""zlib's window size for a gzip stream."""
_ALWAYS: Final = {"cache-control": "no-cache, private", "x-content-type-options": "nosniff"}


class Application:
    """Routes by exact path; everything but GET and HEAD is refused."""

    def __init__(self, routes: Mapping[str, Handler], *, access: Access, request_seconds: float) -> None:
        self._routes = routes
        self._access = access
        self._request_seconds = request_seconds

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = False

        async def send_and_note(message: dict[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            # Sending counts too: a reader that is too slow would keep the connection for ever.
            async with asyncio.timeout(self._request_seconds):
                try:
                    request = Request.from_scope(scope)
                    response = await self._answer(request)
                except ValueError as error:  # too many parameters in the query
                    request = Request(method=scope["method"], path=scope["path"])
                    response = Response.failure(400, "BadRequest", str(error))
                await _send(_compressed(request, response), send_and_note)
        except TimeoutError:
            logger.warning("%s %s took more than %g s", scope["method"], scope["path"], self._request_seconds)
            if not started:
                await _send(Response.failure(504, "Timeout", "the request took too long"), send)

    async def _answer(self, request: Request) -> Response:
        try:
            refusal = await self._access.refusal(request)
            if refusal is not None:
                return refusal
            handler = self._routes.get(request.path)
            if handler is None:
                return Response.json({"paths": sorted(self._routes)}, status=404)
            if request.method not in ("GET", "HEAD"):
                return Response.failure(405, "MethodNotAllowed", "only GET and HEAD are served here")
            return handler(request)
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return internal_error(request, "this page failed; the scheduler's log says why")


def _compressed(request: Request, response: Response) -> Response:
    body = response.body
    if "gzip" not in request.headers.get("accept-encoding", "") or request.method == "HEAD":
        return response
    if isinstance(body, bytes) and len(body) < SMALLEST_COMPRESSED:
        return response
    headers = {**response.headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
    return Response(
        _gzip(_chunks(body)), status=response.status, content_type=response.content_type, headers=headers
    )


async def _gzip(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    # The fastest level: this runs beside the scheduling loop.
    squeezer = zlib.compressobj(level=1, wbits=_GZIP)
    async for chunk in chunks:
        if squeezed := squeezer.compress(chunk):
            yield squeezed
    yield squeezer.flush()


async def _chunks(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    async for chunk in body:
        yield chunk


async def _send(response: Response, send: Send) -> None:
    headers = {"content-type": response.content_type, **_ALWAYS, **response.headers}
    body = response.body
    if isinstance(body, bytes):
        headers["content-length"] = str(len(body))
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": encoded})
    async for chunk in _chunks(body):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        # A body made piece by piece is made between other work, not instead of it.
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b"", "more_body": False})
