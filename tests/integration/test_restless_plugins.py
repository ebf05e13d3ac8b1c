"""Plugins whose rejections change all the time do not make their pods busy by it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.clock import run_in_virtual_time
from kuberth.errors import KuberthError, first_error
from kuberth.framework.extension_points import FilterPlugin, PermitPlugin, PermitResult
from kuberth.framework.status import Status
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import running_with


class NeverTheSameReason(FilterPlugin):
    """Rejects every node in other words each time, and registers no events: all of them concern it."""

    name = "NeverTheSameReason"

    def __init__(self) -> None:
        self.asked = 0
        self._numbers = count()

    def filter(self, _state: object, _pod: Pod, _node: object) -> Status:
        self.asked += 1
        return Status.unschedulable(f"reason {next(self._numbers)}")


class NoTimeToWait(PermitPlugin):
    name = "NoTimeToWait"

    def __init__(self) -> None:
        self.asked = 0

    def permit(self, _state: object, _pod: Pod, _node_name: str) -> PermitResult:
        self.asked += 1
        return PermitResult.wait(0, f"attempt {self.asked}")


@pytest.mark.parametrize("plugin", [NeverTheSameReason(), NoTimeToWait()], ids=lambda each: each.name)
def test_its_own_condition_does_not_bring_a_pod_back(plugin: Any) -> None:
    async def scenario() -> None:
        async with running_with(plugin, make_node("n1"), make_pod("p")) as world:
            await world.quiet(seconds=100)
            # Once at the start, and what the backoff allows; not once for every patch of the pod's status.
            assert 1 <= plugin.asked <= 25

    run_in_virtual_time(scenario)


def test_pods_that_bring_each_other_back_end_a_run_on_virtual_time() -> None:
    """Each rejection at Permit gives up a place, which is an event for the other pod."""

    async def scenario() -> None:
        pods = [make_pod("a"), make_pod("b")]
        async with running_with(NoTimeToWait(), make_node("n1"), *pods) as world:
            await world.quiet(seconds=100)

    with pytest.RaisesGroup(KuberthError, allow_unwrapped=True, flatten_subgroups=True) as caught:
        run_in_virtual_time(scenario)
    error = first_error(caught.value)
    assert "was tried 1,000 times while virtual time stood at 0 s; NoTimeToWait rejected it" in str(error)
