"""Connections under stress, through the client that uses them: real sockets, real TLS."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kuberth.api.core import Binding, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.client.connecting import pool
from kuberth.client.connecting.pool import PoolStats
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.client_config import ClientConfig
from kuberth.errors import AnswerLostError, ApiError, UnreachableError
from kuberth.testing import run_in_virtual_time
from tests.unit.client.https_server import Asked, Handler, Reply, Server, api_on, counted, run, serve, until

POD = {"metadata": {"name": "p", "namespace": "d"}}
BINDING = Binding(
    metadata=ObjectMeta(name="p", namespace="d", uid="u"), target=ObjectReference(kind="Node", name="n")
)


async def pod(_asked: Asked, reply: Reply) -> None:
    await reply.send(POD)


async def hang(_asked: Asked, reply: Reply) -> None:
    await reply.hang()


def with_api(
    handler: Handler, test: Callable[[HttpApi, Server], Coroutine[Any, Any, None]], **options: Any
) -> None:
    async def main() -> None:
        async with api_on(handler, **options) as (api, server):
            await test(api, server)

    run(main)


def with_virtual_time(
    handler: Handler, test: Callable[[HttpApi, Server], Coroutine[Any, Any, None]], **options: Any
) -> None:
    async def main() -> None:
        async with api_on(handler, **options) as (api, server):
            await test(api, server)

    run_in_virtual_time(main)


async def get(api: HttpApi, name: str = "p") -> Pod:
    return await api.get(Pod, name, namespace="d")


# Keeping and sharing


def test_one_connection_serves_one_after_the_other() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        for _ in range(5):
            assert (await get(api)).metadata.name == "p"
        assert server.connections == 1
        assert api.stats() == PoolStats(open=1, idle=1, waiting=0)

    with_api(pod, test)


def test_no_more_connections_than_allowed_and_first_come_first_served() -> None:
    gate = asyncio.Event()

    async def handler(asked: Asked, reply: Reply) -> None:
        await gate.wait()
        await reply.send(POD)

    async def test(api: HttpApi, server: Server) -> None:
        order: list[int] = []

        async def one(number: int) -> None:
            await get(api, f"p{number}")
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(one(number), name=str(number))
            await until(lambda: len(server.asked) >= 2)
            assert api.stats() == PoolStats(open=2, idle=0, waiting=8)
            gate.set()
        assert server.connections == 2
        assert [asked.path.rpartition("/p")[2] for asked in server.asked] == [str(each) for each in range(10)]
        assert sorted(order) == list(range(10))

    with_api(handler, test, max_connections=2)


def test_a_request_cancelled_while_waiting_takes_no_connection() -> None:
    gate = asyncio.Event()

    async def handler(_asked: Asked, reply: Reply) -> None:
        await gate.wait()
        await reply.send(POD)

    async def test(api: HttpApi, server: Server) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(get(api, f"p{each}"), name=f"p{each}") for each in range(4)]
            await until(lambda: server.asked)
            tasks[1].cancel()
            tasks[2].cancel()
            gate.set()
        assert [task.cancelled() for task in tasks] == [False, True, True, False]
        assert len(server.asked) == 2
        assert api.stats() == PoolStats(open=1, idle=1, waiting=0)

    with_api(handler, test, max_connections=1)


def test_a_cancelled_request_ends_its_connection_and_frees_its_slot() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        await (reply.hang() if asked.path.endswith("/slow") else reply.send(POD))

    async def test(api: HttpApi, server: Server) -> None:
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(get(api, "slow"), name="slow")
            await until(lambda: server.asked)
            waiting = group.create_task(get(api), name="waiting")
            await asyncio.sleep(0)
            slow.cancel()
            assert (await waiting).metadata.name == "p"
        assert server.connections == 2
        assert api.stats().open == 1

    with_api(handler, test, max_connections=1)


def test_a_connection_that_is_not_used_for_long_is_closed() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await get(api)
        await asyncio.sleep(pool.IDLE_SECONDS + 61)
        assert api.stats() == PoolStats(open=0, idle=0, waiting=0)
        await get(api)
        assert server.connections == 2

    with_virtual_time(pod, test)


# Connections the server closes


def test_a_closed_idle_connection_is_not_used() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await api.bind(BINDING)
        await server.drop_connections()
        await until(lambda: not api.stats().open)
        await api.bind(BINDING)
        assert server.connections == 2

    with_api(pod, test)


async def once_per_connection(asked: Asked, reply: Reply) -> None:
    """Answers the first request of a connection and hangs up at the second."""
    seen = getattr(reply.writer, "seen", 0)
    setattr(reply.writer, "seen", seen + 1)  # noqa: B010 - the writer is where a connection's life is kept
    if seen:
        reply.cut()
    else:
        await reply.send(POD)


def test_a_read_that_meets_a_closing_connection_is_asked_again() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await get(api)
        assert (await get(api)).metadata.name == "p"
        assert server.connections == 2
        assert len(server.asked) == 3

    with_api(once_per_connection, test)


def test_a_write_that_meets_a_closing_connection_is_not_repeated() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        await api.bind(BINDING)
        with pytest.raises(AnswerLostError, match=r"bind pod d/p to node n: .* read the object"):
            await api.bind(BINDING)
        assert len(server.asked) == 2
        await api.bind(BINDING)

    with_api(once_per_connection, test)


def test_an_answer_that_says_close_ends_the_connection() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.send(POD, headers={"Connection": "close"})

    async def test(api: HttpApi, server: Server) -> None:
        await api.bind(BINDING)
        await api.bind(BINDING)
        assert server.connections == 2

    with_api(handler, test)


# Answers that go wrong


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"NONSENSE\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2\r\nConnection: upgrade\r\n\r\n",
    ],
    ids=["at once", "in the head", "in the body", "in a chunk", "no HTTP", "another protocol"],
)
def test_a_cut_answer(raw: bytes) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.raw(raw)
        reply.writer.close()

    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(UnreachableError, match=r"get Pod d/p: .* was lost .*try again"):
            await get(api)
        with pytest.raises(AnswerLostError, match=r"bind pod d/p to node n: .* read the object"):
            await api.bind(BINDING)
        assert api.stats() == PoolStats(open=0, idle=0, waiting=0)

    with_api(handler, test)


def test_a_body_may_come_in_pieces_and_in_chunks() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.path.endswith("/chunks"):
            await reply.start_chunks()
            for piece in (b'{"metadata":', b'{"name":', b'"p"}}'):
                await reply.chunk(piece)
            await reply.end_chunks()
        else:
            for byte in b'HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n{"metadata":{"name":"p"}}\n':
                await reply.raw(bytes([byte]))

    async def test(api: HttpApi, server: Server) -> None:
        assert (await get(api, "chunks")).metadata.name == "p"
        assert (await get(api, "bytes")).metadata.name == "p"
        assert (await get(api, "chunks")).metadata.name == "p"
        assert server.connections == 1

    with_api(handler, test)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.raw(b'HTTP/1.1 200 OK\r\n\r\n{"metadata":{"name":"p"}}')
        reply.writer.close()

    async def test(api: HttpApi, server: Server) -> None:
        assert (await get(api)).metadata.name == "p"

    with_api(handler, test)


def test_a_hundred_before_the_answer_is_passed_over() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 100 Continue\r\n\r\n")
        await reply.send(POD)

    async def test(api: HttpApi, server: Server) -> None:
        assert (await get(api)).metadata.name == "p"
        assert (await get(api)).metadata.name == "p"
        assert server.connections == 1

    with_api(handler, test)


def test_two_answers_to_one_question_are_never_taken_for_the_next() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        name = asked.path.rpartition("/")[2]
        body = b'{"metadata":{"name":"%s"}}' % name.encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        # A second answer, whose end comes only with the next one.
        await reply.raw(head + body + b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}")

    async def test(api: HttpApi, server: Server) -> None:
        for name in ("a", "b", "c"):
            assert (await get(api, name)).metadata.name == name
        assert server.connections == 3

    with_api(handler, test)


@pytest.mark.parametrize("chunked", [False, True], ids=["stated length", "chunks"])
def test_an_answer_that_is_too_large_is_not_kept(chunked: bool) -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.path.endswith("/small"):
            await reply.send(POD)
        elif chunked:
            await reply.start_chunks()
            for _ in range(100):
                await reply.chunk(b" " * 1000)
        else:
            await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            await reply.hang()

    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(ApiError, match="larger than the 10000 bytes"):
            await get(api, "huge")
        assert (await get(api, "small")).metadata.name == "p"

    with_api(handler, test, max_body_bytes=10_000)


@pytest.mark.parametrize("raw", [b"X-A: " + b"a" * 70_000, b"X-A: a\r\n" * 10_000], ids=["one", "many"])
def test_headers_without_an_end(raw: bytes) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.raw(b"HTTP/1.1 200 OK\r\n" + raw)
        await reply.hang()

    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(ApiError, match="headers are larger"):
            await get(api)

    with_api(handler, test)


def test_a_compressed_answer_is_refused() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        assert not asked.header("accept-encoding")
        await reply.send(gzip.compress(b'{"items":[]}'), headers={"Content-Encoding": "gzip"})

    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(ApiError, match="encoded as b'gzip', which the request does not accept"):
            await api.list(Pod)
        assert api.stats() == PoolStats(open=0, idle=0, waiting=0)

    with_api(handler, test)


# Deadlines


def test_no_answer_before_the_deadline() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(UnreachableError, match="did not answer before the deadline"):
            await get(api)
        assert loop.time() - begun == pytest.approx(30, abs=0.1)
        with pytest.raises(AnswerLostError, match=r"did not answer before the deadline.*read the object"):
            await api.bind(BINDING)
        assert api.stats() == PoolStats(open=0, idle=0, waiting=0)

    with_virtual_time(hang, test)


def test_an_answer_that_trickles_does_not_outlive_the_deadline() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.start_chunks()
        while True:
            await reply.chunk(b" ")
            await asyncio.sleep(1)

    async def test(api: HttpApi, server: Server) -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(UnreachableError, match="did not answer before the deadline"):
            await get(api)
        assert loop.time() == pytest.approx(30, abs=2)

    with_virtual_time(handler, test)


def test_waiting_for_a_connection_counts_too() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(_failure(get(api, "first")), name="first")
            await asyncio.sleep(1)
            second = group.create_task(_failure(get(api, "second")), name="second")
            third = group.create_task(_failure(get(api, "third")), name="third")
        assert "did not answer" in first.result()
        # The first's place was freed a second before these two gave up: one was sent, one never was.
        assert "did not answer" in second.result()
        assert "1 connections were busy" in third.result()
        assert asyncio.get_running_loop().time() == pytest.approx(31, abs=0.5)

    with_virtual_time(hang, test, max_connections=1)


async def _failure(work: Coroutine[Any, Any, Any]) -> str:
    with pytest.raises(UnreachableError) as caught:
        await work
    return str(caught.value)


def test_connecting_counts_too() -> None:
    async def main() -> None:
        # This listener never accepts, so the TLS handshake is never answered.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            api = HttpApi(
                ClientConfig(server=f"https://127.0.0.1:{silent.getsockname()[1]}"), timeout_seconds=3
            )
            with pytest.raises(UnreachableError, match="did not answer in time"):
                await get(api)
            assert asyncio.get_running_loop().time() == pytest.approx(3, abs=0.5)
            await api.close()

    run_in_virtual_time(main)


# Servers that are not there


def test_a_refused_connection() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        api = HttpApi(ClientConfig(server=f"https://127.0.0.1:{port}", source="my file"))
        with pytest.raises(UnreachableError, match=r"refused the connection; is it running.*my file"):
            await api.bind(BINDING)
        assert api.stats() == PoolStats(open=0, idle=0, waiting=0)
        assert counted(api) == {("POST", "<error>"): 1}
        await api.close()

    run(main)


def test_an_unknown_host_name() -> None:
    async def main() -> None:
        api = HttpApi(ClientConfig(server="https://no-such-host.invalid:6443", source="my file"))
        with pytest.raises(UnreachableError, match=r"cannot be found.*my file and the DNS"):
            await get(api)
        await api.close()

    run(main)


# The end


def test_closing_lets_requests_finish_and_refuses_new_ones() -> None:
    gate = asyncio.Event()

    async def handler(_asked: Asked, reply: Reply) -> None:
        await gate.wait()
        await reply.send(POD)

    async def test(api: HttpApi, server: Server) -> None:
        async with asyncio.TaskGroup() as group:
            under_way = group.create_task(get(api), name="under way")
            await until(lambda: server.asked)
            in_line = group.create_task(_failure(get(api)), name="in line")
            await asyncio.sleep(0)
            closing = group.create_task(api.close(), name="closing")
            await asyncio.sleep(0)
            gate.set()
            await closing
        assert under_way.result().metadata.name == "p"
        assert "the client is closed" in in_line.result()
        with pytest.raises(UnreachableError, match="the client is closed"):
            await get(api)

    with_api(handler, test, max_connections=1)


def test_closing_does_not_wait_for_ever() -> None:
    async def test(api: HttpApi, server: Server) -> None:
        async with asyncio.TaskGroup() as group:
            stuck = group.create_task(_failure(get(api)), name="stuck")
            await until(lambda: server.asked)
            await api.close()
        assert "was lost" in stuck.result()
        assert asyncio.get_running_loop().time() < 5

    with_virtual_time(hang, test)


def test_plain_http_works_and_carries_a_prefix() -> None:
    async def main() -> None:
        async with serve(pod, tls=False) as server:
            api = HttpApi(ClientConfig(server=f"http://127.0.0.1:{server.port}/k8s/"))
            assert (await get(api)).metadata.name == "p"
            assert server.asked[0].path == "/k8s/api/v1/namespaces/d/pods/p"
            await api.close()

    run(main)
