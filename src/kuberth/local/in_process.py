"""The embedded API server in this process, behind the same protocol as any other.

In: the scheduler's verbs on typed objects. Out: the server's core, asked directly; its plain trees become
structs, and its Status errors the errors that any client raises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from kuberth.api.core import Binding
from kuberth.api.kinds import KINDS, KindInfo
from kuberth.api.wire import convert, to_builtins
from kuberth.client.protocol import ObjectList, WatchEvent, WatchType
from kuberth.errors import ApiError, ConflictError, NotFoundError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.core import Core

T = TypeVar("T")

_STRATEGIC: Final = "application/strategic-merge-patch+json"
_INFO: Final[Mapping[type, KindInfo]] = {info.type: info for info in KINDS.values()}


class InProcessApi:
    """Implements `kuberth.client.protocol.Api`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        with _told_as_api_errors():
            listed = await self._core.list(
                self._resource(kind), field_selector=field_selector, resource_version=resource_version
            )
        items = [convert(kind, item) for item in listed["items"]]
        return ObjectList(items, str(listed["metadata"]["resourceVersion"]))

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        with _told_as_api_errors():
            changes = self._core.watch(
                self._resource(kind),
                field_selector=field_selector,
                resource_version=resource_version,
                allow_bookmarks=True,
            )
            async for type_, obj in changes:
                if type_ == "ERROR":
                    raise ApiError(
                        obj.get("message", "the watch failed"),
                        code=int(obj.get("code", 500)),
                        reason=obj.get("reason", ""),
                    )
                version = str(obj["metadata"]["resourceVersion"])
                known = WatchType(type_)
                yield WatchEvent(known, None if known is WatchType.BOOKMARK else convert(kind, obj), version)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        with _told_as_api_errors():
            return convert(kind, await self._core.get(self._resource(kind), name, namespace=namespace))

    async def create(self, obj: T) -> T:
        tree: Obj = to_builtins(obj)
        namespace = tree["metadata"].get("namespace", "")
        with _told_as_api_errors():
            return convert(
                type(obj), await self._core.create(self._resource(type(obj)), tree, namespace=namespace)
            )

    async def update(self, obj: T) -> T:
        tree: Obj = to_builtins(obj)
        metadata = tree["metadata"]
        with _told_as_api_errors():
            updated = await self._core.update(
                self._resource(type(obj)),
                metadata["name"],
                tree,
                namespace=metadata.get("namespace", ""),
            )
        return convert(type(obj), updated)

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        with _told_as_api_errors():
            patched, _created = await self._core.patch(
                self._resource(kind),
                name,
                dict(patch),
                content_type=_STRATEGIC,
                namespace=namespace,
                subresource=subresource,
            )
        return convert(kind, patched)

    async def bind(self, binding: Binding) -> None:
        metadata = binding.metadata
        with _told_as_api_errors():
            await self._core.create(
                self._core_resource("", "v1", "pods"),
                to_builtins(binding),
                namespace=metadata.namespace,
                name=metadata.name,
                subresource="binding",
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
        options: Obj = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        with _told_as_api_errors():
            await self._core.delete(self._resource(kind), name, namespace=namespace, options=options)

    def _resource(self, kind: type[Any]) -> ServedResource:
        info = _INFO.get(kind)
        if info is None:
            raise ApiError(f"{kind.__name__} is not a kind of the API", code=404, reason="NotFound")
        return self._core_resource(info.group, info.version, info.plural)

    def _core_resource(self, group: str, version: str, plural: str) -> ServedResource:
        resource = self._core.resources.find(group, version, plural)
        if resource is None:
            where = f"{group}/{version}" if group else version
            raise NotFoundError(f"the embedded server does not serve {plural} of {where}")
        return resource


@contextmanager
def _told_as_api_errors() -> Iterator[None]:
    try:
        yield
    except StatusError as error:
        if error.code == 404:
            raise NotFoundError(str(error)) from error
        if error.code == 409:
            raise ConflictError(str(error)) from error
        raise ApiError(str(error), code=error.code, reason=error.reason) from error
