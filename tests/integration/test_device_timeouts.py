"""What people read of a search for devices that timed out: kube-scheduler's words, node included."""

from __future__ import annotations

from kuberth.clock import run_in_virtual_time
from kuberth.testing import make_node
from kuberth.testing.harness import running
from tests.integration.test_devices import asking
from tests.integration.test_endless_searches import devices, endless, profiles
from tests.unit.plugins.device_objects import make_class, make_slice


def test_the_message_of_a_search_that_timed_out() -> None:
    async def scenario() -> None:
        objects = [make_node("a"), make_slice("a", devices()), make_class()]
        async with running(*objects, profiles=profiles("300ms")) as world:
            world.api.put(endless("c"))
            world.api.put(asking("p", "c"))
            await world.until(lambda: bool(world.pod("p").status.conditions))
            message = 'running "DynamicResources" filter plugin: node a: timed out trying to allocate devices'
            assert world.events("FailedScheduling") == [message]
            condition = world.pod("p").status.conditions[0]
            assert (condition.reason, condition.message) == ("SchedulerError", message)

    run_in_virtual_time(scenario)
