"""The listener over real TLS: starting, ending, and that no client keeps others out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from kuberth.errors import ServingError
from kuberth.https.connection import OncePerMinute, malformed_requests
from kuberth.https.connection_limit import Limits, affordable_connections
from kuberth.https.messages import Request, Response
from tests.unit.https.harness import LIMIT_SECONDS, close, cut, fetch, listening, open_tls, run, trusting

GONE = (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError)


def get(path: str, *headers: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (f"GET {path} HTTP/1.1", "host: x", *headers, "")).encode()


def streaming(
    pieces: Callable[[], AsyncIterator[bytes]], *, endless: bool = False
) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def page(_request: Request) -> Response:
        return Response(pieces(), endless=endless)

    return page


# Requests


def test_several_requests_on_one_connection_and_in_parallel() -> None:
    async def main() -> None:
        async with listening() as server:
            reader, writer = await open_tls(server.port)
            for _ in range(3):
                writer.write(get("/page"))
                assert b"200" in await reader.readline()
                assert (await reader.readuntil(b"\r\n\r\n/page")).endswith(b"/page")
            writer.write(get("/first") + get("/second"))
            await reader.readuntil(b"\r\n\r\n/first")
            await reader.readuntil(b"\r\n\r\n/second")
            answers = await asyncio.gather(*(fetch(server.port, "/page") for _ in range(20)))
            assert {answer.status for answer in answers} == {200}
            await close(writer)

    run(main)


@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_a_request_with_two_hosts_is_refused_with_what_follows(first: bool) -> None:
    async def after(request: Request) -> Response:
        answered.append(request.path)
        return Response.text("")

    async def main() -> None:
        async with listening({"/after": after}) as server:
            reader, writer = await open_tls(server.port)
            if not first:
                writer.write(get("/before"))
                await reader.readuntil(b"\r\n\r\n/before")
            writer.write(get("/page", "Host: y", "content-length: 3") + b"abc" + get("/after"))
            got = await reader.read(-1)
            assert got.startswith(b"HTTP/1.1 400")
            assert got.endswith(b"more than one Host header")
            await close(writer)

    answered: list[str] = []
    run(main)
    assert not answered


def test_malformed_requests_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with listening() as server:
            for _ in range(5):
                reader, writer = await open_tls(server.port)
                writer.write(b"nonsense\r\n\r\n")
                assert b"400" in await reader.read(-1)
                await close(writer)

    malformed_requests.filters[:] = [OncePerMinute()]
    run(main)
    assert [record.getMessage() for record in caplog.records] == ["Invalid HTTP request received."]


def test_the_next_line_has_the_number_of_those_before() -> None:
    once_per_minute, passed = OncePerMinute(), list[str]()
    for second in range(1000, 1121):
        record = logging.LogRecord("x", logging.WARNING, "", 0, "no request", (), None)
        record.created = float(second)
        if once_per_minute.filter(record):
            passed.append(record.getMessage())
    counted = "no request (59 more since the last of these lines)"
    assert passed == ["no request", counted, counted]


@pytest.mark.parametrize("endless", (False, True), ids=("finite", "endless"))
def test_a_body_that_breaks_off_is_not_a_whole_one(endless: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"half"
        raise RuntimeError("broken")

    async def main() -> None:
        async with listening({"/long": streaming(pieces, endless=endless)}) as server:
            reader, writer = await open_tls(server.port)
            writer.write(get("/long"))
            got = await reader.read(-1)
            assert b"half" in got
            assert not got.endswith(b"0\r\n\r\n"), "the end of a chunked body"
            await close(writer)

    run(main)


def test_a_client_of_old_gets_a_body_in_one_piece() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"first "
        yield b"last"

    async def main() -> None:
        async with listening({"/long": streaming(pieces)}) as server:
            reader, writer = await open_tls(server.port)
            writer.write(b"GET /long HTTP/1.0\r\n\r\n")
            got = await reader.read(-1)
            assert got.endswith(b"\r\n\r\nfirst last")
            assert b"chunked" not in got
            await close(writer)

    run(main)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x00\x01garbage\r\n\r\n",
        b"GET \xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT host:443 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET * HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nhost: x\r\n\r\n",
    ],
)
def test_what_is_no_http(sent: bytes) -> None:
    async def main() -> None:
        async with listening() as server:
            reader, writer = await open_tls(server.port)
            writer.write(sent)
            assert (await reader.readline()).split(b" ")[1].startswith(b"4")
            await close(writer)
            assert (await fetch(server.port, "/page")).status == 200

    run(main)


@pytest.mark.parametrize("sent", (b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\x00", b""))
def test_what_is_no_tls(sent: bytes) -> None:
    async def main() -> None:
        async with listening(limits=Limits(handshake_seconds=0.1)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(sent)
            assert b"200" not in await reader.read(-1)
            await close(writer)
            assert (await fetch(server.port, "/page")).status == 200

    run(main)


# Starting and ending


def test_a_port_in_use_and_an_address_that_is_not_ours() -> None:
    async def main() -> None:
        async with listening() as server:
            with pytest.raises(ServingError, match=r"is in use; .* choose another with --which"):
                await listening(port=server.port).__aenter__()
        async with listening(port=server.port) as again:
            assert again.port == server.port, "it is free again"
        with pytest.raises(ServingError, match=r"cannot serve on 192\.0\.2\.1 port 0: .*--where and --which"):
            await listening(host="192.0.2.1").__aenter__()

    run(main)


def test_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")

    async def main() -> None:
        try:
            async with listening(host="::") as server:
                assert (await fetch(server.port, "/six", host="::1")).text == "/six"
                assert (await fetch(server.port, "/six", host="127.0.0.1")).text == "/six"
        except (ServingError, OSError) as error:
            pytest.skip(f"no IPv6 here: {error}")

    run(main)


def test_signal_handlers_and_tasks_stay_as_they_were() -> None:
    async def main() -> None:
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT), asyncio.all_tasks()
        async with listening() as server:
            await fetch(server.port, "/page")
            assert before[:2] == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
        assert asyncio.all_tasks() == before[2]

    run(main)


def test_a_running_request_ends_before_the_server_does() -> None:
    released = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"first "
        await released.wait()
        yield b"last"

    async def main() -> None:
        async with listening({"/slow": streaming(slowly)}) as server:
            reader, writer = await open_tls(server.port)
            idle_reader, idle_writer = await open_tls(server.port)
            silent_reader, silent_writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(get("/slow"))
            await reader.readuntil(b"first ")
            asyncio.get_running_loop().call_later(0.05, released.set)
        assert b"last" in await reader.read(-1)
        assert await idle_reader.read(-1) == b""
        await cut(silent_reader)
        await close(writer, idle_writer, silent_writer)

    run(main)


def test_a_request_that_never_ends_is_cut_off() -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"first "
        await asyncio.Event().wait()

    async def main() -> None:
        limits = Limits(shutdown_seconds=0.1)
        async with listening({"/never": streaming(never)}, limits=limits) as server:
            reader, writer = await open_tls(server.port)
            writer.write(get("/never"))
            await reader.readuntil(b"first ")
            writer.transport.abort()
            reader, writer = await open_tls(server.port)
            writer.write(get("/never"))
            await reader.readuntil(b"first ")
        with pytest.raises(GONE):
            await reader.readexactly(1000)
        await close(writer)

    run(main)


# What does not come


@pytest.mark.parametrize("end", (b"\r\n\r\n", b""), ids=("complete", "endless"))
def test_a_header_that_is_too_large(end: bytes) -> None:
    async def main() -> None:
        async with listening(limits=Limits(header_bytes=4096)) as server:
            assert (await fetch(server.port, "/page", headers={"X": "y" * 3000})).status == 200
            reader, writer = await open_tls(server.port)
            writer.write(b"GET /page HTTP/1.1\r\nX: " + b"y" * 5000 + end)
            assert b" 431 " in await reader.readline()
            await cut(reader)
            await close(writer)

    run(main)


@pytest.mark.parametrize(
    "sent", (b"", b"GET /page HT", b"GET /page HTTP/1.1\r\nhost: x\r\n"), ids=("nothing", "a word", "half")
)
def test_a_header_that_does_not_come(sent: bytes) -> None:
    async def main() -> None:
        async with listening(limits=Limits(header_seconds=0.05)) as server:
            reader, writer = await open_tls(server.port)
            writer.write(sent)
            with pytest.raises(GONE):
                await reader.readexactly(1)
            await close(writer)

    run(main)


@pytest.mark.parametrize(
    "sent, drop, answer",
    [
        (b"GET /page HTTP/1.1\r\n", b"X: y\r\n", b""),
        (b"", b"\r\n", b""),
        (get("/page"), b"\r\n", b" 200 "),
        (get("/page", "content-length: 1000000"), b"x", b" 200 "),
        (get("/page", "transfer-encoding: chunked"), b"1\r\nx\r\n", b" 200 "),
        (get("/reads", "content-length: 1000000"), b"x", b" 408 "),
    ],
    ids=("header", "blank lines at first", "blank lines later", "unasked body", "unasked chunks", "body"),
)
def test_what_drips_does_not_keep_a_connection(sent: bytes, drop: bytes, answer: bytes) -> None:
    async def read(request: Request) -> Response:
        try:
            return Response(await request.body())
        except TimeoutError:
            return Response(b"", status=408, headers={"connection": "close"})

    async def main() -> None:
        limits = Limits(header_seconds=0.1, body_seconds=0.1, idle_seconds=1)
        async with listening({"/reads": read}, limits=limits) as server:
            reader, writer = await open_tls(server.port)
            writer.write(sent)

            async def drip() -> None:
                while not writer.is_closing():
                    writer.write(drop)
                    await asyncio.sleep(0.01)

            async with asyncio.TaskGroup() as group:
                dripping = group.create_task(drip())
                with contextlib.suppress(*GONE):
                    assert answer in await reader.readline()
                await cut(reader)
                dripping.cancel()
            await close(writer)

    run(main)


def test_deadlines_do_not_apply_while_waiting_for_a_response() -> None:
    released = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"first "
        await released.wait()
        yield b"last"

    async def main() -> None:
        limits = Limits(header_seconds=0.02, body_seconds=0.02, idle_seconds=0, unread_seconds=0.02)
        async with listening({"/watch": streaming(slowly, endless=True)}, limits=limits) as server:
            reader, writer = await open_tls(server.port)
            writer.write(get("/watch"))
            await reader.readuntil(b"first ")
            await asyncio.sleep(0.3)
            released.set()
            await reader.readuntil(b"last")
            await close(writer)

    run(main)


# Crowds


async def crowd(
    port: int, count: int, *, source: str = "127.0.0.1", tls: bool = True
) -> contextlib.AsyncExitStack:
    """Idle connections, some of which may be closed already; leave the stack to close the others."""
    stack = contextlib.AsyncExitStack()
    for _ in range(count):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=trusting() if tls else None, local_addr=(source, 0)
            )
            stack.push_async_callback(close, writer)
    return stack


@pytest.mark.parametrize(
    "new_loop", (asyncio.new_event_loop, uvloop.new_event_loop), ids=("asyncio", "uvloop")
)
@pytest.mark.parametrize("tls", (True, False), ids=("TLS", "no handshake"))
def test_idle_connections_are_closed_for_new_ones(
    tls: bool, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(LIMIT_SECONDS),
            listening(limits=Limits(connections=5, reserved=1)) as server,
            await crowd(server.port, 12, tls=tls),
        ):
            for path in ("/livez", "/page"):
                assert (await fetch(server.port, path)).status == 200

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


def test_the_oldest_idle_connection_is_closed_first() -> None:
    async def main() -> None:
        async with listening(limits=Limits(connections=3, reserved=1, header_seconds=600.0)) as server:
            first, second, third = [await open_tls(server.port) for _ in range(3)]
            first[1].write(get("/page"))
            await first[0].readuntil(b"\r\n\r\n/page")
            fourth = await open_tls(server.port)
            await cut(second[0])
            for reader, writer in (first, third, fourth):
                writer.write(get("/page"))
                await reader.readuntil(b"\r\n\r\n/page")
            await close(*(writer for _, writer in (first, second, third, fourth)))

    run(main)


def test_an_address_takes_no_place_from_others() -> None:
    async def main() -> None:
        async with listening(limits=Limits(connections=20, reserved=1, per_address=5)) as server:
            reader, writer = await open_tls(server.port, source="127.0.0.2")
            async with await crowd(server.port, 30, source="127.0.0.3"):
                writer.write(get("/page"))
                await reader.readuntil(b"\r\n\r\n/page")
            await close(writer)

    run(main)


def test_probes_are_answered_while_everybody_is_busy() -> None:
    arrived = asyncio.Semaphore(0)
    released = asyncio.Event()

    async def wait(_request: Request) -> Response:
        arrived.release()
        await released.wait()
        return Response.text("done")

    async def main() -> None:
        async with listening({"/wait": wait}, limits=Limits(connections=5, reserved=2)) as server:
            busy = [await open_tls(server.port) for _ in range(3)]
            for _, writer in busy:
                writer.write(get("/wait", "authorization: alice"))
                await arrived.acquire()
            async with await crowd(server.port, 10):
                answer = await fetch(server.port, "/page")
                assert (answer.status, answer.headers["retry-after"]) == (503, "1")
                assert (await fetch(server.port, "/livez")).status == 200
            released.set()
            for reader, _ in busy:
                await reader.readuntil(b"done")
            assert (await fetch(server.port, "/page")).status == 200
            await close(*(writer for _, writer in busy))

    run(main)


def test_authenticated_connections_outlast_anonymous_ones() -> None:
    released = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"first "
        await released.wait()
        yield b"last"

    async def main() -> None:
        pages = {"/watch": streaming(slowly, endless=True)}
        async with listening(pages, limits=Limits(connections=6, reserved=2)) as server:
            watch, idle = await open_tls(server.port), await open_tls(server.port)
            watch[1].write(get("/watch", "authorization: alice"))
            await watch[0].readuntil(b"first ")
            idle[1].write(get("/page", "authorization: alice"))
            await idle[0].readuntil(b"\r\n\r\n/page")
            async with await crowd(server.port, 20), await crowd(server.port, 20, tls=False):
                idle[1].write(get("/page"))
                await idle[0].readuntil(b"\r\n\r\n/page")
                assert (await fetch(server.port, "/page", token="alice")).status == 200
            released.set()
            await watch[0].readuntil(b"last")
            await close(watch[1], idle[1])

    run(main)


@pytest.mark.parametrize(
    "files, wanted, connections",
    [
        (1024, 2000, 896),
        (1024, 100, 100),
        (256, 2000, 128),
        (64, 2000, 32),
        (65536, 2000, 2000),
        (-1, 2000, 2000),
    ],
)
def test_connections_follow_from_the_files_a_process_may_open(
    monkeypatch: pytest.MonkeyPatch, files: int, wanted: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (files, files))
    assert affordable_connections(wanted) == connections


def test_more_connections_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (12, 12))

    async def main() -> None:
        async with listening(limits=Limits(connections=2000, header_seconds=600.0)) as server:
            clients = [await open_tls(server.port) for _ in range(20)]
            for reader, _ in clients[:-6]:
                await cut(reader)
            assert (await fetch(server.port, "/page")).status == 200
            await close(*(writer for _, writer in clients))

    run(main)
