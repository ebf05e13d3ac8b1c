"""A small HTTPS server whose behaviour tests choose, also badly: slow, cut off, garbled, demanding."""

from __future__ import annotations

import asyncio
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig, Secret, TlsSettings
from tests.certificates import Pair, authority, server_pair

T = TypeVar("T")


def counted(api: HttpApi) -> dict[tuple[str, str], float]:
    """How many requests the client counts, by method and code; all of them went to its own server."""
    hosts = {host for _, _, host in api.metrics.requests.values}
    assert hosts <= {api.config.server.removeprefix("https://")}
    return {(method, code): number for (code, method, _), number in api.metrics.requests.values.items()}


def run(main: Callable[[], Coroutine[Any, Any, T]], *, limit_seconds: float = 10.0) -> T:
    """Run on the real loop, bounded."""

    async def limited() -> T:
        async with asyncio.timeout(limit_seconds):
            return await main()

    return asyncio.run(limited())


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something is so; the test's bound ends it otherwise."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event, and no clock runs here
        await asyncio.sleep(0)


@dataclass
class Asked:
    """One request as it arrived."""

    method: str
    target: str
    headers: dict[str, list[str]]
    body: bytes
    connection: int
    """Which connection brought it, counted from one."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))

    def header(self, name: str) -> str:
        return ", ".join(self.headers.get(name, []))

    def json(self) -> Any:
        return json.loads(self.body)


class Reply:
    """The way back to the client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send(
        self, body: Any = None, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        await self.raw("\r\n".join((*lines, "", "")).encode() + content)

    async def status(
        self, code: int, *, reason: str = "", message: str = "", headers: dict[str, str] | None = None
    ) -> None:
        body = {"kind": "Status", "code": code, "reason": reason, "message": message}
        await self.send(body, status=code, headers=headers)

    async def start_chunks(self, headers: str = "") -> None:
        await self.raw(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{headers}\r\n".encode())

    async def chunk(self, data: bytes) -> None:
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end_chunks(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def event(self, type_: str, obj: Any) -> None:
        await self.chunk(json.dumps({"type": type_, "object": obj}).encode() + b"\n")

    def cut(self) -> None:
        self.writer.transport.abort()

    async def hang(self) -> None:
        """Say nothing until the other side leaves."""
        await self.reader.read()


Handler = Callable[[Asked, Reply], Awaitable[None]]


@dataclass
class Server:
    port: int
    secure: bool
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def config(self, **changes: Any) -> ClientConfig:
        scheme = "https" if self.secure else "http"
        given: dict[str, Any] = {
            "server": f"{scheme}://127.0.0.1:{self.port}",
            "source": "the test's kubeconfig",
            "tls": TlsSettings(ca_data=authority().pem) if self.secure else TlsSettings(),
            "token": Secret("t0ken"),
        }
        return ClientConfig(**{**given, **changes})

    async def drop_connections(self) -> None:
        """Close every connection, as a server does that finds them idle."""
        for writer in tuple(self.writers):
            writer.close()
        await until(lambda: not self.writers)


@asynccontextmanager
async def serve(
    handler: Handler, *, tls: bool = True, pair: Pair | None = None, client_ca: str = "", tls12: bool = False
) -> AsyncIterator[Server]:
    server = Server(0, tls)
    tasks: set[asyncio.Task[Any]] = set()

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        server.connections += 1
        number = server.connections
        server.writers.add(writer)
        try:
            while (asked := await _read(reader, number)) is not None:
                server.asked.append(asked)
                await handler(asked, Reply(reader, writer))
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
            pass  # the other side left
        except asyncio.CancelledError:
            pass  # the server ends; as a task of asyncio's own it must not say so
        finally:
            server.writers.discard(writer)
            writer.transport.abort()
            tasks.discard(task)

    listening = await asyncio.start_server(
        on_connection,
        "127.0.0.1",
        0,
        ssl=server_context(pair or server_pair(), client_ca, tls12=tls12) if tls else None,
    )
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in tuple(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await listening.wait_closed()
        for _ in range(3):
            await asyncio.sleep(0)  # aborted transports close in the loop's next turns


def server_context(pair: Pair, client_ca: str = "", *, tls12: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if tls12:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "cert.pem"), Path(folder, "key.pem")
        certificate.write_text(pair.certificate, encoding="utf-8")
        key.write_text(pair.key, encoding="utf-8")
        context.load_cert_chain(certificate, key)
    if client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_ca)
    return context


async def _read(reader: asyncio.StreamReader, connection: int) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), []).append(value.strip())
    length = int(headers.get("content-length", ["0"])[0])
    return Asked(method, target, headers, await reader.readexactly(length), connection)


@asynccontextmanager
async def api_on(handler: Handler, **options: Any) -> AsyncIterator[tuple[HttpApi, Server]]:
    """A server and a client that talks to it."""
    async with serve(handler) as server:
        api = HttpApi(server.config(), **options)
        try:
            yield api, server
        finally:
            await api.close()
