"""An HTTPS server in the process's own event loop: uvicorn's protocol without its process management.

In: a service, certificates, an address. Out: a listening server while the `async with` block lasts. It
installs no signal handlers and reads no environment. Without certificates it serves plain HTTP, which only
`LoopbackListener` does.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Self

import uvicorn
from uvicorn.server import ServerState

from kuberth.errors import PortTakenError, ServingError
from kuberth.https.application import Application, HttpService
from kuberth.https.certificates import Certificates
from kuberth.https.connection import HttpConnection
from kuberth.https.connection_limit import ConnectionLimit, Limits, affordable_connections

logger = logging.getLogger(__name__)

_BACKLOG: Final = 512
_ACCEPT_AGAIN_SECONDS: Final = 1.0
LOOPBACK: Final = "127.0.0.1"
_OWN_NAMES: Final = (LOOPBACK, "localhost", "[::1]")


class AddressFlags(NamedTuple):
    """Names of the flags for host and port, for error messages."""

    host: str
    port: str


class Listener:
    """Serves while it is entered; `port` is then the actual one."""

    def __init__(
        self,
        service: HttpService,
        *,
        certificates: Certificates | None,
        host: str,
        port: int,
        flags: AddressFlags,
        limits: Limits,
    ) -> None:
        """`port` 0 takes any free port."""
        connections = affordable_connections(limits.connections)
        self._limits = dataclasses.replace(limits, connections=connections)
        self._service = service
        self._certificates = certificates
        self.host = host
        self._flags = flags
        self._state = ServerState()
        self._limit: ConnectionLimit[HttpConnection] = ConnectionLimit(
            connections, per_address=limits.per_address
        )
        self.port = port

    async def __aenter__(self) -> Self:
        self._application = Application(self._service, limits=self._limits, accepts_host=self.accepts_host)
        self._config = uvicorn.Config(
            self._application,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=self._limits.idle_seconds,
        )
        self._config.load()
        if self._certificates is not None:
            self._certificates.context()  # raises before the first connection
        self._socket = self._listen()
        self.port = self._socket.getsockname()[1]
        # Not in a task group: when the caller is cancelled, `__aexit__` must still end this gracefully.
        self._accepting = asyncio.create_task(self._accept(), name="accept connections")
        return self

    def accepts_host(self, host: str) -> bool:
        """Whether requests with this Host header are answered."""
        return True

    async def __aexit__(self, *_exc: object) -> None:
        """Stop accepting, end streams, wait for running requests, then close the rest."""
        try:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
            self._socket.close()
            self._application.end_streams()
            for connection in self._limit.connections():
                connection.shutdown()
            await self._await_requests()
            await self._await_closed()
        finally:
            self._socket.close()
            for connection in self._limit.connections():
                connection.drop()
            for task in self._state.tasks:
                task.cancel()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks)

    async def _await_requests(self) -> None:
        if self._state.tasks:
            _, running = await asyncio.wait(self._state.tasks, timeout=self._limits.shutdown_seconds)
            if running:
                logger.warning("%d requests were aborted at shutdown", len(running))

    async def _await_closed(self) -> None:
        """Wait a moment for clients to close idle connections."""
        lost = [connection.lost.wait() for connection in self._limit.connections()]
        try:
            async with asyncio.timeout(self._limits.close_seconds):
                await asyncio.gather(*lost)
        except TimeoutError:
            logger.debug("%d connections were not closed by their clients", len(self._limit))

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as handshakes:
            while True:
                try:
                    accepted, peer = await loop.sock_accept(self._socket)
                except ConnectionAbortedError:
                    continue
                except OSError as error:  # too many open files
                    logger.warning("a connection could not be accepted: %s", error)
                    await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
                    continue
                connection = HttpConnection(
                    accepted,
                    peer[0],
                    config=self._config,
                    state=self._state,
                    limits=self._limits,
                    limit=self._limit,
                )
                if self._limit.admit(connection):
                    handshakes.create_task(self._shake_hands(connection), name="TLS handshake")
                else:
                    accepted.close()
                # Accepting from a full backlog never suspends; other tasks must run, too.
                await asyncio.sleep(0)

    async def _shake_hands(self, connection: HttpConnection) -> None:
        try:
            # asyncio does not set this for accepted sockets. Header and body are two writes: without it the
            # second waits 40 ms for the client to acknowledge the first.
            connection.accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            certificates = self._certificates
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                connection.accepted,
                ssl=None if certificates is None else certificates.context(),
                ssl_handshake_timeout=None if certificates is None else self._limits.handshake_seconds,
            )
        except OSError as error:
            logger.debug("no handshake with %s: %s", connection.address, error)
        except Exception:  # other connections must go on
            logger.exception("the handshake with %s failed", connection.address)
        finally:
            if not connection.made:
                self._limit.remove(connection)

    def _listen(self) -> socket.socket:
        host, flags = self.host, self._flags
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            # "::" listens on all addresses of both families, as in Go.
            listening = socket.create_server(
                (host, self.port), family=family, dualstack_ipv6=host == "::", backlog=_BACKLOG
            )
        except OSError as error:
            what = f"cannot serve on {host} port {self.port}"
            if error.errno == errno.EADDRINUSE:
                problem = f"the port is in use; stop what listens there, or choose another with {flags.port}"
                raise PortTakenError(f"{what}: {problem}") from error
            problem = f"{error.strerror or error}; check {flags.host} and {flags.port}"
            raise ServingError(f"{what}: {problem}") from error
        listening.setblocking(False)
        return listening


@asynccontextmanager
async def in_thread(listener: Listener) -> AsyncIterator[None]:
    """Serve in a thread of its own, whose event loop nothing in the caller's delays.

    The service is called in the thread. Raises what the listener raises.
    """
    entered: Future[None] = Future()
    stop: Future[None] = Future()

    async def serve() -> None:
        async with listener:
            entered.set_result(None)
            await asyncio.wrap_future(stop)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if entered.done():
                logger.exception("serving on port %d ended", listener.port)
            else:
                entered.set_exception(error)

    thread = threading.Thread(target=run, name="serving", daemon=True)
    thread.start()
    try:
        await asyncio.shield(asyncio.wrap_future(entered))
        yield
    finally:
        stop.set_result(None)
        await asyncio.to_thread(thread.join)


class LoopbackListener(Listener):
    """Plain HTTP on the loopback address, for browsers, which trust no self-signed certificate.

    It answers only requests whose Host is a name of this machine, so that a foreign site whose name resolves
    to the loopback address reads nothing (DNS rebinding). `port` and `url` are the actual ones once entered.
    """

    def __init__(self, service: HttpService, *, port: int, flags: AddressFlags, limits: Limits) -> None:
        super().__init__(service, certificates=None, host=LOOPBACK, port=port, flags=flags, limits=limits)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def accepts_host(self, host: str) -> bool:
        return any(host.lower() == f"{name}:{self.port}" for name in _OWN_NAMES)
