"""Opens connections: TCP, the proxy's CONNECT, TLS.

In: a `ClientConfig`. Out: connections that are ready for a request, or an `UnreachableError` that says why
not. TCP keep-alive detects a dead peer.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import cache
from typing import Final, Protocol, TypeVar, cast

from kuberth.client.connecting.failures import connect_failure, describe
from kuberth.client.connecting.tls import TlsContexts
from kuberth.client.identity.client_config import ClientConfig, Proxy
from kuberth.client.identity.credentials import Credential
from kuberth.clock import Clock
from kuberth.errors import UnreachableError

C = TypeVar("C", bound=asyncio.Protocol, covariant=True)

KEEPALIVE_IDLE_SECONDS: Final = 30
KEEPALIVE_INTERVAL_SECONDS: Final = 5
KEEPALIVE_PROBES: Final = 3
"""A silent peer counts as dead after 45 seconds, as with client-go's HTTP/2 pings."""
HANDSHAKE_SECONDS: Final = 10.0
_SHUTDOWN_SECONDS: Final = 1.0
_MAX_CONNECT_ANSWER: Final = 16 * 1024


class MakeConnection(Protocol[C]):
    """Creates the protocol of a new connection."""

    def __call__(self, *, generation: int) -> C: ...


class Dialer:
    """Opens connections to one server. A caller sets the deadline with `asyncio.timeout`."""

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        self._config = config
        self._address = config.address
        self._tls = TlsContexts(config.tls, clock, source=config.source) if self._address.secure else None

    def generation(self, credential: Credential) -> int:
        """The generation of the TLS files; connections of an older one use outdated certificates."""
        if self._tls is None:
            return 0
        self._tls.refresh(credential)
        return self._tls.generation

    async def dial(self, credential: Credential, make: MakeConnection[C]) -> C:
        connection = make(generation=self.generation(credential))
        try:
            if self._config.proxy is None:
                transport = await self._straight(connection)
            else:
                transport = await self._through(self._config.proxy, connection)
        except UnreachableError:
            raise
        except (OSError, ValueError) as error:
            raise connect_failure(error, self._config) from error
        _keep_alive(transport)
        return connection

    @property
    def _server_name(self) -> str:
        return self._config.tls.server_name or self._address.host

    async def _straight(self, connection: asyncio.Protocol) -> asyncio.BaseTransport:
        loop, address = asyncio.get_running_loop(), self._address
        if self._tls is None:
            transport, _ = await loop.create_connection(lambda: connection, address.host, address.port)
            return transport
        transport, _ = await loop.create_connection(
            lambda: connection,
            address.host,
            address.port,
            ssl=self._tls.context,
            server_hostname=self._server_name,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
        )
        return transport

    async def _through(self, proxy: Proxy, connection: asyncio.Protocol) -> asyncio.BaseTransport:
        loop = asyncio.get_running_loop()
        context = _proxy_context() if proxy.secure else None
        try:
            transport, tunnel = await loop.create_connection(
                _Tunnel,
                proxy.host,
                proxy.port,
                ssl=context,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS if proxy.secure else None,
            )
        except OSError as error:
            problem = f"the proxy {proxy} cannot be reached ({describe(error)})"
            raise UnreachableError(f"{problem}; check proxy-url in {self._config.source}") from error
        try:
            await self._ask_proxy(proxy, tunnel)
            if self._tls is None:
                transport.set_protocol(connection)
                connection.connection_made(transport)
                return transport
            secured = await loop.start_tls(
                transport,
                connection,
                self._tls.context,
                server_hostname=self._server_name,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except BaseException:
            transport.abort()
            raise
        if secured is None:
            raise UnreachableError(f"the proxy {proxy} closed the tunnel during the TLS handshake; try again")
        connection.connection_made(secured)
        return secured

    async def _ask_proxy(self, proxy: Proxy, tunnel: _Tunnel) -> None:
        authority = self._address.authority
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if proxy.authorization is not None:
            lines.append(f"Proxy-Authorization: {proxy.authorization.reveal()}")
        status = await tunnel.ask("\r\n".join((*lines, "", "")).encode())
        if status != 200:
            hint = "check its credentials in proxy-url" if status == 407 else "may it reach this server?"
            raise UnreachableError(f"the proxy {proxy} answered {status} to CONNECT {authority}; {hint}")


class _Tunnel(asyncio.Protocol):
    """The protocol that opens a tunnel: one CONNECT, one answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer = b""
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def ask(self, request: bytes) -> int:
        assert self._transport is not None
        self._transport.write(request)
        return await self._status

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if self._status.done():
            return
        if b"\r\n\r\n" in self._answer:
            words = self._answer.split(None, 2)
            known = len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit()
            self._status.set_result(int(words[1]) if known else 0)
        elif len(self._answer) > _MAX_CONNECT_ANSWER:
            self._status.set_result(0)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._status.done():
            self._status.set_exception(exc or ConnectionResetError("the proxy closed the connection"))
            self._status.exception()  # the caller may have been cancelled


@cache
def _proxy_context() -> ssl.SSLContext:
    """The context for TLS to a proxy, which the system's authorities verify, not the cluster's."""
    return ssl.create_default_context()


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        # For unacknowledged data, too, not only for probes.
        ("TCP_USER_TIMEOUT", 1000 * (KEEPALIVE_IDLE_SECONDS + KEEPALIVE_INTERVAL_SECONDS * KEEPALIVE_PROBES)),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
