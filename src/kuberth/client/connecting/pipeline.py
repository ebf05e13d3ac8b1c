"""Sends requests over one HTTP/1.1 connection without waiting for earlier responses.

In: posts, several at once. Out: their responses in the same order, or the posts without a response when the
connection ended. Of a 2xx response, only the status and the size of the body are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kuberth.client.connecting.connection import MAX_HEAD_BYTES, AnswerTooLargeError, Connection, HttpAnswer
from kuberth.client.identity.credentials import Credential

_NO_HEADERS: Final[Mapping[bytes, bytes]] = {}
_CREATED: Final = HttpAnswer(201, _NO_HEADERS, b"")


@dataclass(slots=True, eq=False, repr=False)
class Post:
    """A write in flight."""

    what: str
    """Its name in messages: "bind pod default/web to node n1"."""
    data: bytes
    """The whole request, with credentials."""
    body: bytes = field(kw_only=True)
    credential: Credential = field(kw_only=True)
    posted: float = field(kw_only=True)
    """The loop's time when it was posted, as the deadline."""
    deadline: float = field(kw_only=True)
    future: asyncio.Future[None] = field(kw_only=True)
    """The future that the caller awaits, possibly cancelled."""
    context: Any = field(kw_only=True)
    """The caller's state for handling an error response."""
    check: Callable[[], None] | None = field(default=None, kw_only=True)
    """Raises an ApiError if the post must not be sent any more."""

    def __repr__(self) -> str:
        return f"<Post {self.what}>"


class PipelineOwner(Protocol):
    """Receives the events of a pipeline."""

    def answered(self, post: Post, answer: HttpAnswer, size: int) -> None:
        """The server answered the post with a body of `size` bytes; the response has it unless it is 2xx."""
        ...

    def is_free(self, pipeline: Pipeline) -> None:
        """The server answered every post."""
        ...

    def ended(self, pipeline: Pipeline, unanswered: list[Post], error: BaseException) -> None:
        """The connection is not usable any more; the server may have processed the unanswered posts."""
        ...


class Pipeline(Connection):
    """Sends several requests and receives their responses in order."""

    def __init__(self, owner: PipelineOwner, *, cap: int, generation: int = 0) -> None:
        super().__init__(generation=generation)
        self._owner = owner
        self._cap = cap + MAX_HEAD_BYTES
        self._sent: deque[Post] = deque()

    def send(self, posts: list[Post]) -> None:
        assert self._transport is not None
        self._sent.extend(posts)
        self._transport.write(posts[0].data if len(posts) == 1 else b"".join([post.data for post in posts]))

    @property
    def oldest(self) -> Post | None:
        """The oldest post without a response."""
        return self._sent[0] if self._sent else None

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or not self._sent:
            self._forget_answer()  # 100 Continue comes before the answer
            return
        post = self._sent.popleft()
        size = sum(map(len, self._chunks))
        if status < 300:
            answer = _CREATED if status == 201 else HttpAnswer(status, _NO_HEADERS, b"")
        else:
            lower = {name.lower(): value for name, value in self._headers.items()}
            answer = HttpAnswer(status, lower, b"".join(self._chunks))
        last = not self._parser.should_keep_alive() or not self._is_framed()
        self._forget_answer()
        self.answering = False
        self.exchanges += 1
        self._owner.answered(post, answer, size)
        if last:
            self.abort(ConnectionResetError("the server closes the connection after this response"))

    def _is_asked(self) -> bool:
        return bool(self._sent)

    def _data_parsed(self) -> None:
        if self._received > self._cap:
            self.abort(AnswerTooLargeError(f"the answer is larger than the {self._cap} bytes allowed for it"))
        elif not self._sent:
            self._owner.is_free(self)

    def _end(self, error: BaseException) -> None:
        if not self.usable and not self._sent:
            return
        self.usable = False
        unanswered = list(self._sent)
        self._sent.clear()
        self._owner.ended(self, unanswered, error)
