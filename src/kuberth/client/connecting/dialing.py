"""Opens connections: TCP, the proxy's CONNECT, TLS.

In: a `ClientConfig`. Out: connections that are ready for a request, or an `UnreachableError` that says why
not. TCP keep-alive detects a dead peer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from functools import cache
from typing import Any, Final, Protocol, TypeVar, cast

from kuberth.client.connecting.failures import connect_failure, describe
from kuberth.client.identity.client_config import ClientConfig, Proxy, TlsSettings
from kuberth.client.identity.credentials import Credential
from kuberth.clock import NANOSECONDS, Clock
from kuberth.errors import ConfigError, UnauthorizedError, UnreachableError
from kuberth.https.certificates import private_file
from kuberth.text.documents import file_stamp

logger = logging.getLogger(__name__)


CHECK_NS: Final = 10 * NANOSECONDS
"""How often the files are checked for changes."""

C = TypeVar("C", bound=asyncio.Protocol, covariant=True)
KEEPALIVE_IDLE_SECONDS: Final = 30
KEEPALIVE_INTERVAL_SECONDS: Final = 5
KEEPALIVE_PROBES: Final = 3
"""A silent peer counts as dead after 45 seconds, as with client-go's HTTP/2 pings."""
HANDSHAKE_SECONDS: Final = 10.0
_SHUTDOWN_SECONDS: Final = 1.0
_MAX_CONNECT_ANSWER: Final = 16 * 1024


class TlsContexts:
    """The TLS context of new connections, renewed when certificates change."""

    def __init__(self, settings: TlsSettings, clock: Clock, *, source: str) -> None:
        self.generation = 0
        self._settings = settings
        self._clock = clock
        self._source = source
        self._pair: tuple[str, str] | None = None
        self._stamps = self._file_stamps()
        self._check_at = clock.now_ns() + CHECK_NS
        self.context = self._build(None)
        """Loads the files; raises ConfigError if they cannot be used."""

    def refresh(self, credential: Credential) -> None:
        """Reload changed files or use another certificate; cheap if nothing has changed."""
        pair = (credential.certificate, credential.key.reveal()) if credential.key is not None else None
        now = self._clock.now_ns()
        if pair == self._pair and now < self._check_at:
            return
        self._check_at = now + CHECK_NS
        stamps = self._file_stamps()
        if pair == self._pair and stamps == self._stamps:
            return
        try:
            context = self._build(pair)
        except ConfigError as error:
            if pair != self._pair:
                raise UnauthorizedError(str(error)) from error
            # The rotation of the files may be incomplete.
            logger.warning("the changed TLS files are not usable; keeping the old ones: %s", error)
            return
        self.context, self._pair, self._stamps = context, pair, stamps
        self.generation += 1

    def _file_stamps(self) -> list[object]:
        settings = self._settings
        return [
            file_stamp(path)
            for path in (settings.ca_file, settings.certificate_file, settings.key_file)
            if path
        ]

    def _build(self, pair: tuple[str, str] | None) -> ssl.SSLContext:
        settings = self._settings
        # Not create_default_context: newer Pythons make it reject CAs that many clusters have.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if settings.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif settings.ca_data or settings.ca_file:
            self._load_ca(context)
        else:
            context.load_default_certs()
        if pair is not None:
            self._load_pair(context, *pair, what="the exec plugin's client certificate")
        elif settings.has_client_certificate:
            certificate = settings.certificate_data or self._text(settings.certificate_file)
            key = settings.key_data.reveal() if settings.key_data else self._text(settings.key_file)
            self._load_pair(
                context, certificate, key, what=settings.certificate_file or "the client certificate"
            )
        return context

    def _load_ca(self, context: ssl.SSLContext) -> None:
        what = self._settings.ca_file or "certificate-authority-data"
        try:
            context.load_verify_locations(cadata=self._settings.ca_data or self._text(self._settings.ca_file))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{self._source}: {what} contains no certificate authority; it must be in PEM format and "
                "begin with -----BEGIN CERTIFICATE-----"
            ) from error

    def _load_pair(self, context: ssl.SSLContext, certificate: str, key: str, *, what: str) -> None:
        try:
            with (
                private_file(certificate.encode()) as certificate_path,
                private_file(key.encode()) as key_path,
            ):
                # Without a password OpenSSL would prompt on the terminal.
                context.load_cert_chain(certificate_path, key_path, password=lambda: "")
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or "not PEM"
            raise ConfigError(
                f"{self._source}: {what} and its key is not usable ({reason}); "
                "they must be a matching pair in PEM format, the key without a password"
            ) from None

    def _text(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeDecodeError) as error:
            problem = getattr(error, "strerror", None) or "not a text file"
            raise ConfigError(f"{self._source}: {path} cannot be read: {problem}; check the path") from error


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
    def _handshake(self) -> dict[str, Any]:
        """The options of asyncio for the TLS handshake with the server."""
        return {
            "server_hostname": self._config.tls.server_name or self._address.host,
            "ssl_handshake_timeout": HANDSHAKE_SECONDS,
            "ssl_shutdown_timeout": _SHUTDOWN_SECONDS,
        }

    async def _straight(self, connection: asyncio.Protocol) -> asyncio.BaseTransport:
        loop, address = asyncio.get_running_loop(), self._address
        options = {} if self._tls is None else {"ssl": self._tls.context, **self._handshake}
        transport, _ = await loop.create_connection(lambda: connection, address.host, address.port, **options)
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
            secured = await loop.start_tls(transport, connection, self._tls.context, **self._handshake)
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
