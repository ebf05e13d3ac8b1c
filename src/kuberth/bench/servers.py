"""The API server of a run: the embedded server's core, or any server over HTTP with the same verbs.

In: resources and objects as trees. Out: objects as trees, or a `StatusError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec

from kuberth.api.core import Event, Node, Pod
from kuberth.api.kinds import REGISTRY, KindInfo
from kuberth.api.plain import PlainObject
from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kuberth.api.wire import convert, encode
from kuberth.client.http_api import HttpApi
from kuberth.client.rest.resource_paths import path_of, query
from kuberth.client.writes import Verb, Write
from kuberth.errors import ApiError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ResourceTable, ServedResource
from kuberth.local.apiserver.schema.catalogue import ROWS
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.bodies import FieldValidation
from kuberth.local.apiserver.verbs.core import Core

T = TypeVar("T")
Resource = str | ServedResource
"""The name of a built-in resource, or a `ServedResource` for any resource."""
STRICT: Final = FieldValidation("Strict")


async def find_kind(server: BenchServer, api_version: str, kind: str) -> ServedResource:
    """Find the resource of a kind; StatusError 404 if the server does not serve it."""
    if isinstance(server, RemoteServer):
        await server.discover(api_version)
    row = server.resources.by_kind(api_version, kind)
    if row is None:
        raise StatusError(404, "NotFound", f"the API server has no kind {kind} in {api_version}")
    return row


async def list_typed(server: BenchServer, kind: type[T]) -> list[T]:
    """The objects of a kind, as its structs."""
    return [convert(kind, tree) for tree in (await server.list(REGISTRY.of(kind).resource_id))["items"]]


def _tree_type(kind: type[Any]) -> type[PlainObject]:
    """A type that holds objects of a kind as whole trees."""
    info = REGISTRY.of(kind)
    fields = {"__slots__": (), "api_version": info.api_version, "kind": info.kind}
    holder = type(f"Plain{info.kind}", (PlainObject,), fields)
    REGISTRY.add_holder(holder, of=kind)
    return holder


_TREE_TYPES: Final = {
    REGISTRY.of(kind).resource_id: _tree_type(kind)
    for kind in (Pod, Event, Node, ResourceClaim, ResourceClaimTemplate, ResourceSlice, DeviceClass)
}


async def is_ready(api: HttpApi) -> bool:
    try:
        await api.call("GET", "/readyz")
    except ApiError:
        return False
    return True


class RemoteServer:
    """The verbs of a `Core` that a run uses, over HTTP; reads pods, nodes, events and device kinds."""

    def __init__(self, api: HttpApi) -> None:
        self.resources = ResourceTable(())
        self._api = api
        self._built_in = ResourceTable(ROWS)
        self._discovered: set[str] = set()

    async def discover(self, api_version: str) -> None:
        """Add the kinds of a group and version to `resources`; those found before are not asked for again."""
        group, _, version = api_version.rpartition("/")
        if api_version in self._discovered:
            return
        with _status_errors():
            listed = await self._api.call("GET", f"/apis/{api_version}" if group else f"/api/{version}")
        for each in msgspec.json.decode(listed)["resources"]:
            if "/" not in each["name"]:
                row = ServedResource(
                    group, version, each["kind"], each["name"], namespaced=each["namespaced"]
                )
                self.resources.add(row)
        self._discovered.add(api_version)

    async def get(self, resource: str, name: str, *, namespace: str = "") -> Obj:
        with _status_errors():
            return dict((await self._api.get(_TREE_TYPES[resource], name, namespace=namespace)).tree)

    async def list(self, resource: str) -> Obj:
        with _status_errors():
            found = await self._api.list(_TREE_TYPES[resource])
        items = [dict(each.tree) for each in found.items]
        return {"metadata": {"resourceVersion": found.resource_version}, "items": items}

    async def watch(
        self, resource: str, *, resource_version: str = "", allow_bookmarks: bool = False
    ) -> AsyncIterator[tuple[str, Obj]]:
        with _status_errors():
            changes = self._api.watch(_TREE_TYPES[resource], resource_version=resource_version)
            async for type_, obj, version in changes:
                tree = {"metadata": {"resourceVersion": version}} if obj is None else dict(obj.tree)
                yield str(type_), tree

    async def create(
        self,
        resource: Resource,
        body: Obj,
        *,
        namespace: str = "",
        field_validation: FieldValidation | None = None,
    ) -> Obj:
        path = self._path(resource, namespace)
        strictly = query({"fieldValidation": "Strict" if field_validation is STRICT else ""})
        return await self._send("POST", path + strictly, body)

    async def post_pod(self, name: str, body: bytes, *, namespace: str) -> None:
        """Create a pod as the scheduler binds one: without a task or a decoded answer for each."""
        sent = self._api.post_nowait(Write(Verb.CREATE, Pod, name, namespace, body=body))
        if sent is None:  # no credentials yet
            await self._api.call("POST", self._path("pods", namespace), body=body)
            return
        with _status_errors():
            await sent

    async def update(
        self, resource: Resource, name: str, body: Obj, *, namespace: str = "", subresource: str = ""
    ) -> Obj:
        path = self._path(resource, namespace, name, subresource)
        return await self._send("PUT", f"{path}?fieldValidation=Strict", body)

    async def delete(
        self, resource: Resource, name: str, *, namespace: str = "", options: Obj | None = None
    ) -> Obj:
        return await self._send("DELETE", self._path(resource, namespace, name), options or {})

    async def delete_collection(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> Obj:
        path = self._path(resource, namespace) + query({"labelSelector": label_selector})
        return await self._send("DELETE", path, options or {})

    async def _send(self, method: str, path: str, body: Mapping[str, Any]) -> Obj:
        if method == "DELETE":
            body = {"apiVersion": "v1", "kind": "DeleteOptions", **body}
        with _status_errors():
            answer: Obj = msgspec.json.decode(await self._api.call(method, path, body=encode(body)))
        return answer

    def _path(self, resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
        row = self._built_in.by_id(resource) if isinstance(resource, str) else resource
        assert row is not None, resource
        info = KindInfo(row.kind, row.group, row.version, row.plural, row.namespaced, PlainObject)
        return path_of(info, name, namespace, subresource)


BenchServer = Core | RemoteServer


@contextmanager
def _status_errors() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        raise StatusError(error.code or 503, error.reason, str(error)) from error
