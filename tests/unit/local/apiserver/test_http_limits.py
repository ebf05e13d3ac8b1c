"""What one client may cost: sizes, times and numbers are bounded, and what is beyond them is told."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

from kuberth.errors import ServingError
from kuberth.local.apiserver.http.application import RequestLimits
from kuberth.local.apiserver.http.server import ConnectionLimits, HttpServer
from tests.unit.local.apiserver.http_rig import (
    Rig,
    head,
    pod,
    read_answer,
    run_with_server,
    shared_credentials,
)

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("chunked", [False, True], ids=("length", "chunked"))
def test_a_body_that_is_too_large(chunked: bool) -> None:
    async def main(rig: Rig) -> None:
        reader, writer = await rig.connect()
        body = b'{"x":"' + b"x" * 20_000 + b'"}'
        if chunked:
            sent = rig.headers({"transfer-encoding": "chunked"})
            writer.write(head("POST", PODS, sent, body) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        else:
            writer.write(head("POST", PODS, rig.headers(), body) + body)
        answer = await read_answer(reader)
        assert (answer.status, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
        assert answer.headers["connection"] == "close"
        writer.close()

    run_with_server(main, request_limits=RequestLimits(body_bytes=10_000))


def test_a_body_within_upstreams_limit() -> None:
    async def main(rig: Rig) -> None:
        big = pod("web")
        big["metadata"]["annotations"] = {"filling": "x" * 200_000}
        assert (await rig.fetch("POST", PODS, big)).status == 201
        assert (await rig.fetch("POST", PODS, b" " * (3 * 1024 * 1024 + 1))).status == 413
        assert (await rig.fetch("POST", PODS, b" " * (3 * 1024 * 1024))).status == 400

    run_with_server(main)


@pytest.mark.parametrize("complete", [True, False], ids=("complete", "endless"))
def test_a_header_that_is_too_large(complete: bool) -> None:
    async def main(rig: Rig) -> None:
        reader, writer = await rig.connect()
        end = b"\r\n\r\n" if complete else b""
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-filling: " + b"x" * 10_000 + end)
        answer = await read_answer(reader)
        assert answer.status == 431
        assert await reader.read() == b""
        writer.close()

    run_with_server(main, connection_limits=ConnectionLimits(header_bytes=8_000))


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nhost: x\r\n"])
def test_a_header_that_does_not_come(sent: bytes) -> None:
    async def main(rig: Rig) -> None:
        reader, writer = await rig.connect()
        writer.write(sent)
        async with asyncio.timeout(5.0):
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                assert await reader.read() == b""
        writer.close()

    run_with_server(main, connection_limits=ConnectionLimits(header_seconds=0.1))


def test_a_body_that_does_not_come() -> None:
    async def main(rig: Rig) -> None:
        reader, writer = await rig.connect()
        writer.write(head("POST", PODS, rig.headers({"content-length": "100"}), b"") + b"{")
        answer = await read_answer(reader)
        assert (answer.status, answer.json()["reason"]) == (408, "Timeout")
        writer.close()

    run_with_server(main, request_limits=RequestLimits(request_seconds=0.1))


def test_a_client_that_goes_in_the_middle_of_its_body() -> None:
    async def main(rig: Rig) -> None:
        _, writer = await rig.connect()
        writer.write(head("POST", PODS, rig.headers({"content-length": "100"}), b"") + b"{")
        await writer.drain()
        writer.transport.abort()
        assert (await rig.fetch("GET", "/healthz")).status == 200

    run_with_server(main)


def test_too_many_connections() -> None:
    async def main(rig: Rig) -> None:
        writers = [(await rig.connect())[1] for _ in range(3)]
        assert (await rig.fetch("GET", "/healthz")).status == 503
        for writer in writers:
            writer.close()
            await writer.wait_closed()
        assert (await rig.fetch("GET", "/healthz")).status == 200

    run_with_server(main, connection_limits=ConnectionLimits(connections=3))


def test_several_requests_on_one_connection() -> None:
    async def main(rig: Rig) -> None:
        reader, writer = await rig.connect()
        for name in ("a", "b"):
            body = b'{"metadata":{"name":"%s"}}' % name.encode()
            path = "/api/v1/namespaces/default/configmaps"
            writer.write(head("POST", path, rig.headers(), body) + body)
            assert (await read_answer(reader)).status == 201
        # Sent at once, answered one after the other.
        writer.write(head("GET", "/healthz", {}, b"") + head("GET", "/version", {}, b""))
        assert (await read_answer(reader)).body == b"ok"
        assert (await read_answer(reader)).json()["major"] == "1"
        writer.close()

    run_with_server(main)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET \xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT host:443 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET * HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01\x00\x00",
    ],
)
def test_what_is_no_http(sent: bytes) -> None:
    async def main(rig: Rig) -> None:
        reader, writer = await rig.connect()
        writer.write(sent)
        writer.write_eof() if writer.can_write_eof() else None
        answer = await reader.read(4096)
        assert not answer or answer.split(b" ")[1].startswith(b"4"), answer
        writer.close()
        assert (await rig.fetch("GET", "/healthz")).status == 200

    run_with_server(main, connection_limits=ConnectionLimits(header_seconds=1.0))


def test_an_upgrade_is_not_granted() -> None:
    async def main(rig: Rig) -> None:
        headers = {"connection": "Upgrade", "upgrade": "SPDY/3.1"}
        answer = await rig.fetch("POST", f"{PODS}/web/exec?command=sh", headers=headers)
        assert answer.status == 404

    run_with_server(main)


def test_a_port_that_is_taken() -> None:
    async def main(rig: Rig) -> None:
        second = HttpServer(rig.core, port=rig.server.port, credentials=rig.credentials)
        with pytest.raises(ServingError, match="in use; stop what listens there, or choose another"):
            await second.__aenter__()

    run_with_server(main)


@pytest.mark.parametrize(
    "host, url",
    [
        ("127.0.0.1", "https://127.0.0.1:7"),
        ("0.0.0.0", "https://127.0.0.1:7"),
        ("::", "https://[::1]:7"),
        ("localhost", "https://localhost:7"),
    ],
)
def test_where_it_is_reached(tmp_path: Path, host: str, url: str) -> None:
    async def main(rig: Rig) -> None:
        assert HttpServer(rig.core, host=host, port=7, credentials=shared_credentials()).url == url
        assert rig.server.url == f"https://127.0.0.1:{rig.server.port}"

    run_with_server(main)
