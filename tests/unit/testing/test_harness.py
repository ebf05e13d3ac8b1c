"""The harness distinguishes pods of one name in two namespaces."""

from __future__ import annotations

from kuberth.testing import make_namespace, make_node, make_pod, run_in_virtual_time, running


def test_every_method_takes_a_namespace() -> None:
    async def scenario() -> None:
        async with running(make_node("n1"), make_namespace("other")) as world:
            world.api.put(make_pod("p", cpu="64"))
            world.api.put(make_pod("p", namespace="other"))
            await world.bound("p", namespace="other")
            await world.in_queue("p", "unschedulable")
            assert world.node_of("p", namespace="other") == "n1"
            assert world.node_of("p") == ""
            assert world.pod("p", namespace="other").metadata.namespace == "other"
            world.api.put(make_pod("q", namespace="other", gates=["example.com/wait"]))
            await world.in_queue("q", "gated", namespace="other")
            assert world.queue_of("p", namespace="other") != "unschedulable"

    run_in_virtual_time(scenario)
