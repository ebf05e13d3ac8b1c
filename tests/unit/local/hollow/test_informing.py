"""Informers: what was written here is seen here at once, and nothing comes back from the past."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kuberth.clock import LoopClock
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.informing import RESYNC_SECONDS, Informer, Informers
from tests.unit.local.hollow.harness import virtual


def config_map(name: str, **data: str) -> Obj:
    metadata = {"name": name, "namespace": "default", "labels": {"first": name[0]}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@asynccontextmanager
async def informing(*, keep_changes: int = 20_000) -> AsyncIterator[tuple[Core, RevisionStore, Informer]]:
    store = await RevisionStore.open(None, keep_changes=keep_changes)
    core = Core(store, clock=LoopClock(asyncio.get_running_loop()))
    informers = Informers(core)
    informer = informers.of("configmaps")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(informers.run())
        await informers.wait_synced()
        yield core, store, informer
        running.cancel()
    await store.close()


def test_own_writes_are_seen_at_once_and_delivered_once() -> None:
    async def main() -> None:
        async with informing() as (_, _, informer):
            calls: list[tuple[str | None, str | None]] = []
            informer.add_handler(
                lambda old, new: calls.append(
                    (old["metadata"]["resourceVersion"] if old else None, name_of(new) if new else None)
                )
            )
            made = await informer.create(config_map("a"))
            assert informer.get("default/a") == made
            changed = await informer.update({**made, "data": {"x": "1"}})
            assert informer.get("default/a") == changed
            await informer.delete(changed)
            await asyncio.sleep(1)
            assert informer.get("default/a") is None
            version = [one["metadata"]["resourceVersion"] for one in (made, changed)]
            assert calls == [(None, "a"), (version[0], "a"), (version[1], None)]

    virtual(main)


def test_a_deletion_that_was_asked_for_shows_before_it_is_seen() -> None:
    async def main() -> None:
        async with informing() as (_, _, informer):
            made = await informer.create(config_map("a"))
            await informer.delete(made)
            assert informer.get("default/a") is None or informer.is_terminating(made)
            again = await informer.create(config_map("a"))
            assert not informer.is_terminating(again)
            await asyncio.sleep(1)
            assert informer.get("default/a") == again
            # Gone, or made again under its name: nothing to do.
            await informer.delete(made)
            assert not informer.is_terminating(again)

    virtual(main)


def test_handlers_are_called_at_once_for_a_requested_deletion() -> None:
    async def main() -> None:
        async with informing() as (core, _, _):
            late = Informer(core, "configmaps")  # it is not started, so that it sees nothing by itself
            made = await late.create(config_map("a"))
            calls: list[tuple[bool, bool]] = []
            late.add_handler(lambda old, new: calls.append((old is new, late.is_terminating(new or {}))))
            await late.delete(made)
            assert calls == [(False, False), (True, True)]

    virtual(main)


def test_indexes_follow() -> None:
    async def main() -> None:
        async with informing() as (core, _, informer):
            informer.add_index("first", lambda obj: (obj["metadata"]["labels"]["first"],))
            for name in ("alpha", "beta", "anna"):
                await core.create("configmaps", config_map(name), namespace="default")
            await asyncio.sleep(1)
            assert [name_of(obj) for obj in informer.by("first", "a")] == ["alpha", "anna"]
            moved = config_map("alpha")
            moved["metadata"]["labels"]["first"] = "z"
            await core.update("configmaps", "alpha", moved, namespace="default")
            await core.delete("configmaps", "beta", namespace="default")
            await asyncio.sleep(1)
            assert [name_of(obj) for obj in informer.by("first", "a")] == ["anna"]
            assert [name_of(obj) for obj in informer.by("first", "z")] == ["alpha"]
            assert informer.by("first", "b") == []

    virtual(main)


def test_a_conflict_is_raised_and_a_fresh_read_resolves_it() -> None:
    async def main() -> None:
        async with informing() as (core, _, informer):
            made = await informer.create(config_map("a"))
            await core.update("configmaps", "a", config_map("a", x="2"), namespace="default")
            with pytest.raises(StatusError) as refused:
                await informer.update({**made, "data": {"x": "3"}})
            assert refused.value.code == 409
            fresh = await informer.fetch("default/a")
            assert fresh is not None
            await informer.update({**fresh, "data": {"x": "3"}})

    virtual(main)


def test_after_compaction_it_lists_again() -> None:
    async def main() -> None:
        async with informing(keep_changes=10) as (core, _, informer):
            gone: list[str] = []
            await informer.create(config_map("victim"))
            informer.add_handler(lambda old, new: gone.append(name_of(old)) if old and not new else None)
            # Staged together, so that the log outgrows what is kept before the watch can read it.
            await asyncio.gather(
                core.delete("configmaps", "victim", namespace="default"),
                *(
                    core.create("configmaps", config_map(f"m{index}"), namespace="default")
                    for index in range(100)
                ),
            )
            await asyncio.sleep(5)
            assert len(informer.all()) == 100
            assert gone == ["victim"]

    virtual(main)


def test_a_resync_shows_everything_again() -> None:
    async def main() -> None:
        async with informing() as (_, _, informer):
            await informer.create(config_map("a"))
            seen: list[Obj | None] = []
            informer.add_handler(lambda old, new: seen.append(new))
            await asyncio.sleep(RESYNC_SECONDS + 1)
            assert [name_of(obj or {}) for obj in seen] == ["a", "a"]

    virtual(main)


def test_a_handler_or_index_that_fails_is_named_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with informing() as (core, _, informer):
            calls: list[str] = []
            tries: list[float] = []

            def picky(old: Obj | None, new: Obj | None) -> None:
                if name_of(new or old or {}) == "bad":
                    tries.append(asyncio.get_running_loop().time())
                    if len(tries) < 4:
                        raise KeyError("spec")

            def index(obj: Obj) -> list[str]:
                return [obj["data"]["x"]]

            informer.add_handler(picky)
            informer.add_handler(lambda old, new: calls.append(name_of(new or old or {})))
            informer.add_index("x", index)
            for name, data in (("bad", {}), ("good", {"x": "1"})):
                await core.create("configmaps", config_map(name, **data), namespace="default")
            await asyncio.sleep(60)
            assert calls == ["bad", "good"]
            assert len(tries) == 4
            assert [name_of(obj) for obj in informer.by("x", "1")] == ["good"]

    virtual(main)
    assert sum("picky failed at configmaps default/bad" in message for message in caplog.messages) == 3
    assert any("configmaps by x: default/bad cannot be indexed" in message for message in caplog.messages)
