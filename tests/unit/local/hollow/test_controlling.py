"""What every controller has: informers, and queues that start when those have been listed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kuberth.local.apiserver.objects import Obj
from kuberth.local.hollow.controlling import Controller, by_namespace, by_node
from kuberth.local.hollow.working import COALESCE_SECONDS
from kuberth.testing import FakeClock
from tests.unit.local.hollow.harness import virtual


class FakeInformer:
    """As much of an informer as a controller uses."""

    def __init__(self) -> None:
        self.synced = asyncio.Event()
        self.handlers: list[Any] = []
        self.indexes: list[str] = []

    def add_handler(self, handler: Any) -> None:
        self.handlers.append(handler)

    def add_index(self, name: str, _keys: Any) -> None:
        self.indexes.append(name)

    def count(self, _index: str, _value: str) -> int:
        return 1


class FakeInformers:
    def __init__(self) -> None:
        self.made: dict[str, FakeInformer] = {}

    def of(self, resource: str) -> Any:
        return self.made.setdefault(resource, FakeInformer())


def child(kind: str = "Job") -> Obj:
    owner = {"kind": kind, "name": "owner", "uid": "u", "controller": True}
    return {"metadata": {"name": "child", "namespace": "default", "ownerReferences": [owner]}}


def make_controller() -> tuple[Controller, FakeInformers]:
    informers: Any = FakeInformers()
    return Controller(informers, clock=FakeClock()), informers


def test_nothing_is_synced_before_everything_is_listed() -> None:
    async def main() -> None:
        controller, informers = make_controller()
        synced: list[str] = []

        async def sync(key: str) -> None:
            synced.append(key)

        queue = controller.queue("test", sync)
        controller.watch("jobs", queue.add_changed, indexes={"namespace": by_namespace})
        controller.watch("pods")
        assert informers.made["jobs"].indexes == ["namespace"]
        informers.made["jobs"].handlers[0](None, child())
        running = asyncio.create_task(controller.run())
        informers.made["jobs"].synced.set()
        await asyncio.sleep(1)
        assert synced == []
        informers.made["pods"].synced.set()
        await asyncio.sleep(1)
        assert synced == ["default/child"]
        running.cancel()

    virtual(main)


@pytest.mark.parametrize(
    ("coalesce", "kind", "expected"),
    [(False, "Job", ["default/owner"]), (True, "Job", []), (False, "Other", [])],
)
def test_a_change_of_a_child_queues_its_owner(coalesce: bool, kind: str, expected: list[str]) -> None:
    async def main() -> None:
        controller, informers = make_controller()
        synced: list[str] = []

        async def sync(key: str) -> None:
            synced.append(key)

        queue = controller.queue("test", sync)
        controller.watch_owned("pods", queue, kind="Job", coalesce=coalesce)
        informers.made["pods"].synced.set()
        running = asyncio.create_task(controller.run())
        informers.made["pods"].handlers[0](None, child(kind))
        await asyncio.sleep(COALESCE_SECONDS / 2)
        assert synced == expected
        await asyncio.sleep(COALESCE_SECONDS)
        assert synced == (["default/owner"] if kind == "Job" else [])
        running.cancel()

    virtual(main)


def test_indexes() -> None:
    assert list(by_namespace(child())) == ["default"]
    assert list(by_node({"spec": {"nodeName": "n"}})) == ["n"]
    assert list(by_node({"spec": {}})) == []
