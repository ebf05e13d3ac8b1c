"""Serves the core over HTTPS.

In: a core, credentials, an address. Out: a listening server during the `async with` block.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from typing import Final, Self

from kuberth.clock import Clock, SystemClock
from kuberth.https.application import HttpService
from kuberth.https.connection_limit import Limits
from kuberth.https.listener import AddressFlags, Listener
from kuberth.local.apiserver.http.api_service import ApiService, Page, RequestLimits
from kuberth.local.apiserver.http.authentication import AccountTokens, Authenticator
from kuberth.local.apiserver.http.credentials import ClusterCredentials
from kuberth.local.apiserver.verbs.core import Core

logger = logging.getLogger(__name__)

LIMITS: Final = Limits(connections=2000, reserved=50)
"""The limits of connections. All clients of a local cluster share an address, so none is per address."""
_FLAGS: Final = AddressFlags("--host", "--port")


class HttpServer(Listener):
    """Serves while it is entered; `port` and `url` are then the actual ones."""

    def __init__(
        self,
        core: Core,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        credentials: ClusterCredentials,
        clock: Clock | None = None,
        request_limits: RequestLimits | None = None,
        limits: Limits = LIMITS,
        pages: Mapping[str, Page] | None = None,
        open_pages: frozenset[str] = frozenset(),
    ) -> None:
        """`port` 0 picks a free one; `host` "0.0.0.0" or "::" opens the server to the network.

        `pages` are served in addition to the API, by path; those of `open_pages` without authentication.
        """
        clock = clock or SystemClock()
        tokens = AccountTokens(core, secret=credentials.token, clock=clock)
        self._api = ApiService(
            core,
            authenticator=Authenticator(credentials.token, account_tokens=tokens),
            clock=clock,
            limits=request_limits or RequestLimits(),
            pages=pages or {},
            open_pages=open_pages,
        )
        super().__init__(
            self._api,
            certificates=credentials.server_certificates(),
            host=host,
            port=port,
            flags=_FLAGS,
            limits=limits,
        )

    @property
    def service(self) -> HttpService:
        """The service, to serve it on another listener as well."""
        return self._api

    @property
    def url(self) -> str:
        """The URL at which clients on this machine reach the server."""
        host = self.host
        if host in ("", "0.0.0.0"):
            host = "127.0.0.1"
        elif host == "::":
            host = "::1"
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"

    @property
    def watchers(self) -> int:
        """The number of open watches."""
        return self._api.watchers

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if not _is_loopback(self.host):
            logger.warning(
                "the API server listens on %s and can be reached from other machines", self.host or "0.0.0.0"
            )
        return self


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
