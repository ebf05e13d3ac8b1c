"""The scheduler's pages over HTTPS.

In: routes, access control, certificates, an address. Out: a listening server while the `async with` block
lasts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Self

from kuberth.https.certificates import Certificates
from kuberth.https.limits import Limits
from kuberth.https.listener import AddressFlags, Listener
from kuberth.serving.access import Access
from kuberth.serving.messages import Handler
from kuberth.serving.page_service import PageService

logger = logging.getLogger(__name__)

LIMITS: Final = Limits(connections=100, reserved=10, per_address=50, unread_seconds=30.0, idle_seconds=90)
_FLAGS: Final = AddressFlags("--bind-address", "--secure-port")


class Server(Listener):
    """Serves while it is entered; `port` is then the actual one."""

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
        service = PageService(routes, access=access, request_seconds=request_seconds)
        super().__init__(
            service, certificates=certificates, host=host, port=port, flags=_FLAGS, limits=limits
        )

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        logger.info("serving on https://%s:%d", self.host, self.port)
        return self
