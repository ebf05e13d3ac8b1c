"""Plain HTTP on the loopback address, for browsers on this machine, which trust no self-signed certificate.

In: a service and a port. Out: a listener. It answers only requests whose Host is a name of this machine, so
that a foreign site whose name resolves to the loopback address reads nothing (DNS rebinding).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kuberth.https.application import HttpService
from kuberth.https.limits import Limits
from kuberth.https.listener import AddressFlags, Listener
from kuberth.https.messages import Request, Response

LOOPBACK: Final = "127.0.0.1"
_NAMES: Final = (LOOPBACK, "localhost", "[::1]")


class LoopbackListener(Listener):
    """Serves while it is entered; `port` and `url` are then the actual ones."""

    def __init__(self, service: HttpService, *, port: int, flags: AddressFlags, limits: Limits) -> None:
        super().__init__(
            _ByOwnName(service, self._is_own),
            certificates=None,
            host=LOOPBACK,
            port=port,
            flags=flags,
            limits=limits,
        )

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def _is_own(self, host: str) -> bool:
        return any(host.lower() == f"{name}:{self.port}" for name in _NAMES)


class _ByOwnName:
    """Implements `HttpService`."""

    def __init__(self, service: HttpService, is_own: Callable[[str], bool]) -> None:
        self._service = service
        self._is_own = is_own

    async def answer(self, request: Request) -> Response:
        if not self._is_own(request.headers.get("host", "")):
            return self.refuse(400, "this port answers only to names of its own machine, such as localhost")
        return await self._service.answer(request)

    def refuse(self, code: int, message: str) -> Response:
        return self._service.refuse(code, message)

    def is_open(self, request: Request) -> bool:
        return self._service.is_open(request)
