"""What one client may cost: sizes, times and numbers are bounded, and excess is reported."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from kuberth.errors import ServingError
from kuberth.https.connection_limit import Limits
from kuberth.local.apiserver.http.server import LIMITS, HttpServer, RequestLimits
from tests.unit.local.apiserver.harness import (
    ServerHarness,
    head,
    labelled_pod,
    read_answer,
    run_with_server,
    shared_credentials,
)

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("chunked", [False, True], ids=("length", "chunked"))
def test_a_body_that_is_too_large(chunked: bool) -> None:
    async def main(harness: ServerHarness) -> None:
        reader, writer = await harness.connect()
        body = b'{"x":"' + b"x" * 20_000 + b'"}'
        if chunked:
            sent = harness.headers({"transfer-encoding": "chunked"})
            writer.write(head("POST", PODS, sent, body) + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        else:
            writer.write(head("POST", PODS, harness.headers(), body) + body)
        answer = await read_answer(reader)
        assert (answer.status, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
        assert answer.headers["connection"] == "close"
        writer.close()

    run_with_server(main, limits=Limits(body_bytes=10_000))


def test_a_body_within_upstreams_limit() -> None:
    async def main(harness: ServerHarness) -> None:
        big = labelled_pod("web")
        big["metadata"]["annotations"] = {"filling": "x" * 200_000}
        assert (await harness.fetch("POST", PODS, big)).status == 201
        assert (await harness.fetch("POST", PODS, b" " * (3 * 1024 * 1024 + 1))).status == 413
        assert (await harness.fetch("POST", PODS, b" " * (3 * 1024 * 1024))).status == 400

    run_with_server(main)


def test_a_body_that_does_not_come() -> None:
    async def main(harness: ServerHarness) -> None:
        reader, writer = await harness.connect()
        writer.write(head("POST", PODS, harness.headers({"content-length": "100"}), b"") + b"{")
        answer = await read_answer(reader)
        assert (answer.status, answer.json()["reason"]) == (408, "Timeout")
        writer.close()

    run_with_server(main, request_limits=RequestLimits(request_seconds=0.1))


def test_a_client_that_goes_in_the_middle_of_its_body() -> None:
    async def main(harness: ServerHarness) -> None:
        _, writer = await harness.connect()
        writer.write(head("POST", PODS, harness.headers({"content-length": "100"}), b"") + b"{")
        await writer.drain()
        writer.transport.abort()
        assert (await harness.fetch("GET", "/healthz")).status == 200

    run_with_server(main)


def test_several_requests_on_one_connection() -> None:
    async def main(harness: ServerHarness) -> None:
        reader, writer = await harness.connect()
        for name in ("a", "b"):
            body = b'{"metadata":{"name":"%s"}}' % name.encode()
            path = "/api/v1/namespaces/default/configmaps"
            writer.write(head("POST", path, harness.headers(), body) + body)
            assert (await read_answer(reader)).status == 201
        # Sent at once, answered one after the other.
        writer.write(head("GET", "/healthz", {}, b"") + head("GET", "/version", {}, b""))
        assert (await read_answer(reader)).body == b"ok"
        assert (await read_answer(reader)).json()["major"] == "1"
        writer.close()

    run_with_server(main)


def test_an_upgrade_is_not_granted() -> None:
    async def main(harness: ServerHarness) -> None:
        headers = {"connection": "Upgrade", "upgrade": "SPDY/3.1"}
        answer = await harness.fetch("POST", f"{PODS}/web/exec?command=sh", headers=headers)
        assert answer.status == 404

    run_with_server(main)


def test_a_port_that_is_taken() -> None:
    async def main(harness: ServerHarness) -> None:
        second = HttpServer(harness.core, port=harness.server.port, credentials=harness.credentials)
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
    async def main(harness: ServerHarness) -> None:
        assert HttpServer(harness.core, host=host, port=7, credentials=shared_credentials()).url == url
        assert harness.server.url == f"https://127.0.0.1:{harness.server.port}"

    run_with_server(main)


# Strangers


def test_strangers_neither_lock_the_admin_out_nor_end_a_watch() -> None:
    async def main(harness: ServerHarness) -> None:
        async with harness.watch(f"{PODS}?watch=true") as watch, contextlib.AsyncExitStack() as stack:
            for number in range(60):
                with contextlib.suppress(OSError):
                    if number % 2:
                        _, writer = await harness.connect()
                    else:  # not even a handshake
                        _, writer = await asyncio.open_connection("127.0.0.1", harness.server.port)
                    stack.callback(writer.close)
            assert (await harness.fetch("POST", PODS, labelled_pod("web"))).status == 201
            event = await watch.next()
            assert event is not None
            assert event[1]["metadata"]["name"] == "web"

    run_with_server(main, limits=replace(LIMITS, connections=20, reserved=2))


def test_watches_leave_connections_for_probes() -> None:
    async def main(harness: ServerHarness) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(4):
                await stack.enter_async_context(harness.watch(f"{PODS}?watch=true"))
            answer = await harness.fetch("GET", PODS)
            assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable")
            assert (await harness.fetch("GET", "/livez", anonymous=True)).body == b"ok"

    run_with_server(main, limits=replace(LIMITS, connections=6, reserved=2))


@pytest.mark.parametrize("anonymous, status", [(True, 403), (False, 408)], ids=("anonymous", "admin"))
def test_a_body_that_drips(anonymous: bool, status: int) -> None:
    async def main(harness: ServerHarness) -> None:
        reader, writer = await harness.connect()
        headers = {"content-length": "1000000"}
        writer.write(head("POST", PODS, headers if anonymous else harness.headers(headers), b"") + b"{")

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(b" ")
                await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as group:
            dripping = group.create_task(drip())
            assert (await read_answer(reader)).status == status
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                assert await reader.read() == b""
            dripping.cancel()
        writer.close()

    run_with_server(main, limits=replace(LIMITS, body_seconds=0.2))
