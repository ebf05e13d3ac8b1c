"""The scheduler's pages over HTTPS.

In: routes, access control, certificates, an address. Out: a listening server while the `async with` block
lasts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from kuberth.https.certificates import Certificates
from kuberth.https.limits import Limits
from kuberth.https.listener import AddressFlags, Listener
from kuberth.https.listener_thread import ListenerThread
from kuberth.serving.access import Access
from kuberth.serving.forwarding import ForwardingService
from kuberth.serving.messages import Handler
from kuberth.serving.page_service import PageService

logger = logging.getLogger(__name__)

LIMITS: Final = Limits(connections=100, reserved=10, per_address=50, unread_seconds=30.0, idle_seconds=90)
_FLAGS: Final = AddressFlags("--bind-address", "--secure-port")


class Server:
    """Serves while it is entered; `port` is then the actual one.

    Connections are handled and probes answered in a thread; the handlers of all other pages run in the event
    loop that entered the server.
    """

    def __init__(
        self,
        routes: Mapping[str, Handler],
        *,
        access: Access,
        certificates: Certificates,
        host: str = "0.0.0.0",
        port: int = 10259,
        limits: Limits = LIMITS,
        request_seconds: float = 30.0,
    ) -> None:
        """`port` 0 takes any free port."""
        self._pages = PageService(routes, access=access, request_seconds=request_seconds)
        self._certificates = certificates
        self._limits = limits
        self.host = host
        self.port = port

    async def __aenter__(self) -> Self:
        listener = Listener(
            ForwardingService(self._pages, asyncio.get_running_loop()),
            certificates=self._certificates,
            host=self.host,
            port=self.port,
            flags=_FLAGS,
            limits=self._limits,
        )
        self._thread = await ListenerThread(listener).__aenter__()
        self.port = listener.port
        logger.info("serving on https://%s:%d", self.host, self.port)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._thread.__aexit__(exc_type, exc, traceback)
