from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kuberth.api.core import Node, Pod
from kuberth.client.protocol import WatchEvent
from kuberth.errors import ApiError
from kuberth.holding import Hold
from kuberth.informers.reflector import SILENT_SECONDS, Reflector
from kuberth.informers.store import Store
from kuberth.testing import MemoryApi, make_node, make_pod, run_in_virtual_time


class Watched:
    """A reflector of pods that notes the calls of its handler, and what the store held then."""

    def __init__(self, api: MemoryApi, *, optional: bool = False) -> None:
        self.hold = Hold()
        self.store = Store[Pod]()
        self.calls: list[str] = []
        self.reflector = Reflector(api, Pod, self.store, self._handle, optional=optional, hold=self.hold)

    def _handle(self, old: Pod | None, new: Pod | None) -> None:
        self.calls.append(f"{_uid(old)} -> {_uid(new)}")
        key = (new or old).metadata.name  # type: ignore[union-attr]  # one of the two is there
        in_store = self.store.get(key, namespace="default")
        if new is not None:
            assert in_store is new, "the store is current before handlers are called"

    async def run(self, *steps: Callable[[], Any]) -> list[str]:
        task = asyncio.ensure_future(self.reflector.run())
        await self.reflector.synced.wait()
        for step in steps:
            step()
            await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return self.calls


def _uid(pod: Pod | None) -> str:
    return "none" if pod is None else f"{pod.metadata.uid}@{pod.metadata.labels.get('v', '1')}"


def pod(uid: str, version: str = "1", *, name: str = "p") -> Pod:
    return make_pod(name, uid=uid, labels={"v": version})


def test_what_is_there_is_added_before_it_counts_as_synced() -> None:
    async def main() -> list[str]:
        api = MemoryApi()
        api.put(pod("a", name="p1"))
        api.put(pod("b", name="p2"))
        api.put(make_node("n1"))
        return await Watched(api).run()

    assert run_in_virtual_time(main) == ["none -> a@1", "none -> b@1"]


def test_changes_wait_while_they_are_held_back() -> None:
    async def main() -> tuple[list[str], list[str]]:
        api = MemoryApi()
        watched = Watched(api)
        during: list[str] = []

        def change() -> None:
            watched.hold.begin()
            api.put(pod("a"))
            api.remove(Pod, "default/p")

        def look() -> None:
            during.extend(watched.calls)
            assert not [*watched.store]
            watched.hold.end()

        return during, await watched.run(change, look)

    assert run_in_virtual_time(main) == ([], ["none -> a@1", "a@1 -> none"])


def test_a_list_waits_while_changes_are_held_back() -> None:
    async def main() -> list[str]:
        api = MemoryApi()
        api.put(pod("a"))
        watched = Watched(api)
        watched.hold.begin()
        task = asyncio.ensure_future(watched.reflector.run())
        await asyncio.sleep(1)
        assert watched.calls == []
        watched.hold.end()
        await watched.reflector.synced.wait()
        task.cancel()
        return watched.calls

    assert run_in_virtual_time(main) == ["none -> a@1"]


def test_changes_that_are_slow_to_handle_leave_other_tasks_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kuberth.informers.reflector.SLICE_SECONDS", 0.0)

    async def main() -> list[str]:
        api = MemoryApi()
        watched = Watched(api)

        def put_many() -> None:
            for number in range(3):
                api.put(pod(f"{number}", name=f"p{number}"))

        async def another() -> None:
            for _ in range(1000):
                if watched.calls and watched.calls[-1] != "turn":
                    watched.calls.append("turn")
                await asyncio.sleep(0)

        task = asyncio.ensure_future(another())
        calls = await watched.run(put_many)
        await task
        return calls

    added = ["none -> 0@1", "turn", "none -> 1@1", "turn", "none -> 2@1", "turn"]
    assert run_in_virtual_time(main) == added


def test_additions_updates_and_deletions() -> None:
    async def main() -> list[str]:
        api = MemoryApi()
        watched = Watched(api)
        calls = await watched.run(
            lambda: api.put(pod("a")),
            lambda: api.replace(pod("a", "2")),
            lambda: api.remove(Pod, "default/p"),
        )
        assert len(watched.store) == 0
        return calls

    assert run_in_virtual_time(main) == ["none -> a@1", "a@1 -> a@2", "a@2 -> none"]


def test_made_again_under_the_same_name_is_another_object() -> None:
    """The watch may skip what happened in between: an object of another UID was deleted and added."""

    async def main() -> list[str]:
        api = MemoryApi()
        api.put(pod("old"))
        watched = Watched(api)
        await watched.reflector.sync()
        api.remove(Pod, "default/p")
        api.put(pod("new", "2"))
        await watched.reflector.sync()
        return watched.calls

    assert run_in_virtual_time(main) == ["none -> old@1", "old@1 -> none", "none -> new@2"]


def test_listing_again_finds_what_was_missed() -> None:
    async def main() -> tuple[list[str], list[str]]:
        api = MemoryApi()
        for name in ("gone", "changed", "same"):
            api.put(pod(name, name=name))
        watched = Watched(api)
        await watched.reflector.sync()
        watched.calls.clear()
        api.remove(Pod, "default/gone")
        api.replace(pod("changed", "2", name="changed"))
        api.put(pod("fresh", name="fresh"))
        await watched.reflector.sync()
        return watched.calls, sorted(each.metadata.name for each in watched.store)

    calls, names = run_in_virtual_time(main)
    assert calls == ["changed@1 -> changed@2", "same@1 -> same@1", "none -> fresh@1", "gone@1 -> none"]
    assert names == ["changed", "fresh", "same"]


def test_other_kinds_are_not_delivered() -> None:
    async def main() -> list[str]:
        api = MemoryApi()
        return await Watched(api).run(
            lambda: api.put(make_node("n1")), lambda: api.replace(make_node("n1", cpu="9"))
        )

    assert run_in_virtual_time(main) == []


def test_nothing_is_lost_between_list_and_watch() -> None:
    class Busy(MemoryApi):
        async def list(self, kind: type[Any], **options: Any) -> Any:
            listed = await super().list(kind, **options)
            self.put(pod("late", name="late"))
            return listed

    async def main() -> list[str]:
        return await Watched(Busy()).run(lambda: None)

    assert run_in_virtual_time(main) == ["none -> late@1"]


def test_a_node_has_no_namespace() -> None:
    async def main() -> None:
        api = MemoryApi()
        store = Store[Node]()
        seen: list[Any] = []
        api.put(make_node("n1"))
        await Reflector(api, Node, store, lambda old, new: seen.append((old, new))).sync()
        assert store.get("n1") is seen[0][1]

    run_in_virtual_time(main)


class Cutting(MemoryApi):
    """Ends every watch after one event, or answers with an error instead; counts lists and watches."""

    def __init__(self, *failures: ApiError) -> None:
        super().__init__()
        self.lists: list[str] = []
        self.watches: list[str] = []
        self.failures = list(failures)

    async def list(self, kind: type[Any], *, resource_version: str = "", field_selector: str = "") -> Any:
        self.lists.append(resource_version)
        return await super().list(kind, resource_version=resource_version, field_selector=field_selector)

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        self.watches.append(resource_version)
        if self.failures:
            raise self.failures.pop()
        async for event in super().watch(kind, resource_version=resource_version):
            yield event
            return


def test_a_watch_that_ends_goes_on_where_it_was() -> None:
    async def main() -> Cutting:
        api = Cutting()
        watched = Watched(api)
        await watched.run(*(lambda name=name: api.put(pod(name, name=name)) for name in "abc"))
        assert watched.calls == ["none -> a@1", "none -> b@1", "none -> c@1"]
        return api

    api = run_in_virtual_time(main)
    assert len(api.lists) == 1
    assert api.watches == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    "failure, version",
    [
        pytest.param(ApiError("too old resource version", code=410, reason="Expired"), "", id="gone"),
        pytest.param(ApiError("Too large resource version: 9", code=504), "", id="from-the-future"),
        pytest.param(ApiError("no answer", code=500), "2", id="any-other-trouble"),
    ],
)
def test_a_watch_that_fails_is_made_up_for_by_a_list(failure: ApiError, version: str) -> None:
    async def main() -> Cutting:
        api = Cutting(failure)
        api.put(pod("a", name="a"))
        watched = Watched(api)
        await watched.run(lambda: api.put(pod("b", name="b")), lambda: None, lambda: None)
        assert [call for call in watched.calls if call.startswith("none")] == ["none -> a@1", "none -> b@1"]
        return api

    api = run_in_virtual_time(main)
    assert api.lists == ["0", version]


def test_a_kind_that_may_not_be_read_holds_no_one_up_if_it_is_optional(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Denied(MemoryApi):
        async def list(self, kind: type[Any], **_: Any) -> Any:
            raise ApiError("pods is forbidden", code=403, reason="Forbidden")

    async def synced(*, optional: bool) -> bool:
        reflector = Reflector(Denied(), Pod, Store[Pod](), lambda _old, _new: None, optional=optional)
        task = asyncio.ensure_future(reflector.run())
        await asyncio.sleep(600)
        task.cancel()
        return reflector.synced.is_set()

    assert run_in_virtual_time(lambda: synced(optional=True))
    assert not run_in_virtual_time(lambda: synced(optional=False))
    assert 'resources: ["pods"]' in caplog.text


class Refusing(MemoryApi):
    """Refuses to list with each code in turn, then serves."""

    def __init__(self, *codes: int) -> None:
        super().__init__()
        self.codes = list(codes)

    async def list(self, kind: type[Any], **options: Any) -> Any:
        if self.codes:
            raise ApiError("the server could not find the requested resource", code=self.codes.pop(0))
        return await super().list(kind, **options)


@pytest.mark.parametrize("code", [403, 404])
def test_an_optional_kind_that_appears_later(code: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        api = Refusing(code, code, code)
        api.put(pod("a", name="a"))
        watched = Watched(api, optional=True)
        task = asyncio.ensure_future(watched.reflector.run())
        await watched.reflector.synced.wait()
        assert asyncio.get_running_loop().time() == 0, "nothing waits for a kind that may never come"
        assert watched.calls == []
        await asyncio.sleep(60)
        assert watched.calls == ["none -> a@1"]
        api.put(pod("b", name="b"))
        await asyncio.sleep(1)
        assert watched.calls == ["none -> a@1", "none -> b@1"]
        task.cancel()

    run_in_virtual_time(main)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1, "logged once, however often it is tried"
    assert ("pods.v1." if code == 404 else 'resources: ["pods"]') in warnings[0]


def test_a_kind_that_the_scheduler_cannot_do_without() -> None:
    async def main() -> bool:
        reflector = Watched(Refusing(*[404] * 100)).reflector
        task = asyncio.ensure_future(reflector.run())
        await asyncio.sleep(600)
        task.cancel()
        return reflector.synced.is_set()

    assert not run_in_virtual_time(main)


def test_a_kind_that_is_no_longer_served_has_no_objects() -> None:
    async def main() -> list[str]:
        api = Refusing()
        api.put(pod("a", name="a"))
        watched = Watched(api, optional=True)
        await watched.reflector.sync()
        api.codes = [404]
        task = asyncio.ensure_future(watched.reflector.run())
        await asyncio.sleep(0.5)
        assert len(watched.store) == 0
        await asyncio.sleep(60)
        task.cancel()
        return watched.calls

    assert run_in_virtual_time(main) == ["none -> a@1", "a@1 -> none", "none -> a@1"]


class Silent(MemoryApi):
    """Its first watches stay open and bring nothing; notes from where each began, and when it ended."""

    def __init__(self, watches: int) -> None:
        super().__init__()
        self.left = watches
        self.lists = 0
        self.begun: list[tuple[float, str]] = []
        self.ended: list[float] = []

    async def list(self, kind: type[Any], **options: Any) -> Any:
        self.lists += 1
        return await super().list(kind, **options)

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        time = asyncio.get_running_loop().time
        self.begun.append((time(), resource_version))
        try:
            if self.left:
                self.left -= 1
                await asyncio.Event().wait()
            async for event in super().watch(kind, resource_version=resource_version):
                yield event
        finally:
            self.ended.append(time())


def test_a_silent_watch_is_restarted_where_it_was() -> None:
    async def main() -> None:
        api = Silent(1)
        api.put(pod("a", name="a"))
        watched = Watched(api)
        task = asyncio.ensure_future(watched.reflector.run())
        await watched.reflector.synced.wait()
        api.put(pod("b", name="b"))
        await asyncio.sleep(SILENT_SECONDS - 1)
        assert watched.calls == ["none -> a@1"]
        await asyncio.sleep(2)
        assert watched.calls == ["none -> a@1", "none -> b@1"]
        assert api.begun == [(0, "2"), (SILENT_SECONDS, "2")]
        assert api.ended == [SILENT_SECONDS]
        assert api.lists == 1
        task.cancel()

    run_in_virtual_time(main)


def test_a_watch_that_is_silent_again_is_made_up_for_by_a_list() -> None:
    """As after a restored backup: a real server says nothing about versions it has yet to reach."""

    async def main() -> None:
        api = Silent(2)
        watched = Watched(api)
        task = asyncio.ensure_future(watched.reflector.run())
        await watched.reflector.synced.wait()
        api.put(pod("a", name="a"))
        await asyncio.sleep(2 * SILENT_SECONDS + 1)
        assert watched.calls == ["none -> a@1"]
        assert api.lists == 2
        task.cancel()

    run_in_virtual_time(main)


def test_a_steady_api_may_be_silent_for_as_long_as_it_likes() -> None:
    async def main() -> None:
        api = MemoryApi(steady=True)
        watched = Watched(api)
        task = asyncio.ensure_future(watched.reflector.run())
        await watched.reflector.synced.wait()
        bookmarks = [event async for event in _for_a_while(api.watch(Pod, resource_version="0"), 1000)]
        assert bookmarks == []
        api.put(pod("a", name="a"))
        await asyncio.sleep(1)
        assert watched.calls == ["none -> a@1"]
        task.cancel()

    run_in_virtual_time(main)


async def _for_a_while(events: AsyncIterator[WatchEvent], seconds: float) -> AsyncIterator[WatchEvent]:
    try:
        async with asyncio.timeout(seconds):
            async for event in events:
                yield event
    except TimeoutError:
        return


def test_bookmarks_keep_a_quiet_watch_alive() -> None:
    async def main() -> None:
        api = Silent(0)
        watched = Watched(api)
        task = asyncio.ensure_future(watched.reflector.run())
        await asyncio.sleep(3600)
        assert len(api.begun) == 1
        task.cancel()

    run_in_virtual_time(main)


def test_a_watch_is_silent_from_its_last_event_on() -> None:
    class Stuck(Silent):
        async def watch(
            self, kind: type[Any], *, resource_version: str, field_selector: str = ""
        ) -> AsyncIterator[WatchEvent]:
            async for event in super().watch(kind, resource_version=resource_version):
                yield event
                if len(self.begun) == 1 and event.object and event.object.metadata.name == "last":
                    await asyncio.Event().wait()

    async def main() -> None:
        api = Stuck(0)
        watched = Watched(api)
        task = asyncio.ensure_future(watched.reflector.run())
        for number in range(4):
            await asyncio.sleep(0.4)
            api.put(pod("x", name=f"p{number}"))
        await asyncio.sleep(48.4)
        api.put(pod("last", name="last"))
        await asyncio.sleep(1)
        api.put(pod("late", name="late"))
        await asyncio.sleep(SILENT_SECONDS - 2)
        assert len(api.begun) == 1
        await asyncio.sleep(2)
        begun, version = api.begun[1]
        assert begun == pytest.approx(50 + SILENT_SECONDS)
        assert version == "6"
        assert watched.calls[-1] == "none -> late@1"
        task.cancel()

    run_in_virtual_time(main)
