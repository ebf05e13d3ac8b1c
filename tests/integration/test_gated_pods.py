"""Pods behind scheduling gates, in a whole scheduler (KEP-3521)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kuberth.api.core import Pod
from kuberth.api.wire import convert, to_builtins
from kuberth.clock import run_in_virtual_time
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import running

ZONE = "topology.kubernetes.io/zone"


def with_spec(pod: Pod, **spec: Any) -> Pod:
    tree = to_builtins(pod)
    tree["spec"] = {**tree["spec"], **spec}
    return convert(Pod, tree)


@pytest.mark.parametrize("hints", [True, False], ids=["hints", "without-hints"])
def test_terms_narrowed_behind_a_gate_count_when_it_opens(*, hints: bool) -> None:
    """Node selector, affinity to nodes and to pods: all as they are when the last gate is gone."""

    async def scenario() -> None:
        nodes = [make_node(f"n{zone}", labels={ZONE: zone}) for zone in "abc"]
        peer = make_pod("peer", labels={"app": "x"}, node="nc")
        async with running(*nodes, peer, gates={"SchedulerQueueingHints": hints}) as world:
            term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x"}}}
            near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            for name, spec in (("selected", {"nodeSelector": {ZONE: "b"}}), ("near", {"affinity": near})):
                key = f"default/{name}"
                world.api.put(make_pod(name, gates=["one", "two"]))
                await world.in_queue(name, "gated")
                world.api.replace(with_spec(world.pod(name), **spec))
                world.api.replace(with_spec(world.pod(name), schedulingGates=[{"name": "two"}]))
                await world.quiet(seconds=5)
                assert world.queue_of(name) == "gated"
                world.api.change(
                    Pod,
                    key,
                    lambda pod: msgspec.structs.replace(
                        pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=())
                    ),
                )
                await world.bound(name, seconds=5)
            assert (world.node_of("selected"), world.node_of("near")) == ("nb", "nc")

    run_in_virtual_time(scenario)


def test_a_gate_is_opened_by_the_pods_own_update_only() -> None:
    async def scenario() -> None:
        async with running(make_node("n1")) as world:
            world.api.put(make_pod("p", gates=["wait"]))
            world.api.put(make_pod("q", gates=["wait"]))
            await world.in_queue("q", "gated")
            world.api.replace(with_spec(world.pod("q"), schedulingGates=[]))
            await world.bound("q", seconds=5)
            world.api.replace(make_node("n1", cpu="64", labels={"a": "b"}))
            world.api.put(make_node("n2"))
            await world.quiet(seconds=20)
            assert world.queue_of("p") == "gated"
            queued = world.scheduler.queue.get("default/p")
            assert queued is not None
            assert (queued.attempts, queued.gating_plugin) == (0, "SchedulingGates")
            asked = world.scheduler.metrics.queueing_hint_execution_duration.values
            assert not [labels for labels in asked if labels[0] == "SchedulingGates" and "Node" in labels[1]]

    run_in_virtual_time(scenario)
