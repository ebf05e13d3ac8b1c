"""HTTPS for the core, in the process's own event loop: uvicorn's protocol without its process management.

In: a core, credentials, an address. Out: a listening server for as long as the `async with` lasts. It
installs no signal handlers and reads no environment; who owns it ends it.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from kuberth.clock import Clock, SystemClock
from kuberth.errors import ServingError
from kuberth.local.apiserver.http.application import Application, RequestLimits
from kuberth.local.apiserver.http.authentication import Authenticator
from kuberth.local.apiserver.http.credentials import ClusterCredentials
from kuberth.local.apiserver.verbs.core import Core

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may cost."""

    header_bytes: int = 64 * 1024
    connections: int = 2000
    """More than these are answered with 503."""
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    """From the first byte of a request, or from the connection, to the end of its header."""
    idle_seconds: int = 120
    """Between two requests; longer than Go's clients keep a connection, so that they close it first."""
    shutdown_seconds: float = 5.0
    """How long running requests may take to end."""
    goodbye_seconds: float = 0.2
    """How long clients may take to close their connections."""


class HttpServer:
    """Serves while it is entered; `port` and `url` are then the real ones."""

    def __init__(
        self,
        core: Core,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        credentials: ClusterCredentials,
        clock: Clock | None = None,
        request_limits: RequestLimits | None = None,
        connection_limits: ConnectionLimits | None = None,
    ) -> None:
        """`port` 0 takes any that is free; `host` "0.0.0.0" or "::" opens the server to the network."""
        self._application = Application(
            core,
            authenticator=Authenticator(credentials.token),
            clock=clock or SystemClock(),
            limits=request_limits or RequestLimits(),
        )
        self._credentials = credentials
        self._limits = connection_limits or ConnectionLimits()
        self._host = host
        self._state = ServerState()
        self._listener: asyncio.Server | None = None
        self._emptied = asyncio.Event()
        self.port = port

    @property
    def url(self) -> str:
        """Where clients on this machine reach it."""
        host = self._host
        if host in ("", "0.0.0.0"):
            host = "127.0.0.1"
        elif host == "::":
            host = "::1"
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"

    @property
    def watchers(self) -> int:
        """How many watches are open."""
        return self._application.watchers

    async def __aenter__(self) -> Self:
        limits = self._limits
        config = uvicorn.Config(
            self._application,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            # uvicorn counts the connection that asks, too.
            limit_concurrency=limits.connections + 1,
            timeout_keep_alive=limits.idle_seconds,
        )
        config.load()
        listening = _listen(self._host, self.port)
        self.port = listening.getsockname()[1]
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: _Connection(config, self._state, limits, on_lost=self._note_lost),
            sock=listening,
            ssl=self._credentials.server_context(),
            ssl_handshake_timeout=limits.handshake_seconds,
        )
        if not _is_loopback(self._host):
            logger.warning("the API server listens on %s, beyond this machine", self._host or "0.0.0.0")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Accept no more, end watches, let running requests end, then cut what is left."""
        assert self._listener is not None
        self._listener.close()
        self._application.end_watches()
        for connection in list(self._state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self._limits.shutdown_seconds):
                if self._state.tasks:
                    await asyncio.wait(self._state.tasks)
        except TimeoutError:
            logger.warning("%d requests were cut off at shutdown", len(self._state.tasks))
        try:
            # Clients that rest on an open connection do not notice that it is being closed.
            async with asyncio.timeout(self._limits.goodbye_seconds):
                while self._state.connections:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            logger.debug("%d connections were not closed by their clients", len(self._state.connections))
        finally:
            for connection in list(self._state.connections):
                connection.transport.abort()
            for task in self._state.tasks:
                task.cancel()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks)
        await self._listener.wait_closed()

    def _note_lost(self) -> None:
        if not self._state.connections:
            self._emptied.set()


class _Connection(HttpToolsProtocol):
    """One connection: bounds the header in size and time, and shows the client's certificate."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        limits: ConnectionLimits,
        *,
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(config, state, {})
        self._limits = limits
        self._on_lost = on_lost
        self._timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._in_header = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        # asyncio does so only for sockets that name their protocol, which those accepted here do not. Header
        # and body are two writes: without it the second waits 40 ms for the client to acknowledge the first.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # uvicorn copies this into every request's scope.
        self.app_state = {"certificate": transport.get_extra_info("peercert"), "abort": transport.abort}
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_header:
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.header_bytes:
                self._refuse_header()
            elif self._timer is None:
                self._start_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_header = True
        self._header_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_header = False
        self._stop_timer()
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self._limits.header_bytes:
            self._refuse_header()
            return
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if self.cycle is not None:
            super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self._on_lost()

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as if it had not asked to speak something else."""

    def _refuse_header(self) -> None:
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        )
        self.transport.close()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self._limits.header_seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.abort()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=host == "::", backlog=512)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = "the port is in use; stop what listens there, or choose another with --port"
        else:
            problem = f"{error.strerror or error}; check the address and the port"
        raise ServingError(f"cannot serve the API on {host} port {port}: {problem}") from error
