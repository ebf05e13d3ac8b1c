"""Serves a connection with uvicorn's HTTP protocol, and limits what a client sends and how long it takes.

In: bytes after the TLS handshake. Out: ASGI requests. There is always a deadline that received bytes do not
move: for the header, for a body that the service does not read, or for the next request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from kuberth.https.connection_limit import ConnectionLimit, Limits
from kuberth.https.messages import certified_user

MALFORMED_SECONDS: Final = 60.0


class OncePerMinute(logging.Filter):
    """Passes one warning a minute, with the number of those since the last one that passed."""

    def __init__(self) -> None:
        super().__init__()
        self._last = 0.0
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno != logging.WARNING:
            return True
        if 0 <= record.created - self._last < MALFORMED_SECONDS:
            self._dropped += 1
            return False
        if self._dropped:
            record.msg = f"{record.msg} ({self._dropped} more since the last of these lines)"
        self._last, self._dropped = record.created, 0
        return True


malformed_requests = logging.getLogger(f"{__name__}.malformed")
malformed_requests.addFilter(OncePerMinute())


class HttpConnection(HttpToolsProtocol):
    """Implements `LimitedConnection`, from the moment its socket was accepted."""

    def __init__(
        self,
        accepted: socket.socket,
        address: str,
        *,
        config: uvicorn.Config,
        state: ServerState,
        limits: Limits,
        limit: ConnectionLimit[HttpConnection],
    ) -> None:
        super().__init__(config, state, {})
        self.logger = malformed_requests
        self.accepted = accepted
        self.address = address
        self.made = False
        """The handshake has succeeded."""
        self.authenticated = False
        self.lost = asyncio.Event()
        self._limits = limits
        self._limit = limit
        self._deadline: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._in_header = False
        self._in_body = False

    @property
    def busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def drop(self) -> None:
        if self.made:
            self.transport.abort()
        else:
            # The handshake then fails, and its task cleans up.
            with contextlib.suppress(OSError):
                self.accepted.shutdown(socket.SHUT_RDWR)

    def mark_authenticated(self) -> None:
        self.authenticated = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        self.made = True
        certificate = transport.get_extra_info("peercert")
        self.authenticated = certified_user(certificate) is not None
        # uvicorn copies this into every request's scope.
        self.app_state = {
            "certificate": certificate,
            "mark_authenticated": self.mark_authenticated,
            "drop": self.drop,
        }
        self._set_deadline(self._limits.header_seconds)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._in_header and not self.transport.is_closing():
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.header_bytes:
                self._refuse_header()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_header = True
        self._header_bytes = 0
        self._set_deadline(self._limits.header_seconds)

    def on_headers_complete(self) -> None:
        self._in_header = False
        self._in_body = True
        self._set_deadline(None)
        if self.transport.is_closing():
            return  # the rest of what came with a refused request
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self._limits.header_bytes:
            self._refuse_header()
            return
        if sum(name == b"host" for name, _ in self.headers) > 1:
            # Which one counts is a matter of taste, and a check of one is no check of the other.
            self.send_400_response("more than one Host header")
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        if self.cycle is not None:
            super().on_message_complete()
            self._set_idle_deadline()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limit.mark_idle(self)
        self._set_idle_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_deadline(None)
        super().connection_lost(exc)
        self._limit.remove(self)
        self.lost.set()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer the request as if it had no Upgrade header."""

    def _refuse_header(self) -> None:
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        )
        self.transport.close()

    def _set_idle_deadline(self) -> None:
        if self.busy or self._in_header:
            return
        if self._in_body:
            # The request was answered before its body was complete: the rest is read and discarded.
            self._set_deadline(self._limits.body_seconds)
        else:
            # uvicorn closes an idle connection earlier, unless a byte of the next request has arrived.
            self._set_deadline(self._limits.idle_seconds + self._limits.header_seconds)

    def _set_deadline(self, seconds: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.drop)
