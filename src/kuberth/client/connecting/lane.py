"""One connection on which requests follow each other without waiting for their answers.

In: posts, several in one piece. Out: their answers in the same order, or the posts that the end of the
connection left without one. Of an answer that says yes only the status and the size are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, cast

import httptools

from kuberth.client.connecting.connection import (
    MAX_HEAD_BYTES,
    AnswerTooLargeError,
    BrokenAnswerError,
    HttpAnswer,
)
from kuberth.client.identity.credentials import Credential

_NO_HEADERS: Final[Mapping[bytes, bytes]] = {}
_CREATED: Final = HttpAnswer(201, _NO_HEADERS, b"")


class Post:
    """One write on its way."""

    __slots__ = ("body", "check", "context", "credential", "data", "deadline", "future", "posted", "what")

    def __init__(
        self,
        what: str,
        data: bytes,
        *,
        body: bytes,
        credential: Credential,
        posted: float,
        deadline: float,
        future: asyncio.Future[None],
        context: Any,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.what = what
        """For messages: "bind pod default/web to node n1"."""
        self.data = data
        """The whole request. There are credentials in it."""
        self.body = body
        self.credential = credential
        self.posted = posted
        self.deadline = deadline
        """Both on the loop's clock."""
        self.future = future
        """Whoever posted waits for this one, and may have given up."""
        self.context = context
        """What the poster needs to make sense of a refusal."""
        self.check = check
        """Raises the ApiError to end with if it must not be sent any more."""

    def __repr__(self) -> str:
        return f"<Post {self.what}>"


class Harbour(Protocol):
    """Where a lane's news go."""

    def answered(self, post: Post, answer: HttpAnswer, size: int) -> None:
        """`size` is the body's; a body that only says yes is not in the answer."""
        ...

    def is_free(self, lane: Lane) -> None:
        """Everything was answered."""
        ...

    def ended(self, lane: Lane, unanswered: list[Post], error: BaseException) -> None:
        """It can serve no more. What it did not answer may have happened."""
        ...


class Lane(asyncio.Protocol):
    """Speaks HTTP/1.1 over a transport, TLS or not, with pipelining."""

    def __init__(self, harbour: Harbour, *, cap: int, generation: int = 0) -> None:
        self.generation = generation
        self.usable = False
        self.idle_since = 0.0
        self.exchanges = 0
        """How many were finished."""
        self.answering = False
        """Whether bytes of an answer have arrived since the last one was complete."""
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._harbour = harbour
        self._cap = cap + MAX_HEAD_BYTES
        self._transport: asyncio.Transport | None = None
        self._sent: deque[Post] = deque()
        self._size = 0
        self._in_body = False
        self._unasked = False
        self._headers: dict[bytes, bytes] = {}
        self._chunks: list[bytes] = []
        # The parser calls these for every header and every piece: no Python in between.
        self.on_header: Callable[[bytes, bytes], None] = self._headers.__setitem__
        self.on_body: Callable[[bytes], None] = self._chunks.append
        self._parser = httptools.HttpResponseParser(self)

    # For the harbour

    def send(self, posts: list[Post]) -> None:
        """Send them in one piece."""
        assert self._transport is not None
        self._sent.extend(posts)
        self._transport.write(posts[0].data if len(posts) == 1 else b"".join([post.data for post in posts]))

    @property
    def oldest(self) -> Post | None:
        """Of the posts without an answer."""
        return self._sent[0] if self._sent else None

    def close(self) -> None:
        """End it politely; nothing is under way."""
        self._end(ConnectionAbortedError("the connection was closed here"))
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: BaseException | None = None) -> None:
        """End it at once; posts under way are lost to `error`."""
        self._end(error or ConnectionAbortedError("the connection was closed here"))
        if self._transport is not None:
            self._transport.abort()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if not self._sent:
            # Nobody asked: an answer to nothing cannot be matched to any question.
            self.abort()
            return
        self._size += len(data)
        self.answering = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.abort(BrokenAnswerError(f"the answer is no HTTP ({error})"))
            return
        if self._unasked:
            self.abort()
        elif self._size > self._cap:
            self.abort(AnswerTooLargeError(f"the answer is larger than the {self._cap} bytes allowed for it"))
        elif not self._sent and self.usable:
            self._harbour.is_free(self)

    def eof_received(self) -> bool:
        if self._in_body and self._sent and not self._is_framed():
            # A body of no stated length ends with the connection.
            self.on_message_complete()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc if exc is not None else ConnectionResetError("the server closed the connection"))
        if not self.closed.done():
            self.closed.set_result(None)

    # httptools' side

    def on_message_begin(self) -> None:
        # A second answer to one post: whatever it is, it must not be taken for the next one's.
        self._unasked = not self._sent

    def on_headers_complete(self) -> None:
        self._in_body = True

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        headers, chunks = self._headers, self._chunks
        self._in_body = False
        if status < 200 or not self._sent:
            headers.clear()  # 100 Continue and its like come before the answer
            chunks.clear()
            return
        post = self._sent.popleft()
        size = sum(map(len, chunks))
        if status < 300:
            answer = _CREATED if status == 201 else HttpAnswer(status, _NO_HEADERS, b"")
        else:
            lower = {name.lower(): value for name, value in headers.items()}
            answer = HttpAnswer(status, lower, b"".join(chunks))
        last = not self._parser.should_keep_alive() or not self._is_framed()
        headers.clear()
        chunks.clear()
        self._size = 0
        self.answering = False
        self.exchanges += 1
        self._harbour.answered(post, answer, size)
        if last:
            self.abort(ConnectionResetError("the server closes the connection after this answer"))

    def _is_framed(self) -> bool:
        headers = self._headers
        if b"Content-Length" in headers:  # as Go writes it
            return True
        names = {name.lower() for name in headers}
        return (
            b"content-length" in names
            or b"transfer-encoding" in names
            or self._parser.get_status_code() in (204, 304)
        )

    def _end(self, error: BaseException) -> None:
        if not self.usable and not self._sent:
            return
        self.usable = False
        unanswered = list(self._sent)
        self._sent.clear()
        self._harbour.ended(self, unanswered, error)
