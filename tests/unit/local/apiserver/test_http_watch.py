"""Watches over real HTTPS: events as they happen, in the form asked for, and clean ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kuberth.https.connection_limit import Limits
from kuberth.local.apiserver.http.server import RequestLimits
from tests.unit.local.apiserver.harness import ServerHarness, labelled_pod, run_with_server

PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"


async def version(harness: ServerHarness) -> str:
    found: str = (await harness.fetch("GET", PODS)).json()["metadata"]["resourceVersion"]
    return found


async def delete(harness: ServerHarness, name: str) -> None:
    await harness.core.delete("pods", name, namespace="default", options={"gracePeriodSeconds": 0})


def test_events_as_they_happen() -> None:
    async def main(harness: ServerHarness) -> None:
        await harness.core.create("pods", labelled_pod("old"), namespace="default")
        since = await version(harness)
        async with harness.watch(f"{PODS}?watch=true&resourceVersion={since}") as watch:
            await harness.core.create("pods", labelled_pod("a"), namespace="default")
            await harness.core.patch(
                "pods",
                "a",
                {"metadata": {"labels": {"x": "y"}}},
                content_type="application/merge-patch+json",
                namespace="default",
            )
            await delete(harness, "a")
            seen = [await watch.next() for _ in range(4)]
            # A pod is marked as being deleted before it goes, as on any API server.
            assert [(kind, obj["metadata"]["name"]) for kind, obj in filter(None, seen)] == [
                ("ADDED", "a"),
                ("MODIFIED", "a"),
                ("MODIFIED", "a"),
                ("DELETED", "a"),
            ]
            versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in filter(None, seen)]
            assert versions == sorted(versions)

    run_with_server(main)


@pytest.mark.parametrize(
    "target",
    [
        f"{PODS}?watch=true&labelSelector=app%3Db",
        f"{PODS}?watch=1&fieldSelector=metadata.name%3Db",
        f"{PODS}/b?watch",
        "/api/v1/pods?watch=true&labelSelector=app%3Db",
    ],
)
def test_what_is_watched(target: str) -> None:
    async def main(harness: ServerHarness) -> None:
        async with harness.watch(target) as watch:
            for name in ("a", "b", "c"):
                await harness.core.create("pods", labelled_pod(name), namespace="default")
            event = await watch.next()
            assert event is not None
            assert (event[0], event[1]["metadata"]["name"]) == ("ADDED", "b")

    run_with_server(main)


def test_initial_events_and_their_end() -> None:
    async def main(harness: ServerHarness) -> None:
        await harness.core.create("pods", labelled_pod("a"), namespace="default")
        query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        async with harness.watch(f"{PODS}?{query}") as watch:
            first, second = await watch.next(), await watch.next()
            assert first is not None
            assert second is not None
            assert (first[0], second[0]) == ("ADDED", "BOOKMARK")
            assert second[1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}

    run_with_server(main)


def test_a_watch_ends_when_its_time_is_over() -> None:
    async def main(harness: ServerHarness) -> None:
        async with harness.watch(f"{PODS}?watch=true&timeoutSeconds=1&allowWatchBookmarks=true") as watch:
            event = await watch.next()
            assert event is None or event[0] == "BOOKMARK"
            assert event is None or await watch.next() is None

    run_with_server(main)


@pytest.mark.parametrize("accept, kind", [(TABLE, "Table"), (PARTIAL, "PartialObjectMetadata")])
def test_events_in_other_forms(accept: str, kind: str) -> None:
    async def main(harness: ServerHarness) -> None:
        query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
        async with harness.watch(f"{PODS}?{query}", accept=accept) as watch:
            bookmark = await watch.next()
            assert bookmark is not None
            assert (bookmark[0], bookmark[1]["kind"]) == ("BOOKMARK", kind)
            for name in ("a", "b"):
                await harness.core.create("pods", labelled_pod(name), namespace="default")
            objects: list[Any] = []
            for _ in range(2):
                event = await watch.next()
                assert event is not None
                objects.append(event[1])
        assert [obj["kind"] for obj in objects] == [kind, kind]
        if kind == "Table":
            # The headers came with the first event, which was the bookmark.
            assert bookmark[1]["columnDefinitions"]
            assert [obj["columnDefinitions"] for obj in objects] == [None, None]
            assert [obj["rows"][0]["cells"][0] for obj in objects] == ["a", "b"]
        else:
            assert [obj["metadata"]["name"] for obj in objects] == ["a", "b"]

    run_with_server(main)


@pytest.mark.parametrize(
    "query, status",
    [
        ("labelSelector=!!", 400),
        ("fieldSelector=nothing%3D1", 400),
        ("timeoutSeconds=x", 400),
        ("resourceVersion=999999", 410),
        ("resourceVersion=x", 400),
    ],
)
def test_watches_that_cannot_be(query: str, status: int) -> None:
    async def main(harness: ServerHarness) -> None:
        answer = await harness.fetch("GET", f"{PODS}?watch=true&{query}")
        assert answer.status == status
        assert answer.json()["code"] == answer.status

    run_with_server(main)


def test_yaml_cannot_be_streamed() -> None:
    async def main(harness: ServerHarness) -> None:
        answer = await harness.fetch("GET", f"{PODS}?watch=true", headers={"accept": "application/yaml"})
        assert answer.status == 406

    run_with_server(main)


async def until(what: str, probe: Callable[[], bool]) -> None:
    """The server notices a closed connection only after a few turns of the loop."""
    for _ in range(1000):
        if probe():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"timed out waiting until {what}")


def test_limits_and_that_places_become_free() -> None:
    async def main(harness: ServerHarness) -> None:
        target = f"{PODS}?watch=true"
        async with harness.watch(target), harness.watch(target):
            refused = await harness.fetch("GET", target)
            assert (refused.status, refused.json()["reason"]) == (429, "TooManyRequests")
            assert refused.headers["retry-after"] == "1"
        await until("both are gone", lambda: harness.server.watchers == 0)
        async with harness.watch(target):
            pass

    for limits in (RequestLimits(watchers=2), RequestLimits(watchers_per_client=2)):
        run_with_server(main, request_limits=limits)


def test_the_end_of_the_server_is_a_clean_end_of_its_watches() -> None:
    async def main(harness: ServerHarness) -> None:
        async with harness.watch(f"{PODS}?watch=true") as watch:
            ended = asyncio.create_task(watch.next())
            await until("it is waiting", lambda: harness.server.watchers == 1)
            async with asyncio.timeout(3.0):
                await harness.server.__aexit__(None, None, None)
            assert await ended is None
        await harness.server.__aenter__()

    run_with_server(main)


def test_many_events_arrive_complete_and_in_order() -> None:
    async def main(harness: ServerHarness) -> None:
        async with harness.watch(f"{PODS}?watch=true") as watch, asyncio.TaskGroup() as group:
            for number in range(300):
                group.create_task(
                    harness.core.create("pods", labelled_pod(f"p{number:03}"), namespace="default")
                )
            events = [await watch.next() for _ in range(300)]
        versions = [int(event[1]["metadata"]["resourceVersion"]) for event in events if event]
        assert len(versions) == 300
        assert versions == sorted(versions)

    run_with_server(main)


def test_a_watcher_that_does_not_read_is_cut() -> None:
    async def main(harness: ServerHarness) -> None:
        reader, writer = await harness.connect()
        transport = writer.transport
        request = f"GET {PODS}?watch=true HTTP/1.1\r\nhost: x\r\n"
        authorization = f"authorization: Bearer {harness.credentials.token}\r\n\r\n"
        writer.write((request + authorization).encode())
        await reader.readuntil(b"\r\n\r\n")
        transport.pause_reading()  # type: ignore[attr-defined]  # a reading transport, too
        big = labelled_pod("big")
        big["metadata"]["annotations"] = {"filling": "x" * 200_000}
        for number in range(60):
            big["metadata"]["name"] = f"big-{number}"
            await harness.core.create("pods", big, namespace="default")
        await until("it is cut", lambda: harness.server.watchers == 0)
        writer.transport.abort()

    run_with_server(main, limits=Limits(unread_seconds=0.2))
