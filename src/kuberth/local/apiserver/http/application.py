"""From an HTTP request to its answer: who asks, what for, and in which form the answer goes out.

In: ASGI requests. Out: ASGI answers; every failure is a Status object, and nothing a client sends is a
failure of the server.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kuberth.clock import Clock
from kuberth.local.apiserver.http.authentication import Authenticator, authorize
from kuberth.local.apiserver.http.discovery import AGGREGATED_TYPE, Discovery
from kuberth.local.apiserver.http.messages import Chunks, ClientGone, Query, Receive, Request, Response, Send
from kuberth.local.apiserver.http.negotiation import decode_body, discovery_form, negotiate
from kuberth.local.apiserver.http.openapi import (
    V2_DOCUMENT,
    V2_DOCUMENT_PROTOBUF,
    V2_PROTOBUF,
    V2_PROTOBUF_ANSWER,
    OpenApi,
)
from kuberth.local.apiserver.http.resource_requests import ResourceRequests
from kuberth.local.apiserver.http.reviews import REVIEWS, answer_review
from kuberth.local.apiserver.http.routing import find_target, split_path, verb_of
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.refusals import bad_request, too_many_requests, unknown_resource
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.core import Core

logger = logging.getLogger(__name__)

VERSION: Final = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.4+kuberth",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "",
    "goVersion": "",
    "compiler": "CPython",
    "platform": "python",
}
_HEALTH: Final = ("healthz", "livez", "readyz")
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_REVIEWS: Final = {(row.group, row.version, row.plural): row for row in REVIEWS}


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request, and all of them, may cost."""

    body_bytes: int = 3 * 1024 * 1024
    request_seconds: float = 60.0
    """To read the body and to answer; a watch has its own time."""
    watchers: int = 1000
    watchers_per_client: int = 500
    """A client is a user at an address: everything on this machine that uses the admin's kubeconfig."""
    stalled_watch_seconds: float = 60.0
    """How long a watcher may leave what it is sent unread."""


class Application:
    """Implements an ASGI application."""

    def __init__(
        self, core: Core, *, authenticator: Authenticator, clock: Clock, limits: RequestLimits
    ) -> None:
        self._core = core
        self._authenticator = authenticator
        self._limits = limits
        self._discovery = Discovery(core.resources)
        self._openapi = OpenApi(self._discovery, custom_schema=self._custom_schema)
        self._custom_schemas: dict[tuple[str, str], Obj | None] = {}
        self._resource_requests = ResourceRequests(core, clock=clock, admit_watch=self._admit_watch)
        self._watching: Counter[str] = Counter()
        self._streams: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def watchers(self) -> int:
        return len(self._streams)

    def end_watches(self) -> None:
        """End what streams, as if its time were over; clients come back when there is a server again."""
        self._closing = True
        for stream in self._streams:
            stream.cancel()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        request: Request | None = None
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                request = self._admit(scope, headers, receive)
                response = await self._answer(request)
        except StatusError as error:
            response = Response.failure(error)
        except ClientGone:
            return
        except TimeoutError:
            response = Response.failure(StatusError(408, "Timeout", "the request did not complete in time"))
            response.headers["connection"] = "close"
        except RecursionError:
            response = Response.failure(bad_request("the request is nested too deeply"))
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            response = Response.failure(StatusError(500, "InternalError", "Internal error occurred"))
        if response.status == 413:
            response.headers["connection"] = "close"
        try:
            if response.chunks is not None and request is not None:
                await self._stream(request, response.chunks, send)
            else:
                async with asyncio.timeout(self._limits.request_seconds):
                    await _send_whole(response, send)
        except TimeoutError:
            logger.info("a client that did not read its answer was cut")
            scope["state"]["abort"]()

    def _admit(self, scope: MutableMapping[str, Any], headers: dict[str, str], receive: Receive) -> Request:
        method = scope["method"]
        path = scope["raw_path"].decode("latin-1")
        user = self._authenticator.user_of(headers, scope["state"].get("certificate"))
        authorize(user, method=method, path=path)
        client = scope.get("client")
        return Request(
            method=method,
            path=path,
            query=Query(scope["query_string"]),
            headers=headers,
            client=f"{client[0] if client else ''} {user.name}",
            user=user,
            receive=receive,
            max_body_bytes=self._limits.body_bytes,
        )

    async def _answer(self, request: Request) -> Response:
        if request.method not in _METHODS:
            raise _method_not_allowed()
        if request.path == "/":
            return self._root(request)
        segments = split_path(request.path)
        if segments[0] in ("api", "apis"):
            if len(segments) > (2 if segments[0] == "api" else 3):
                return await self._answer_resource(request, segments)
            _expect_reading(request)
            return self._discover(request, segments)
        _expect_reading(request)
        if segments[0] in _HEALTH:
            return _health(request, segments)
        if segments == ["version"]:
            return _cacheable(request, Response.tree(VERSION, pretty=True))
        if segments[0] == "openapi":
            return await self._describe(request, segments[1:])
        raise unknown_resource()

    async def _answer_resource(self, request: Request, segments: list[str]) -> Response:
        review = _find_review(segments)
        if review is not None:
            if request.method != "POST":
                raise _method_not_allowed()
            form = negotiate(request.headers.get("accept"))
            body = decode_body(await request.body(), request.headers.get("content-type"))
            tree = answer_review(review, body, user=request.user, authenticator=self._authenticator)
            return Response.tree(tree, status=201, media_type=form.media_type)
        target = find_target(self._core.resources, segments)
        return await self._resource_requests.answer(request, target, verb_of(target, request.method))

    def _root(self, request: Request) -> Response:
        _expect_reading(request)
        groups = [f"/apis/{group}" for group in self._discovery.groups() if group]
        versions = [
            f"/apis/{group}/{version}" if group else f"/api/{version}"
            for group, version in self._discovery.group_versions()
        ]
        health = [f"/{name}" for name in _HEALTH]
        fixed = ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version"]
        return Response.tree({"paths": sorted({*fixed, *groups, *versions, *health})})

    def _discover(self, request: Request, segments: list[str]) -> Response:
        discovery = self._discovery
        core = segments[0] == "api"
        kinds = discovery_form if len(segments) == 1 else None
        form = negotiate(request.headers.get("accept"), kinds=kinds)
        if form.kind:
            response = Response.tree(discovery.aggregated(core=core))
            response.content_type = AGGREGATED_TYPE
            return _cacheable(request, response)
        if len(segments) == 1:
            tree = discovery.versions() if core else discovery.group_list()
        elif core:
            tree = discovery.resource_list("", segments[1])
        elif len(segments) == 2:
            tree = discovery.group(segments[1])
        else:
            tree = discovery.resource_list(segments[1], segments[2])
        return _cacheable(request, Response.tree(tree, media_type=form.media_type))

    async def _describe(self, request: Request, segments: list[str]) -> Response:
        if segments == ["v2"]:
            if V2_PROTOBUF in request.headers.get("accept", ""):
                return Response(body=V2_DOCUMENT_PROTOBUF, content_type=V2_PROTOBUF_ANSWER)
            negotiate(request.headers.get("accept"))
            return _cacheable(request, Response.tree(V2_DOCUMENT))
        if segments[:1] != ["v3"]:
            raise unknown_resource()
        negotiate(request.headers.get("accept"))
        await self._read_custom_schemas()
        if len(segments) == 1:
            return _cacheable(request, Response.tree(self._openapi.index()))
        return _cacheable(request, Response(body=self._openapi.document("/".join(segments[1:]))))

    async def _read_custom_schemas(self) -> None:
        """Schemas that CustomResourceDefinitions brought along."""
        crds = await self._core.list("customresourcedefinitions.apiextensions.k8s.io")
        self._custom_schemas = {
            (crd["metadata"]["name"], version["name"]): version.get("schema", {}).get("openAPIV3Schema")
            for crd in crds["items"]
            for version in crd["spec"]["versions"]
        }

    def _custom_schema(self, row: ServedResource) -> Obj | None:
        return self._custom_schemas.get((row.id, row.version))

    def _admit_watch(self, request: Request) -> None:
        """Called before the core is asked, so that a watch that is refused leaves nothing behind."""
        limits = self._limits
        if (
            self._closing
            or len(self._streams) >= limits.watchers
            or self._watching[request.client] >= limits.watchers_per_client
        ):
            raise too_many_requests("too many watches; try again later", seconds=1)

    async def _stream(self, request: Request, chunks: Chunks, send: Send) -> None:
        client = request.client
        stream = asyncio.get_running_loop().create_task(self._pump(chunks, send), name="watch stream")
        self._watching[client] += 1
        self._streams.add(stream)
        try:
            # The stream ends by itself, or because its reader or the server goes.
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(_wait_gone(request.receive, stream.cancel), name="watch reader")
                await asyncio.wait([stream])
                reader.cancel()
            if not stream.cancelled() and (error := stream.exception()) is not None:
                raise error
            await send({"type": "http.response.body", "body": b""})
        finally:
            stream.cancel()
            self._streams.discard(stream)
            self._watching[client] -= 1
            if not self._watching[client]:
                del self._watching[client]

    async def _pump(self, chunks: Chunks, send: Send) -> None:
        await send(_start(Response(), length=None))
        # Clients wait for the header, and it leaves only with a first piece of body.
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        try:
            async with aclosing(chunks()) as pieces:  # type: ignore[type-var]  # it is a generator
                async for piece in pieces:
                    async with asyncio.timeout(self._limits.stalled_watch_seconds):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            raise  # who does not read cannot be told either
        except StatusError as error:
            await send(_error_event(error))
        except Exception:
            logger.exception("a watch failed")
            await send(_error_event(StatusError(500, "InternalError", "Internal error occurred")))


async def _send_whole(response: Response, send: Send) -> None:
    await send(_start(response, length=len(response.body)))
    await send({"type": "http.response.body", "body": response.body})


async def _wait_gone(receive: Receive, then: Callable[[], object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    then()


def _error_event(error: StatusError) -> dict[str, Any]:
    event = msgspec.json.encode({"type": "ERROR", "object": error.to_object()})
    return {"type": "http.response.body", "body": event + b"\n", "more_body": True}


def _start(response: Response, *, length: int | None) -> dict[str, Any]:
    headers = [
        (b"content-type", response.content_type.encode("latin-1")),
        (b"cache-control", b"no-cache, private"),
        (b"x-content-type-options", b"nosniff"),
        *(
            (name.encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in response.headers.items()
        ),
    ]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return {"type": "http.response.start", "status": response.status, "headers": headers}


def _find_review(segments: list[str]) -> ServedResource | None:
    if segments[0] != "apis" or len(segments) not in (4, 6):
        return None
    row = _REVIEWS.get((segments[1], segments[2], segments[-1]))
    if row is None or row.namespaced != (len(segments) == 6 and segments[3] == "namespaces"):
        return None
    return row


def _health(request: Request, segments: list[str]) -> Response:
    name = segments[0]
    if len(segments) > 2 or segments[1:] not in ([], ["ping"], ["etcd"]):
        raise unknown_resource()
    if len(segments) == 1 and request.query.flag("verbose"):
        return Response.text(f"[+]ping ok\n[+]etcd ok\n{name} check passed\n")
    return Response.text("ok")


def _cacheable(request: Request, response: Response) -> Response:
    """Documents that seldom change carry a tag, by which a client asks whether its copy is still good."""
    tag = f'"{hashlib.sha256(response.body).hexdigest()[:32].upper()}"'
    response.headers |= {"etag": tag, "vary": "Accept"}
    if request.headers.get("if-none-match") == tag:
        return Response(304, content_type=response.content_type, headers=response.headers)
    return response


def _expect_reading(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise _method_not_allowed()


def _method_not_allowed() -> StatusError:
    return StatusError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )
