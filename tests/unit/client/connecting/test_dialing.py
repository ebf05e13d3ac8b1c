"""The way through a proxy, with a real one that tunnels."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.client.connecting import dialing
from kuberth.client.connecting.connection import RequestConnection
from kuberth.client.connecting.dialing import Dialer
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import Proxy, Secret, TlsSettings
from kuberth.client.identity.credentials import ANONYMOUS
from kuberth.clock import SystemClock
from kuberth.errors import UnreachableError
from tests.certificates import authority, server_pair
from tests.unit.client.https_server import Asked, Reply, run, serve, server_context


async def pod(_asked: Asked, reply: Reply) -> None:
    await reply.send({"metadata": {"name": "p"}})


@asynccontextmanager
async def tunnelling(
    *, answer: bytes = b"HTTP/1.1 200 RequestConnection established", tls: bool = False
) -> AsyncIterator[Any]:
    """A proxy; yields its port and the heads it was asked with."""
    heads: list[str] = []
    tasks: set[asyncio.Task[Any]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            heads.append(head)
            writer.write(answer + b"\r\n\r\n")
            if b" 200 " in answer:
                host, _, port = head.split(" ")[1].rpartition(":")
                far_reader, far_writer = await asyncio.open_connection(host, int(port))
                await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            tasks.discard(task)

    context = server_context(server_pair()) if tls else None
    listening = await asyncio.start_server(on_connection, "127.0.0.1", 0, ssl=context)
    try:
        yield listening.sockets[0].getsockname()[1], heads
    finally:
        listening.close()
        for task in tuple(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.sleep(0.01)


def test_a_tunnel_carries_tls_to_the_server() -> None:
    async def main() -> None:
        async with serve(pod) as server, tunnelling() as (port, heads):
            proxy = Proxy(host="127.0.0.1", port=port, authorization=Secret("Basic dTpw"))
            api = HttpApi(server.config(proxy=proxy))
            for _ in range(2):
                assert (await api.get(Pod, "p", namespace="d")).metadata.name == "p"
            await api.close()
            assert len(heads) == 1
            assert heads[0].startswith(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n")
            assert "Proxy-Authorization: Basic dTpw" in heads[0]
            assert "t0ken" not in heads[0]

    run(main)


def test_an_open_server_is_reached_through_a_tunnel_too() -> None:
    async def main() -> None:
        async with serve(pod, tls=False) as server, tunnelling() as (port, _):
            api = HttpApi(server.config(proxy=Proxy(host="127.0.0.1", port=port)))
            assert (await api.get(Pod, "p", namespace="d")).metadata.name == "p"
            await api.close()

    run(main)


def test_tls_within_tls(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "ca").write_text(authority().pem, encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
    dialing._proxy_context.cache_clear()

    async def main() -> None:
        async with serve(pod) as server, tunnelling(tls=True) as (port, _):
            api = HttpApi(server.config(proxy=Proxy(host="127.0.0.1", port=port, secure=True)))
            assert (await api.get(Pod, "p", namespace="d")).metadata.name == "p"
            await api.close()

    run(main)


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (b"HTTP/1.1 407 Who are you", "407 .*credentials in proxy-url"),
        (b"HTTP/1.1 403 No", "403 .*may it reach"),
        (b"nonsense", "answered 0"),
    ],
)
def test_a_proxy_that_refuses(answer: bytes, part: str) -> None:
    async def main() -> None:
        async with serve(pod) as server, tunnelling(answer=answer) as (port, _):
            proxy = Proxy(host="127.0.0.1", port=port, authorization=Secret("Basic s3cret"))
            api = HttpApi(server.config(proxy=proxy))
            with pytest.raises(UnreachableError, match=part) as caught:
                await api.get(Pod, "p", namespace="d")
            assert f"http://127.0.0.1:{port}" in str(caught.value)
            assert "s3cret" not in str(caught.value)
            await api.close()

    run(main)


def test_a_proxy_that_is_not_there() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        async with serve(pod) as server:
            api = HttpApi(server.config(proxy=Proxy(host="127.0.0.1", port=port)))
            with pytest.raises(
                UnreachableError, match=r"the proxy http://127.0.0.1.*cannot be reached.*proxy-url"
            ):
                await api.get(Pod, "p", namespace="d")
            await api.close()

    run(main)


def test_a_wrong_certificate_behind_a_tunnel() -> None:
    async def main() -> None:
        async with serve(pod) as server, tunnelling() as (port, _):
            tls = TlsSettings(ca_data=authority("other").pem)
            api = HttpApi(server.config(proxy=Proxy(host="127.0.0.1", port=port), tls=tls))
            with pytest.raises(UnreachableError, match=r"by way of proxy .*CA did not sign"):
                await api.get(Pod, "p", namespace="d")
            await api.close()

    run(main)


def test_dead_peers_are_noticed_by_keep_alive() -> None:
    async def main() -> None:
        async with serve(pod) as server:
            connection = await Dialer(server.config(), SystemClock()).dial(
                ANONYMOUS, partial(RequestConnection, lambda _: None)
            )
            assert connection._transport is not None
            sock = connection._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
            connection.abort()
            await connection.closed

    run(main)
