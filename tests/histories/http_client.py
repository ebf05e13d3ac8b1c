"""A small HTTP client: one connection, one request at a time, no retries.

In: an address and a TLS context. Out: answers as JSON, and the lines of a watch. A request that the server
cannot have seen fails with NotSentError; any other failure leaves open whether it took effect.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

LINE_BYTES = 1 << 20


class NotSentError(Exception):
    """There was no connection to send the request on."""


class LostError(Exception):
    """The connection ended before the answer did."""


class Address(NamedTuple):
    """A server and how to speak to it."""

    port: int
    tls: ssl.SSLContext
    token: str


class Connection:
    """One connection to a server; closed after the first failure."""

    def __init__(self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: Address) -> Connection:
        try:
            streams = await asyncio.open_connection(
                "127.0.0.1", address.port, ssl=address.tls, limit=LINE_BYTES
            )
        except (OSError, asyncio.IncompleteReadError) as error:
            raise NotSentError(str(error)) from error
        return cls(address, *streams)

    def close(self) -> None:
        # Without the farewell of TLS, which a killed server does not answer.
        self._writer.transport.abort()

    async def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and body."""
        status, headers = await self._ask(method, path, body, content_type)
        try:
            if headers.get("transfer-encoding") == "chunked":
                content = b"".join([chunk async for chunk in self._chunks()])
            else:
                content = await self._reader.readexactly(int(headers.get("content-length", "0")))
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise LostError(str(error)) from error
        return status, json.loads(content) if content else None

    async def watch(self, path: str) -> AsyncIterator[Any]:
        """Every event until the server ends it; a refusal is an event of type ERROR."""
        status, headers = await self._ask("GET", path, None, "")
        try:
            if status != 200:
                content = await self._reader.readexactly(int(headers.get("content-length", "0")))
                yield {"type": "ERROR", "object": json.loads(content)}
                return
            left = b""
            async for chunk in self._chunks():
                *lines, left = (left + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise LostError(str(error)) from error

    async def _ask(self, method: str, path: str, body: Any, content_type: str) -> tuple[int, dict[str, str]]:
        content = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: 127.0.0.1",
            f"Authorization: Bearer {self.address.token}",
        ]
        if content:
            lines += [f"Content-Type: {content_type}", f"Content-Length: {len(content)}"]
        try:
            self._writer.write("\r\n".join([*lines, "", ""]).encode() + content)
            await self._writer.drain()
            status = int((await self._line()).split()[1])
            headers = {}
            while line := await self._line():
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
        except (OSError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
            raise LostError(str(error)) from error
        return status, headers

    async def _line(self) -> str:
        return (await self._reader.readuntil(b"\n")).decode().strip()

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int((await self._line()).partition(";")[0], 16):
            yield await self._reader.readexactly(size)
            await self._line()
        await self._line()
