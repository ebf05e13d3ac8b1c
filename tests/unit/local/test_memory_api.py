"""What `MemoryApi` adds for tests; its verbs are under the contract of tests/contract."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from kuberth.api.core import Binding, Node, Pod
from kuberth.api.wire import convert
from kuberth.client.protocol import Api, WatchEvent
from kuberth.errors import ApiError, ConflictError, NotFoundError
from kuberth.local.apiserver.verbs.reading import BOOKMARK_SECONDS
from kuberth.testing import FakeClock, MemoryApi, make_node, make_pod, run_in_virtual_time


def now(work: Coroutine[Any, Any, Any]) -> Any:
    async def main() -> Any:
        return await work

    return run_in_virtual_time(main)


def test_it_is_an_api() -> None:
    api: Api = MemoryApi()
    assert api is not None


# Create, read, replace, delete


def test_what_is_created_can_be_read() -> None:
    api = MemoryApi()
    created = now(api.create(make_pod("p", uid="")))
    assert created.metadata.uid
    assert now(api.get(Pod, "p", namespace="default")) == created
    assert list(api.all(Pod)) == [created]
    assert api.all(Node) == ()


def test_uids_are_given_once_and_kept() -> None:
    api = MemoryApi()
    first, second = api.put(make_pod("a", uid="")), api.put(make_pod("b", uid=""))
    assert first.metadata.uid != second.metadata.uid
    assert api.put(make_pod("c", uid="mine")).metadata.uid == "mine"
    replaced = api.replace(make_pod("a", uid="", labels={"x": "y"}))
    assert replaced.metadata.uid == first.metadata.uid
    api.remove(Pod, "default/a")
    assert api.put(make_pod("a", uid="")).metadata.uid != first.metadata.uid


def test_every_write_has_a_new_version() -> None:
    api = MemoryApi()
    versions = [
        int(obj.metadata.resource_version)
        for obj in (
            api.put(make_node("n1")),
            api.put(make_pod("p")),
            api.replace(make_node("n1", cpu="9")),
            now(api.patch(Node, "n1", {"spec": {"unschedulable": True}})),
        )
    ]
    assert versions == sorted(set(versions))


def test_the_same_name_in_another_namespace_or_kind_is_another_object() -> None:
    api = MemoryApi()
    for obj in (make_pod("x"), make_pod("x", namespace="other"), make_node("x")):
        api.put(obj)
    with pytest.raises(ConflictError, match='pods "x" already exists') as caught:
        api.put(make_pod("x"))
    assert caught.value.code == 409


def test_replacing_what_is_not_there() -> None:
    with pytest.raises(NotFoundError):
        MemoryApi().replace(make_node("n1"))


def test_change_works_on_the_present_version() -> None:
    api = MemoryApi()
    api.put(make_node("n1"))
    replace = msgspec.structs.replace
    api.change(Node, "n1", lambda node: replace(node, spec=replace(node.spec, unschedulable=True)))
    assert api.read(Node, "n1").spec.unschedulable


def test_a_patch_keeps_timestamps() -> None:
    api = MemoryApi()
    api.put(make_pod("p", metadata={"creationTimestamp": "2025-01-01T00:00:00Z"}))
    pod = now(api.patch(Pod, "p", {"metadata": {"labels": {"a": "1"}}}, namespace="default"))
    assert pod.metadata.creation_timestamp == datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)


# Watching


class Watcher:
    """Notes what a watch delivers, as `TYPE name`."""

    def __init__(self, api: MemoryApi, kind: type[Any], version: str, *, field_selector: str = "") -> None:
        self.seen: list[str] = []
        self.events: list[WatchEvent] = []
        self._watch = api.watch(kind, resource_version=version, field_selector=field_selector)

    async def run(self) -> None:
        async for event in self._watch:
            self.events.append(event)
            self.seen.append(f"{event.type} {event.object.metadata.name}")


async def watched(watcher: Watcher, *steps: Any) -> list[str]:
    task = asyncio.ensure_future(watcher.run())
    await asyncio.sleep(1)
    for step in steps:
        step()
        await asyncio.sleep(1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return watcher.seen


def test_a_watch_goes_on_from_its_list() -> None:
    async def main() -> list[str]:
        api = MemoryApi()
        api.put(make_pod("before"))
        listed = await api.list(Pod)
        assert [pod.metadata.name for pod in listed.items] == ["before"]
        api.put(make_pod("between"))
        api.put(make_node("n1"))
        return await watched(
            Watcher(api, Pod, listed.resource_version),
            lambda: api.put(make_pod("after")),
            lambda: api.replace(make_pod("before", labels={"a": "1"})),
            lambda: api.put(make_node("n2")),
            lambda: api.remove(Pod, "default/between"),
        )

    assert run_in_virtual_time(main) == [
        "ADDED between",
        "ADDED after",
        "MODIFIED before",
        "DELETED between",
    ]


def test_writes_made_while_events_are_handed_on_are_not_lost() -> None:
    async def main() -> list[str]:
        api = MemoryApi()
        api.put(make_node("a"))
        seen = []
        async for event in api.watch(Node, resource_version="0"):
            name = event.object.metadata.name
            seen.append(name)
            if len(seen) == 4:
                break
            api.put(make_node(name + "a"))
        return seen

    assert run_in_virtual_time(main) == ["a", "aa", "aaa", "aaaa"]


def test_a_bookmark_does_not_overtake_a_change() -> None:
    async def main() -> None:
        api = MemoryApi()
        api.put(make_node("a"))
        asyncio.get_running_loop().call_at(BOOKMARK_SECONDS, api.put, make_node("b"))
        seen = 0
        async for event in api.watch(Node, resource_version="0"):
            if event.object is not None:
                assert int(event.resource_version) > seen
                if event.object.metadata.name == "b":
                    return
            seen = int(event.resource_version)

    run_in_virtual_time(main)


def test_waiting_for_the_next_change() -> None:
    async def main() -> None:
        api = MemoryApi()
        waiting = asyncio.ensure_future(api.next_change())
        await asyncio.sleep(1)
        assert not waiting.done()
        api.put(make_node("n1"))
        await waiting

    run_in_virtual_time(main)


# The short ways say what the long ones say

SCHEDULED_BEFORE = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
BINDINGS: dict[str, tuple[Pod, dict[str, Any]]] = {
    "plain": (make_pod("p", labels={"a": "b"}, annotations={"c": "d"}), {}),
    "its UID": (make_pod("p", uid="u"), {"metadata": {"uid": "u"}}),
    "another UID": (make_pod("p", uid="u"), {"metadata": {"uid": "v"}}),
    "another version": (make_pod("p"), {"metadata": {"resourceVersion": "77"}}),
    "labels": (make_pod("p", labels={"a": "b"}), {"metadata": {"labels": {"x": "y"}}}),
    "annotations": (make_pod("p"), {"metadata": {"annotations": {"x": "y"}}}),
    "tried before": (make_pod("p", status=SCHEDULED_BEFORE), {}),
    "ready before": (make_pod("p", status={"conditions": [{"type": "Ready", "status": "True"}]}), {}),
    "nominated": (make_pod("p", status={"nominatedNodeName": "n2"}), {}),
    "gated": (make_pod("p", schedulingGates=[{"name": "g"}]), {}),
    "on a node": (make_pod("p", node="n2"), {}),
    "no node": (make_pod("p"), {"target": {"kind": "Node"}}),
    "no kind of target": (make_pod("p"), {"target": {"name": "n1"}}),
    "another kind": (make_pod("p"), {"target": {"kind": "Pod", "name": "n1"}}),
    "another version of Binding": (make_pod("p"), {"apiVersion": "v2"}),
}


def outcome(work: Callable[[MemoryApi], None], pod: Pod) -> str:
    api = MemoryApi(clock=FakeClock())
    api.put(pod)
    try:
        work(api)
    except ApiError as error:
        return f"{type(error).__name__} {error.code} {error}"
    return repr(api.read(Pod, "default/p"))


@pytest.mark.parametrize("case", BINDINGS)
def test_a_binding_is_the_same_with_and_without_a_tree(case: str) -> None:
    pod, given = BINDINGS[case]
    tree = {"target": {"kind": "Node", "name": "n1"}, **given}
    tree["metadata"] = {"name": "p", "namespace": "default", **tree.get("metadata", {})}
    binding = convert(Binding, tree)
    short = outcome(lambda api: api.assign(binding), pod)
    with patch("kuberth.local.memory_api._bound_without_tree", return_value=None):
        assert outcome(lambda api: api.assign(binding), pod) == short


@pytest.mark.parametrize(
    "given",
    [
        {"status": {"phase": "Running", "startTime": "2024-05-06T07:08:09Z"}},
        {"status": {"phase": "Running"}, "metadata": {"uid": "u"}},
        {"status": {"phase": "Running"}, "metadata": {"uid": "v"}},
        {"status": {"phase": "Running"}, "metadata": {"resourceVersion": "2"}},
        {"status": {"phase": "Running"}, "metadata": {"resourceVersion": "77"}},
        {"status": {"phase": "Running"}, "metadata": {"uid": "u", "labels": {"a": "b"}}},
        {"status": {"phase": None}},
        {"status": {"phase": 5}},
        {"status": {"unknown": "x"}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}},
        {"status": {"conditions": [{"type": "PodScheduled", "observedGeneration": 3}], "phase": "Failed"}},
        {"status": {"conditions": [{"type": "PodScheduled", "message": None}]}},
        {"status": {"conditions": [{"type": "PodScheduled", "message": 5}]}},
        {"status": {"conditions": [{"type": "Twice", "status": "Unknown"}]}},
        {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}},
        {"status": {"conditions": [{"type": "PodScheduled", "$patch": "delete"}]}},
        {"status": {"conditions": [{"status": "True"}]}},
        {"status": {"conditions": [{"type": "A", "colour": "red"}]}},
        {"status": {"conditions": []}},
        {"status": {"conditions": None}},
        {"status": {"conditions": ["A"]}},
        {"status": {"nominatedNodeName": None}},
        {"status": {"nominatedNodeName": "n2", "conditions": [{"type": "A", "status": "True"}]}},
        {"status": {}},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending"},
        {
            "phase": "Pending",
            "nominatedNodeName": "n1",
            "conditions": [
                {"type": "Initialized", "status": "True"},
                {"type": "PodScheduled", "status": "True", "reason": "Fits", "message": "room"},
                {"type": "Ready", "status": "False"},
            ],
        },
        {"phase": "Pending", "conditions": [{"type": "Twice", "status": "True"}] * 2},
    ],
    ids=["bare", "conditions", "the same twice"],
)
def test_a_patch_is_the_same_with_and_without_a_tree(given: dict[str, Any], status: dict[str, Any]) -> None:
    def work(api: MemoryApi) -> None:
        now(api.patch(Pod, "p", given, namespace="default", subresource="status"))

    pod = make_pod("p", uid="u", status=status)
    short = outcome(work, pod)
    with patch("kuberth.local.memory_api._patched_without_tree", return_value=None):
        assert outcome(work, pod) == short
