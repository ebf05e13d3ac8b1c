"""Runs the resource claim controller of the local cluster on any API server.

In: an arena. Out: claims created from templates, released when their pods are done and deleted after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from kuberth.api.core import Event, Pod
from kuberth.api.kinds import REGISTRY
from kuberth.api.plain import PlainObject
from kuberth.api.resource import ResourceClaim, ResourceClaimTemplate
from kuberth.api.wire import encode
from kuberth.client.http_api import HttpApi
from kuberth.client.rest.resource_paths import path_of
from kuberth.clock import SystemClock
from kuberth.errors import ApiError
from kuberth.local.apiserver.objects import Obj, key_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controllers.resource_claims import ResourceClaimController
from kuberth.local.hollow.informing import Informers, ServerVerbs
from kuberth.local.hollow.pod_claims import CLAIMS, owning_pod
from kuberth.local.hollow.working import Worker, keep_running


@asynccontextmanager
async def controlled_claims(server: ServerVerbs) -> AsyncIterator[None]:
    """Claims are seen to while the block lasts."""
    informers = Informers(server)
    claims = ResourceClaimController(informers, clock=SystemClock())
    orphans = OrphanedClaims(informers)
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(keep_running("informers", informers.run), name="bench-informers"),
            tasks.create_task(keep_running("claims", claims.run), name="bench-claims"),
            tasks.create_task(keep_running("orphaned claims", orphans.run), name="bench-orphaned-claims"),
        ]
        try:
            await informers.wait_synced()
            yield
        finally:
            for task in running:
                task.cancel()


class OrphanedClaims:
    """Deletes claims after their pods: the only part of a garbage collector that is needed here."""

    def __init__(self, informers: Informers) -> None:
        self._claims = informers.of(CLAIMS)
        self._worker = Worker("orphaned claims", self._sync)
        self._gone: dict[str, str] = {}
        """By key of a claim: the UID of its pod."""
        self._claims.add_index("pod", _owner)
        informers.of("pods").add_handler(self._note_pod)

    async def run(self) -> None:
        await self._worker.run()

    def _note_pod(self, old: Obj | None, new: Obj | None) -> None:
        if old is None or new is not None:
            return
        for claim in self._claims.by("pod", old["metadata"]["uid"]):
            self._gone[key_of(claim)] = old["metadata"]["uid"]
            self._worker.add(key_of(claim))

    async def _sync(self, key: str) -> None:
        claim, uid = self._claims.get(key), self._gone.pop(key)
        if claim is not None and _owner(claim) == [uid] and not self._claims.is_leaving(claim):
            await self._claims.delete(claim)


def _owner(claim: Obj) -> list[str]:
    owner = owning_pod(claim)
    return [] if owner is None else [owner["uid"]]


class _PlainPod(PlainObject):
    __slots__ = ()
    api_version, kind = "v1", "Pod"


class _PlainEvent(PlainObject):
    __slots__ = ()
    api_version, kind = "v1", "Event"


class _PlainClaim(PlainObject):
    __slots__ = ()
    api_version, kind = "resource.k8s.io/v1", "ResourceClaim"


class _PlainClaimTemplate(PlainObject):
    __slots__ = ()
    api_version, kind = "resource.k8s.io/v1", "ResourceClaimTemplate"


_HOLDERS: Final[Mapping[type[Any], type[PlainObject]]] = {
    Pod: _PlainPod,
    Event: _PlainEvent,
    ResourceClaim: _PlainClaim,
    ResourceClaimTemplate: _PlainClaimTemplate,
}
for _kind, _holder in _HOLDERS.items():
    REGISTRY.add_holder(_holder, of=_kind)
_BY_RESOURCE: Final = {REGISTRY.of(kind).resource_id: holder for kind, holder in _HOLDERS.items()}


class HttpVerbs:
    """Implements `ServerVerbs` over HTTP, for the kinds that claims have to do with, as whole trees."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    async def get(self, resource: str, name: str, *, namespace: str = "") -> Obj:
        with _status_errors():
            return dict((await self._api.get(_BY_RESOURCE[resource], name, namespace=namespace)).tree)

    async def list(self, resource: str) -> Obj:
        with _status_errors():
            found = await self._api.list(_BY_RESOURCE[resource])
        items = [dict(each.tree) for each in found.items]
        return {"metadata": {"resourceVersion": found.resource_version}, "items": items}

    async def watch(
        self, resource: str, *, resource_version: str = "", allow_bookmarks: bool = False
    ) -> AsyncIterator[tuple[str, Obj]]:
        with _status_errors():
            changes = self._api.watch(_BY_RESOURCE[resource], resource_version=resource_version)
            async for type_, obj, version in changes:
                yield (
                    str(type_),
                    {"metadata": {"resourceVersion": version}} if obj is None else dict(obj.tree),
                )

    async def create(self, resource: str, body: Obj, *, namespace: str = "") -> Obj:
        holder = _BY_RESOURCE[resource]
        with _status_errors():
            return dict((await self._api.create(holder(body))).tree)

    async def update(
        self, resource: str, name: str, body: Obj, *, namespace: str = "", subresource: str = ""
    ) -> Obj:
        holder = _BY_RESOURCE[resource]
        with _status_errors():
            return dict((await self._api.update(holder(body), subresource=subresource)).tree)

    async def delete(
        self, resource: str, name: str, *, namespace: str = "", options: Obj | None = None
    ) -> Obj:
        path = path_of(REGISTRY.of(_BY_RESOURCE[resource]), name, namespace)
        with _status_errors():
            await self._api.call("DELETE", path, body=encode({"kind": "DeleteOptions", **(options or {})}))
        return {}


@contextmanager
def _status_errors() -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        raise StatusError(error.code or 503, error.reason, str(error)) from error
