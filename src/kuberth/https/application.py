"""Translates between ASGI and a service's requests and responses.

In: ASGI scopes of connections. Out: the service's response, for as long as the client reads it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Protocol

from kuberth.https.connection_limit import Limits
from kuberth.https.messages import ClientGone, Query, Receive, Request, Response, Send

logger = logging.getLogger(__name__)

_ALWAYS: Final = {"cache-control": "no-cache, private", "x-content-type-options": "nosniff"}


class HttpService(Protocol):
    """Answers the requests of a listener."""

    async def answer(self, request: Request) -> Response:
        """Answer a request; raises ClientGone if the client has closed the connection."""
        ...

    def refuse(self, code: int, message: str) -> Response:
        """The response to a request that the server refuses, in the service's format."""
        ...

    def is_open(self, request: Request) -> bool:
        """Whether the request needs no permission and counts against no limit: probes."""
        ...


class Application:
    """Implements an ASGI application."""

    def __init__(
        self, service: HttpService, *, limits: Limits, accepts_host: Callable[[str], bool] = lambda host: True
    ) -> None:
        self._service = service
        self._accepts_host = accepts_host
        self._limits = limits
        self._places = max(limits.connections - limits.reserved, 1)
        self._working = 0
        self._streams: set[asyncio.Task[None]] = set()
        self._closing = False

    def end_streams(self) -> None:
        """End all endless responses cleanly, and start no more."""
        self._closing = True
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        request = self._request(scope, receive)
        is_open = self._service.is_open(request)
        if not is_open and self._working >= self._places:
            response = self._service.refuse(503, "too many requests at once; try again later")
            response.headers |= {"connection": "close", "retry-after": "1"}
            await self._send(request, response, scope, send)
            return
        self._working += not is_open
        try:
            try:
                request.query = Query.parse(scope["query_string"])
            except ValueError as error:
                response = self._service.refuse(400, str(error))
            else:
                if self._accepts_host(request.headers.get("host", "")):
                    response = await self._service.answer(request)
                else:
                    why = "this port answers only to names of its own machine, such as localhost"
                    response = self._service.refuse(400, why)
            await self._send(request, response, scope, send)
        except ClientGone:
            return
        finally:
            self._working -= not is_open

    def _request(self, scope: Mapping[str, Any], receive: Receive) -> Request:
        state = scope["state"]
        client = scope.get("client")
        return Request(
            method=scope["method"],
            path=scope["path"],
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            certificate=state["certificate"],
            raw_path=scope["raw_path"].decode("latin-1"),
            address=client[0] if client else "",
            max_body_bytes=self._limits.body_bytes,
            body_seconds=self._limits.body_seconds,
            receive=receive,
            mark_authenticated=state["mark_authenticated"],
        )

    async def _send(self, request: Request, response: Response, scope: Mapping[str, Any], send: Send) -> None:
        body = response.body
        try:
            if scope["http_version"] == "1.0" and not isinstance(body, bytes) and not response.endless:
                body = b"".join([piece async for piece in body])  # HTTP/1.0 has no chunked encoding
            if isinstance(body, bytes):
                async with asyncio.timeout(self._limits.unread_seconds):
                    await send(_start(response, length=len(body)))
                    await send({"type": "http.response.body", "body": body})
            elif response.endless:
                await self._stream(request, response, body, send)
            else:
                async with asyncio.timeout(self._limits.unread_seconds), aclosing(body) as pieces:  # type: ignore[type-var]  # it is a generator
                    await send(_start(response))
                    async for piece in pieces:
                        await send(_piece(piece))
                        # Other tasks run between the pieces of a long body.
                        await asyncio.sleep(0)
                    await send({"type": "http.response.body", "body": b""})
        except TimeoutError:
            logger.info("closed the connection of a client that did not read its response")
            scope["state"]["drop"]()

    async def _stream(
        self, request: Request, response: Response, body: AsyncIterator[bytes], send: Send
    ) -> None:
        await send(_start(response))
        # Clients wait for the header, which uvicorn sends only with the first piece of the body.
        await send(_piece(b""))
        stream = asyncio.get_running_loop().create_task(self._pump(body, send), name="stream")
        self._streams.add(stream)
        try:
            # The stream ends by itself, when its client goes away, or when the server stops.
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(_wait_gone(request.receive, stream.cancel), name="stream reader")
                if self._closing:
                    stream.cancel()
                await asyncio.wait([stream])
                reader.cancel()
            if not stream.cancelled() and (error := stream.exception()) is not None:
                raise error
            await send({"type": "http.response.body", "body": b""})
        finally:
            stream.cancel()
            self._streams.discard(stream)

    async def _pump(self, body: AsyncIterator[bytes], send: Send) -> None:
        async with aclosing(body) as pieces:  # type: ignore[type-var]  # it is a generator
            async for piece in pieces:
                async with asyncio.timeout(self._limits.unread_seconds):
                    await send(_piece(piece))


async def _wait_gone(receive: Receive, then: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    then()


def _piece(body: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": True}


def _start(response: Response, *, length: int | None = None) -> dict[str, Any]:
    headers = {"content-type": response.content_type, **_ALWAYS, **response.headers}
    if length is not None:
        headers["content-length"] = str(length)
    encoded = [
        (name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()
    ]
    return {"type": "http.response.start", "status": response.status, "headers": encoded}
