"""What readers, writers and watchers of the store may rely on, in memory and on disk alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj, revision_of
from kuberth.local.apiserver.store.store import (
    Change,
    CompactedError,
    RevisionStore,
    SlowWatcherError,
    StorageError,
)

LIMIT_SECONDS = 20.0


@pytest.fixture(params=["memory", "disk"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "store.db" if request.param == "disk" else None


def with_store(
    path: Path | None, test: Callable[[RevisionStore], Awaitable[None]], *, keep_changes: int = 100
) -> None:
    async def main() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            store = await RevisionStore.open(path, keep_changes=keep_changes)
            try:
                await test(store)
            finally:
                await store.close()

    asyncio.run(main())


def pod(name: str, **fields: Any) -> Obj:
    return {"kind": "Pod", "metadata": {"name": name}, **fields}


async def put(store: RevisionStore, key: str, **fields: Any) -> int:
    revision = revision_of(store.stage("pods", key, pod(key, **fields)))
    await store.durable(revision)
    return revision


async def delete(store: RevisionStore, key: str) -> int:
    revision = revision_of(store.stage("pods", key, None))
    await store.durable(revision)
    return revision


def names(objects: list[Obj]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objects]


def test_an_empty_store_is_at_revision_one(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        assert (store.revision, store.compacted_revision) == (1, 0)
        assert store.get("pods", "a/x") is None
        assert store.list("pods") == store.latest_list("pods") == []
        assert await put(store, "a/x") == 2

    with_store(path, test)


def test_a_staged_object_is_seen_by_writers_only_until_its_commit(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        given = pod("x")
        stored = store.stage("pods", "a/x", given)
        assert "resourceVersion" not in given["metadata"]
        assert stored["metadata"]["resourceVersion"] == "2"
        assert store.latest("pods", "a/x") is stored
        assert store.latest_list("pods") == [stored]
        assert store.get("pods", "a/x") is None
        assert store.list("pods") == []
        assert store.revision == 1
        await store.durable(2)
        assert store.get("pods", "a/x") is stored
        assert store.revision == 2

    with_store(path, test)


def test_the_version_of_a_resource_moves_with_what_writers_see(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        seen = [(store.version("pods"), store.version("nodes"))]
        await put(store, "a/x")
        seen.append((store.version("pods"), store.version("nodes")))
        await delete(store, "a/x")
        seen.append((store.version("pods"), store.version("nodes")))
        pods, nodes = zip(*seen, strict=True)
        assert len(set(pods)) == 3
        assert len(set(nodes)) == 1

    with_store(path, test)


def test_staging_builds_on_what_is_staged(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        first = store.stage("pods", "a/x", pod("x", n=1))
        second = store.stage("pods", "a/x", pod("x", n=2))
        gone = store.stage("pods", "a/x", None)
        assert store.latest("pods", "a/x") is None
        with pytest.raises(KeyError, match="a/x"):
            store.stage("pods", "a/x", None)
        again = store.stage("pods", "a/x", pod("x", n=3))
        await store.durable(revision_of(again))
        assert gone == {**second, "metadata": {"name": "x", "resourceVersion": "4"}}
        assert store.changes_since("pods", 1) == [
            Change(2, "pods", "a/x", None, first),
            Change(3, "pods", "a/x", first, second),
            Change(4, "pods", "a/x", second, None),
            Change(5, "pods", "a/x", None, again),
        ]

    with_store(path, test)


def test_lists_are_ordered_by_key_and_cut_by_namespace(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        for key in ("b/y", "a/z", "a-b/x", "b/x", "a/y", "a0/x", "c"):
            await put(store, key)
        await delete(store, "b/y")
        assert names(store.list("pods")) == ["a-b/x", "a/y", "a/z", "a0/x", "b/x", "c"]
        assert names(store.list("pods", namespace="a")) == ["a/y", "a/z"]
        assert store.list("nodes") == []
        store.stage("pods", "a/x", pod("a/x"))
        store.stage("pods", "a/z", None)
        store.stage("pods", "b/z", pod("b/z"))
        assert names(store.latest_list("pods", namespace="a")) == ["a/x", "a/y"]
        assert names(store.latest_list("pods")) == ["a-b/x", "a/x", "a/y", "a0/x", "b/x", "b/z", "c"]

    with_store(path, test)


def test_a_subscription_has_no_gap_and_no_double(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        await put(store, "a/x")
        since = await put(store, "a/y")
        await put(store, "a/z")
        reader = store.subscribe("pods", since=since)
        store.stage("nodes", "n", {"metadata": {"name": "n"}})
        last = await put(store, "a/x", n=2)
        assert [(await anext(reader)).revision for _ in range(2)] == [4, last]
        assert reader.lag == 0

        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0)
        gone = await delete(store, "a/x")
        change = await waiting
        assert (change.revision, change.new) == (gone, None)
        assert change.old is not None
        assert (change.revision, revision_of(change.old)) == (gone, gone - 1)

    with_store(path, test)


def test_a_cancelled_read_loses_nothing(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        reader = store.subscribe("pods", since=1)
        waiting = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0)
        await put(store, "a/x")
        waiting.cancel()
        await asyncio.wait([waiting])
        if waiting.cancelled():
            assert (await anext(reader)).key == "a/x"
        else:
            assert waiting.result().key == "a/x"
        await put(store, "a/y")
        assert (await anext(reader)).key == "a/y"

    with_store(path, test)


def test_a_subscription_ends_when_it_or_the_store_is_closed(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        readers = [store.subscribe("pods", since=1) for _ in range(2)]
        waiting = [asyncio.ensure_future(anext(reader, None)) for reader in readers]
        await asyncio.sleep(0)
        readers[0].close()
        assert await waiting[0] is None
        assert not waiting[1].done()
        await store.close()
        assert await waiting[1] is None

    with_store(path, test)


def test_a_slow_reader_is_expired_and_delays_no_other(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        for number in range(5):
            await put(store, f"a/{number}")
        backlog = store.subscribe("pods", since=1, limit=3)
        slow = store.subscribe("pods", since=store.revision, limit=3)
        for number in range(3):
            await put(store, f"b/{number}")
        # What was there before it came is not held against a reader.
        assert (await anext(backlog)).key == "a/0"
        assert (await anext(slow)).key == "b/0"
        await put(store, "b/3")
        await put(store, "b/4")
        with pytest.raises(SlowWatcherError, match="fell 4 changes behind"):
            await anext(slow)
        assert await anext(slow, None) is None

    with_store(path, test)


def test_compaction_forgets_changes_and_keeps_objects(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        for number in range(4):
            await put(store, "a/x", n=number)
        await delete(store, "a/x")
        await put(store, "a/y")
        behind = store.subscribe("pods", since=1)
        store.compact(6)
        assert store.compacted_revision == 6
        assert [change.key for change in store.changes_since("pods", 6)] == ["a/y"]
        assert names(store.list("pods")) == ["a/y"]
        for ask in (store.changes_since, lambda resource, since: store.subscribe(resource, since=since)):
            with pytest.raises(CompactedError, match="since 5 are compacted"):
                ask("pods", 5)
            with pytest.raises(CompactedError, match="in the future"):
                ask("pods", 8)
        with pytest.raises(SlowWatcherError):
            await anext(behind)
        store.compact(3)
        assert store.compacted_revision == 6
        with pytest.raises(ValueError, match="cannot compact at 8"):
            store.compact(8)

    with_store(path, test)


def test_a_bounded_number_of_changes_is_kept(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        for number in range(500):
            await put(store, f"a/{number % 7}")
        assert store.compacted_revision >= store.revision - 125
        assert len(store.changes_since("pods", store.compacted_revision)) >= 100
        assert len(store.list("pods")) == 7

    with_store(path, test, keep_changes=100)


def test_many_writes_at_once_do_not_drown_a_reader(path: Path | None) -> None:
    """Commits are cut, so that a reader that keeps reading keeps up."""

    async def test(store: RevisionStore) -> None:
        reader = store.subscribe("pods", since=1, limit=1_500)
        seen = asyncio.ensure_future(_count(reader, 5_000))
        for number in range(5_000):
            store.stage("pods", f"a/{number}", pod(str(number)))
        await store.durable(5_001)
        assert await seen == 5_000

    with_store(path, test, keep_changes=20_000)


async def _count(reader: Any, count: int) -> int:
    for _ in range(count):
        await anext(reader)
    return count


def test_a_writer_that_gives_up_spoils_nothing_for_the_others(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        store.stage("pods", "a/x", pod("x"))
        store.stage("pods", "a/y", pod("y"))
        quitter, stayer = (asyncio.ensure_future(store.durable(each)) for each in (2, 3))
        await asyncio.sleep(0)
        quitter.cancel()
        await stayer
        assert names(store.list("pods")) == ["x", "y"]

    with_store(path, test)


@pytest.mark.parametrize(
    ("key", "obj"),
    (
        ("a/x", {"metadata": {"name": "\ud800"}}),
        ("a/\ud800", {"metadata": {}}),
        ("a/x", {"metadata": {}, "spec": object()}),
    ),
    ids=("no text", "no text in the key", "no JSON"),
)
def test_what_cannot_be_written_fails_alone(path: Path | None, key: str, obj: Obj) -> None:
    async def test(store: RevisionStore) -> None:
        store.stage("pods", "a/good", pod("good"))
        with pytest.raises((TypeError, ValueError)):
            store.stage("pods", key, obj)
        assert await put(store, "a/better") == 3
        assert names(store.list("pods")) == ["a/better", "good"]
        assert store.latest("pods", key) is None

    with_store(path, test)


def test_durable_asks_only_for_staged_revisions(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        await put(store, "a/x")
        await store.durable(2)
        with pytest.raises(ValueError, match="never staged"):
            await store.durable(3)

    with_store(path, test)


def test_closing_commits_what_is_staged_and_ends_writing(path: Path | None) -> None:
    async def test(store: RevisionStore) -> None:
        store.stage("pods", "a/x", pod("x"))
        waiting = asyncio.ensure_future(store.durable(2))
        await store.close()
        await waiting
        assert store.revision == 2
        with pytest.raises(StorageError, match="closed"):
            store.stage("pods", "a/y", pod("y"))

    with_store(path, test)


def test_history_is_bounded_by_bytes_too() -> None:
    """Hundreds of versions of one large object are not kept; a watch that fell behind lists again."""

    async def main() -> None:
        store = await RevisionStore.open(None, keep_bytes=1_000_000)
        large = "x" * 100_000
        for number in range(50):
            revision = revision_of(
                store.stage("pods", "a/x", {"metadata": {"name": "x"}, "n": [number, large]})
            )
            await store.durable(revision)
        with pytest.raises(CompactedError):
            store.subscribe("pods", since=2)
        assert 5 <= len(store.changes_since("pods", store.compacted_revision)) <= 10
        # Deletions keep what they deleted, and count alike.
        for number in range(50):
            store.stage("pods", f"a/{number}", {"metadata": {"name": str(number)}, "text": large})
        for number in range(50):
            revision = revision_of(store.stage("pods", f"a/{number}", None))
        await store.durable(revision)
        assert len(store.changes_since("pods", store.compacted_revision)) <= 10
        await store.close()

    asyncio.run(main())
