"""Probes are answered while the event loop is busy, and say so if that lasts.

A client that blocks in the midst of the event loop stands for a scheduling cycle that takes long: nothing
else runs in the loop until the answer is there.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import replace

import pytest

from kuberth.config import default_configuration
from kuberth.https.certificates import SelfSigned
from kuberth.https.connection_limit import Limits
from kuberth.https.messages import Request, Response
from kuberth.observe.metrics import SchedulerMetrics
from kuberth.programs.run.watchdog import Watchdog, WatchdogLimits
from kuberth.serving.access import OPEN_PATHS
from kuberth.serving.endpoints import scheduler_routes
from kuberth.serving.health import HealthCheck
from kuberth.serving.page_service import PageService
from kuberth.serving.server import LIMITS, ForwardingService, Server
from tests.unit.serving.harness import Open, fetch, page, run, trusting

PROBES = sorted(OPEN_PATHS)


FEW = replace(LIMITS, connections=100, per_address=50)


def server(limits: Limits = LIMITS, **routes: object) -> Server:
    return Server(
        {path.replace("_", "/"): handler for path, handler in routes.items()},  # type: ignore[misc]  # handlers
        access=Open(),
        certificates=SelfSigned(),
        host="127.0.0.1",
        port=0,
        limits=limits,
    )


def ask(port: int, path: str, *, seconds: float = 20.0) -> tuple[int, str]:
    """A request that holds the event loop until it is answered; TimeoutError if it is not."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=seconds, context=trusting())
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_probes_are_answered_while_the_loop_is_busy_and_pages_afterwards() -> None:
    def thread(_request: Request) -> Response:
        return Response.text(threading.current_thread().name)

    async def main() -> None:
        async with server(_healthz=thread, _livez=thread, _readyz=thread, _page=thread) as serving:
            assert {ask(serving.port, path) for path in PROBES} == {(200, "serving")}
            with pytest.raises(TimeoutError):
                ask(serving.port, "/page", seconds=0.05)
            assert (await fetch(serving.port, "/page")).text == threading.main_thread().name

    run(main)


def test_idle_connections_do_not_stop_a_probe_while_the_loop_is_busy() -> None:
    async def main() -> None:
        async with server(FEW, _livez=page("ok")) as serving:
            idle = []
            for number in range(4 * FEW.connections):
                source = (f"127.0.0.{2 + number % 8}", 0)
                with suppress(OSError):
                    idle.append(socket.create_connection(("127.0.0.1", serving.port), 20, source))
            assert ask(serving.port, "/livez") == (200, "ok")
            for connection in idle:
                connection.close()

    run(main)


def test_a_probe_path_that_needs_permission_is_asked_about_in_the_loop() -> None:
    class Closed(Open):
        def is_open(self, path: str) -> bool:
            return False

        async def refusal(self, request: Request) -> Response | None:
            return Response.text(threading.current_thread().name, status=403)

    async def main() -> None:
        serving = Server({}, access=Closed(), certificates=SelfSigned(), host="127.0.0.1", port=0)
        async with serving:
            answer = await fetch(serving.port, "/livez")
            assert (answer.status, answer.text) == (403, threading.main_thread().name)

    run(main)


@pytest.mark.parametrize("path", PROBES)
def test_probes_fail_once_the_loop_has_not_turned_for_ten_seconds(path: str) -> None:
    now = 100.0
    watchdog = Watchdog(WatchdogLimits(), now=lambda: now)
    checks = [HealthCheck("scheduling-loop", watchdog.problem)]
    config = default_configuration()
    routes = scheduler_routes(
        metrics=SchedulerMetrics().families,
        config=lambda: config,
        healthz=checks,
        livez=checks,
        readyz=checks,
    )

    async def main() -> None:
        nonlocal now
        serving = Server(routes, access=Open(), certificates=SelfSigned(), host="127.0.0.1", port=0)
        async with serving:
            now += 9.9
            assert ask(serving.port, path) == (200, "ok")
            now += 0.1
            endpoint = path.strip("/")
            failed = f"[-]scheduling-loop failed: reason withheld\n{endpoint} check failed\n"
            assert ask(serving.port, path) == (500, failed)
            why = await fetch(serving.port, f"{path}/scheduling-loop")
            assert why.text == "internal server error: the event loop has been blocked for 10 s\n"
            watchdog.beat()
            assert ask(serving.port, path) == (200, "ok")
            slis = (await fetch(serving.port, "/metrics/slis")).text
            labels = f'name="scheduling-loop",status="error",type="{endpoint}"'
            assert f"kubernetes_healthchecks_total{{{labels}}} 1\n" in slis

    run(main)


def test_a_stream_ends_in_the_loop_when_its_client_goes_away() -> None:
    ended: list[str] = []
    end = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield b"first\n"
            await asyncio.Event().wait()
        finally:
            ended.append(threading.current_thread().name)
            end.set()

    async def main() -> None:
        async with server(_stream=lambda _request: Response(pieces(), endless=True)) as serving:
            reader, writer = await asyncio.open_connection("127.0.0.1", serving.port, ssl=trusting())
            writer.write(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
            await reader.readuntil(b"first\n")
            writer.close()
            await end.wait()
            assert ended == [threading.main_thread().name]

    run(main)


def test_a_body_that_is_not_read_to_its_end_is_closed_in_the_loop() -> None:
    ended: list[str] = []

    async def pieces() -> AsyncIterator[bytes]:
        try:
            for number in range(10):
                yield b"%d\n" % number
        finally:
            ended.append(threading.current_thread().name)

    async def read_some(service: ForwardingService) -> bytes:
        body = (await service.answer(Request("GET", "/page"))).body
        assert isinstance(body, AsyncGenerator)
        async with aclosing(body):
            return b"".join([await anext(body), await anext(body)])

    async def main() -> None:
        made = pieces()  # kept, so that it is not closed for being forgotten
        routes = {"/page": lambda _request: Response(made)}
        service = ForwardingService(
            PageService(routes, access=Open(), request_seconds=10), asyncio.get_running_loop()
        )
        read = await asyncio.to_thread(lambda: asyncio.run(read_some(service)))
        assert (read, ended) == (b"0\n1\n", [threading.main_thread().name])

    run(main)


def test_a_stream_ends_with_the_server() -> None:
    ended: list[str] = []

    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield b"first\n"
            await asyncio.Event().wait()
        finally:
            ended.append("now")

    async def main() -> None:
        async with server(_stream=lambda _request: Response(pieces(), endless=True)) as serving:
            reader, writer = await asyncio.open_connection("127.0.0.1", serving.port, ssl=trusting())
            writer.write(b"GET /stream HTTP/1.1\r\nhost: x\r\n\r\n")
            await reader.readuntil(b"first\n")
        assert ended == ["now"]
        assert (await reader.read()).endswith(b"0\r\n\r\n"), "the response was completed"
        writer.close()

    run(main)


def test_the_thread_ends_with_the_server() -> None:
    async def main() -> None:
        before = threading.active_count()
        async with server(_livez=page("ok")) as serving:
            assert ask(serving.port, "/livez") == (200, "ok")
            names = [thread.name for thread in threading.enumerate()]
            assert names.count("serving") == 1
        assert "serving" not in [thread.name for thread in threading.enumerate()]
        assert threading.active_count() <= before + 1, "but for the thread that waited for it"

    run(main)
