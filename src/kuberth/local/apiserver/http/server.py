"""Serves the core over HTTPS: authentication, authorization, routing and the format of the response.

In: a core, credentials, an address; requests. Out: a listening server during the `async with` block;
responses. Every error is a Status object, and no request can crash the server.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from kuberth.clock import Clock, SystemClock
from kuberth.https.application import HttpService
from kuberth.https.connection_limit import Limits
from kuberth.https.listener import AddressFlags, Listener
from kuberth.https.messages import JSON, BodyTooLarge, ClientGone, Request, Response
from kuberth.local.apiserver.http.authentication import (
    REVIEWS,
    AccountTokens,
    Authenticator,
    answer_review,
    authorize,
    is_open,
)
from kuberth.local.apiserver.http.credentials import ClusterCredentials
from kuberth.local.apiserver.http.discovery import AGGREGATED_TYPE, Discovery
from kuberth.local.apiserver.http.negotiation import (
    DISCOVERY_FORMS,
    decode_body,
    failure_answer,
    negotiate,
    tree_answer,
)
from kuberth.local.apiserver.http.openapi import (
    V2_DOCUMENT_PROTOBUF,
    V2_PROTOBUF,
    V2_PROTOBUF_ANSWER,
    OpenApi,
)
from kuberth.local.apiserver.http.resource_requests import ResourceRequests, WatchLimits
from kuberth.local.apiserver.http.routing import find_target, split_path, verb_of
from kuberth.local.apiserver.http.usage import USAGES, Usages
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ResourceTable
from kuberth.local.apiserver.status_errors import StatusError, bad_request, too_large, unknown_resource
from kuberth.local.apiserver.verbs.core import Core
from kuberth.text.durations import parse_duration

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
Page = Callable[[Request], Response]
"""Handles a path that is not part of the Kubernetes API."""

_LONGEST_SHOWN: Final = 40
_HEALTH: Final = ("healthz", "livez", "readyz")
_REFUSALS: Final = {400: "BadRequest", 503: "ServiceUnavailable"}
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_COMPUTED: Final = ResourceTable((*REVIEWS, *USAGES))
"""Resources that are answered without being stored; no stored resource has a group of theirs."""
_COMPUTED_GROUPS: Final = frozenset(row.group for row in _COMPUTED)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of a single request, and of all requests together."""

    request_seconds: float = 60.0
    """Seconds to read the body and to respond; a watch has its own timeout."""
    watchers: int = 1000
    watchers_per_client: int = 500
    """The limit per user and address: everything on this machine with the admin's kubeconfig is one client.
    """


class ApiService:
    """Implements `HttpService`."""

    def __init__(
        self,
        core: Core,
        *,
        authenticator: Authenticator,
        clock: Clock,
        limits: RequestLimits,
        pages: Mapping[str, Page],
        open_pages: frozenset[str] = frozenset(),
    ) -> None:
        """`pages` are further paths, for authorized users; those in `open_pages` are for all."""
        self._core = core
        self._authenticator = authenticator
        self._pages = pages
        self._open_pages = open_pages
        self._request_seconds = limits.request_seconds
        self._discovery = Discovery(core.resources)
        self._openapi = OpenApi(
            self._discovery, custom_schema=lambda row: self._custom_schemas.get((row.id, row.version))
        )
        self._custom_schemas: dict[tuple[str, str], Obj | None] = {}
        self._watch_limits = WatchLimits(limits.watchers, per_client=limits.watchers_per_client)
        self._usages = Usages(core, clock=clock)
        self._resource_requests = ResourceRequests(core, clock=clock, watch_limits=self._watch_limits)

    @property
    def watchers(self) -> int:
        return self._watch_limits.watchers

    async def answer(self, request: Request) -> Response:
        try:
            request.identify(self._authenticator.user_of(request))
            authorize(request, open_pages=self._open_pages)
            return await self._answer_in_time(request)
        except (StatusError, BodyTooLarge, TimeoutError, RecursionError) as error:
            response = failure_answer(_status_error(error, request))
        except ClientGone:
            raise
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            response = failure_answer(StatusError(500, "InternalError", "Internal error occurred"))
        if response.status in (408, 413):  # more of the body may follow
            response.headers["connection"] = "close"
        return response

    async def _answer_in_time(self, request: Request) -> Response:
        asked = None if request.query.flag("watch") else _timeout(request.query.text("timeout"))
        seconds = min(asked or self._request_seconds, self._request_seconds)
        try:
            async with asyncio.timeout(seconds) as deadline:
                response = await self._answer(request)
        except TimeoutError:
            if not deadline.expired() or asked is None:
                raise
        else:
            # A request that never awaited was not cancelled.
            if asked is None or asyncio.get_running_loop().time() < (deadline.when() or 0.0):
                return response
        message = "Timeout: request did not complete within the allotted timeout"
        raise StatusError(504, "Timeout", message, details={})

    def refuse(self, code: int, message: str) -> Response:
        return failure_answer(StatusError(code, _REFUSALS[code], message))

    def is_open(self, request: Request) -> bool:
        return is_open(request.raw_path) or request.raw_path in self._open_pages

    async def _answer(self, request: Request) -> Response:
        if request.method not in _METHODS:
            raise _method_not_allowed()
        if request.raw_path == "/":
            return self._root(request)
        if (page := self._pages.get(request.raw_path)) is not None:
            _expect_reading(request)
            return page(request)
        segments = split_path(request.raw_path)
        if segments[0] in ("api", "apis"):
            if len(segments) > (2 if segments[0] == "api" else 3):
                return await self._answer_resource(request, segments)
            _expect_reading(request)
            return self._discover(request, segments)
        _expect_reading(request)
        if (page := self._pages.get(f"/{'/'.join(segments)}")) is not None:
            return page(request)
        if segments[0] in _HEALTH:
            return self._health(request, segments)
        if segments == ["version"]:
            return _cacheable(request, tree_answer(VERSION, pretty=True))
        if segments[0] == "openapi":
            return await self._describe(request, segments[1:])
        raise unknown_resource()

    def _health(self, request: Request, segments: list[str]) -> Response:
        """Health checks: readyz fails while the store cannot write, livez never does."""
        name = segments[0]
        if len(segments) > 2 or segments[1:] not in ([], ["ping"], ["etcd"]):
            raise unknown_resource()
        failure = self._core.write_failure if name == "readyz" and segments[1:] != ["ping"] else None
        if failure is None:
            if len(segments) == 1 and request.query.flag("verbose"):
                return Response.text(f"[+]ping ok\n[+]etcd ok\n{name} check passed\n")
            return Response.text("ok")
        return Response.text(f"[+]ping ok\n[-]etcd failed: {failure}\n{name} check failed\n", status=500)

    async def _answer_resource(self, request: Request, segments: list[str]) -> Response:
        is_computed = segments[0] == "apis" and segments[1] in _COMPUTED_GROUPS
        target = find_target(_COMPUTED if is_computed else self._core.resources, segments)
        if is_computed and target.row in USAGES:
            verb_of(target, request.method)
            if request.query.flag("watch"):
                raise _method_not_allowed()
            form = negotiate(request.headers.get("accept"))
            tree = await self._usages.answer(target, request.query)
            return tree_answer(tree, media_type=form.media_type)
        if is_computed:
            if target.name or bool(target.namespace) != target.row.namespaced:
                raise unknown_resource()
            if request.method != "POST":
                raise _method_not_allowed()
        elif target.subresource == "token":
            verb_of(target, request.method)
        else:
            return await self._resource_requests.answer(request, target, verb_of(target, request.method))
        form = negotiate(request.headers.get("accept"))
        body = decode_body(await request.body(), request.headers.get("content-type"))
        if is_computed:
            tree = answer_review(target.row, body, user=request.user, authenticator=self._authenticator)
        else:
            tree = await self._authenticator.account_tokens.issue(target.namespace, target.name, body)
        return tree_answer(tree, status=201, media_type=form.media_type)

    def _root(self, request: Request) -> Response:
        _expect_reading(request)
        groups = [f"/apis/{group}" for group in self._discovery.groups() if group]
        versions = [
            f"/apis/{group}/{version}" if group else f"/api/{version}"
            for group, version in self._discovery.group_versions()
        ]
        health = [f"/{name}" for name in _HEALTH]
        fixed = ["/api", "/apis", "/openapi/v2", "/openapi/v3", "/version"]
        return tree_answer({"paths": sorted({*fixed, *groups, *versions, *health, *self._pages})})

    def _discover(self, request: Request, segments: list[str]) -> Response:
        discovery = self._discovery
        core = segments[0] == "api"
        forms = DISCOVERY_FORMS if len(segments) == 1 else ()
        form = negotiate(request.headers.get("accept"), forms=forms)
        if form.kind:
            response = tree_answer(discovery.aggregated(core=core))
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
        return _cacheable(request, tree_answer(tree, media_type=form.media_type))

    async def _describe(self, request: Request, segments: list[str]) -> Response:
        if segments == ["v2"]:
            if V2_PROTOBUF in request.headers.get("accept", ""):
                return Response(V2_DOCUMENT_PROTOBUF, content_type=V2_PROTOBUF_ANSWER)
        elif segments[:1] != ["v3"]:
            raise unknown_resource()
        negotiate(request.headers.get("accept"))
        await self._read_custom_schemas()
        if segments == ["v2"]:
            return _cacheable(request, Response(self._openapi.document_v2(), content_type=JSON))
        if len(segments) == 1:
            return _cacheable(request, tree_answer(self._openapi.index()))
        return _cacheable(
            request, Response(self._openapi.document("/".join(segments[1:])), content_type=JSON)
        )

    async def _read_custom_schemas(self) -> None:
        crds = await self._core.list("customresourcedefinitions.apiextensions.k8s.io")
        self._custom_schemas = {
            (crd["metadata"]["name"], version["name"]): version.get("schema", {}).get("openAPIV3Schema")
            for crd in crds["items"]
            for version in crd["spec"]["versions"]
        }


def _timeout(text: str) -> float | None:
    """The client's timeout in seconds; None if there is none, or it is 0."""
    if not text:
        return None
    try:
        seconds = parse_duration(text).total_seconds()
    except ValueError:
        lacks_unit = text.lstrip("+-").replace(".", "", 1).isdecimal()
        what = "missing unit in duration" if lacks_unit else "invalid duration"
        why = f"time: {what} {json.dumps(text[:_LONGEST_SHOWN])}"
        raise bad_request(f"invalid timeout specified in the request URL - {why}") from None
    return seconds if seconds > 0 else None


def _status_error(error: Exception, request: Request) -> StatusError:
    if isinstance(error, StatusError):
        return error
    if isinstance(error, BodyTooLarge):
        message = f"Request entity too large: limit is {request.max_body_bytes}"
        return too_large(message)
    if isinstance(error, TimeoutError):
        return StatusError(408, "Timeout", "the request did not complete in time")
    return bad_request("the request is nested too deeply")


def _cacheable(request: Request, response: Response) -> Response:
    """The response with an ETag, or 304 if the client's copy has the same one."""
    assert isinstance(response.body, bytes)
    tag = f'"{hashlib.sha256(response.body).hexdigest()[:32].upper()}"'
    response.headers |= {"etag": tag, "vary": "Accept"}
    if request.headers.get("if-none-match") == tag:
        return Response(status=304, content_type=response.content_type, headers=response.headers)
    return response


def _expect_reading(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise _method_not_allowed()


def _method_not_allowed() -> StatusError:
    return StatusError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
    )


LIMITS: Final = Limits(connections=2000, reserved=50)
"""The limits of connections. All clients of a local cluster share an address, so none is per address."""
_FLAGS: Final = AddressFlags("--host", "--port")


class HttpServer(Listener):
    """Serves while it is entered; `port` and `url` are then the actual ones."""

    def __init__(
        self,
        core: Core,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        credentials: ClusterCredentials,
        clock: Clock | None = None,
        request_limits: RequestLimits | None = None,
        limits: Limits = LIMITS,
        pages: Mapping[str, Page] | None = None,
        open_pages: frozenset[str] = frozenset(),
    ) -> None:
        """`port` 0 picks a free one; `host` "0.0.0.0" or "::" opens the server to the network.

        `pages` are served in addition to the API, by path; those of `open_pages` without authentication.
        """
        clock = clock or SystemClock()
        tokens = AccountTokens(core, secret=credentials.token, clock=clock)
        self._api = ApiService(
            core,
            authenticator=Authenticator(credentials.token, account_tokens=tokens),
            clock=clock,
            limits=request_limits or RequestLimits(),
            pages=pages or {},
            open_pages=open_pages,
        )
        super().__init__(
            self._api,
            certificates=credentials.server_certificates(),
            host=host,
            port=port,
            flags=_FLAGS,
            limits=limits,
        )

    @property
    def service(self) -> HttpService:
        """The service, to serve it on another listener as well."""
        return self._api

    @property
    def url(self) -> str:
        """The URL at which clients on this machine reach the server."""
        host = self.host
        if host in ("", "0.0.0.0"):
            host = "127.0.0.1"
        elif host == "::":
            host = "::1"
        return f"https://[{host}]:{self.port}" if ":" in host else f"https://{host}:{self.port}"

    @property
    def watchers(self) -> int:
        """The number of open watches."""
        return self._api.watchers

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if not _is_loopback(self.host):
            logger.warning(
                "the API server listens on %s and can be reached from other machines", self.host or "0.0.0.0"
            )
        return self


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
