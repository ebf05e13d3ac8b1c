from __future__ import annotations

import asyncio
import gzip
import signal
import socket
import ssl
from collections.abc import AsyncIterator

import pytest

from kuberth.errors import ServingError
from kuberth.serving import Limits, SelfSigned, Server
from kuberth.serving.messages import Handler, Request, Response
from tests.unit.serving.rig import Open, fetch, page, run, trusting


def server(routes: dict[str, Handler], *, limits: Limits | None = None, port: int = 0) -> Server:
    return Server(
        routes, access=Open(), certificates=SelfSigned(), host="127.0.0.1", port=port, limits=limits
    )


async def open_tls(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, ssl=trusting())


async def close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


def test_a_page_over_tls() -> None:
    async def main() -> None:
        async with server({"/page": page("hello")}) as serving:
            answer = await fetch(serving.port, "/page?x=1")
            assert (answer.status, answer.text) == (200, "hello")
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-cache, private"
            assert "server" not in answer.headers

    run(main)


def test_the_request_as_the_page_sees_it() -> None:
    seen: list[Request] = []

    def note(request: Request) -> Response:
        seen.append(request)
        return Response.text("")

    async def main() -> None:
        async with server({"/a b": note}) as serving:
            await fetch(serving.port, "/a%20b?q=1&q=2&empty", headers={"X-Thing": "Value"})
        (request,) = seen
        assert (request.method, request.path) == ("GET", "/a b")
        assert request.query == {"q": ["1", "2"], "empty": [""]}
        assert request.headers["x-thing"] == "Value"
        assert request.certificate is None
        assert "Value" not in repr(request), "headers may hold a token"

    run(main)


@pytest.mark.parametrize(
    "method, path, status, body",
    [
        ("GET", "/nothing", 404, '{"paths":["/a","/b"]}'),
        ("GET", "/a/", 404, '{"paths":["/a","/b"]}'),
        ("HEAD", "/a", 200, ""),
        ("DELETE", "/a", 405, "only GET and HEAD"),
        ("POST", "/a", 405, "only GET and HEAD"),
        ("GET", "/a?" + "&".join(f"x{n}" for n in range(200)), 400, "number of fields"),
    ],
    ids=("unknown path", "slash", "HEAD", "DELETE", "POST", "too many parameters"),
)
def test_what_is_not_a_page(method: str, path: str, status: int, body: str) -> None:
    async def main() -> None:
        async with server({"/b": page("b"), "/a": page("a")}) as serving:
            answer = await fetch(serving.port, path, method=method)
            assert answer.status == status
            assert body in answer.text

    run(main)


def test_a_page_that_fails_is_a_500_and_the_server_lives() -> None:
    def broken(request: Request) -> Response:
        raise RuntimeError("a secret detail")

    async def main() -> None:
        async with server({"/broken": broken, "/fine": page("fine")}) as serving:
            answer = await fetch(serving.port, "/broken")
            assert answer.status == 500
            assert "secret" not in answer.text
            assert (await fetch(serving.port, "/fine")).text == "fine"

    run(main)


def test_a_long_body_is_streamed_and_compressed_when_asked() -> None:
    piece = b"scheduler_pending_pods 1\n" * 100

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield piece

    async def main() -> None:
        async with server({"/long": lambda _request: Response(pieces()), "/short": page("s")}) as serving:
            assert (await fetch(serving.port, "/long")).body == piece * 50
            answer = await fetch(serving.port, "/long", headers={"Accept-Encoding": "gzip, deflate"})
            assert answer.headers["content-encoding"] == "gzip"
            assert gzip.decompress(answer.body) == piece * 50
            assert len(answer.body) < len(piece)
            answer = await fetch(serving.port, "/short", headers={"Accept-Encoding": "gzip"})
            assert "content-encoding" not in answer.headers

    run(main)


def test_a_body_that_breaks_off_is_not_a_whole_one() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"half"
        raise RuntimeError("broken")

    async def main() -> None:
        async with server({"/long": lambda _request: Response(pieces())}) as serving:
            reader, writer = await open_tls(serving.port)
            writer.write(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
            got = await reader.read(-1)
            assert b"half" in got
            assert not got.endswith(b"0\r\n\r\n"), "the end of a chunked body"
            await close(writer)

    run(main)


def test_several_requests_on_one_connection_and_in_parallel() -> None:
    async def main() -> None:
        async with server({"/page": page("hello")}) as serving:
            reader, writer = await open_tls(serving.port)
            for _ in range(3):
                writer.write(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b"200" in await reader.readline()
                assert (await reader.readuntil(b"hello")).endswith(b"hello")
            answers = await asyncio.gather(*(fetch(serving.port, "/page") for _ in range(20)))
            assert {answer.status for answer in answers} == {200}
            await close(writer)

    run(main)


# Starting and ending


def test_port_zero_is_any_and_a_port_in_use_is_one_clear_error() -> None:
    async def main() -> None:
        async with server({}) as serving:
            assert serving.port > 0
            with pytest.raises(ServingError) as caught:
                async with server({}, port=serving.port):
                    pass
            assert str(caught.value) == (
                f"cannot serve on 127.0.0.1 port {serving.port}: the port is in use; stop what listens "
                "there, or choose another with --secure-port"
            )
        async with server({}, port=serving.port) as again:
            assert again.port == serving.port, "it is free again"

    run(main)


def test_an_address_that_is_not_ours() -> None:
    async def main() -> None:
        with pytest.raises(ServingError, match=r"cannot serve on 192\.0\.2\.1 port 0: .*--bind-address"):
            async with Server({}, access=Open(), certificates=SelfSigned(), host="192.0.2.1", port=0):
                pass

    run(main)


def test_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")

    async def main() -> None:
        try:
            serving = Server(
                {"/page": page("six")}, access=Open(), certificates=SelfSigned(), host="::", port=0
            )
            async with serving:
                assert (await fetch(serving.port, "/page", host="::1")).text == "six"
                assert (await fetch(serving.port, "/page", host="127.0.0.1")).text == "six"
        except (ServingError, OSError) as error:
            pytest.skip(f"no IPv6 here: {error}")

    run(main)


def test_signal_handlers_and_tasks_stay_as_they_were() -> None:
    async def main() -> None:
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT), asyncio.all_tasks()
        async with server({"/page": page("x")}) as serving:
            await fetch(serving.port, "/page")
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
        async with server({"/slow": lambda _request: Response(slowly())}) as serving:
            reader, writer = await open_tls(serving.port)
            idle_reader, idle_writer = await open_tls(serving.port)
            writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"first ")
            asyncio.get_running_loop().call_later(0.05, released.set)
        assert b"last" in await reader.read(-1)
        assert await idle_reader.read(-1) == b""
        await close(writer, idle_writer)

    run(main)


def test_a_request_that_never_ends_is_cut_off() -> None:
    async def never() -> AsyncIterator[bytes]:
        yield b"first "
        await asyncio.Event().wait()

    async def main() -> None:
        limits = Limits(shutdown_seconds=0.1)
        async with server({"/never": lambda _request: Response(never())}, limits=limits) as serving:
            reader, writer = await open_tls(serving.port)
            writer.write(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"first ")
            writer.transport.abort()
            reader, writer = await open_tls(serving.port)
            writer.write(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"first ")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError, ssl.SSLError)):
            await reader.readexactly(1000)
        await close(writer)

    run(main)


# Limits


def test_a_header_that_is_too_large() -> None:
    async def main() -> None:
        limits = Limits(header_bytes=4096)
        async with server({"/page": page("x")}, limits=limits) as serving:
            assert (await fetch(serving.port, "/page", headers={"X": "y" * 3000})).status == 200
            reader, writer = await open_tls(serving.port)
            writer.write(b"GET /page HTTP/1.1\r\nX: " + b"y" * 5000)  # and it goes on
            assert b" 400 " in await reader.readline()
            await close(writer)

    run(main)


@pytest.mark.parametrize("sent", (b"", b"GET /page HTTP/1.1\r\nHost:"), ids=("nothing sent", "half a header"))
def test_a_header_that_does_not_come(sent: bytes) -> None:
    async def main() -> None:
        async with server({"/page": page("x")}, limits=Limits(header_seconds=0.05)) as serving:
            reader, writer = await open_tls(serving.port)
            writer.write(sent)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            await close(writer)

    run(main)


def test_a_header_that_drips() -> None:
    async def main() -> None:
        async with server({"/page": page("x")}, limits=Limits(header_seconds=0.1)) as serving:
            reader, writer = await open_tls(serving.port)
            writer.write(b"GET /page HTTP/1.1\r\n")

            async def drip() -> None:
                while not writer.is_closing():
                    writer.write(b"X: y\r\n")
                    await asyncio.sleep(0.01)

            dripping = asyncio.ensure_future(drip())
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)
            await close(writer)

    run(main)


def test_more_connections_than_allowed_are_turned_away() -> None:
    async def main() -> None:
        async with server({"/page": page("x")}, limits=Limits(connections=2)) as serving:
            idle = [await open_tls(serving.port) for _ in range(2)]
            assert (await fetch(serving.port, "/page")).status == 503
            await close(idle.pop()[1])
            assert (await fetch(serving.port, "/page")).status == 200
            await close(idle.pop()[1])

    run(main)


def test_a_request_that_takes_too_long() -> None:
    class Slow(Open):
        async def refusal(self, request: Request) -> Response | None:
            await asyncio.Event().wait()
            return None

    async def main() -> None:
        async with Server(
            {"/page": page("x")},
            access=Slow(),
            certificates=SelfSigned(),
            host="127.0.0.1",
            port=0,
            limits=Limits(request_seconds=0.05),
        ) as serving:
            answer = await fetch(serving.port, "/page")
            assert (answer.status, answer.json["reason"]) == (504, "Timeout")

    run(main)


def test_garbage_and_plain_http_do_no_harm() -> None:
    async def main() -> None:
        async with server({"/page": page("x")}) as serving:
            reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
            writer.write(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" not in await reader.read(-1)
            await close(writer)
            reader, writer = await open_tls(serving.port)
            writer.write(b"\x00\x01garbage\r\n\r\n")
            assert b" 400 " in await reader.readline()
            await close(writer)
            assert (await fetch(serving.port, "/page")).status == 200

    run(main)
