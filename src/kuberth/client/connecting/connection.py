"""One HTTP/1.1 connection: a request goes out, one answer comes back, then the next.

In: the bytes of a request. Out: a future with its `HttpAnswer`, or with the `OSError` that ended the
connection. A watch's answer is handed over as it arrives, through a `BodyStream`. Nothing here knows what
is asked, retried or allowed.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, cast

import httptools

from kuberth.errors import ApiError

MAX_HEAD_BYTES: Final = 64 * 1024
STREAM_PAUSE_BYTES: Final = 1024 * 1024
"""A watch that is read too slowly is stopped from sending at this much."""

_KEPT_HEADERS: Final = frozenset(
    (b"content-encoding", b"content-length", b"content-type", b"retry-after", b"transfer-encoding")
)


class HttpAnswer(NamedTuple):
    status: int
    headers: Mapping[bytes, bytes]
    """Lower-case names; only those someone here reads."""
    body: bytes


class AnswerTooLargeError(ApiError):
    """An answer beyond what was allowed for it: the connection is closed, the memory is safe."""


class BrokenAnswerError(ConnectionError):
    """What arrived is no HTTP."""


class BodyStream:
    """The body of an answer that does not end soon: whoever reads gets all bytes that are there."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._failure: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """All bytes that arrived since; empty at the end. OSError if the connection was cut."""
        if not self._chunks and not self._ended:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._chunks:
            data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
            self._chunks.clear()
            if self._size > STREAM_PAUSE_BYTES:
                self._connection.resume_reading()
            self._size = 0
            return data
        if self._failure is not None:
            raise self._failure
        return b""

    def feed(self, data: bytes) -> None:
        self._chunks.append(data)
        before, self._size = self._size, self._size + len(data)
        if before <= STREAM_PAUSE_BYTES < self._size:
            self._connection.pause_reading()
        self._wake()

    def end(self, failure: BaseException | None) -> None:
        if not self._ended:
            self._ended, self._failure = True, failure
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 over a transport, TLS or not. `on_end` is called once, when it can serve no more."""

    def __init__(self, on_end: Callable[[Connection], None], *, generation: int = 0) -> None:
        self.generation = generation
        self.deadline = 0.0
        """Until when the exchange under way must be over; kept here for the pool."""
        self.idle_since = 0.0
        self.exchanges = 0
        """How many were finished: with one or more, a cut at the next may just be the server's idle limit."""
        self.answering = False
        """Whether bytes of an answer to the exchange under way have arrived."""
        self.usable = False
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._future: asyncio.Future[HttpAnswer] | None = None
        self._stream: BodyStream | None = None
        self._streaming = False
        self._cap = 0
        self._unasked = False
        self._reset()

    def _reset(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._chunks: list[bytes] = []
        self._size = 0
        self._head_bytes = 0
        self._status = 0
        self._in_body = False

    # For whoever has something to ask

    def start(self, request: bytes, *, cap: int, stream: bool = False) -> asyncio.Future[HttpAnswer]:
        """Send a request. With `stream`, a 2xx answer is done with its head; its body goes to `stream`."""
        assert self._future is None, "one exchange at a time"
        assert self._transport is not None
        future = self._future = asyncio.get_running_loop().create_future()
        self._cap = cap
        self._stream = BodyStream(self) if stream else None
        self._reset()
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

    def close(self) -> None:
        """End it politely; nothing is under way."""
        self._retire()
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: BaseException | None = None) -> None:
        """End it at once; an exchange under way fails with `error`."""
        self._fail(error or ConnectionAbortedError("the connection was closed here"))
        if self._transport is not None:
            self._transport.abort()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if self._future is None and not self._streaming:
            # Nobody asked: an answer to nothing cannot be matched to any question.
            self.abort()
            return
        self.answering = True
        if not self._in_body:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.usable:
                self.abort(BrokenAnswerError(f"the answer is no HTTP ({error})"))
            return
        if self._unasked and self.usable:
            self.abort()
        if not self._in_body and self._head_bytes > MAX_HEAD_BYTES and self._future is not None:
            self.abort(AnswerTooLargeError(f"the answer's headers are larger than {MAX_HEAD_BYTES} bytes"))

    def eof_received(self) -> bool:
        if self._in_body and not self._streaming and not self._is_framed():
            # A body of no stated length ends with the connection.
            self._finish()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc if exc is not None else ConnectionResetError("the server closed the connection"))
        if not self.closed.done():
            self.closed.set_result(None)

    # httptools' side

    def on_message_begin(self) -> None:
        # A second answer to one question: whatever it is, it must not be taken for the next one's.
        self._unasked = self._future is None

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _KEPT_HEADERS:
            self._headers[name] = value

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        if self._status < 200:
            return
        self._in_body = True
        length = self._headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._cap:
            self._too_large()
        elif self._stream is not None and self._status < 300 and self._future is not None:
            self._streaming = True
            future, self._future = self._future, None
            if not future.done():
                future.set_result(HttpAnswer(self._status, self._headers, b""))

    def on_body(self, body: bytes) -> None:
        if self._streaming:
            self.stream.feed(body)
            return
        self._size += len(body)
        if self._size > self._cap:
            self._too_large()
        else:
            self._chunks.append(body)

    def on_message_complete(self) -> None:
        if self._status < 200:
            self._reset()  # 100 Continue and its like come before the answer
        elif self._streaming:
            self._streaming = False
            self.stream.end(None)
            self._retire()
        elif self._future is not None:
            self._finish()

    # Ends

    def _finish(self) -> None:
        future, self._future = self._future, None
        self.exchanges += 1
        if not self._parser.should_keep_alive() or not self._is_framed():
            self._retire()
            if self._transport is not None:
                self._transport.close()
        if future is None or future.done():
            return
        body = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        if b"content-encoding" in self._headers:
            try:
                body = _decompressed(body, self._headers[b"content-encoding"], self._cap)
            except (AnswerTooLargeError, BrokenAnswerError) as error:
                future.set_exception(error)
                return
        future.set_result(HttpAnswer(self._status, self._headers, body))

    def _is_framed(self) -> bool:
        headers = self._headers
        return b"content-length" in headers or b"transfer-encoding" in headers or self._status in (204, 304)

    def _too_large(self) -> None:
        self.abort(AnswerTooLargeError(f"the answer is larger than the {self._cap} bytes allowed for it"))

    def _fail(self, error: BaseException) -> None:
        self._retire()
        future, self._future = self._future, None
        if self._streaming:
            self._streaming = False
            self.stream.end(error)
        if future is not None and not future.done():
            future.set_exception(error)

    def _retire(self) -> None:
        self.usable = False
        on_end, self._on_end = self._on_end, _nothing
        on_end(self)


def _nothing(_connection: Connection) -> None:
    """Instead of a callback that was called already."""


def _decompressed(body: bytes, encoding: bytes, cap: int) -> bytes:
    if encoding.lower() == b"identity":
        return body
    if encoding.lower() != b"gzip":
        raise BrokenAnswerError(f"the answer is encoded as {encoding[:20]!r}, which was not asked for")
    try:
        unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        plain = unzip.decompress(body, cap + 1)
    except zlib.error as error:
        raise BrokenAnswerError(f"the answer's gzip is damaged ({error})") from error
    if len(plain) > cap:
        raise AnswerTooLargeError(f"the answer is larger than the {cap} bytes allowed for it")
    if not unzip.eof:
        raise BrokenAnswerError("the answer's gzip is cut short")
    return plain
