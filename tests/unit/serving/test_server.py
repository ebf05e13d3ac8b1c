from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
from collections.abc import AsyncIterator

import pytest

from kuberth.errors import ServingError
from kuberth.https.certificates import SelfSigned
from kuberth.https.connection_limit import Limits
from kuberth.https.messages import Request, Response
from kuberth.serving.messages import Handler
from kuberth.serving.server import LIMITS, Server
from tests.unit.https.harness import close, open_tls
from tests.unit.serving.harness import Open, fetch, page, run


def server(routes: dict[str, Handler], *, limits: Limits = LIMITS, port: int = 0) -> Server:
    return Server(
        routes, access=Open(), certificates=SelfSigned(), host="127.0.0.1", port=port, limits=limits
    )


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
            request_seconds=0.05,
        ) as serving:
            answer = await fetch(serving.port, "/page")
            assert (answer.status, answer.json["reason"]) == (504, "Timeout")

    run(main)


def test_hundreds_of_idle_connections_from_the_address_of_the_probes_are_kept() -> None:
    """None of them is closed for another one, so that clients that open them again cannot close a probe's."""

    async def main() -> None:
        async with server({"/livez": page("ok")}) as serving:
            idle = [await open_tls(serving.port) for _ in range(400)]
            assert (await fetch(serving.port, "/livez")).status == 200
            assert not any(reader.at_eof() for reader, _ in idle)
            await close(*(writer for _, writer in idle))

    run(main)


def test_idle_connections_do_not_stop_a_probe() -> None:
    """As many as there may be, of one client and of several, and then some."""

    async def main() -> None:
        few = dataclasses.replace(LIMITS, connections=100, per_address=50)
        async with server({"/livez": page("ok"), "/page": page("x")}, limits=few) as serving:
            idle = []
            for number in range(few.connections + 60):
                with contextlib.suppress(OSError):
                    source = f"127.0.0.{2 + number % 4}" if number >= 60 else "127.0.0.2"
                    idle.append(await open_tls(serving.port, source=source))
            for path in ("/livez", "/page", "/livez"):
                assert (await fetch(serving.port, path)).status == 200
            await close(*(writer for _, writer in idle))

    run(main)
