from __future__ import annotations

import asyncio
import datetime
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from kuberth.api.core import Binding, Node, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.client.protocol import Api, WatchEvent
from kuberth.errors import ApiError, ConflictError, NotFoundError
from kuberth.testing import MemoryApi, make_node, make_pod, run_in_virtual_time


def now(work: Coroutine[Any, Any, Any]) -> Any:
    async def main() -> Any:
        return await work

    return run_in_virtual_time(main)


def binding(name: str = "p", node: str = "n1", **metadata: str) -> Binding:
    return Binding(
        metadata=ObjectMeta(namespace="default", name=name, **metadata),  # type: ignore[arg-type]  # texts only
        target=ObjectReference(kind="Node", name=node),
    )


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
    with pytest.raises(ConflictError, match="Pod default/x already exists") as caught:
        api.put(make_pod("x"))
    assert caught.value.code == 409


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda api: api.get(Pod, "p", namespace="default"), id="get"),
        pytest.param(lambda api: api.patch(Pod, "p", {}, namespace="default"), id="patch"),
        pytest.param(lambda api: api.delete(Pod, "p", namespace="default"), id="delete"),
        pytest.param(lambda api: api.bind(binding()), id="bind"),
    ],
)
def test_what_is_not_there_is_not_found(use: Any) -> None:
    with pytest.raises(NotFoundError, match="Pod default/p not found") as caught:
        now(use(MemoryApi()))
    assert caught.value.code == 404


def test_replacing_what_is_not_there() -> None:
    with pytest.raises(NotFoundError):
        MemoryApi().replace(make_node("n1"))


def test_delete_takes_the_uid_as_a_precondition() -> None:
    api = MemoryApi()
    api.put(make_pod("p", uid="new"))
    with pytest.raises(ConflictError, match="Pod default/p has UID new, not old"):
        now(api.delete(Pod, "p", namespace="default", uid="old"))
    now(api.delete(Pod, "p", namespace="default", uid="new"))
    assert api.all(Pod) == ()


def test_change_works_on_the_present_version() -> None:
    api = MemoryApi()
    api.put(make_node("n1"))
    replace = msgspec.structs.replace
    api.change(Node, "n1", lambda node: replace(node, spec=replace(node.spec, unschedulable=True)))
    assert api.read(Node, "n1").spec.unschedulable


def test_update_expects_the_present_version() -> None:
    api = MemoryApi()
    first = api.put(make_node("n1"))
    second = now(api.update(msgspec.structs.replace(first, spec=msgspec.structs.replace(first.spec))))
    assert second.metadata.resource_version == "2"
    with pytest.raises(ConflictError, match="Node n1 is at version 2, not 1"):
        now(api.update(first))
    assert now(api.update(make_node("n1", cpu="9"))).metadata.resource_version == "3"
    with pytest.raises(NotFoundError):
        now(api.update(make_node("n2")))


def test_a_list_by_field() -> None:
    api = MemoryApi()
    for name, node in (("a", "n1"), ("b", ""), ("c", "n2")):
        api.put(make_pod(name, node=node))

    def names(selector: str) -> list[str]:
        return [pod.metadata.name for pod in now(api.list(Pod, field_selector=selector)).items]

    assert names("spec.nodeName=n1") == ["a"]
    assert names("spec.nodeName!=") == ["a", "c"]
    assert names("spec.nodeName=") == ["b"]
    assert names("metadata.name=c,status.phase=Pending") == ["c"]


# Binding


def test_binding_assigns_the_pod_and_says_so() -> None:
    api = MemoryApi()
    unschedulable = {"type": "PodScheduled", "status": "False"}
    api.put(
        make_pod("p", uid="u", status={"conditions": [unschedulable, {"type": "Ready", "status": "False"}]})
    )
    now(api.bind(binding(uid="u")))
    pod = api.read(Pod, "default/p")
    assert pod.spec.node_name == "n1"
    assert {each.type: each.status for each in pod.status.conditions} == {
        "Ready": "False",
        "PodScheduled": "True",
    }


@pytest.mark.parametrize(
    "pod, wanted, message",
    [
        pytest.param(make_pod("p", node="n2"), {}, "already assigned to node 'n2'", id="assigned"),
        pytest.param(
            make_pod("p", node="n1"), {}, "already assigned to node 'n1'", id="assigned-to-the-same"
        ),
        pytest.param(make_pod("p", uid="new"), {"uid": "old"}, "has UID new, not old", id="another-uid"),
        pytest.param(make_pod("p"), {"resource_version": "999"}, "is at version 1, not 999", id="changed"),
        pytest.param(
            make_pod("p", metadata={"deletionTimestamp": "2025-01-01T00:00:00Z"}),
            {},
            "is being deleted",
            id="deleted",
        ),
        pytest.param(make_pod("p", gates=["g"]), {}, "non-empty .spec.schedulingGates", id="gated"),
    ],
)
def test_bindings_that_conflict(pod: Pod, wanted: dict[str, str], message: str) -> None:
    api = MemoryApi()
    api.put(pod)
    with pytest.raises(ConflictError, match=message) as caught:
        now(api.bind(binding(**wanted)))
    assert caught.value.code == 409
    assert api.read(Pod, "default/p").spec.node_name == pod.spec.node_name


# Patching


@pytest.mark.parametrize(
    "patch, labels",
    [
        pytest.param({"metadata": {"labels": {"b": "2"}}}, {"a": "1", "b": "2"}, id="maps-merge"),
        pytest.param({"metadata": {"labels": {"a": "9"}}}, {"a": "9"}, id="values-are-replaced"),
        pytest.param({"metadata": {"labels": {"a": None}}}, {}, id="null-deletes"),
        pytest.param({"metadata": {"labels": {"z": None}}}, {"a": "1"}, id="null-for-nothing"),
        pytest.param({}, {"a": "1"}, id="empty"),
    ],
)
def test_maps_merge(patch: dict[str, Any], labels: dict[str, str]) -> None:
    api = MemoryApi()
    api.put(make_pod("p", labels={"a": "1"}))
    assert now(api.patch(Pod, "p", patch, namespace="default")).metadata.labels == labels


def test_conditions_merge_by_type_and_other_lists_are_replaced() -> None:
    api = MemoryApi()
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "PodScheduled", "status": "False", "reason": "x"},
    ]
    api.put(
        make_pod("p", status={"conditions": conditions}, tolerations=[{"key": "a", "operator": "Exists"}])
    )
    patch = {
        "status": {
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Initialized", "status": "True"},
            ]
        },
        "spec": {"tolerations": [{"key": "b", "operator": "Exists"}]},
    }
    pod = now(api.patch(Pod, "p", patch, namespace="default"))
    assert [(each.type, each.status, each.reason) for each in pod.status.conditions] == [
        ("Ready", "True", ""),
        ("PodScheduled", "True", "x"),
        ("Initialized", "True", ""),
    ]
    assert [each.key for each in pod.spec.tolerations] == ["b"]


def test_the_status_subresource_changes_nothing_else() -> None:
    api = MemoryApi()
    api.put(make_pod("p", labels={"a": "1"}))
    patch = {"metadata": {"labels": {"a": "2"}}, "status": {"nominatedNodeName": "n1"}}
    pod = now(api.patch(Pod, "p", patch, namespace="default", subresource="status"))
    assert (pod.metadata.labels, pod.status.nominated_node_name) == ({"a": "1"}, "n1")
    patch = {"status": {"nominatedNodeName": None}}
    pod = now(api.patch(Pod, "p", patch, namespace="default", subresource="status"))
    assert pod.status.nominated_node_name == ""


@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize(
    "metadata, message",
    [({"uid": "old"}, "has UID new, not old"), ({"resourceVersion": "999"}, "is at version 1, not 999")],
    ids=["another-uid", "changed"],
)
def test_patches_that_conflict(metadata: dict[str, str], message: str, subresource: str) -> None:
    api = MemoryApi()
    api.put(make_pod("p", uid="new"))
    patch = {"metadata": metadata, "status": {"nominatedNodeName": "n1"}}
    with pytest.raises(ConflictError, match=message):
        now(api.patch(Pod, "p", patch, namespace="default", subresource=subresource))
    assert api.read(Pod, "default/p").status.nominated_node_name == ""


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


def test_a_watch_from_the_beginning_sees_everything_in_order() -> None:
    async def main() -> list[str]:
        api = MemoryApi()
        for name in "abc":
            api.put(make_node(name))
        api.remove(Node, "b")
        return await watched(Watcher(api, Node, ""))

    assert run_in_virtual_time(main) == ["ADDED a", "ADDED b", "ADDED c", "DELETED b"]


def test_a_watch_can_be_resumed_at_any_event() -> None:
    async def main() -> None:
        api = MemoryApi()
        for name in "abcd":
            api.put(make_node(name))
        first = Watcher(api, Node, "0")
        everything = await watched(first)
        for number, event in enumerate(first.events, start=1):
            assert event.resource_version == event.object.metadata.resource_version
            rest = await watched(Watcher(api, Node, event.resource_version))
            assert rest == everything[number:]

    run_in_virtual_time(main)


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


def test_a_watch_by_field_sees_objects_come_and_go() -> None:
    async def main() -> list[str]:
        api = MemoryApi()
        watcher = Watcher(api, Pod, "0", field_selector="spec.nodeName=")
        return await watched(
            watcher,
            lambda: api.put(make_pod("a", uid="a")),
            lambda: api.put(make_pod("b", node="n1")),
            lambda: api.replace(make_pod("a", uid="a", labels={"x": "y"})),
            lambda: api.replace(make_pod("a", uid="a", node="n1")),
            lambda: api.remove(Pod, "default/a"),
        )

    assert run_in_virtual_time(main) == ["ADDED a", "MODIFIED a", "DELETED a"]


def test_a_deletion_carries_the_last_version_of_the_object() -> None:
    async def main() -> WatchEvent:
        api = MemoryApi()
        api.put(make_node("n1", cpu="7"))
        watcher = Watcher(api, Node, "1")
        await watched(watcher, lambda: api.remove(Node, "n1"))
        return watcher.events[0]

    event = run_in_virtual_time(main)
    assert event.object.status.allocatable["cpu"] == "7"
    assert event.object.metadata.resource_version == "2"


def test_a_version_of_the_future_is_gone() -> None:
    async def main() -> None:
        with pytest.raises(ApiError, match="in the future") as caught:
            await Watcher(MemoryApi(), Node, "5").run()
        assert caught.value.code == 410

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
