"""A TLS proxy between a scheduler and the API server that can lose, refuse and cut.

In: HTTP/1.1 requests under a certificate of the tests' authority. Out: the same requests to the real API
server, unless a fault matches: then the answer is lost, replaced, or cut in the middle. It runs an event
loop in a thread of its own, so the tests stay plain code.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Any, TypeVar

from tests.e2e.certificates import AuthorityFolder

T = TypeVar("T")


class How(Enum):
    """What a fault does."""

    LOSE_REQUEST = "the connection breaks before the request reaches the API server"
    LOSE_ANSWER = "the API server does it, then the connection breaks"
    REPLACE = "the API server never sees it; the fault's own answer goes back"
    CUT = "the answer breaks off in the middle of its first piece"


@dataclass(slots=True)
class Fault:
    """Does `how` to the next `times` requests that match."""

    method: str
    path_part: str
    how: How
    times: int
    answer: bytes = b""
    hits: int = 0

    def takes(self, request: Request) -> bool:
        fits = self.method in ("*", request.method) and self.path_part in request.target
        if not fits or self.hits >= self.times:
            return False
        self.hits += 1
        return True


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    head: bytes
    body: bytes

    @property
    def is_watch(self) -> bool:
        return "watch=1" in self.target or "watch=true" in self.target


def too_many_requests(retry_after_seconds: int = 1) -> bytes:
    """The answer of an overloaded API server."""
    return _answer(429, "TooManyRequests", f"Retry-After: {retry_after_seconds}\r\n")


def unavailable() -> bytes:
    return _answer(503, "ServiceUnavailable")


def _answer(code: int, reason: str, headers: str = "") -> bytes:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    body = json.dumps({**status, "message": "by the faulty proxy"}).encode()
    head = (
        f"HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\n{headers}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class FaultyProxy:
    """Made means started; use it as a context manager."""

    def __init__(self, authority: AuthorityFolder, upstream: tuple[str, int]) -> None:
        self.requests: list[tuple[str, str]] = []
        """(method, target) of everything that came in."""
        pair = authority.issue("faulty-proxy")
        self._server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server_tls.load_cert_chain(pair.certificate, pair.key)
        # No HTTP/2 is offered: clients fall back to HTTP/1.1, which is all this proxy reads.
        self._client_tls = ssl.create_default_context(cafile=str(authority.file))
        self._upstream = upstream
        self._faults: list[Fault] = []
        self._refusing = False
        self._cut_next_watch_event = False
        self._connections: dict[asyncio.Task[None], bool] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty proxy", daemon=True)
        self._thread.start()
        self._server = self._call(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> FaultyProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    # Faults

    def add(
        self, method: str, path_part: str, how: How, *, times: int = 1_000_000, answer: bytes = b""
    ) -> Fault:
        """Have the next `times` matching requests go wrong."""
        fault = Fault(method, path_part, how, times, answer)
        self._faults.append(fault)
        return fault

    def clear(self) -> None:
        self._faults.clear()

    def cut_watches(self) -> int:
        """Break every watch now; returns how many there were."""

        async def cut() -> int:
            watching = [task for task, is_watch in self._connections.items() if is_watch]
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            return len(watching)

        return self._call(cut())

    def cut_next_watch_event(self) -> None:
        """Break the next watch that delivers an event in the middle of the event."""
        self._cut_next_watch_event = True

    @property
    def watch_event_was_cut(self) -> bool:
        return not self._cut_next_watch_event

    def refuse(self, refusing: bool = True) -> None:
        """Accept connections and close them at once, and break those there are."""
        self._refusing = refusing
        if refusing:

            async def cut() -> None:
                connections = list(self._connections)
                for task in connections:
                    task.cancel()
                await asyncio.gather(*connections, return_exceptions=True)

            self._call(cut())

    # The proxy itself

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._server_tls, limit=1 << 20)

    async def _close(self) -> None:
        self._server.close()
        # In rounds: a handshake that ends now becomes another connection.
        while rest := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
            await asyncio.sleep(0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = False
        try:
            if not self._refusing:
                await self._relay(reader, writer, task)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one side went away, or the connection was cut on purpose
        finally:
            del self._connections[task]
            # Abort instead of close: a fault is a broken connection, not a polite end.
            writer.transport.abort()

    async def _relay(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        host, port = self._upstream
        up_reader, up_writer = await asyncio.open_connection(host, port, ssl=self._client_tls, limit=1 << 20)
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append((request.method, request.target))
                fault = next((fault for fault in self._faults if fault.takes(request)), None)
                if fault is not None and fault.how is How.LOSE_REQUEST:
                    return
                if fault is not None and fault.how is How.REPLACE:
                    writer.write(fault.answer)
                    await writer.drain()
                    continue
                self._connections[task] = request.is_watch
                up_writer.write(request.head + request.body)
                await up_writer.drain()
                await self._answer(request, fault, up_reader, writer)
                self._connections[task] = False
        finally:
            up_writer.transport.abort()

    async def _answer(
        self, request: Request, fault: Fault | None, up: asyncio.StreamReader, down: asyncio.StreamWriter
    ) -> None:
        """Pass one answer on, or spoil it."""
        head = await up.readuntil(b"\r\n\r\n")
        length = _content_length(head)
        chunked = b"transfer-encoding: chunked" in head.lower()

        def cutting() -> bool:
            if fault is not None:
                return fault.how is How.CUT
            if request.is_watch and self._cut_next_watch_event:
                self._cut_next_watch_event = False
                return True
            return False

        async def give(piece: bytes, *, is_data: bool) -> None:
            if fault is not None and fault.how is How.LOSE_ANSWER:
                return
            if is_data and cutting():
                down.write(piece[: len(piece) // 2])
                await down.drain()
                raise asyncio.IncompleteReadError(b"", None)
            down.write(piece)
            await down.drain()

        await give(head, is_data=False)
        if chunked:
            await _relay_chunks(up, give)
        elif length:
            await give(await up.readexactly(length), is_data=True)
        if fault is not None and fault.how is How.LOSE_ANSWER:
            raise asyncio.IncompleteReadError(b"", None)


Give = Callable[..., Coroutine[Any, Any, None]]


async def _relay_chunks(up: asyncio.StreamReader, give: Give) -> None:
    while True:
        size_line = await up.readuntil(b"\r\n")
        size = int(size_line.split(b";")[0], 16)
        if size == 0:
            await give(size_line + await up.readuntil(b"\r\n"), is_data=False)
            return
        await give(size_line + await up.readexactly(size + 2), is_data=True)


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request, or None when the client is done."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    if b"transfer-encoding: chunked" in head.lower():
        pieces: list[bytes] = []

        async def keep(piece: bytes, *, is_data: bool) -> None:
            pieces.append(piece)

        await _relay_chunks(reader, keep)
        return Request(method, target, head, b"".join(pieces))
    body = await reader.readexactly(_content_length(head))
    return Request(method, target, head, body)


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            with contextlib.suppress(ValueError):
                return int(line.split(b":", 1)[1])
    return 0
