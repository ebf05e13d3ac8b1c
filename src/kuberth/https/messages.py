"""Requests, their users, and responses of services: plain values, no ASGI.

In: an ASGI scope, a client certificate. Out: `Request`, whose body is read on demand and within bounds, a
`User`, and `Response`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

_AUTHENTICATED: Final = "system:authenticated"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def authenticated(
        cls,
        name: str,
        groups: tuple[str, ...] = (),
        *,
        uid: str = "",
        extra: Mapping[str, tuple[str, ...]] | None = None,
    ) -> User:
        groups = groups if _AUTHENTICATED in groups else (*groups, _AUTHENTICATED)
        return cls(name, groups, uid, extra or {})


ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


def certified_user(certificate: Mapping[str, Any] | None) -> User | None:
    """The user that a certificate names: the common name, with the organizations as groups.

    The handshake has verified its signature.
    """
    subject = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    if not names or not names[-1]:
        return None
    return User.authenticated(names[-1], tuple(value for key, value in subject if key == "organizationName"))


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
_MAX_QUERY_FIELDS: Final = 100


class Query(dict[str, list[str]]):
    """Query parameters; of a repeated one the first counts."""

    @classmethod
    def parse(cls, text: bytes) -> Query:
        """Parse a query string; raises ValueError for too many parameters."""
        return cls(parse_qs(text.decode("latin-1"), keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS))

    def text(self, name: str) -> str:
        return self.get(name, [""])[0]

    def flag(self, name: str) -> bool:
        """Whether the parameter is present and neither "false" nor "0"."""
        return name in self and self.text(name).lower() not in ("false", "0")


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


@dataclass(slots=True)
class Request:
    """`headers` has lower-case names; of a repeated header the last one counts."""

    method: str
    path: str
    query: Query = field(default_factory=Query)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: Mapping[str, Any] | None = None
    """The client's certificate as `ssl` describes it, verified against the client CA; None without one."""
    raw_path: str = ""
    """Still percent-encoded."""
    address: str = ""
    """The client's address, without the port."""
    user: User = ANONYMOUS
    max_body_bytes: int = 0
    body_seconds: float = 0.0
    receive: Receive = field(default=_no_body, repr=False)
    mark_authenticated: Callable[[], None] = field(default=lambda: None, repr=False)
    """Marks the request's connection as one of an authenticated client."""

    def identify(self, user: User) -> None:
        """Set the user. Connections of authenticated users are closed last when there are too many."""
        self.user = user
        if user != ANONYMOUS:
            self.mark_authenticated()

    async def body(self) -> bytes:
        """Read the body; raises BodyTooLarge, ClientGone, or TimeoutError for one that does not end."""
        declared = self.headers.get("content-length", "")
        if declared.isdigit() and len(declared) < 20 and int(declared) > self.max_body_bytes:
            raise BodyTooLarge
        parts: list[bytes] = []
        size = 0
        async with asyncio.timeout(self.body_seconds):
            while True:
                message = await self.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                size += len(part)
                if size > self.max_body_bytes:
                    raise BodyTooLarge
                parts.append(part)
                if not message.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)


class ClientGone(Exception):  # noqa: N818  # an outcome, not a fault
    """The client went away before its request was complete."""


class BodyTooLarge(Exception):  # noqa: N818  # an outcome that the service answers in its own format
    """The body is larger than `Request.max_body_bytes`."""


@dataclass(slots=True)
class Response:
    """A response. A body in pieces is an async generator, which is closed when the client goes away."""

    body: bytes | AsyncIterator[bytes] = b""
    status: int = 200
    content_type: str = TEXT
    headers: dict[str, str] = field(default_factory=dict)
    endless: bool = False
    """The body is a stream without a known end."""

    @classmethod
    def text(cls, text: str, *, status: int = 200) -> Response:
        return cls(text.encode(), status=status)

    @classmethod
    def json(cls, tree: Any, *, status: int = 200) -> Response:
        body = json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()
        return cls(body, status=status, content_type=JSON)
