"""The API over HTTP: any Kubernetes API server behind `kuberth.client.protocol.Api`.

In: verbs on typed objects. Out: objects, watch events, or an `ApiError` that names the request. Rate,
connections, deadlines, sizes and retries are bounded here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar

from kuberth.api.core import Pod
from kuberth.api.kinds import REGISTRY, KindInfo
from kuberth.api.sharing import PodSharing
from kuberth.api.wire import decode, encode
from kuberth.client.connecting.connection import HttpAnswer, RequestConnection
from kuberth.client.connecting.dialing import Dialer
from kuberth.client.connecting.failures import connect_failure, describe
from kuberth.client.connecting.outbox import Batching, Outbox
from kuberth.client.connecting.pipeline import Post
from kuberth.client.connecting.pool import OutgoingRequest, Pool, PoolStats
from kuberth.client.connecting.rate_limit import RateLimiter
from kuberth.client.identity.client_config import ClientConfig
from kuberth.client.identity.credentials import Credential, Credentials, fixed_or_file
from kuberth.client.identity.exec_credentials import ExecCredentials
from kuberth.client.protocol import Api, ObjectList, WatchEvent
from kuberth.client.reading import decode_page
from kuberth.client.rest.protobuf_edits import PROTOBUF, with_finalizer
from kuberth.client.rest.refusals import refusal, retry_after
from kuberth.client.rest.request_heads import JSON, RequestHeads
from kuberth.client.rest.resource_paths import escaped, object_name, path_of, query
from kuberth.client.rest.watch_frames import WatchDecoder
from kuberth.client.writes import METADATA_ALONE, Verb, Write
from kuberth.clock import Clock, SystemClock
from kuberth.errors import ApiError, UnreachableError, WireError
from kuberth.observe.metrics import ClientMetrics

T = TypeVar("T")

PAGE_SIZE: Final = 500
MAX_RETRIES: Final = 10
"""Retries after responses with Retry-After, as many as in client-go."""
WATCH_SECONDS: Final = (300, 600)
"""Range of a watch's duration, chosen at random so that watches do not all restart at once."""
WATCH_GRACE_SECONDS: Final = 30.0
"""A server that has not ended a watch this long after its timeout counts as dead."""
MAX_BODY_BYTES: Final = 10 * 1024 * 1024
MAX_TARGETS: Final = 1024
"""Cached paths, one per kind and namespace."""
MAX_LIST_BYTES: Final = 256 * 1024 * 1024
_METHODS: Final = {Verb.CREATE: "POST", Verb.UPDATE: "PUT", Verb.PATCH: "PATCH", Verb.DELETE: "DELETE"}


class HttpApi(Api):
    """The API of any API server over HTTP. Close it when done: use it in `async with`, or call `close`.

    `metrics` counts every request as client-go does; several clients may share one. The code of a request
    without a response is "<error>".
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        qps: float = 50,
        burst: int = 100,
        max_connections: int = 32,
        timeout_seconds: float = 30.0,
        list_timeout_seconds: float = 60.0,
        max_body_bytes: int = MAX_BODY_BYTES,
        user_agent: str = "",
        batching: Batching = Batching(),  # noqa: B008 - a tuple
        metrics: ClientMetrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = SystemClock() if clock is None else clock
        self.config = config
        self.metrics = ClientMetrics() if metrics is None else metrics
        self._host = _host_label(config)
        self._timeout = timeout_seconds
        self._list_timeout = list_timeout_seconds
        self._max_body_bytes = max_body_bytes
        self._limiter = RateLimiter(qps, burst)
        self._credentials: Credentials = (
            ExecCredentials(config.exec_plugin, clock, source=config.source)
            if config.exec_plugin is not None
            else fixed_or_file(config, clock)
        )
        self._dialer = Dialer(config, clock)
        self._pool = Pool(config, self._dialer, max_connections=max_connections)
        self._outbox = Outbox(
            config,
            self._dialer,
            batching=batching,
            cap=max_body_bytes,
            on_answer=self._post_answered,
            on_loss=self._post_lost,
        )
        self._post_metrics: _PostMetrics | None = None
        self.refused_posts = 0
        self._targets: dict[tuple[type[Any], str], _Target] = {}
        self._retries: set[asyncio.Task[None]] = set()
        self._watches: set[RequestConnection] = set()
        self._closed = False
        self._pod_sharing = PodSharing()
        self._heads = RequestHeads(config, user_agent=user_agent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    # The protocol

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        info = REGISTRY.of(kind)
        parameters = {"resourceVersion": resource_version, "fieldSelector": field_selector}
        if resource_version not in ("", "0"):
            # From the server's cache, which ignores the limit and returns everything at once.
            return await self._list_all(info, parameters)
        # Not "0", which ignores the limit: the JSON of all pods of a cluster would take too much memory.
        parameters["resourceVersion"] = ""
        items: list[Any] = []
        version = token = ""
        while True:
            try:
                answer = await self._list(info, {**parameters, "limit": str(PAGE_SIZE), "continue": token})
            except ApiError as error:
                if error.code == 410 and token:
                    # The server has compacted the revision of the pages.
                    return await self._list_all(info, parameters)
                raise
            page = decode_page(kind, answer.body, what=f"list {info.plural}")
            self._share_all(page.items)
            items += page.items
            version, token = version or page.resource_version, page.continue_token
            if not token:
                return ObjectList(items, version)

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        info = REGISTRY.of(kind)
        seconds = random.randint(*WATCH_SECONDS)
        parameters = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "fieldSelector": field_selector,
            "timeoutSeconds": str(seconds),
        }
        what = f"watch {info.plural}"
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds + WATCH_GRACE_SECONDS
        connection = await self._open_stream(
            f"{path_of(info)}{query(parameters)}", what, rule=info.rbac_rule("watch")
        )
        silence = TimeoutError("the server fell silent and did not end the watch")
        timer = loop.call_at(ends_at, connection.abort, silence)
        try:
            decoder = WatchDecoder(kind, what=what, cap=self._max_body_bytes)
            while data := await connection.stream.read():
                for event in decoder.feed(data):
                    yield event
        except OSError as error:
            raise UnreachableError(f"{what}: {describe(error)}; watch again") from error
        finally:
            timer.cancel()
            connection.abort()

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        info = REGISTRY.of(kind)
        what = f"get {object_name(info, name, namespace)}"
        answer = await self._request("GET", path_of(info, name, namespace), what=what, info=info, verb="get")
        return _decoded(kind, answer, what)

    async def write(self, write: Write) -> Any:
        info, what = REGISTRY.of(write.kind), str(write)
        # An object is created in its collection, a subresource under the object's own name.
        name = "" if write.verb is Verb.CREATE and not write.subresource else write.name
        body = write.delete_options if write.verb is Verb.DELETE else write.body
        answer = await self._request(
            _METHODS[write.verb],
            path_of(info, name, write.namespace, write.subresource),
            body=body if isinstance(body, bytes) else encode(body),
            content_type=write.content_type,
            accept=JSON if write.wants_answer else METADATA_ALONE,
            what=what,
            info=info,
            verb=write.verb,
            subresource=write.subresource,
        )
        if write.verb is Verb.DELETE or write.subresource == "binding" or not write.wants_answer:
            return None
        return _decoded(write.kind, answer, what)

    # Writes without a task

    def post_nowait(
        self, write: Write, *, check: Callable[[], None] | None = None
    ) -> asyncio.Future[None] | None:
        credential = self._credentials.current_nowait()
        if credential is None or self._closed:
            return None
        target = self._target(write)
        if not self._limiter.acquire_nowait():
            return None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        now = loop.time()
        self._outbox.post(
            Post(
                str(write),
                self._heads.post(target.path, write.body, credential),
                body=write.body,
                credential=credential,
                posted=now,
                deadline=now + self._timeout,
                future=future,
                context=target,
                check=check,
            )
        )
        if self._post_metrics is None:
            self._post_metrics = _PostMetrics(self.metrics, self._host)
        self._post_metrics.rate_limiter_duration.observe(0.0)
        return future

    def _target(self, write: Write) -> _Target:
        kind, namespace = write.kind, write.namespace
        target = self._targets.get((kind, namespace))
        if target is None:
            if len(self._targets) >= MAX_TARGETS:
                self._targets.clear()
            info = REGISTRY.of(kind)
            target = self._targets[kind, namespace] = _Target(path_of(info, "", namespace), info)
        if not write.subresource:
            return target
        path = f"{target.path}/{escaped(write.name)}/{write.subresource}"
        return _Target(path, target.info, write.subresource)

    def _post_answered(self, post: Post, answer: HttpAnswer, size: int) -> None:
        status = answer.status
        assert self._post_metrics is not None
        self._post_metrics.record(post, str(status), size)
        if post.future.done():
            return  # the caller gave up meanwhile
        if status < 300:
            post.future.set_result(None)
        elif status == 401 or retry_after(answer) is not None:
            if status != 401:
                self.refused_posts += 1
            # We own the task: it ends with the post's future, and `close` ends it.
            task = asyncio.get_running_loop().create_task(self._post_again(post, answer), name=post.what)
            self._retries.add(task)
            task.add_done_callback(self._retries.discard)
        else:
            post.future.set_exception(self._refusal(post, answer))

    def _post_lost(self, post: Post, error: ApiError) -> None:
        assert self._post_metrics is not None
        self._post_metrics.record(post, "<error>", None)
        if not post.future.done():
            post.future.set_exception(error)

    async def _post_again(self, post: Post, answer: HttpAnswer) -> None:
        """Retry a rejected post like any other request."""
        target: _Target = post.context
        tries = _Tries(post.deadline)
        try:
            if not await self._may_retry(answer, post.credential, tries):
                raise self._refusal(post, answer)
            self.metrics.retries.inc((str(answer.status), "POST", self._host))
            if post.future.done():
                return
            await self._request(
                "POST",
                target.path,
                body=post.body,
                what=post.what,
                info=target.info,
                verb="create",
                subresource=target.subresource,
                tries=tries,
            )
        except ApiError as error:
            if not post.future.done():
                post.future.set_exception(error)
        except asyncio.CancelledError:
            post.future.cancel()
            raise
        else:
            if not post.future.done():
                post.future.set_result(None)

    def _refusal(self, post: Post, answer: HttpAnswer) -> ApiError:
        target: _Target = post.context
        rule = target.info.rbac_rule("create", subresource=target.subresource)
        return refusal(answer, what=post.what, rule=rule, source=self.config.source)

    async def add_finalizer(self, kind: type[T], name: str, finalizer: str, *, namespace: str = "") -> T:
        info = REGISTRY.of(kind)
        path, what = path_of(info, name, namespace), f"update {object_name(info, name, namespace)}"
        present = await self._request("GET", path, accept=PROTOBUF, what=what, info=info, verb="get")
        answer = await self._request(
            "PUT",
            path,
            body=with_finalizer(present.body, finalizer),
            content_type=PROTOBUF,
            what=what,
            info=info,
            verb="update",
        )
        return _decoded(kind, answer, what)

    # Beyond the protocol

    async def call(self, method: str, path: str, *, body: bytes = b"", content_type: str = JSON) -> bytes:
        """Send a request to any path, for objects without a struct: discovery, health, token reviews."""
        answer = await self._request(
            method, path, body=body, content_type=content_type, what=f"{method} {path}"
        )
        return answer.body

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """The body of a long response for any path, as it arrives."""
        what = f"GET {path}"
        connection = await self._open_stream(path, what, rule=f'nonResourceURLs: ["{path}"], verbs: ["get"]')
        try:
            while data := await connection.stream.read():
                yield data
        except OSError as error:
            raise UnreachableError(f"{what}: {describe(error)}") from error
        finally:
            connection.abort()

    def stats(self) -> PoolStats:
        return self._pool.stats()

    async def close(self) -> None:
        """End every watch and connection; running requests get a moment to finish."""
        self._closed = True
        watches = set(self._watches)
        for connection in watches:
            connection.abort(ConnectionAbortedError("the client was closed"))
        for task in tuple(self._retries):
            task.cancel()
        await self._outbox.close()
        await self._pool.close()
        if watches:
            await asyncio.wait([each.closed for each in watches], timeout=1.0)

    # One request with its retries

    async def _request(
        self,
        method: str,
        path: str,
        *,
        what: str,
        body: bytes = b"",
        content_type: str = JSON,
        accept: str = JSON,
        info: KindInfo | None = None,
        verb: str = "",
        subresource: str = "",
        timeout_seconds: float = 0.0,
        cap: int = 0,
        tries: _Tries | None = None,
    ) -> HttpAnswer:
        loop = asyncio.get_running_loop()
        labels = (method, self._host)
        asked_at = started = loop.time()
        if not self._limiter.acquire_nowait():
            await self._limiter.acquire()
            started = loop.time()
        self.metrics.rate_limiter_duration.observe(labels, started - asked_at)
        # The deadline does not include the wait for our own rate limit.
        if tries is None:
            tries = _Tries(started + (timeout_seconds or self._timeout))
        deadline = tries.deadline
        headers = ""
        if body:
            headers = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        elif method == "POST":
            headers = "Content-Length: 0\r\n"
        while True:
            credential = self._credentials.current_nowait() or await self._credentials.current()
            data = self._heads.head(method, path, headers, credential, accept=accept) + body
            request = OutgoingRequest(what, data, method == "GET", deadline, cap or self._max_body_bytes)
            started = loop.time()
            try:
                answer = await self._pool.ask(request, credential)
            except ApiError:
                self._count(method, "<error>")
                raise
            finally:
                self.metrics.request_duration.observe(labels, loop.time() - started)
                self.metrics.request_size.observe(labels, len(body))
            self._count(method, str(answer.status))
            self.metrics.response_size.observe(labels, len(answer.body))
            if answer.status < 300:
                return answer
            if not await self._may_retry(answer, credential, tries):
                rule = info.rbac_rule(verb, subresource=subresource) if info is not None else ""
                raise refusal(answer, what=what, rule=rule, source=self.config.source)
            self.metrics.retries.inc((str(answer.status), *labels))
            await self._limiter.acquire()

    async def _may_retry(self, answer: HttpAnswer, credential: Credential, tries: _Tries) -> bool:
        """Whether to retry a rejected request: with new credentials, or after the server's Retry-After."""
        if answer.status == 401 and not tries.renewed:
            tries.renewed = True
            return self._credentials.refused(credential)
        seconds = retry_after(answer)
        if seconds is None or tries.retries >= MAX_RETRIES:
            return False
        if asyncio.get_running_loop().time() + seconds >= tries.deadline:
            return False
        tries.retries += 1
        await asyncio.sleep(seconds)
        return True

    async def _list(self, info: KindInfo, parameters: Mapping[str, str]) -> HttpAnswer:
        return await self._request(
            "GET",
            f"{path_of(info)}{query(parameters)}",
            what=f"list {info.plural}",
            info=info,
            verb="list",
            timeout_seconds=self._list_timeout,
            cap=MAX_LIST_BYTES,
        )

    async def _list_all(self, info: KindInfo, parameters: Mapping[str, str]) -> ObjectList:
        page = decode_page(info.type, (await self._list(info, parameters)).body, what=f"list {info.plural}")
        self._share_all(page.items)
        return ObjectList(page.items, page.resource_version)

    def share(self, pod: Pod, old: Pod | None) -> None:
        self._pod_sharing(pod, old)

    def _share_all(self, items: Sequence[Any]) -> None:
        """Share equal parts of a page's pods; otherwise a list takes three times the memory."""
        for item in items:
            if isinstance(item, Pod):
                self.share(item, None)

    async def _open_stream(self, path: str, what: str, *, rule: str) -> RequestConnection:
        """Open a connection for a watch, outside of the pool and the rate limit, as client-go does."""
        tries = _Tries(asyncio.get_running_loop().time() + self._timeout)
        while True:
            credential = self._credentials.current_nowait() or await self._credentials.current()
            connection: RequestConnection | None = None
            kept = False
            try:
                if self._closed:
                    raise UnreachableError("the client is closed")
                async with asyncio.timeout_at(tries.deadline):
                    connection = await self._dialer.dial(credential, partial(RequestConnection, _ignore_end))
                    self._watches.add(connection)
                    connection.closed.add_done_callback(partial(_forget, self._watches, connection))
                    data = self._heads.head("GET", path, "", credential)
                    answer = await connection.start(data, cap=self._max_body_bytes, stream=True)
                kept = answer.status < 300
            except (OSError, UnreachableError) as error:
                self._count("GET", "<error>")
                raise self._unwatched(error, what) from error
            finally:
                if connection is not None and not kept:
                    connection.abort()
            self._count("GET", str(answer.status))
            if kept:
                return connection
            if not await self._may_retry(answer, credential, tries):
                raise refusal(answer, what=what, rule=rule, source=self.config.source)

    def _unwatched(self, error: OSError | UnreachableError, what: str) -> UnreachableError:
        if isinstance(error, UnreachableError):
            return UnreachableError(f"{what}: {error}")
        return UnreachableError(f"{what}: {connect_failure(error, self.config)}")

    def _count(self, method: str, code: str) -> None:
        self.metrics.requests.inc((code, method, self._host))


class _Target(NamedTuple):
    """The target of a post, for retries and error messages."""

    path: str
    info: KindInfo
    subresource: str = ""


class _PostMetrics:
    """The metrics of every post."""

    def __init__(self, metrics: ClientMetrics, host: str) -> None:
        labels = self._labels = ("POST", host)
        self._created = ("201", *labels)
        self._requests = metrics.requests
        self._duration = metrics.request_duration.of(labels)
        self._request_size = metrics.request_size.of(labels)
        self._response_size = metrics.response_size.of(labels)
        self.rate_limiter_duration = metrics.rate_limiter_duration.of(labels)

    def record(self, post: Post, code: str, size: int | None) -> None:
        """Record the response of a post, of `size` bytes, or None for a lost one."""
        self._requests.inc(self._created if code == "201" else (code, *self._labels))
        self._duration.observe(asyncio.get_running_loop().time() - post.posted)
        self._request_size.observe(len(post.body))
        if size is not None:
            self._response_size.observe(size)


@dataclass(slots=True)
class _Tries:
    """The retries of one request, and their deadline."""

    deadline: float
    retries: int = 0
    renewed: bool = False


def _host_label(config: ClientConfig) -> str:
    """The server's label in metrics: host and, if the address has one, port."""
    return config.server.rpartition("://")[2].partition("/")[0]


def _ignore_end(_connection: RequestConnection) -> None:
    """Ends silently: the reader of the watch notices it."""


def _forget(
    watches: set[RequestConnection], connection: RequestConnection, _closed: asyncio.Future[None]
) -> None:
    watches.discard(connection)


def _decoded(kind: type[T], answer: HttpAnswer, what: str) -> T:
    try:
        return decode(kind, answer.body)
    except WireError as error:
        raise ApiError(f"{what}: the response cannot be decoded: {error}", code=answer.status) from error
