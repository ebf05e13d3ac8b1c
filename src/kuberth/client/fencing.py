"""An API that rejects writes when this process may not be the leader any more.

Leader election has no fencing: a scheduler that was paused past its deadline must not write from outdated
state. Reads pass; every write is checked first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, TypeVar

from kuberth.api.core import Pod
from kuberth.client.protocol import Api, ObjectList, WatchEvent
from kuberth.client.writes import Write
from kuberth.errors import ApiError

T = TypeVar("T")

_REFUSAL: Final = "not written: this scheduler is not the leader any more"
PAUSE_SECONDS: Final = 1.0
"""How long a rejection takes, so that a caller that retries at once does not spin."""


class FencedApi(Api):
    """Passes everything to another API, and rejects writes when `may_write` returns False."""

    def __init__(self, api: Api, may_write: Callable[[], bool]) -> None:
        self._api = api
        self._may_write = may_write

    def _check(self) -> None:
        if not self._may_write():
            raise ApiError(_REFUSAL)

    async def _check_slowly(self) -> None:
        if not self._may_write():
            await asyncio.sleep(PAUSE_SECONDS)
            raise ApiError(_REFUSAL)

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        return await self._api.list(kind, resource_version=resource_version, field_selector=field_selector)

    def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        return self._api.watch(kind, resource_version=resource_version, field_selector=field_selector)

    def share(self, pod: Pod, old: Pod | None) -> None:
        self._api.share(pod, old)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        return await self._api.get(kind, name, namespace=namespace)

    async def write(self, write: Write) -> Any:
        await self._check_slowly()
        return await self._api.write(write)

    async def add_finalizer(
        self, kind: type[T], name: str, finalizer: str, *, namespace: str = ""
    ) -> T | None:
        await self._check_slowly()
        return await self._api.add_finalizer(kind, name, finalizer, namespace=namespace)

    @property
    def refused_posts(self) -> int:  # type: ignore[override]  # only read
        return self._api.refused_posts

    @property
    def steady(self) -> bool:  # type: ignore[override]  # only read
        return self._api.steady

    def post_nowait(
        self, write: Write, *, check: Callable[[], None] | None = None
    ) -> asyncio.Future[None] | None:
        if not self._may_write():
            return None

        def check_both() -> None:
            # The process may be paused while the post waits to be sent.
            self._check()
            if check is not None:
                check()

        return self._api.post_nowait(write, check=check_both)
