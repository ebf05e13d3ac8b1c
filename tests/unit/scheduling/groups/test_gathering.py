"""Gathering a group's pods: by taking them out of the queue, or by popping until they have come."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.queue import PriorityQueue
from kuberth.queue.interface import SchedulingQueue
from kuberth.scheduling.groups import cycle
from kuberth.scheduling.groups.cycle import Gathering
from kuberth.testing import make_pod
from tests.unit.queue.fifo import Fifo
from tests.unit.queue.harness import make_context


def info(name: str, **more: Any) -> PodInfo:
    return PodInfo(make_pod(name, uid=name, **more))


def queues() -> list[SchedulingQueue]:
    return [PriorityQueue(make_context()), Fifo(make_context())]


@pytest.mark.parametrize("queue", queues(), ids=["takes", "only-pops"])
def test_fellows_come_along_and_others_follow(queue: SchedulingQueue) -> None:
    for name in ("a1", "x", "a2", "b1", "y", "a3"):
        queue.add(info(name))
    popped = queue.pop_nowait()
    assert popped is not None
    gatherer = Gathering(queue)
    found = gatherer.gather(popped, [info("a2"), info("a3"), info("unknown")])
    assert [queued.key for queued in found] == ["default/a1", "default/a2", "default/a3"]
    rest: list[str] = []
    while (queued := gatherer.next_held() or queue.pop_nowait()) is not None:
        rest.append(queued.key)
    assert rest == ["default/x", "default/b1", "default/y"]
    assert {pod.metadata.name for pod in queue.in_flight()} == {"a1", "x", "a2", "b1", "y", "a3"}


def test_a_held_pod_is_found_by_its_own_group() -> None:
    queue = Fifo(make_context())
    for name in ("a1", "b1", "b2", "a2"):
        queue.add(info(name))
    gatherer = Gathering(queue)
    first = queue.pop_nowait()
    assert first is not None
    gatherer.gather(first, [info("a2")])
    second = gatherer.next_held()
    assert second is not None
    assert [queued.key for queued in gatherer.gather(second, [info("b2")])] == ["default/b1", "default/b2"]
    assert gatherer.next_held() is None


def test_there_is_an_end_to_popping_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycle, "MAX_HELD", 3)
    queue = Fifo(make_context())
    for name in ("a1", *(f"x{number}" for number in range(9)), "a2"):
        queue.add(info(name))
    popped = queue.pop_nowait()
    assert popped is not None
    assert [queued.key for queued in Gathering(queue).gather(popped, [info("a2")])] == ["default/a1"]


def test_members_are_ordered_by_priority_then_by_first_attempt() -> None:
    queue = PriorityQueue(make_context())
    names = {"late": 0, "high": 9, "early": 0}
    for name, priority in names.items():
        queue.add(info(name, priority=priority))
    queued = [queue.take_nowait(info(name).pod) for name in names]
    ready = {"late": 5, "high": 9, "early": 1}
    found = [each for each in queued if each is not None]
    for each in found:
        each.first_attempt_ns = ready[each.uid]
    found.sort(key=cycle._order)
    assert [each.uid for each in found] == ["high", "early", "late"]
