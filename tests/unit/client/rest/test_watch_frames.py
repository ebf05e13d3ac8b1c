from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.api.core import Pod
from kuberth.client.connecting.connection import STREAM_PAUSE_BYTES
from kuberth.client.http_api import HttpApi
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.client.rest.watch_frames import WatchDecoder
from kuberth.errors import ApiError, ForbiddenError, UnreachableError
from kuberth.testing import run_in_virtual_time
from tests.unit.client.https_server import Asked, Handler, Reply, Server, api_on, run, until

Test = Callable[[HttpApi, Server], Coroutine[Any, Any, None]]


def with_api(handler: Handler, test: Test, *, virtual: bool = False, **options: Any) -> None:
    async def main() -> None:
        async with api_on(handler, **options) as (api, server):
            await test(api, server)

    if virtual:
        run_in_virtual_time(main)
    else:
        run(main)


def obj(name: str, version: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}, **more}


async def collect_into(found: list[WatchEvent], api: HttpApi) -> None:
    async for event in api.watch(Pod, resource_version="1"):
        found.append(event)  # noqa: PERF401 - what came before an error counts


async def collect(api: HttpApi, **options: Any) -> list[WatchEvent]:
    return [event async for event in api.watch(Pod, resource_version="1", **options)]


def brief(events: list[WatchEvent]) -> list[tuple[str, str, str]]:
    return [
        (str(event.type), "" if event.object is None else event.object.metadata.name, event.resource_version)
        for event in events
    ]


def test_events_until_the_server_ends_the_watch() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.start_chunks()
        await reply.event("ADDED", obj("a", "2"))
        await reply.event("MODIFIED", obj("a", "3"))
        await reply.event("BOOKMARK", {"metadata": {"resourceVersion": "5"}})
        await reply.event("DELETED", obj("a", "6"))
        await reply.end_chunks()

    async def test(api: HttpApi, server: Server) -> None:
        found = await collect(api, field_selector="status.phase!=Failed")
        assert brief(found) == [
            ("ADDED", "a", "2"),
            ("MODIFIED", "a", "3"),
            ("BOOKMARK", "", "5"),
            ("DELETED", "a", "6"),
        ]
        (asked,) = server.asked
        query = asked.query
        assert asked.path == "/api/v1/pods"
        assert 300 <= int(query.pop("timeoutSeconds")) <= 600
        assert query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": "1",
            "fieldSelector": "status.phase!=Failed",
        }
        assert api.stats().open == 0

    with_api(handler, test)


def test_watches_stay_out_of_the_pool_and_end_with_their_reader() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if "watch" in asked.query:
            await reply.start_chunks()
            await reply.event("ADDED", obj("a", "2"))
            await reply.hang()
        else:
            await reply.send(obj("p", "1"))

    async def test(api: HttpApi, server: Server) -> None:
        async def one() -> None:
            await collect_into(seen, api)

        seen: list[WatchEvent] = []
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(), name=f"watch {each}") for each in range(5)]
            await until(lambda: len(seen) == 5)
            await api.get(Pod, "p", namespace="d")
            assert api.stats().open == 1
            for task in tasks:
                task.cancel()
        await until(lambda: len(server.writers) <= 1)

    with_api(handler, test, max_connections=1)


@pytest.mark.parametrize(
    ("code", "reason"), [(410, "Expired"), (410, "Gone"), (500, "InternalError"), (504, "Timeout")]
)
def test_an_error_event_ends_the_watch(code: int, reason: str) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.start_chunks()
        await reply.event("ADDED", obj("a", "2"))
        status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "too old"}
        await reply.event("ERROR", status)
        await reply.hang()

    async def test(api: HttpApi, _server: Server) -> None:
        found: list[WatchEvent] = []
        with pytest.raises(ApiError, match="watch pods: too old") as caught:
            await collect_into(found, api)
        assert (caught.value.code, caught.value.reason) == (code, reason)
        assert len(found) == 1

    with_api(handler, test)


@pytest.mark.parametrize(
    ("code", "error", "part"),
    [(410, ApiError, "said so"), (403, ForbiddenError, 'verbs: ["watch"]'), (500, ApiError, "said so")],
)
def test_a_watch_that_is_refused(code: int, error: type[ApiError], part: str) -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.status(code, reason="Expired", message="said so")

    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(ApiError) as caught:
            await collect(api)
        assert type(caught.value) is error
        assert caught.value.code == code
        assert part in str(caught.value)

    with_api(handler, test)


def test_a_busy_server_is_asked_again() -> None:
    async def handler(asked: Asked, reply: Reply) -> None:
        if asked.connection <= 2:
            await reply.status(429, message="busy", headers={"Retry-After": "5"})
        else:
            await reply.start_chunks()
            await reply.end_chunks()

    async def test(api: HttpApi, server: Server) -> None:
        assert await collect(api) == []
        assert len(server.asked) == 3
        assert asyncio.get_running_loop().time() == pytest.approx(10, abs=0.1)

    with_api(handler, test, virtual=True)


def test_a_watch_that_is_cut_in_the_middle_of_an_event() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.start_chunks()
        await reply.event("ADDED", obj("a", "2"))
        await reply.chunk(b'{"type":"ADDED","object":{"meta')
        reply.writer.close()

    async def test(api: HttpApi, _server: Server) -> None:
        found: list[WatchEvent] = []
        with pytest.raises(UnreachableError, match=r"watch pods: .*watch again"):
            await collect_into(found, api)
        assert brief(found) == [("ADDED", "a", "2")]

    with_api(handler, test)


def test_a_server_that_falls_silent_is_left_when_the_watch_should_be_over() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.start_chunks()
        await reply.event("ADDED", obj("a", "2"))
        await reply.hang()

    async def test(api: HttpApi, server: Server) -> None:
        with pytest.raises(UnreachableError, match="fell silent"):
            await collect(api)
        seconds = int(server.asked[0].query["timeoutSeconds"])
        assert asyncio.get_running_loop().time() == pytest.approx(seconds + 30, abs=1)

    with_api(handler, test, virtual=True)


def test_a_server_that_does_not_answer_a_watch_at_all() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.hang()

    async def test(api: HttpApi, _server: Server) -> None:
        with pytest.raises(UnreachableError, match=r"watch pods: .* did not answer in time"):
            await collect(api)
        assert asyncio.get_running_loop().time() == pytest.approx(30, abs=1)

    with_api(handler, test, virtual=True)


def test_closing_the_client_ends_its_watches() -> None:
    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.start_chunks()
        await reply.hang()

    async def test(api: HttpApi, server: Server) -> None:
        async def one() -> str:
            with pytest.raises(UnreachableError) as caught:
                await collect(api)
            return str(caught.value)

        async with asyncio.TaskGroup() as group:
            watch = group.create_task(one(), name="watch")
            await until(lambda: server.asked)
            for _ in range(20):
                await asyncio.sleep(0)
            await api.close()
        assert "closed" in watch.result()
        with pytest.raises(UnreachableError, match="the client is closed"):
            await collect(api)

    with_api(handler, test)


def test_a_slow_reader_slows_the_server_instead_of_filling_memory() -> None:
    big = {"x": "y" * 100_000}

    async def handler(_asked: Asked, reply: Reply) -> None:
        await reply.start_chunks()
        for number in range(200):
            await reply.event("ADDED", obj(f"p{number}", str(number), ignored=big))
            sent.append(number)
        await reply.end_chunks()

    sent: list[int] = []

    async def test(api: HttpApi, server: Server) -> None:
        changes = api.watch(Pod, resource_version="1")
        number = 0
        async for _ in changes:
            number += 1
            if number == 1:
                for _ in range(500):
                    await asyncio.sleep(0)
                # What fits into the buffers on the way, and no more: 20 MB were to be sent.
                assert len(sent) < 150
        assert number == 200

    assert STREAM_PAUSE_BYTES < 20_000_000
    with_api(handler, test)


# Lines


def decoder(cap: int = 10_000) -> WatchDecoder:
    return WatchDecoder(Pod, what="watch pods", cap=cap)


def line(type_: str, body: Any) -> bytes:
    return json.dumps({"type": type_, "object": body}).encode() + b"\n"


@given(cuts=st.lists(st.integers(0, 400), max_size=8))
def test_events_do_not_depend_on_how_the_bytes_arrive(cuts: list[int]) -> None:
    data = b"".join(line("ADDED", obj(f"p{number}", str(number))) for number in range(5)) + b"\n"
    pieces = [data[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True)]
    one = decoder()
    found = [event for piece in pieces for event in one.feed(piece)]
    assert [event.resource_version for event in found] == ["0", "1", "2", "3", "4"]


def test_one_broken_object_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    broken = obj("broken", "2", spec={"nodeName": 5})
    data = line("ADDED", broken) + line("MODIFIED", obj("fine", "3")) + line("DELETED", broken)
    found = list(decoder().feed(data))
    # The version goes on; a deletion needs only the name.
    assert brief(found) == [("BOOKMARK", "", "2"), ("MODIFIED", "fine", "3"), ("DELETED", "broken", "2")]
    assert found[2].object == Pod(metadata=found[2].object.metadata)
    assert "broken" in caplog.text


def test_an_event_type_of_the_future_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    found = list(decoder().feed(line("RENAMED", obj("a", "2")) + line("ADDED", obj("b", "3"))))
    assert brief(found) == [("ADDED", "b", "3")]
    assert "RENAMED" in caplog.text


@pytest.mark.parametrize("data", [b"nonsense\n", b"[]\n", b'{"type":"ADDED"}\n', b"\xff\n"])
def test_a_stream_that_is_no_watch(data: bytes) -> None:
    with pytest.raises(ApiError, match="watch pods: the stream is damaged"):
        list(decoder().feed(data))


def test_an_event_without_an_end_is_not_kept() -> None:
    one = decoder(cap=1000)
    list(one.feed(b'{"type":"ADDED","object":"' + b"a" * 900))
    with pytest.raises(ApiError, match="larger than 1000 bytes"):
        list(one.feed(b"a" * 200))


def test_types_are_the_protocols() -> None:
    found = list(decoder().feed(line("ADDED", obj("a", "2"))))
    assert found[0].type is WatchType.ADDED
