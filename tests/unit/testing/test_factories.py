from __future__ import annotations

import asyncio

import pytest

from kuberth.api.quantity import milli_value
from kuberth.clock import NANOSECONDS, Clock, LoopClock
from kuberth.testing import FakeClock, make_namespace, make_node, make_pod, run_in_virtual_time


def test_a_node_has_allocatable_resources_and_a_hostname() -> None:
    node = make_node("n1", cpu="2", labels={"zone": "a"}, taints=[{"key": "k", "effect": "NoSchedule"}])
    assert node.metadata.labels == {"kubernetes.io/hostname": "n1", "zone": "a"}
    assert milli_value(node.status.allocatable["cpu"]) == 2000
    assert set(node.status.allocatable) == {"cpu", "memory", "pods"}
    assert [taint.key for taint in node.spec.taints] == ["k"]
    assert not node.spec.unschedulable


def test_a_node_takes_resources_and_status_of_ones_own() -> None:
    node = make_node(
        "n1",
        unschedulable=True,
        allocatable={"example.com/gpu": "2", "cpu": "8"},
        images=[{"names": ["nginx"], "sizeBytes": 7}],
    )
    assert node.spec.unschedulable
    assert node.status.allocatable["example.com/gpu"] == "2"
    assert milli_value(node.status.allocatable["cpu"]) == 8000
    assert node.status.images[0].names == ("nginx",)


def test_pods_differ_in_their_uid() -> None:
    assert make_pod("p").metadata.uid != make_pod("p").metadata.uid
    assert make_pod("p", uid="u").metadata.uid == "u"


@pytest.mark.parametrize(
    ("asked", "requests"),
    [
        ({}, set()),
        ({"cpu": "1"}, {"cpu"}),
        ({"memory": "1Gi", "requests": {"example.com/gpu": "1"}}, {"memory", "example.com/gpu"}),
    ],
    ids=["nothing", "cpu", "more"],
)
def test_a_pod_asks_for_what_is_given(asked: dict[str, object], requests: set[str]) -> None:
    (container,) = make_pod("p", **asked).spec.containers  # type: ignore[arg-type]  # a table of keywords
    assert set(container.resources.requests) == requests


def test_a_pod_takes_any_field_of_its_spec() -> None:
    pod = make_pod(
        "p",
        namespace="shop",
        node="n1",
        priority=7,
        gates=["a", "b"],
        scheduler="mine",
        phase="Running",
        metadata={"generation": 3},
        status={"nominatedNodeName": "n2"},
        nodeSelector={"disk": "ssd"},
    )
    assert (pod.metadata.namespace, pod.metadata.generation) == ("shop", 3)
    assert (pod.spec.node_name, pod.spec.priority, pod.spec.scheduler_name) == ("n1", 7, "mine")
    assert [gate.name for gate in pod.spec.scheduling_gates] == ["a", "b"]
    assert pod.spec.node_selector == {"disk": "ssd"}
    assert (pod.status.phase, pod.status.nominated_node_name) == ("Running", "n2")
    assert make_pod("p").spec.priority is None


def test_a_namespace_has_labels() -> None:
    assert make_namespace("shop", labels={"team": "a"}).metadata.labels == {"team": "a"}


def test_a_clock_stands_still_until_advanced() -> None:
    clock: Clock = FakeClock(5)
    assert clock.now_ns() == clock.now_ns() == 5
    assert isinstance(clock, FakeClock)
    clock.advance(1.5)
    assert clock.now_ns() == 5 + 1_500_000_000


def test_virtual_time_passes_without_waiting() -> None:
    async def main() -> tuple[int, list[str]]:
        clock = LoopClock(asyncio.get_running_loop(), epoch_ns=NANOSECONDS)
        order: list[str] = []

        async def after(seconds: float, name: str) -> None:
            await asyncio.sleep(seconds)
            order.append(name)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(after(3600, "hour"))
            tasks.create_task(after(60, "minute"))
            tasks.create_task(after(80_000, "most of a day"))
        return clock.now_ns(), order

    now_ns, order = run_in_virtual_time(main)
    assert now_ns == pytest.approx((1 + 80_000) * NANOSECONDS)
    assert order == ["minute", "hour", "most of a day"]


def test_virtual_time_has_a_limit() -> None:
    with pytest.raises(TimeoutError):
        run_in_virtual_time(lambda: asyncio.sleep(101), limit_seconds=100)
