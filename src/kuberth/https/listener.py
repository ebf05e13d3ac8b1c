"""HTTPS in the process's own event loop: uvicorn's protocol, without its process management.

In: a service, certificates, an address. Out: a listening server for as long as the `async with` lasts. It
installs no signal handlers and reads no environment; who owns it ends it. Without certificates it is plain
HTTP, which only `kuberth.https.loopback` does.
"""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
import socket
from types import TracebackType
from typing import Final, NamedTuple, Self

import uvicorn
from uvicorn.server import ServerState

from kuberth.errors import PortTakenError, ServingError
from kuberth.https.application import Application, HttpService
from kuberth.https.certificates import Certificates
from kuberth.https.connection import HttpConnection
from kuberth.https.crowd import Crowd
from kuberth.https.limits import Limits, affordable_connections

logger = logging.getLogger(__name__)

_BACKLOG: Final = 512
_ACCEPT_AGAIN_SECONDS: Final = 1.0


class AddressFlags(NamedTuple):
    """How the user says where to listen; errors name them."""

    host: str
    port: str


class Listener:
    """Serves while it is entered; `port` is then the real one."""

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
        """`port` 0 takes any that is free."""
        connections = affordable_connections(limits.connections)
        self._limits = dataclasses.replace(limits, connections=connections)
        self._service = service
        self._certificates = certificates
        self.host = host
        self._flags = flags
        self._state = ServerState()
        self._crowd: Crowd[HttpConnection] = Crowd(connections, per_address=limits.per_address)
        self.port = port

    async def __aenter__(self) -> Self:
        self._application = Application(self._service, limits=self._limits)
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
            self._certificates.context()  # what is wrong with them is told before anybody can come
        self._socket = self._listen()
        self.port = self._socket.getsockname()[1]
        # It ends with this server, not with a scope: what is cancelled around it still ends gracefully.
        self._accepting = asyncio.create_task(self._accept(), name="accept connections")
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Accept no more, end streams, let running requests end, then cut what is left."""
        try:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
            self._socket.close()
            self._application.end_streams()
            for connection in self._crowd.guests():
                connection.shutdown()
            await self._let_requests_end()
            await self._let_clients_go()
        finally:
            self._socket.close()
            for connection in self._crowd.guests():
                connection.leave()
            for task in self._state.tasks:
                task.cancel()
        if self._state.tasks:
            await asyncio.wait(self._state.tasks)

    async def _let_requests_end(self) -> None:
        if self._state.tasks:
            _, running = await asyncio.wait(self._state.tasks, timeout=self._limits.shutdown_seconds)
            if running:
                logger.warning("%d requests were cut off at shutdown", len(running))

    async def _let_clients_go(self) -> None:
        """Clients that rest on an open connection do not notice that it is being closed."""
        lost = [connection.lost.wait() for connection in self._crowd.guests()]
        try:
            async with asyncio.timeout(self._limits.goodbye_seconds):
                await asyncio.gather(*lost)
        except TimeoutError:
            logger.debug("%d connections were not closed by their clients", len(self._crowd))

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as handshakes:
            while True:
                try:
                    accepted, peer = await loop.sock_accept(self._socket)
                except ConnectionAbortedError:
                    continue
                except OSError as error:  # the system has no files left
                    logger.warning("a connection could not be accepted: %s", error)
                    await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
                    continue
                connection = HttpConnection(
                    accepted,
                    peer[0],
                    config=self._config,
                    state=self._state,
                    limits=self._limits,
                    crowd=self._crowd,
                )
                if self._crowd.admit(connection):
                    handshakes.create_task(self._shake_hands(connection), name="TLS handshake")
                else:
                    accepted.close()
                # Who waits in line already is accepted without a pause; others must have their turn.
                await asyncio.sleep(0)

    async def _shake_hands(self, connection: HttpConnection) -> None:
        try:
            # asyncio does so only for sockets that name their protocol, which accepted ones do not. Header
            # and body are two writes: else the second waits 40 ms for the client to acknowledge the first.
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
        except Exception:  # one connection's trouble is not that of the others
            logger.exception("the handshake with %s failed", connection.address)
        finally:
            if not connection.made:
                self._crowd.remove(connection)

    def _listen(self) -> socket.socket:
        host, flags = self.host, self._flags
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            # "::" is every address of both families, as it is in Go.
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
