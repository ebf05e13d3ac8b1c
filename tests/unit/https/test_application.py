"""From ASGI to a service and back, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from kuberth.https.application import Application
from kuberth.https.connection_limit import Limits
from kuberth.https.messages import Message, Request, Response
from tests.unit.https.harness import Site, run


def test_a_stream_that_begins_while_the_server_ends_is_an_empty_one() -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"never sent"
        await asyncio.Event().wait()

    async def watch(_request: Request) -> Response:
        return Response(endless(), endless=True)

    async def main() -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            await asyncio.Event().wait()
            return {}

        application = Application(Site({"/watch": watch}), limits=Limits())
        application.end_streams()
        scope = {
            "http_version": "1.1",
            "method": "GET",
            "path": "/watch",
            "raw_path": b"/watch",
            "query_string": b"",
            "headers": [],
            "state": {"certificate": None, "mark_authenticated": lambda: None},
        }
        await application(scope, receive, send)
        return sent

    start, *pieces = run(main)
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert [(piece["body"], piece.get("more_body", False)) for piece in pieces] == [(b"", True), (b"", False)]
