"""HTTPS in the process's own event loop: uvicorn's protocol, without its process management.

In: routes, a door, certificates, an address. Out: a listening server for as long as the `async with` lasts.
It installs no signal handlers and reads no environment; who owns it ends it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from kuberth.errors import ServingError
from kuberth.https.certificates import Certificates, listening_context
from kuberth.serving.access import Access
from kuberth.serving.application import Application
from kuberth.serving.messages import Handler

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may cost."""

    header_bytes: int = 64 * 1024
    """How much of a header is kept while its end has not come."""
    connections: int = 100
    """More than these are answered with 503."""
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    """From the first byte of a request, or from the connection, to the end of its header."""
    request_seconds: float = 30.0
    idle_seconds: int = 90
    """Between two requests of one connection."""
    shutdown_seconds: float = 5.0


class Server:
    """Serves while it is entered; `port` is then the real one."""

    def __init__(
        self,
        routes: Mapping[str, Handler],
        *,
        access: Access,
        certificates: Certificates,
        host: str = "0.0.0.0",
        port: int = 10259,
        limits: Limits | None = None,
    ) -> None:
        """`port` 0 takes any that is free."""
        self._limits = Limits() if limits is None else limits
        self._application = Application(routes, access=access, request_seconds=self._limits.request_seconds)
        self._certificates = certificates
        self._address = (host, port)
        self._state = ServerState()
        self._listener: asyncio.Server | None = None
        self._emptied = asyncio.Event()
        self.port = port

    async def __aenter__(self) -> Self:
        limits = self._limits
        context = listening_context(self._certificates)
        config = uvicorn.Config(
            self._application,
            http="h11",  # the one that bounds the header
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
            h11_max_incomplete_event_size=limits.header_bytes,
        )
        config.load()
        listening = _listen(*self._address)
        self.port = listening.getsockname()[1]
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: _Connection(config, self._state, limits.header_seconds, on_lost=self._note_lost),
            sock=listening,
            ssl=context,
            ssl_handshake_timeout=limits.handshake_seconds,
        )
        logger.info("serving on https://%s:%d", self._address[0], self.port)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Accept no more, let running requests end, then cut what is left."""
        assert self._listener is not None
        self._listener.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self._limits.shutdown_seconds):
                if self._state.tasks:
                    await asyncio.wait(self._state.tasks)
                if self._state.connections:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            logger.warning("%d requests were cut off at shutdown", len(self._state.tasks))
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


class _Connection(H11Protocol):
    """One connection: gives up on a header that does not come, and shows the client's certificate."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        header_seconds: float,
        *,
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(config, state, {})
        self._header_seconds = header_seconds
        self._on_lost = on_lost
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        # Without it the body of an answer waits 40 ms for the client to acknowledge the header.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # uvicorn copies this into every request's scope.
        self.app_state = {"certificate": transport.get_extra_info("peercert")}
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self._on_lost()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self._header_seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        self.transport.abort()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # "::" is every address of both families, as it is in Go.
        return socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = "the port is in use; stop what listens there, or choose another with --secure-port"
        else:
            problem = f"{error.strerror or error}; check --bind-address and --secure-port"
        raise ServingError(f"cannot serve on {host} port {port}: {problem}") from error
