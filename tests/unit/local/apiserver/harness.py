"""The embedded API server under test: a core in memory on virtual time, or a server over real HTTPS."""

from __future__ import annotations

import asyncio
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kuberth.clock import NANOSECONDS, SystemClock, VirtualTimeLoop
from kuberth.https.connection_limit import Limits
from kuberth.local.apiserver.http.credentials import ClusterCredentials
from kuberth.local.apiserver.http.server import LIMITS, HttpServer, RequestLimits
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from tests.manifests import pod_manifest

T = TypeVar("T")


class FixedClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000

    def now_ns(self) -> int:
        return self.seconds * NANOSECONDS


class CoreHarness:
    """A core, its store and its clock."""

    def __init__(self, core: Core, store: RevisionStore, clock: FixedClock) -> None:
        self.core = core
        self.store = store
        self.clock = clock

    async def pod(self, name: str = "p", *, bound: str = "", **spec: Any) -> Obj:
        pod = await self.core.create("pods", pod_manifest(name, **spec), namespace="default")
        if bound:
            await self.bind(name, bound)
            pod = await self.core.get("pods", name, namespace="default")
        return pod

    async def bind(self, name: str, node: str, **metadata: Any) -> Obj:
        body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
        return await self.core.create("pods", body, namespace="default", name=name, subresource="binding")


def run(test: Callable[[CoreHarness], Awaitable[T]], *, feature_gates: Mapping[str, bool] | None = None) -> T:
    async def main() -> T:
        store = await RevisionStore.open(None)
        clock = FixedClock()
        try:
            core = Core(store, clock=clock, feature_gates=feature_gates)
            await store.durable(7)
            return await test(CoreHarness(core, store, clock))
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main())


async def refused(attempt: Awaitable[Any], code: int) -> StatusError:
    """The refusal this attempt meets, which must have this code."""
    with pytest.raises(StatusError) as caught:
        await attempt
    assert caught.value.code == code, str(caught.value)
    return caught.value


# Over HTTPS

BOUND_SECONDS = 30.0


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ServerHarness:
    server: HttpServer
    core: Core
    credentials: ClusterCredentials
    context: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self.context = ssl.create_default_context(cadata=self.credentials.ca_certificate.decode())

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {"authorization": f"Bearer {self.credentials.token}", **(more or {})}

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.server.port, ssl=self.context, limit=2**24)

    async def fetch(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        anonymous: bool = False,
    ) -> Answer:
        """One request on a connection of its own."""
        reader, writer = await self.connect()
        try:
            sent = dict(headers or {}) if anonymous else self.headers(headers)
            writer.write(head(method, target, sent, body := as_bytes(body)) + body)
            return await read_answer(reader, method=method)
        finally:
            writer.close()

    @asynccontextmanager
    async def watch(self, target: str, **headers: str) -> AsyncIterator[Watch]:
        reader, writer = await self.connect()
        try:
            writer.write(head("GET", target, self.headers(headers), b""))
            status, received = await read_head(reader)
            assert status == 200, await read_body(reader, received)
            yield Watch(reader)
        finally:
            writer.close()


class Watch:
    """The events of a watch, one at a time."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._pending = b""

    async def next(self) -> tuple[str, Any] | None:
        """None at a clean end."""
        while b"\n" not in self._pending:
            chunk = await read_chunk(self._reader)
            if not chunk:
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        event = json.loads(line)
        return event["type"], event["object"]


def as_bytes(body: Any) -> bytes:
    if body is None:
        return b""
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def head(method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "host: kuberth"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body and "transfer-encoding" not in headers:
        lines.append(f"content-length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *rest = text.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
    return int(first.split(" ")[1]), headers


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    size = int(await reader.readline(), 16)
    data = await reader.readexactly(size)
    await reader.readexactly(2)
    return data


async def read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding") == "chunked":
        parts = []
        while part := await read_chunk(reader):
            parts.append(part)
        return b"".join(parts)
    return await reader.readexactly(int(headers.get("content-length", "0")))


async def read_answer(reader: asyncio.StreamReader, *, method: str = "GET") -> Answer:
    status, headers = await read_head(reader)
    body = b"" if method == "HEAD" or status == 304 else await read_body(reader, headers)
    return Answer(status, headers, body)


_CREDENTIALS: list[tuple[tempfile.TemporaryDirectory[str], ClusterCredentials]] = []


def shared_credentials() -> ClusterCredentials:
    """Made once: only the tests of credentials need fresh ones."""
    if not _CREDENTIALS:
        folder = tempfile.TemporaryDirectory(prefix="kuberth-test-")
        _CREDENTIALS.append((folder, ClusterCredentials.in_directory(Path(folder.name))))
    return _CREDENTIALS[0][1]


@asynccontextmanager
async def serving(
    *, request_limits: RequestLimits | None = None, limits: Limits = LIMITS
) -> AsyncIterator[ServerHarness]:
    credentials = shared_credentials()
    clock = SystemClock()
    store = await RevisionStore.open(None)
    try:
        core = Core(store, clock=clock)
        async with HttpServer(
            core,
            credentials=credentials,
            clock=clock,
            request_limits=request_limits,
            limits=limits,
        ) as server:
            yield ServerHarness(server, core, credentials)
    finally:
        await store.close()


def run_with_server(main: Callable[[ServerHarness], Awaitable[None]], **limits: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(BOUND_SECONDS), serving(**limits) as harness:
            await main(harness)

    asyncio.run(bounded())


def labelled_pod(name: str = "web", **spec: Any) -> Obj:
    return pod_manifest(name, labels={"app": name}, **spec)
