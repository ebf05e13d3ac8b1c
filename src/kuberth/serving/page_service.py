"""Access, routing and compression of pages.

In: requests. Out: the page's response or an error, within a time limit, compressed if the client accepts it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from kuberth.https.messages import Request, Response
from kuberth.serving.access import Access
from kuberth.serving.messages import Handler, failure, internal_error

logger = logging.getLogger(__name__)

SMALLEST_COMPRESSED: Final = 1400
"""Bytes that fit one packet; compressing fewer saves nothing."""
_GZIP: Final = 31
"""zlib's window size for a gzip stream."""
_REASONS: Final = {400: "BadRequest", 503: "ServiceUnavailable"}


class PageService:
    """Implements `HttpService`: routes by exact path; everything except GET and HEAD is rejected."""

    def __init__(self, routes: Mapping[str, Handler], *, access: Access, request_seconds: float) -> None:
        self._routes = routes
        self._access = access
        self._request_seconds = request_seconds

    async def answer(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(self._request_seconds):
                return _compressed(request, await self._page(request))
        except TimeoutError:
            logger.warning("%s %s took more than %g s", request.method, request.path, self._request_seconds)
            return failure(504, "Timeout", "the request took too long")
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return internal_error(request, "this page failed; the scheduler's log says why")

    def refuse(self, code: int, message: str) -> Response:
        return failure(code, _REASONS[code], message)

    def is_open(self, request: Request) -> bool:
        return self._access.is_open(request.path)

    async def _page(self, request: Request) -> Response:
        refusal = await self._access.refusal(request)
        if refusal is not None:
            return refusal
        handler = self._routes.get(request.path)
        if handler is None:
            return Response.json({"paths": sorted(self._routes)}, status=404)
        if request.method not in ("GET", "HEAD"):
            return failure(405, "MethodNotAllowed", "only GET and HEAD are served here")
        return handler(request)


def _compressed(request: Request, response: Response) -> Response:
    body = response.body
    if response.endless:  # compression would delay pieces
        return response
    if "gzip" not in request.headers.get("accept-encoding", "") or request.method == "HEAD":
        return response
    if isinstance(body, bytes) and len(body) < SMALLEST_COMPRESSED:
        return response
    headers = {**response.headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
    return dataclasses.replace(response, body=_gzip(body), headers=headers)


async def _gzip(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    # The fastest level: this runs beside the scheduling loop.
    squeezer = zlib.compressobj(level=1, wbits=_GZIP)
    if isinstance(body, bytes):
        yield squeezer.compress(body)
    else:
        async for chunk in body:
            if squeezed := squeezer.compress(chunk):
                yield squeezed
    yield squeezer.flush()
