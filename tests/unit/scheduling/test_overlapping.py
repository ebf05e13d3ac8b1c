from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kuberth.clock import run_in_virtual_time
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import KuberthError
from kuberth.framework import QueuedPod
from kuberth.scheduling.overlapping import MAX_WAITING, Overlapping
from kuberth.testing import make_pod


def queued(name: str, priority: int = 0) -> QueuedPod:
    return QueuedPod(PodInfo(make_pod(name, priority=priority)), timestamp_ns=0)


def forget(pod: QueuedPod) -> None:
    raise AssertionError(f"{pod.key} was given back")


def test_a_limited_number_runs_at_once_and_the_most_important_is_next() -> None:
    async def scenario() -> None:
        began: list[str] = []
        doors: dict[str, asyncio.Event] = {}

        async def attend(pod: QueuedPod) -> None:
            began.append(pod.pod.metadata.name)
            await doors.setdefault(pod.pod.metadata.name, asyncio.Event()).wait()

        async with asyncio.TaskGroup() as tasks:

            def spawn(work: Coroutine[Any, Any, None], *, name: str) -> None:
                tasks.create_task(work, name=name)

            overlapping = Overlapping(attend, spawn=spawn, limit=2, requeue=forget)
            for name, priority in (("a", 0), ("b", 0), ("c", 1), ("d", 5), ("e", 5)):
                overlapping.add(queued(name, priority))
            await asyncio.sleep(0)
            assert (began, overlapping.running, overlapping.waiting) == (["a", "b"], 2, 3)
            doors["b"].set()
            await asyncio.sleep(0.1)
            assert began == ["a", "b", "d"]
            doors["a"].set()
            await asyncio.sleep(0.1)
            assert began == ["a", "b", "d", "e"]
            overlapping.stop()
            doors["d"].set()
            doors["e"].set()
        assert (began, overlapping.running, overlapping.waiting) == (["a", "b", "d", "e"], 0, 0)

    run_in_virtual_time(scenario)


def test_the_limit_moves_while_cycles_run() -> None:
    async def scenario() -> None:
        began: list[str] = []
        door = asyncio.Event()

        async def attend(pod: QueuedPod) -> None:
            began.append(pod.pod.metadata.name)
            await door.wait()

        async with asyncio.TaskGroup() as tasks:

            def spawn(work: Coroutine[Any, Any, None], *, name: str) -> None:
                tasks.create_task(work, name=name)

            overlapping = Overlapping(attend, spawn=spawn, limit=1, requeue=forget)
            for name in "abcd":
                overlapping.add(queued(name, 0))
            await asyncio.sleep(0)
            assert began == ["a"]
            overlapping.allow(3)
            await asyncio.sleep(0)
            assert began == ["a", "b", "c"]
            overlapping.allow(1)
            assert (overlapping.running, overlapping.waiting) == (3, 1), "running cycles continue"
            overlapping.stop()
            overlapping.allow(5)
            door.set()
        assert (began, overlapping.running) == (["a", "b", "c"], 0), "none begins after the end"

    run_in_virtual_time(scenario)


def test_a_cycle_that_fails_leaves_its_place() -> None:
    async def scenario() -> None:
        began: list[str] = []

        async def attend(pod: QueuedPod) -> None:
            began.append(pod.pod.metadata.name)
            raise RuntimeError("broken")

        tasks: list[asyncio.Task[None]] = []
        overlapping = Overlapping(
            attend,
            spawn=lambda work, *, name: tasks.append(asyncio.ensure_future(work)),
            limit=1,
            requeue=forget,
        )
        for name in ("a", "b"):
            overlapping.add(queued(name))
        await asyncio.sleep(1)
        assert (began, overlapping.running) == (["a", "b"], 0)
        assert [str(task.exception()) for task in tasks] == ["broken", "broken"]

    run_in_virtual_time(scenario)


def test_a_place_that_could_not_be_used_is_not_counted() -> None:
    def spawn(work: Coroutine[Any, Any, None], *, name: str) -> None:
        work.close()
        raise KuberthError("not running")

    async def attend(_pod: QueuedPod) -> None:
        raise AssertionError

    overlapping = Overlapping(attend, spawn=spawn, limit=1, requeue=forget)
    with pytest.raises(KuberthError):
        overlapping.add(queued("a"))
    assert overlapping.running == 0


async def never(_pod: QueuedPod) -> None:
    raise AssertionError


def test_the_line_is_bounded_and_the_least_important_goes_back() -> None:
    back = list[str]()
    overlapping = Overlapping(
        never,
        spawn=lambda work, *, name: work.close(),
        limit=0,
        requeue=lambda pod: back.append(pod.pod.metadata.name),
    )
    for number in range(MAX_WAITING):
        overlapping.add(queued(f"p{number}", priority=1 if number == 500 else 5))
    assert back == []
    overlapping.add(queued("late", priority=9))
    overlapping.add(queued("later", priority=9))
    overlapping.add(queued("unimportant", priority=0))
    assert back == ["p500", f"p{MAX_WAITING - 1}", "unimportant"]
    assert overlapping.waiting == MAX_WAITING


def test_no_pod_starves() -> None:
    """However many come that are more important."""

    async def scenario() -> None:
        began: list[str] = []

        async def attend(pod: QueuedPod) -> None:
            began.append(pod.pod.metadata.name)
            overlapping.add(queued(f"important-{len(began)}", priority=9))

        tasks: list[asyncio.Task[None]] = []
        overlapping = Overlapping(
            attend,
            spawn=lambda work, *, name: tasks.append(asyncio.ensure_future(work)),
            limit=1,
            requeue=forget,
        )
        overlapping.add(queued("first", priority=9))
        overlapping.add(queued("patient"))
        while "patient" not in began:
            await asyncio.sleep(0)
            assert len(began) < 100
        overlapping.stop()
        await asyncio.gather(*tasks)

    run_in_virtual_time(scenario)
