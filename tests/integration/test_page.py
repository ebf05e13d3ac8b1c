"""The stream, histories and files of the page over real HTTP, in `kuberth up` and in `kuberth run --page`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kuberth.assembly.profiles import full_registry
from kuberth.config import default_configuration
from kuberth.errors import PortTakenError
from kuberth.overview.reading import EventReader, StreamState
from kuberth.programs.run.daemon import ServingSettings, Settings
from kuberth.programs.run.daemon import run as run_daemon
from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, PageSettings, running_cluster

LIMIT_SECONDS = 120


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def tree(self) -> Any:
        return json.loads(self.body)


class Door(NamedTuple):
    """Where to ask, and with which token."""

    port: int
    token: str
    tls: bool = False

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = None
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context, limit=1 << 24)

    async def ask(self, path: str, *, token: str | None = "", host: str = "", **headers: str) -> tuple[
        Answer, asyncio.StreamReader, asyncio.StreamWriter
    ]:  # fmt: skip
        """With the door's own token, another one, or none; the body is left unread."""
        reader, writer = await self.connect()
        given = {"host": host or f"127.0.0.1:{self.port}", **headers}
        if token is not None:
            given["authorization"] = f"Bearer {token or self.token}"
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        writer.write(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        found = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        return Answer(int(head[0].split()[1]), found, b""), reader, writer

    async def get(self, path: str, **options: Any) -> Answer:
        answer, reader, writer = await self.ask(path, **options)
        if "content-length" in answer.headers:
            body = await reader.readexactly(int(answer.headers["content-length"]))
        elif answer.status == 304:
            body = b""
        else:
            body = b"".join([piece async for piece in pieces(reader)])
        writer.close()
        return answer._replace(body=body)


async def pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Of a body that comes in chunks, to its proper end; IncompleteReadError if it is cut off."""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)


class Looking:
    """A client of the stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen = StreamState()
        self.gone: dict[str, str] = {}
        self.writer = writer
        self._pieces = pieces(reader)
        self._events = EventReader()

    async def until(self, predicate: Callable[[], object]) -> None:
        async with asyncio.timeout(30):
            while not (self.seen.complete and predicate()):
                self.take(await anext(self._pieces))

    async def to_the_end(self) -> None:
        async for piece in self._pieces:
            self.take(piece)

    def take(self, piece: bytes) -> None:
        for name, tree in self._events.feed(piece):
            self.seen.take(name, tree)
            if name == "pods":
                self.gone |= dict(tree["gone"])

    def queue_of(self, pod: str) -> str:
        return next((row[3] for row in self.seen.pods.values() if row[2] == pod), "")


async def look(door: Door, **headers: str) -> Looking:
    answer, reader, writer = await door.ask("/ui/stream", **headers)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert "content-encoding" not in answer.headers
    return Looking(reader, writer)


async def create_pod(cluster: EmbeddedCluster, name: str, cpu: str, *, gates: tuple[str, ...] = ()) -> None:
    row = cluster.core.resources.by_kind("v1", "Pod")
    assert row is not None
    resources = {"requests": {"cpu": cpu}}
    spec = {
        "containers": [{"name": "c", "image": "x", "resources": resources}],
        "schedulingGates": [{"name": gate} for gate in gates],
    }
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await cluster.core.create(row, tree, namespace="default")


def door_of(cluster: EmbeddedCluster) -> Door:
    assert cluster.page_link is not None
    address, _, token = cluster.page_link.partition("/ui/#token=")
    return Door(int(address.rpartition(":")[2]), token)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            await main()

    asyncio.run(limited())


def settings(**more: Any) -> ClusterSettings:
    return ClusterSettings(nodes=3, port=0, page=PageSettings(0), **more)


# In up


def test_the_stream_of_up_reports_changes_as_they_happen() -> None:
    async def main() -> None:
        async with running_cluster(settings()) as cluster:
            door = door_of(cluster)
            looking = await look(door, **{"accept-encoding": "gzip"})
            await looking.until(lambda: len(looking.seen.nodes) == 3)
            assert (looking.seen.hello["program"], looking.seen.hello["writable"]) == ("up", True)
            await create_pod(cluster, "small", "1")
            await create_pod(cluster, "large", "99")
            await create_pod(cluster, "gated", "1", gates=("example.com/wait",))
            await looking.until(
                lambda: looking.seen.queues["placed"] == 1 and looking.queue_of("gated") == "gated"
            )
            await looking.until(lambda: looking.queue_of("large") == "unschedulable")
            await looking.until(lambda: sum(row[1] for row in looking.seen.throughput) == 1)
            await cluster.core.delete("pods", "large", namespace="default")
            await looking.until(lambda: "deleted" in looking.gone.values())
            looking.writer.close()

            history = (await door.get("/ui/history?pod=small")).tree
            assert [move["to"] for move in history["moves"]] == ["active", "inflight", "placed"]
            assert len(history["cycles"][0]["scores"]["nodes"]) == 3
            node = (await door.get(f"/ui/node?name={history['pod']['node']}")).tree
            assert [row[:2] for row in node["pods"]] == [["default", "small"]]
            assert (await door.get("/ui/search?q=gat")).tree["pods"] == [["default", "gated", "gated", ""]]
            missing = await door.get("/ui/history?pod=smal")
            assert (missing.status, missing.tree["kind"]) == (404, "Status")
            assert "did you mean small" in missing.tree["message"]
            assert (await door.get("/ui/history")).status == 400

    run(main)


def test_access_to_the_paths_of_up() -> None:
    async def main() -> None:
        async with running_cluster(settings()) as cluster:
            door = door_of(cluster)
            for path in (
                "/ui/stream",
                "/ui/history?pod=p",
                "/ui/node?name=n",
                "/ui/search?q=x",
                "/explain?pod=p",
            ):
                # As in an API server: an anonymous user is forbidden, a wrong token is unauthorized.
                assert (await door.get(path, token=None)).status == 403
                assert (await door.get(path, token="wrong")).status == 401
            for path in ("/ui/", "/ui"):
                answer = await door.get(path, token=None)
                assert answer.status in (200, 302, 404)
                if answer.status != 404:
                    assert "default-src 'none'" in answer.headers["content-security-policy"]
            for host in ("evil.example", f"evil.example:{door.port}", "127.0.0.1", "127.0.0.1:1", ""):
                answer = await door.get("/ui/search?q=x", host=host or "x")
                assert (answer.status, answer.tree["kind"]) == (400, "Status")
                assert "access-control-allow-origin" not in answer.headers
            assert (await door.get("/ui/search?q=x", host=f"LOCALHOST:{door.port}")).status == 200
            # The API itself is there too, and the pages are at the API server's own door.
            assert (await door.get("/api/v1/nodes")).tree["kind"] == "NodeList"
            api = Door(int(cluster.url.rpartition(":")[2]), door.token, tls=True)
            looking = await look(api)
            await looking.until(lambda: True)
            looking.writer.close()

    run(main)


def test_a_reader_that_disconnects_is_removed() -> None:
    async def main() -> None:
        async with running_cluster(settings()) as cluster:
            assert cluster.scheduler is not None
            observers = cluster.scheduler.cluster._observers
            looking = [await look(door_of(cluster)) for _ in range(3)]
            for each in looking:
                await each.until(lambda: True)
            assert len(observers) == 1
            for each in looking:
                each.writer.transport.abort()
            while observers:  # noqa: ASYNC110  # the limit is around it
                await asyncio.sleep(0.01)

    run(main)


def test_a_cluster_that_ends_closes_its_streams() -> None:
    async def main() -> None:
        async with running_cluster(settings()) as cluster:
            looking = await look(door_of(cluster))
            await looking.until(lambda: True)
            ended = asyncio.create_task(looking.to_the_end())
        async with asyncio.timeout(10):
            await ended  # to its proper end, and not cut off
        looking.writer.close()

    run(main)


def test_a_slow_reader_delays_no_other_reader() -> None:
    async def main() -> None:
        async with running_cluster(settings()) as cluster:
            door = door_of(cluster)
            slow, quick = await look(door), await look(door)
            for number in range(30):
                await create_pod(cluster, f"p{number}", "99")
            await quick.until(lambda: quick.seen.queues["unschedulable"] == 30)
            await slow.until(lambda: slow.seen.queues["unschedulable"] == 30)
            assert slow.seen.pods.keys() == quick.seen.pods.keys()
            for each in (slow, quick):
                each.writer.close()

    run(main)


def test_the_port_of_the_page() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            results: list[str] = []
            other = ClusterSettings(nodes=1, port=0, page=PageSettings(port))
            async with running_cluster(other, progress=results.append) as cluster:
                assert door_of(cluster).port != port
                assert f"port {port} is taken" in " ".join(results)
            with pytest.raises(PortTakenError, match="--page-port"):
                async with running_cluster(ClusterSettings(port=0, page=PageSettings(port, or_any=False))):
                    pass
        async with running_cluster(ClusterSettings(nodes=1, port=0)) as cluster:
            assert cluster.page_link is None

    run(main)


# In run


@contextlib.asynccontextmanager
async def running_scheduler(cluster: EmbeddedCluster, token: str, *, page: bool) -> AsyncIterator[Door]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = ServingSettings(host="127.0.0.1", port=port)
    given = Settings(
        config=default_configuration(),
        registry=full_registry(None),
        kubeconfig=str(cluster.kubeconfig_path),
        serving=serving,
        page=page,
    )
    program = asyncio.create_task(run_daemon(given))
    door = Door(port, token, tls=True)
    try:
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(OSError):
                    if (await door.get("/readyz", token=None)).status == 200:
                        break
                await asyncio.sleep(0.05)
        yield door
    finally:
        if not program.done():
            os.kill(os.getpid(), signal.SIGTERM)
        assert await program == 0


def test_run_serves_the_page_on_request_to_users_that_may_read_metrics(tmp_path: Path) -> None:
    async def main() -> None:
        given = ClusterSettings(nodes=3, port=0, with_scheduler=False, data=tmp_path)
        async with running_cluster(given) as cluster:
            token = (tmp_path / "pki/token").read_text()
            async with running_scheduler(cluster, token, page=True) as door:
                for path in (
                    "/metrics",
                    "/ui/stream",
                    "/ui/history?pod=p",
                    "/ui/node?name=n",
                    "/ui/search?q=x",
                ):
                    assert (await door.get(path, token=None)).status == 403
                    assert (await door.get(path, token="wrong")).status == 401
                assert (await door.get("/ui/", token=None)).status in (200, 404)
                await create_pod(cluster, "early", "1")
                looking = await look(door, **{"accept-encoding": "gzip"})
                await looking.until(lambda: looking.seen.queues["placed"] == 1)
                assert (looking.seen.hello["program"], looking.seen.hello["writable"]) == ("run", False)
                # No page was open when it came; with --page histories are recorded all the same.
                history = (await door.get("/ui/history?pod=early")).tree
                assert [move["to"] for move in history["moves"]] == ["active", "inflight", "placed"]
                ended = asyncio.create_task(looking.to_the_end())
            async with asyncio.timeout(10):
                await ended  # to its proper end, though it was looked at when the signal came
            looking.writer.close()

    run(main)


def test_run_serves_nothing_of_it_unasked(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running_cluster(ClusterSettings(nodes=1, port=0, with_scheduler=False, data=tmp_path)) as cluster,
            running_scheduler(cluster, (tmp_path / "pki/token").read_text(), page=False) as door,
        ):
            assert (await door.get("/ui/stream")).status == 404
            assert (await door.get("/ui/", token=None)).status == 403

    run(main)
