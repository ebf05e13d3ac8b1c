"""The embedded API server in this process, with the same protocol as any other.

In: the scheduler's verbs on typed objects. Out: direct calls of the server's core; its plain trees become
structs, and its Status errors become those of any client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

import msgspec

from kuberth.api.core import Pod
from kuberth.api.kinds import REGISTRY
from kuberth.api.sharing import PodSharing
from kuberth.api.wire import convert, to_builtins
from kuberth.client.protocol import Api, ObjectList, WatchEvent, WatchType
from kuberth.client.reading import read_change, read_items
from kuberth.client.rest.refusals import ApiStatus, status_error
from kuberth.client.rest.resource_paths import object_name
from kuberth.client.writes import Verb, Write
from kuberth.errors import ApiError, WireError
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import StatusError, unknown_resource
from kuberth.local.apiserver.verbs.core import Core

T = TypeVar("T")


class InProcessApi(Api):
    """The embedded API server's core, called directly."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._pod_sharing = PodSharing()

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        what = f"list {REGISTRY.of(kind).plural}"
        with api_errors(what):
            listed = await self._core.list(
                self._resource(kind), field_selector=field_selector, resource_version=resource_version
            )
        items = read_items(convert, kind, listed["items"], what=what)
        if kind is Pod:
            for pod in items:
                self.share(pod, None)
        return ObjectList(items, str(listed["metadata"]["resourceVersion"]))

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        what = f"watch {REGISTRY.of(kind).plural}"
        with api_errors(what):
            changes = self._core.watch(
                self._resource(kind),
                field_selector=field_selector,
                resource_version=resource_version,
                allow_bookmarks=True,
            )
            async for type_, tree in changes:
                if type_ == "ERROR":
                    raise status_error(msgspec.convert(tree, ApiStatus), what=what)
                event = read_change(convert, kind, WatchType(type_), tree, what=what)
                if event is not None:
                    yield event

    def share(self, pod: Pod, old: Pod | None) -> None:
        self._pod_sharing(pod, old)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        what = f"get {object_name(REGISTRY.of(kind), name, namespace)}"
        with api_errors(what):
            return convert(kind, await self._core.get(self._resource(kind), name, namespace=namespace))

    async def write(self, write: Write) -> Any:
        core, kind, namespace, subresource = self._core, write.kind, write.namespace, write.subresource
        with api_errors(write):
            row = self._resource(kind)
            if write.verb is Verb.DELETE:
                await core.delete(row, write.name, namespace=namespace, options=write.delete_options)
                return None
            body = to_builtins(write.body)
            if write.verb is Verb.CREATE:
                name = write.name if subresource else ""
                tree = await core.create(row, body, namespace=namespace, name=name, subresource=subresource)
            elif write.verb is Verb.UPDATE:
                tree = await core.update(row, write.name, body, namespace=namespace, subresource=subresource)
            else:
                tree, _created = await core.patch(
                    row,
                    write.name,
                    body,
                    content_type=write.content_type,
                    namespace=namespace,
                    subresource=subresource,
                )
            return None if subresource == "binding" else convert(kind, tree)

    def _resource(self, kind: type[Any]) -> ServedResource:
        info = REGISTRY.of(kind)
        resource = self._core.resources.find(info.group, info.version, info.plural)
        if resource is None:
            raise unknown_resource()
        return resource


class api_errors:  # noqa: N801  # used as a function; a generator would cost every call microseconds
    """Raises the errors of a server in this process like a client does; `what` is for messages."""

    __slots__ = ("_what",)

    def __init__(self, what: object) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, StatusError):
            raise status_error(msgspec.convert(error.to_object(), ApiStatus), what=str(self._what)) from error
        if isinstance(error, WireError):
            raise ApiError(f"{self._what}: the response cannot be decoded: {error}") from error
