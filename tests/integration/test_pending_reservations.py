"""A Reserve plugin that answers Pending, in a whole scheduler (KEP-4247)."""

from __future__ import annotations

import pytest

from kuberth.clock import run_in_virtual_time
from kuberth.framework.status import Status
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import running_with
from tests.integration.recording import Recording


@pytest.mark.parametrize(
    ("answer", "queue"),
    [(Status.pending("on its way"), ""), (Status.unschedulable("on its way"), "backoff")],
    ids=["pending", "unschedulable"],
)
def test_only_pending_skips_the_backoff(answer: Status, queue: str) -> None:
    """Nothing pops pods early here, so that a backoff can be seen."""

    async def scenario() -> None:
        plugin = Recording()
        plugin.behave["Reserve"] = lambda _pod: answer
        no_early_pop = {"SchedulerPopFromBackoffQ": False}
        async with running_with(plugin, make_node("n1"), make_pod("p"), gates=no_early_pop) as world:
            await world.in_queue("p", "unschedulable")
            await world.until(lambda: bool(world.pod("p").status.conditions))
            queued = world.scheduler.queue.get("default/p")
            assert queued is not None
            assert queued.rejectors == {"Recording"}
            assert queued.pending_plugins == ({"Recording"} if queue == "" else set())
            assert "Unreserve p" in plugin.calls
            assert int(world.scheduler.cluster.pod_count.sum()) == 0
            assert world.events("FailedScheduling") == ["0/1 nodes are available: 1 on its way."]
            condition = world.pod("p").status.conditions[0]
            assert (condition.type, condition.status) == ("PodScheduled", "False")
            assert (condition.reason, condition.message) == (
                "Unschedulable",
                "0/1 nodes are available: 1 on its way.",
            )
            assert world.scheduler.metrics.schedule_attempts.values == {
                ("unschedulable", "default-scheduler"): 1
            }
            plugin.behave.clear()
            world.api.put(make_node("n2"))
            await world.quiet(seconds=0.1)
            assert world.queue_of("p") == queue
            assert bool(world.node_of("p")) is (queue == "")
            await world.bound("p", seconds=3)

    run_in_virtual_time(scenario)


def test_an_event_during_the_attempt_skips_the_backoff_too() -> None:
    async def scenario() -> None:
        plugin = Recording()
        no_early_pop = {"SchedulerPopFromBackoffQ": False}
        async with running_with(plugin, make_node("n1"), gates=no_early_pop) as world:

            def reserve(_pod: object) -> Status:
                del plugin.behave["Reserve"]
                world.scheduler.intake.node(None, make_node("n2"))
                return Status.pending("on its way")

            plugin.behave["Reserve"] = reserve
            world.api.put(make_pod("p"))
            await world.bound("p", seconds=0.2)
            assert plugin.calls.count("Reserve p") == 2

    run_in_virtual_time(scenario)
