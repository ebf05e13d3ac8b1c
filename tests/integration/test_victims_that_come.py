"""A rejection that is kept while no verdict changes ends when preemption could help."""

from __future__ import annotations

from kuberth.api.core import Pod
from kuberth.clock import run_in_virtual_time
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import running


def test_waiting_pods_preempt_a_pod_that_came_after_they_were_rejected() -> None:
    """Filter says the same all the time; only the priorities on the node change."""

    async def play() -> None:
        large = make_pod("large", cpu="3", priority=100, node="n0")
        node = make_node("n0", cpu="4", pods="10")
        async with running(node, large, make_pod("small", cpu="500m", priority=100, node="n0")) as world:
            for number in range(3):
                world.api.put(make_pod(f"waiting-{number}", cpu="3500m", priority=50))
            await world.until(lambda: len(world.events("FailedScheduling")) == 3)
            runner = world.scheduler.runners["default-scheduler"]
            repeated = dict(world.scheduler.metrics.repeated_rejections.values)
            assert sum(repeated.values()) == 1, "the third pod is rejected as the second one was"
            (preemption,) = (p for p in runner.profile.post_filter if p.name == "DefaultPreemption")
            waiting = world.scheduler.queue.get("default/waiting-0")
            assert waiting is not None
            assert preemption.follows_verdicts(waiting.info)
            world.api.put(make_pod("least", cpu="500m", priority=0, node="n0"))
            await world.until(lambda: not preemption.follows_verdicts(waiting.info))
            world.api.remove(Pod, "default/large")
            world.api.put(make_pod("large-again", cpu="3", priority=40, node="n0"))
            await world.until(lambda: bool(world.events("Preempted")))

    run_in_virtual_time(play)
