"""Observers cannot disturb a scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.clock import run_in_virtual_time
from kuberth.testing import make_node, make_pod, running

METHODS = ("pod_moved", "pod_popped", "pod_done", "pod_deleted", "pod_held", "pod_bound", "pod_rejected")


class Failing:
    """Fails at one of its methods."""

    def __init__(self, failing: str) -> None:
        self._failing = failing
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)

        def method(*_args: Any) -> None:
            self.calls.append(name)
            if name == self._failing:
                raise RuntimeError("a defect")

        return method


@pytest.mark.parametrize("failing", [*METHODS, ""])
def test_a_failing_observer_is_dropped_and_delays_no_pod(
    failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(make_node("n", cpu="2")) as world:
            observer = Failing(failing)
            world.scheduler.observe(observer)
            world.api.put(make_pod("small", cpu="1"))
            world.api.put(make_pod("large", cpu="4"))
            await world.bound("small")
            await world.in_queue("large", "unschedulable")
            world.api.replace(make_node("n", cpu="8"))
            await world.bound("large")
            if failing in ("", "pod_held"):
                assert set(observer.calls) == {*METHODS} - {"pod_held"}
            else:
                assert observer.calls[-1] == failing
                assert observer.calls.count(failing) == 1
                assert "failed and was dropped" in caplog.text

    run_in_virtual_time(scenario)
