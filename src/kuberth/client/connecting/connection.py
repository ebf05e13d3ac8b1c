"""Speaks HTTP/1.1 over a connection, one request and response at a time.

In: the bytes of a request. Out: a future with its `HttpAnswer`, or with the `OSError` that ended the
connection. The body of a watch is delivered as it arrives, through a `BodyStream`. Retries, credentials and
deadlines belong to the pool. `Connection` is the base of this class and of `pipeline`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, cast

import httptools

from kuberth.errors import ApiError

MAX_HEAD_BYTES: Final = 64 * 1024
STREAM_PAUSE_BYTES: Final = 1024 * 1024
"""If this many bytes of a watch are unread, the server is paused."""

_CLOSE_SECONDS: Final = 1.0
_FRAMING_HEADERS: Final = frozenset((b"content-length", b"transfer-encoding"))


class HttpAnswer(NamedTuple):
    status: int
    headers: Mapping[bytes, bytes]
    """Headers by lower-case name."""
    body: bytes


class AnswerTooLargeError(ApiError):
    """The response is larger than its request allows; the connection is closed."""


class BrokenAnswerError(ConnectionError):
    """The server sent something that is not HTTP."""


class BodyStream:
    """The body of a response without a known end; a read returns all bytes that have arrived."""

    def __init__(self, connection: RequestConnection) -> None:
        self._connection: RequestConnection | None = connection
        """None once the body has ended."""
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._failure: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """The bytes that arrived since the last call; empty at the end. OSError if the connection was cut."""
        if not self._chunks and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._chunks:
            data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._chunks.clear()
            if self._size > STREAM_PAUSE_BYTES and self._connection is not None:
                self._connection.resume_reading()
            self._size = 0
            return data
        if self._failure is not None:
            raise self._failure
        return b""

    def feed(self, data: bytes) -> None:
        self._chunks.append(data)
        before, self._size = self._size, self._size + len(data)
        if before <= STREAM_PAUSE_BYTES < self._size and self._connection is not None:
            self._connection.pause_reading()
        self._wake()

    def end(self, failure: BaseException | None) -> None:
        if not self._ended:
            self._ended, self._failure, self._connection = True, failure, None
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 over a transport, with or without TLS.

    The parser's callbacks for headers and parts of a body are methods of the containers that hold them,
    because they run for every header of every response. A subclass matches requests and responses.
    """

    def __init__(self, *, generation: int = 0) -> None:
        self.generation = generation
        self.usable = False
        self.idle_since = 0.0
        self.exchanges = 0
        """How many responses were completed: after the first one, a closed connection may just be the
        server's idle timeout."""
        self.answering = False
        """Whether bytes of the current response have arrived."""
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._headers: dict[bytes, bytes] = {}
        self._chunks: list[bytes] = []
        self._received = 0
        """The size of the current response so far."""
        self._in_body = False
        self._streaming = False
        self._unasked = False
        self.on_header: Callable[[bytes, bytes], None] = self._headers.__setitem__
        self.on_body: Callable[[bytes], None] = self._chunks.append
        self._parser = httptools.HttpResponseParser(self)

    def close(self) -> None:
        """Close the connection after a request has been answered."""
        self._end(ConnectionAbortedError("the connection was closed here"))
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: BaseException | None = None) -> None:
        """Close the connection at once; requests without an answer fail with `error`."""
        self._end(error or ConnectionAbortedError("the connection was closed here"))
        if self._transport is not None:
            self._transport.abort()

    # Subclasses

    @abstractmethod
    def _is_asked(self) -> bool:
        """Whether a request has been sent whose response head has not arrived."""

    @abstractmethod
    def on_message_complete(self) -> None:
        """An answer is complete."""

    @abstractmethod
    def _data_parsed(self) -> None:
        """Called after some bytes were parsed, while the connection is still usable."""

    @abstractmethod
    def _end(self, error: BaseException) -> None:
        """The connection is not usable any more. May be called again."""

    def _forget_answer(self) -> None:
        self._headers.clear()
        self._chunks.clear()
        self._received = 0
        self._in_body = False

    def _is_framed(self) -> bool:
        """Whether the response declares where its body ends."""
        headers = self._headers
        return (
            b"Content-Length" in headers  # spelled as in Go
            or not _FRAMING_HEADERS.isdisjoint([name.lower() for name in headers])
            or self._parser.get_status_code() in (204, 304)
        )

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if not self._streaming and not self._is_asked():
            # A response without a request cannot be matched to any.
            self.abort()
            return
        self.answering = True
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.usable:
                self.abort(BrokenAnswerError(f"the response is not HTTP ({error})"))
            return
        if self._unasked:
            self.abort()
        elif self.usable:
            self._data_parsed()

    def eof_received(self) -> bool:
        if self._in_body and self._is_asked() and not self._is_framed():
            # A body of no stated length ends with the connection.
            self.on_message_complete()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc if exc is not None else ConnectionResetError("the server closed the connection"))
        if not self.closed.done():
            self.closed.set_result(None)
        # Both refer to this object. Without them, it is freed now and not by a garbage collection, which is
        # rare: a restart of the server ends dozens of connections.
        self._transport = None
        del self._parser

    # httptools

    def on_message_begin(self) -> None:
        # A second response to one request must not be matched to the next request.
        self._unasked = not self._is_asked()

    def on_headers_complete(self) -> None:
        self._in_body = True


async def end_connections(connections: Collection[Connection], *, grace: bool) -> None:
    """Abort connections, with `grace` after a moment in which they may end by themselves."""
    ends = [connection.closed for connection in connections]
    if ends and grace:
        await asyncio.wait(ends, timeout=_CLOSE_SECONDS)
    for connection in connections:
        connection.abort()
    if ends:
        # Transports call connection_lost in a later turn of the loop.
        await asyncio.wait(ends, timeout=_CLOSE_SECONDS)


class RequestConnection(Connection):
    """Sends one request at a time. Calls `on_end` once, when it is not usable any more."""

    def __init__(self, on_end: Callable[[RequestConnection], None], *, generation: int = 0) -> None:
        super().__init__(generation=generation)
        self.deadline = 0.0
        """The deadline of the current request; stored here for the pool."""
        self._on_end: Callable[[RequestConnection], None] | None = on_end
        self._future: asyncio.Future[HttpAnswer] | None = None
        self._stream: BodyStream | None = None
        self._cap = 0

    def start(self, request: bytes, *, cap: int, stream: bool = False) -> asyncio.Future[HttpAnswer]:
        """Send a request; `stream` receives the body of a 2xx response, which is returned after its head."""
        assert self._future is None, "one exchange at a time"
        assert self._transport is not None
        future = self._future = asyncio.get_running_loop().create_future()
        self._cap = cap
        self._stream = BodyStream(self) if stream else None
        self._forget_answer()
        self.answering = False
        self._transport.write(request)
        return future

    @property
    def stream(self) -> BodyStream:
        assert self._stream is not None
        return self._stream

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        self._in_body = True
        headers = {name.lower(): value for name, value in self._headers.items()}
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._cap:
            self._too_large()
        elif self._stream is not None and status < 300 and self._future is not None:
            self._streaming = True
            future, self._future = self._future, None
            if not future.done():
                future.set_result(HttpAnswer(status, headers, b""))

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._forget_answer()  # 100 Continue comes before the answer
        elif self._streaming:
            self._feed_stream()
            self._streaming = False
            self.stream.end(None)
            self._retire()
        elif self._future is not None:
            self._finish(self._future)

    def _is_asked(self) -> bool:
        return self._future is not None

    def _data_parsed(self) -> None:
        if self._streaming:
            self._feed_stream()
        elif not self._in_body and self._received > MAX_HEAD_BYTES and self._future is not None:
            self.abort(AnswerTooLargeError(f"the answer's headers are larger than {MAX_HEAD_BYTES} bytes"))
        elif self._received > MAX_HEAD_BYTES + self._cap:
            self._too_large()

    def _feed_stream(self) -> None:
        for chunk in self._chunks:
            self.stream.feed(chunk)
        self._chunks.clear()

    def _finish(self, future: asyncio.Future[HttpAnswer]) -> None:
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        if len(body) > self._cap:
            self._too_large()
            return
        self._future = None
        self.exchanges += 1
        if not self._parser.should_keep_alive() or not self._is_framed():
            self._retire()
            if self._transport is not None:
                self._transport.close()
        if future.done():
            return
        headers = {name.lower(): value for name, value in self._headers.items()}
        encoding = headers.get(b"content-encoding", b"identity")
        if encoding.lower() == b"identity":
            future.set_result(HttpAnswer(self._parser.get_status_code(), headers, body))
        else:
            problem = f"the answer is encoded as {encoding[:20]!r}, which the request does not accept"
            future.set_exception(BrokenAnswerError(problem))

    def _too_large(self) -> None:
        self.abort(AnswerTooLargeError(f"the answer is larger than the {self._cap} bytes allowed for it"))

    def _end(self, error: BaseException) -> None:
        self._retire()
        future, self._future = self._future, None
        if self._streaming:
            self._streaming = False
            self.stream.end(error)
        if future is not None and not future.done():
            future.set_exception(error)

    def _retire(self) -> None:
        self.usable = False
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)
