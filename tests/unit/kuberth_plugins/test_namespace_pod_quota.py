"""A namespace's pods beyond its number stay outside the queue."""

from __future__ import annotations

from kuberth.api import Pod
from kuberth.testing import (
    make_node,
    make_pod,
    profile,
    run_in_virtual_time,
    running,
)
from kuberth_plugins.namespace_pod_quota import NamespacePodQuota


def test_pods_beyond_the_number_are_gated_until_one_leaves() -> None:
    async def scenario() -> None:
        config = [{"name": "NamespacePodQuota", "args": {"pods": {"default": 2}}}]
        async with running(
            make_node("n"),
            plugins={"NamespacePodQuota": NamespacePodQuota},
            profiles=[profile("NamespacePodQuota", pluginConfig=config)],
        ) as world:
            for name in ("a", "b", "c"):  # all enter before any has a node
                world.api.put(make_pod(name, terminationGracePeriodSeconds=0))
            await world.quiet(seconds=30)
            assert [bool(world.node_of(name)) for name in "abc"] == [True, True, False]
            world.api.put(make_pod("d"))
            await world.quiet(seconds=1)
            assert world.queue_of("d") == "gated"
            world.api.remove(Pod, "default/a")
            world.api.remove(Pod, "default/b")
            await world.bound("c", "d")

    run_in_virtual_time(scenario)
