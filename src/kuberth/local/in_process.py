"""The embedded API server in this process, behind the same protocol as any other.

In: the scheduler's verbs on typed objects. Out: the server's core, asked directly; its plain trees become
structs, and its Status errors the errors that any client raises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from kuberth.api.core import Binding, Pod
from kuberth.api.kinds import REGISTRY
from kuberth.api.sharing import PodSharing
from kuberth.api.wire import convert, to_builtins
from kuberth.client.protocol import ObjectList, WatchEvent, WatchType
from kuberth.client.reading import read_change, read_items
from kuberth.client.rest.refusals import ApiStatus, status_error
from kuberth.client.rest.resource_paths import object_name
from kuberth.errors import ApiError, WireError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.patching.patching import MERGE_PATCH, STRATEGIC_MERGE_PATCH
from kuberth.local.apiserver.refusals import unknown_resource
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.core import Core

T = TypeVar("T")


class InProcessApi:
    """Implements `kuberth.client.protocol.Api`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._pod_sharing = PodSharing()

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        what = f"list {REGISTRY.of(kind).plural}"
        with told_as_api_errors(what):
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
        with told_as_api_errors(what):
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
        """As `SharingApi`."""
        self._pod_sharing(pod, old)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        what = f"get {object_name(REGISTRY.of(kind), name, namespace)}"
        with told_as_api_errors(what):
            return convert(kind, await self._core.get(self._resource(kind), name, namespace=namespace))

    async def create(self, obj: T) -> T:
        kind, metadata = type(obj), cast(Any, obj).metadata
        name = metadata.name or metadata.generate_name
        with told_as_api_errors(f"create {object_name(REGISTRY.of(kind), name, metadata.namespace)}"):
            created = await self._core.create(
                self._resource(kind), to_builtins(obj), namespace=metadata.namespace
            )
            return convert(kind, created)

    async def update(self, obj: T) -> T:
        kind, metadata = type(obj), cast(Any, obj).metadata
        with told_as_api_errors(
            f"update {object_name(REGISTRY.of(kind), metadata.name, metadata.namespace)}"
        ):
            updated = await self._core.update(
                self._resource(kind), metadata.name, to_builtins(obj), namespace=metadata.namespace
            )
            return convert(kind, updated)

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        info = REGISTRY.of(kind)
        with told_as_api_errors(f"patch {object_name(info, name, namespace, subresource)}"):
            patched, _created = await self._core.patch(
                self._resource(kind),
                name,
                to_builtins(patch),
                content_type=MERGE_PATCH if info.registered else STRATEGIC_MERGE_PATCH,
                namespace=namespace,
                subresource=subresource,
            )
            return convert(kind, patched)

    async def bind(self, binding: Binding) -> None:
        metadata = binding.metadata
        with told_as_api_errors(
            f"bind pod {metadata.namespace}/{metadata.name} to node {binding.target.name}"
        ):
            await self._core.create(
                self._resource(Pod),
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
        with told_as_api_errors(f"delete {object_name(REGISTRY.of(kind), name, namespace)}"):
            await self._core.delete(self._resource(kind), name, namespace=namespace, options=options)

    def _resource(self, kind: type[Any]) -> ServedResource:
        info = REGISTRY.of(kind)
        resource = self._core.resources.find(info.group, info.version, info.plural)
        if resource is None:
            raise unknown_resource()
        return resource


class told_as_api_errors:  # noqa: N801  # used as a function; a generator would cost every call microseconds
    """The errors of a server in this process, as any client raises them; `what` is for messages."""

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, StatusError):
            raise status_error(msgspec.convert(error.to_object(), ApiStatus), what=self._what) from error
        if isinstance(error, WireError):
            raise ApiError(f"{self._what}: the answer cannot be read: {error}") from error
