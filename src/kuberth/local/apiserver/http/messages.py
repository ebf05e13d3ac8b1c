"""A request and its answer, as the handlers see them.

In: an ASGI scope. Out: `Request`, whose body is read on demand and within a bound, and `Response`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

from kuberth.local.apiserver.http.authentication import User
from kuberth.local.apiserver.http.negotiation import JSON, encode
from kuberth.local.apiserver.refusals import bad_request
from kuberth.local.apiserver.status_errors import StatusError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Chunks = Callable[[], AsyncIterator[bytes]]

_MAX_QUERY_FIELDS: Final = 100


class Query:
    """Query parameters, read as upstream reads them."""

    def __init__(self, text: bytes) -> None:
        try:
            self._values = parse_qs(
                text.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS
            )
        except ValueError:
            raise bad_request(f"more than {_MAX_QUERY_FIELDS} query parameters") from None

    def text(self, name: str) -> str:
        values = self._values.get(name)
        return values[0] if values else ""

    def texts(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def flag(self, name: str) -> bool:
        """Present is true, unless its value says otherwise."""
        values = self._values.get(name)
        return values is not None and values[0].lower() not in ("false", "0")

    def integer(self, name: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        digits = text.removeprefix("-")
        # As Go's ParseInt: ASCII digits and 64 bits.
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and abs(int(text)) < 2**63):
            raise bad_request(f"unable to decode query parameter {name}: {text[:40]!r} is no number")
        return int(text)


@dataclass(slots=True)
class Request:
    method: str
    path: str
    """Still percent-encoded."""
    query: Query
    headers: Mapping[str, str] = field(repr=False)
    client: str
    user: User
    receive: Receive = field(repr=False)
    max_body_bytes: int

    async def body(self) -> bytes:
        declared = self.headers.get("content-length", "")
        if declared.isdigit() and len(declared) < 20 and int(declared) > self.max_body_bytes:
            raise self._too_large()
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            part = message.get("body", b"")
            size += len(part)
            if size > self.max_body_bytes:
                raise self._too_large()
            parts.append(part)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)

    def _too_large(self) -> StatusError:
        message = f"Request entity too large: limit is {self.max_body_bytes}"
        return StatusError(413, "RequestEntityTooLarge", message)


class ClientGone(Exception):  # noqa: N818  # an outcome: there is nobody to answer any more
    """The client went away before its request was complete."""


@dataclass(slots=True)
class Response:
    """`chunks`, if given, makes the body piece by piece and may end at any time."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    chunks: Chunks | None = None

    @classmethod
    def tree(cls, tree: Any, *, status: int = 200, media_type: str = JSON, pretty: bool = False) -> Response:
        return cls(status, encode(tree, media_type, pretty=pretty), media_type)

    @classmethod
    def text(cls, text: str, *, status: int = 200) -> Response:
        return cls(status, text.encode(), "text/plain; charset=utf-8")

    @classmethod
    def failure(cls, error: StatusError) -> Response:
        response = cls.tree(error.to_object(), status=error.code)
        if error.retry_after_seconds is not None:
            response.headers["retry-after"] = str(error.retry_after_seconds)
        if error.code == 401:
            response.headers["www-authenticate"] = 'Bearer realm="kuberth"'
        return response
