"""Access to an API server for benchmarks: create, update and delete objects, watch pods.

In: objects as JSON. Out: their names, or an `ApiError`. One implementation uses the scheduler's HTTP client,
the other calls the embedded server's core.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import quote

import msgspec

from kuberth.api import Pod
from kuberth.api.wire import decode, encode
from kuberth.bench.claim_control import HttpVerbs
from kuberth.bench.ledger import PodLedger, SeenPod
from kuberth.client.http_api import HttpApi
from kuberth.errors import ApiError, NotFoundError
from kuberth.informers.reflector import Reflector
from kuberth.informers.store import Store
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.informing import ServerVerbs
from kuberth.local.in_process import InProcessApi, api_errors

T = TypeVar("T")

SCHEDULED_CONDITION: Final = "PodScheduled"


class Place(NamedTuple):
    """Where objects of a kind live."""

    api_version: str
    plural: str
    namespaced: bool


class ApiAccess(Protocol):
    """One API server."""

    admits_pods: bool
    """Whether admission sets a pod's priority and service account, which scheduler_perf's server does not."""

    @property
    def verbs(self) -> ServerVerbs:
        """For controllers."""
        ...

    async def place_of(self, api_version: str, kind: str) -> Place:
        """ApiError if the server has no such kind."""
        ...

    async def list(self, kind: type[T], *, namespace: str = "") -> Sequence[T]:
        """All objects, of all namespaces unless one is named."""
        ...

    async def create(self, place: Place, body: bytes, *, namespace: str = "", strict: bool = False) -> str:
        """Returns the name. `strict`: fields that the kind does not have are refused."""
        ...

    async def update(
        self, place: Place, name: str, body: bytes, *, namespace: str = "", subresource: str = ""
    ) -> None: ...

    async def delete(self, place: Place, name: str, *, namespace: str = "") -> None: ...

    async def delete_all(
        self,
        place: Place,
        *,
        namespace: str,
        labels: Mapping[str, str],
        grace_period_seconds: int | None = None,
    ) -> None: ...

    async def follow_pods(self, ledger: PodLedger, synced: asyncio.Event) -> None:
        """Record every change in the ledger, until cancelled."""
        ...


class _Metadata(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _Resources(msgspec.Struct):
    resources: list[_Resource]


class HttpAccess:
    """Implements `ApiAccess` over HTTP."""

    def __init__(self, api: HttpApi, *, admits_pods: bool) -> None:
        self.admits_pods = admits_pods
        self._api = api
        self._places: dict[tuple[str, str], Place] = {}

    async def place_of(self, api_version: str, kind: str) -> Place:
        if (api_version, kind) not in self._places:
            listed = await self._api.call("GET", _root(api_version))
            for resource in decode(_Resources, listed).resources:
                if "/" not in resource.name:
                    place = Place(api_version, resource.name, resource.namespaced)
                    self._places[api_version, resource.kind] = place
        try:
            return self._places[api_version, kind]
        except KeyError:
            raise NotFoundError(f"the API server has no kind {kind} in {api_version}") from None

    @property
    def verbs(self) -> ServerVerbs:
        return HttpVerbs(self._api)

    async def list(self, kind: type[T], *, namespace: str = "") -> Sequence[T]:
        return _of(namespace, (await self._api.list(kind)).items)

    async def create(self, place: Place, body: bytes, *, namespace: str = "", strict: bool = False) -> str:
        path = _path(place, namespace) + ("?fieldValidation=Strict" if strict else "")
        return decode(_Named, await self._api.call("POST", path, body=body)).metadata.name

    async def update(
        self, place: Place, name: str, body: bytes, *, namespace: str = "", subresource: str = ""
    ) -> None:
        path = _path(place, namespace, name) + (f"/{subresource}" if subresource else "")
        await self._api.call("PUT", f"{path}?fieldValidation=Strict", body=body)

    async def delete(self, place: Place, name: str, *, namespace: str = "") -> None:
        await self._api.call("DELETE", _path(place, namespace, name))

    async def delete_all(
        self,
        place: Place,
        *,
        namespace: str,
        labels: Mapping[str, str],
        grace_period_seconds: int | None = None,
    ) -> None:
        path = _path(place, namespace)
        if labels:
            path += f"?labelSelector={quote(_selector(labels))}"
        await self._api.call("DELETE", path, body=encode(_delete_options(grace_period_seconds)))

    async def follow_pods(self, ledger: PodLedger, synced: asyncio.Event) -> None:
        def changed(old: Pod | None, new: Pod | None) -> None:
            if new is not None:
                ledger.set(_seen(new))
            elif old is not None:
                ledger.remove(old.metadata.namespace, old.metadata.name)

        reflector = Reflector(self._api, Pod, Store(), changed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reflector.run(), name="watch of pods")
            await reflector.synced.wait()
            synced.set()


class CoreAccess:
    """Implements `ApiAccess` over the embedded server's core, without a socket."""

    admits_pods = True

    def __init__(self, core: Core) -> None:
        self._core = core

    async def place_of(self, api_version: str, kind: str) -> Place:
        row = self._core.resources.by_kind(api_version, kind)
        if row is None:
            raise NotFoundError(f"the API server has no kind {kind} in {api_version}")
        return Place(api_version, row.plural, row.namespaced)

    @property
    def verbs(self) -> ServerVerbs:
        return self._core

    async def list(self, kind: type[T], *, namespace: str = "") -> Sequence[T]:
        return _of(namespace, (await InProcessApi(self._core).list(kind)).items)

    async def create(self, place: Place, body: bytes, *, namespace: str = "", strict: bool = False) -> str:
        with api_errors(f"create {place.plural}"):
            created = await self._core.create(
                self._row(place), msgspec.json.decode(body), namespace=namespace
            )
        return str(created["metadata"]["name"])

    async def update(
        self, place: Place, name: str, body: bytes, *, namespace: str = "", subresource: str = ""
    ) -> None:
        with api_errors(f"update {place.plural} {name}"):
            await self._core.update(
                self._row(place),
                name,
                msgspec.json.decode(body),
                namespace=namespace,
                subresource=subresource,
            )

    async def delete(self, place: Place, name: str, *, namespace: str = "") -> None:
        with api_errors(f"delete {place.plural} {name}"):
            await self._core.delete(self._row(place), name, namespace=namespace)

    async def delete_all(
        self,
        place: Place,
        *,
        namespace: str,
        labels: Mapping[str, str],
        grace_period_seconds: int | None = None,
    ) -> None:
        with api_errors(f"delete {place.plural} of {namespace}"):
            await self._core.delete_collection(
                self._row(place),
                namespace=namespace,
                label_selector=_selector(labels),
                options=_delete_options(grace_period_seconds),
            )

    async def follow_pods(self, ledger: PodLedger, synced: asyncio.Event) -> None:
        # The core's own trees, unconverted: the scheduler shares this thread and pays for every step.
        with api_errors("watch pods"):
            changes = self._core.watch("pods")
            synced.set()
            async for type_, tree in changes:
                metadata = tree["metadata"]
                if type_ in ("ADDED", "MODIFIED"):
                    ledger.set(_seen_tree(tree))
                elif type_ == "DELETED":
                    ledger.remove(metadata["namespace"], metadata["name"])
                elif type_ == "ERROR":
                    raise ApiError(f"the watch of pods ended: {tree.get('message')}")

    def _row(self, place: Place) -> Any:
        group, _, version = place.api_version.rpartition("/")
        return self._core.resources.find(group, version, place.plural)


def _of(namespace: str, objects: Sequence[T]) -> Sequence[T]:
    if not namespace:
        return objects
    return [each for each in objects if cast(Any, each).metadata.namespace == namespace]


def _seen(pod: Pod) -> SeenPod:
    return SeenPod(
        pod.metadata.namespace,
        pod.metadata.name,
        pod.metadata.labels,
        pod.spec.node_name,
        any(condition.type == SCHEDULED_CONDITION for condition in pod.status.conditions),
    )


def _seen_tree(tree: Mapping[str, Any]) -> SeenPod:
    metadata = tree["metadata"]
    conditions = tree.get("status", {}).get("conditions", ())
    return SeenPod(
        metadata["namespace"],
        metadata["name"],
        metadata.get("labels", {}),
        tree["spec"].get("nodeName", ""),
        any(condition["type"] == SCHEDULED_CONDITION for condition in conditions),
    )


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _path(place: Place, namespace: str, name: str = "") -> str:
    path = _root(place.api_version)
    if place.namespaced:
        path += f"/namespaces/{quote(namespace)}"
    return f"{path}/{place.plural}" + (f"/{quote(name)}" if name else "")


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _delete_options(grace_period_seconds: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    return options
