"""An API that refuses to write once this process may not be the leader any more.

Leader election gives no fence of its own: a scheduler that was paused past its deadline must not write
on what it knew before. Reads pass; every write asks first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

from kuberth.api.core import Binding, Pod
from kuberth.client.protocol import Api, FinalizingApi, ObjectList, PostingApi, SharingApi, WatchEvent
from kuberth.errors import ApiError

T = TypeVar("T")


class FencedApi:
    """Implements `kuberth.client.protocol.Api` over another one."""

    def __init__(self, api: Api, may_write: Callable[[], bool]) -> None:
        self._api = api
        self._may_write = may_write

    def _check(self) -> None:
        if not self._may_write():
            raise ApiError("not written: this scheduler is not the leader any more")

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        return await self._api.list(kind, resource_version=resource_version, field_selector=field_selector)

    def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        return self._api.watch(kind, resource_version=resource_version, field_selector=field_selector)

    def share(self, pod: Pod, old: Pod | None) -> None:
        """As `SharingApi`; does nothing if the API behind is none."""
        if isinstance(self._api, SharingApi):
            self._api.share(pod, old)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        return await self._api.get(kind, name, namespace=namespace)

    async def create(self, obj: T) -> T:
        self._check()
        return await self._api.create(obj)

    async def update(self, obj: T) -> T:
        self._check()
        return await self._api.update(obj)

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        self._check()
        return await self._api.patch(kind, name, patch, namespace=namespace, subresource=subresource)

    async def add_finalizer(self, kind: type[T], name: str, finalizer: str, *, namespace: str = "") -> T:
        """As `FinalizingApi`; ApiError if the API behind is none."""
        self._check()
        if not isinstance(self._api, FinalizingApi):
            raise ApiError("this API has no way to change an object byte by byte")
        return await self._api.add_finalizer(kind, name, finalizer, namespace=namespace)

    async def bind(self, binding: Binding) -> None:
        self._check()
        await self._api.bind(binding)

    def post_nowait(
        self,
        kind: type[Any],
        body: bytes,
        *,
        what: str,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        check: Callable[[], None] | None = None,
    ) -> asyncio.Future[None] | None:
        """As `PostingApi`; None if nothing may be written, or the API behind takes no posts."""
        if not isinstance(self._api, PostingApi) or not self._may_write():
            return None

        def check_both() -> None:
            # A post may wait a moment, in which this process may be stopped for long.
            self._check()
            if check is not None:
                check()

        return self._api.post_nowait(
            kind,
            body,
            what=what,
            namespace=namespace,
            name=name,
            subresource=subresource,
            check=check_both,
        )

    async def delete(
        self,
        kind: type[Any],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        self._check()
        await self._api.delete(
            kind, name, namespace=namespace, uid=uid, grace_period_seconds=grace_period_seconds
        )
