"""Claims whose search has no end do not hold the scheduler: work is bounded per attempt, and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.clock import run_in_virtual_time
from kuberth.plugins.dynamic_resources.allocator.search import DeviceSearch, Found
from kuberth.plugins.dynamic_resources.site_results import ATTEMPT_WORK, WORK_PER_SECOND, SearchBudget
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import running
from tests.integration.test_devices import asking, message_of
from tests.integration.test_gangs import GATES, make_group, members
from tests.unit.plugins.device_objects import exactly, first_of, make_claim, make_class, make_slice

DEVICES = 40
BOARD, SERIAL = "gpu.example.com/board", "gpu.example.com/serial"
ENDLESS = (
    {"distinctAttribute": BOARD},
    {"requests": ["r"], "matchAttribute": SERIAL},
)


def devices(*, alike: int = 0) -> list[dict[str, Any]]:
    """Devices of different boards and serial numbers, but for the last ones, which have the same number."""
    return [
        {
            "name": f"dev-{index}",
            "attributes": {
                "board": {"string": f"b{index}"},
                "serial": {"int": min(index, DEVICES - alike) if alike else index},
            },
        }
        for index in range(DEVICES)
    ]


def endless(name: str) -> Any:
    return make_claim(
        name, exactly("q", 8), first_of("r", exactly("s", 8), exactly("t", 8)), constraints=ENDLESS
    )


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What every call of a search did."""
    done: list[int] = []
    run = DeviceSearch.run

    def counted(self: DeviceSearch, *args: Any, **more: Any) -> Found | None:
        before = self.work
        try:
            return run(self, *args, **more)
        finally:
            done.append(self.work - before)

    monkeypatch.setattr(DeviceSearch, "run", counted)
    return done


def profiles(timeout: str) -> Sequence[dict[str, Any]]:
    return [{"pluginConfig": [{"name": "DynamicResources", "args": {"filterTimeout": timeout}}]}]


def test_other_pods_are_scheduled_and_the_timeout_is_remembered(work: list[int]) -> None:
    async def scenario() -> None:
        nodes = [make_node(name) for name in ("a", "b", "c")]
        slices = [make_slice(node.metadata.name, devices()) for node in nodes]
        async with running(*nodes, *slices, make_class(), profiles=profiles("300ms")) as world:
            world.api.put(endless("c"))
            world.api.put(asking("hostile", "c"))
            world.api.put(make_pod("plain"))
            await world.bound("plain", seconds=1)
            assert sum(work) <= ATTEMPT_WORK + 3 * 2 * DEVICES + 3 * 2 * DEVICES
            await world.until(lambda: "timed out trying to allocate devices" in message_of(world, "hostile"))
            await world.quiet(seconds=60)
            spent = sum(work)
            assert spent <= 0.3 * WORK_PER_SECOND + ATTEMPT_WORK
            await world.quiet(seconds=120)
            assert sum(work) == spent, "a demand that timed out is not searched again"
            assert max(work) <= ATTEMPT_WORK + 4 * DEVICES

    run_in_virtual_time(scenario)


def test_a_long_search_is_finished_in_the_background(
    work: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SearchBudget.__init__, "__defaults__", (50,))

    async def scenario() -> None:
        slice_ = make_slice("a", devices(alike=8))
        async with running(make_node("a"), slice_, make_class()) as world:
            same = [{"requests": ["r"], "matchAttribute": SERIAL}]
            world.api.put(make_claim("c", exactly("q", 4), exactly("r", 8), constraints=same))
            world.api.put(asking("p", "c"))
            await world.bound("p", seconds=30)
            assert sum(work) > 50 + DEVICES
            assert "node a: timed out trying to allocate devices" in world.events("FailedScheduling")[0]

    run_in_virtual_time(scenario)


def test_a_changed_device_starts_the_search_again(work: list[int]) -> None:
    async def scenario() -> None:
        async with running(
            make_node("a"), make_slice("a", devices()), make_class(), profiles=profiles("100ms")
        ) as world:
            world.api.put(endless("c"))
            world.api.put(asking("p", "c"))
            await world.quiet(seconds=60)
            spent = sum(work)
            world.api.put(make_claim("other", exactly()))
            world.api.put(asking("other", "other"))
            await world.bound("other", seconds=30)
            await world.quiet(seconds=60)
            assert sum(work) > spent + ATTEMPT_WORK / 2

    run_in_virtual_time(scenario)


def test_a_gang_has_one_budget(work: list[int]) -> None:
    async def scenario() -> None:
        async with running(make_node("a"), make_slice("a", devices()), make_class(), gates=GATES) as world:
            pods: list[Pod] = []
            for number, pod in enumerate(members("g", 5)):
                claim = f"c{number}"
                world.api.put(
                    make_claim(
                        claim,
                        exactly("q", 8 + number % 2),
                        first_of("r", exactly("s", 8), exactly("t", 8 + number)),
                        constraints=ENDLESS,
                    )
                )
                pods.append(asking(pod.metadata.name, claim, schedulingGroup={"podGroupName": "g"}))
            world.api.put(make_group("g", min_count=5))
            for pod in pods:
                world.api.put(pod)
            await world.until(lambda: bool(work))
            assert sum(work) <= ATTEMPT_WORK + 5 * 4 * DEVICES

    run_in_virtual_time(scenario)


def test_searches_that_no_pod_waits_for_end(work: list[int]) -> None:
    """Even without a time limit: what is done in the background is granted by attempts."""

    async def scenario() -> None:
        async with running(
            make_node("a"), make_slice("a", devices()), make_class(), profiles=profiles("0s")
        ) as world:
            world.api.put(endless("c"))
            world.api.put(asking("p", "c"))
            await world.until(lambda: len(work) > 3)
            world.api.remove(Pod, "default/p")
            await world.quiet(seconds=60)
            spent = sum(work)
            await world.quiet(seconds=60)
            assert sum(work) == spent

    run_in_virtual_time(scenario)
