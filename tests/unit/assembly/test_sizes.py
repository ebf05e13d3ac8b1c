"""What a scheduler holds, as its metrics say it."""

from __future__ import annotations

from kuberth.clock import run_in_virtual_time
from kuberth.testing import make_node, make_pod, running


def test_plans_are_counted_by_profile() -> None:
    async def scenario() -> None:
        async with running(make_node("n", cpu="8")) as world:
            plans = world.scheduler.metrics.plans
            assert plans.values == {("default-scheduler",): 0.0}
            for name, cpu in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")):
                world.api.put(make_pod(name, cpu=cpu))
                await world.bound(name)
            assert plans.values == {("default-scheduler",): 2.0}

    run_in_virtual_time(scenario)
