"""`python -m benchmarks.plugins`: what a plugin costs at each extension point, and what shipped plugins cost.

In: a cluster table of random nodes, no API. Out: three tables of CPU microseconds, minima of many turns: one
call of a plugin that does nothing, by extension point; Filter and Score for one node of a large cluster, by
plugin; and PreFilter for a pod, by plugin. Answers of equal pods are not reused.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
from examples.prefer_quiet_nodes import PreferQuietNodes, QuietArgs
from numpy.typing import NDArray

from kuberth.api import selector_from_set
from kuberth.api.core import Pod
from kuberth.assembly.profiles import full_registry
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selection import has_labels
from kuberth.config import load
from kuberth.evaluation import Evaluator
from kuberth.framework import (
    BindPlugin,
    CycleState,
    Diagnosis,
    FilterPlugin,
    Handle,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
    Verdict,
)
from kuberth.testing import make_pod, profile
from kuberth.testing.random_clusters import RandomCluster
from kuberth_plugins.capacity_scheduling import CapacityScheduling, elastic_quota_kind
from kuberth_plugins.coscheduling import LABEL, Coscheduling, pod_group_kind
from kuberth_plugins.load_aware import LoadAware
from kuberth_plugins.namespace_pod_quota import NamespacePodQuota
from kuberth_plugins.two_step_binding import ANNOTATION, TwoStepBinding

TURNS: Final = 15
CALLS: Final = 2000
IN_TREE: Final = (
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "TaintToleration",
    "NodeAffinity",
    "ImageLocality",
)
REJECTED: Final = Status.unresolvable("node(s) are quiet and the pod is a guest")
POD: Final = make_pod("asked", cpu="100m", memory="100Mi", labels={"app": "a", "guest": "true"})


class DoesNothing(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Serves every point with the shortest answer; Filter and Score node by node."""

    name = "DoesNothing"

    def pre_enqueue(self, pod: Pod) -> None:
        return None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> None:
        return None

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> tuple[None, Status]:
        return None, Status.unschedulable("nothing")

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int:
        return 1

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return None


class QuietAtOnce(PreferQuietNodes):
    """PreferQuietNodes over all nodes at once."""

    name = "QuietAtOnce"

    def __init__(self, args: QuietArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._quiet = selector_from_set({self._args.quiet_label: "true"})

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        if pod.metadata.labels.get("guest") != "true":
            return None
        return Verdict.rejecting(has_labels(nodes, self._quiet), REJECTED)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        scores = nodes.take(nodes.table.pod_count) * -self._args.points_per_pod
        scores += 100
        return np.maximum(scores, 0, out=scores)


class MeasuredLoads(LoadAware):
    """LoadAware with a figure for every node."""

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        loads = {f"node-{number}": (number % 100) / 100 for number in range(100_000)}
        self._loads.set(loads, now_ns=handle.clock.now_ns())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plugins", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000, metavar="N")
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N")
    options = parser.parse_args()
    cluster = RandomCluster(1, words=("app", "quiet", "true", "a", "b"), nodes=options.nodes)
    gc.disable()
    print("one call of a plugin that does nothing")
    for point, found in _points(cluster, options.turns).items():
        print(f"  {point:<34}{found:>8.2f} µs")
    print(f"\none node of {options.nodes}")
    for name, found in _per_node(cluster, options.turns).items():
        print(f"  {name:<40}{found:>8.3f} µs")
    print(f"\nPreFilter for a pod, {options.nodes} nodes")
    for name, found in _per_pod(cluster, options.turns).items():
        print(f"  {name:<34}{found:>8.2f} µs")


def _evaluator(cluster: RandomCluster, plugin: type[Plugin] | str, *objects: Any, **args: Any) -> Evaluator:
    """A profile of this plugin alone."""
    name = plugin if isinstance(plugin, str) else plugin.name
    registry = full_registry(None if isinstance(plugin, str) else {name: plugin})
    sorts = not isinstance(plugin, str) and issubclass(plugin, QueueSortPlugin)
    one = profile(sort=name) if sorts else profile(name)
    if args:
        one["pluginConfig"] = [{"name": name, "args": args}]
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [one],
    }
    config = load(
        tree,
        known_plugins=registry.names(),
        extension_points=registry.extension_points(),
        args_types=registry.args_types(),
    )
    evaluator = Evaluator(
        [*cluster.nodes, *cluster.placed, *objects], config=config, registry=registry, with_plans=False
    )
    for each in evaluator.runner.profile.plugins.values():
        if isinstance(each, CapacityScheduling):
            each.start()
    return evaluator


def _least(turns: int, work: Callable[[], object], *, calls: int = 1) -> float:
    """Microseconds of CPU for a call."""
    found = []
    for _ in range(turns):
        started = time.thread_time()
        for _ in range(calls):
            work()
        found.append((time.thread_time() - started) / calls)
    return min(found) * 1e6


def _points(cluster: RandomCluster, turns: int) -> Mapping[str, float]:
    evaluator = _evaluator(cluster, DoesNothing)
    runner, nodes = evaluator.runner, evaluator.cluster.all_nodes()
    name = cluster.nodes[0].metadata.name

    def awaited(call: Callable[..., Awaitable[object]]) -> float:
        async def many() -> float:
            found = []
            for _ in range(turns):
                started = time.thread_time()
                for _ in range(CALLS):
                    await call(state, POD, name)
                found.append((time.thread_time() - started) / CALLS)
            return min(found) * 1e6

        return asyncio.run(many())

    state = CycleState(PodInfo(POD))
    runner.pre_filtering.run(state, POD, nodes)
    runner.scoring.run_pre_score(state, POD, nodes)
    diagnosis = Diagnosis()

    def once(work: Callable[[], object]) -> float:
        return _least(turns, work, calls=CALLS)

    return {
        "PreEnqueue": once(lambda: runner.run_pre_enqueue(POD)),
        "PreFilter": once(lambda: runner.pre_filtering.run(state, POD, nodes)),
        "Filter, node by node, a node": _filter(evaluator, turns),
        "PostFilter": once(lambda: runner.post_filtering.run(state, POD, diagnosis)),
        "PreScore": once(lambda: runner.scoring.run_pre_score(state, POD, nodes)),
        "Score, node by node, a node": _score(evaluator, turns),
        "Reserve": once(lambda: runner.reserving.run_reserve(state, POD, name)),
        "Permit": once(lambda: runner.reserving.run_permit(state, POD, name)),
        "PreBind, awaited": awaited(runner.binding.run_pre_bind),
        "Bind, awaited": awaited(runner.binding.run_bind),
        "PostBind": once(lambda: runner.binding.run_post_bind(state, POD, name)),
    }


def _filter(evaluator: Evaluator, turns: int) -> float:
    nodes, state = evaluator.cluster.all_nodes(), CycleState(PodInfo(POD))
    evaluator.runner.pre_filtering.run(state, POD, nodes)
    return _least(turns, lambda: evaluator.runner.filtering.evaluate(state, POD, nodes)) / len(nodes)


def _score(evaluator: Evaluator, turns: int) -> float:
    nodes, state = evaluator.cluster.all_nodes(), CycleState(PodInfo(POD))
    evaluator.runner.pre_filtering.run(state, POD, nodes)
    evaluator.runner.scoring.run_pre_score(state, POD, nodes)
    return _least(turns, lambda: evaluator.runner.scoring.run(state, POD, nodes)) / len(nodes)


def _per_node(cluster: RandomCluster, turns: int) -> Mapping[str, float]:
    quiet, at_once = (_evaluator(cluster, each) for each in (PreferQuietNodes, QuietAtOnce))
    found = {
        "PreferQuietNodes, Filter by node": _filter(quiet, turns),
        "the same over all nodes, Filter": _filter(at_once, turns),
        "PreferQuietNodes, Score by node": _score(quiet, turns),
        "the same over all nodes, Score": _score(at_once, turns),
        "LoadAware, Score": _score(_evaluator(cluster, MeasuredLoads), turns),
    }
    for name in IN_TREE:
        found[f"{name}, Score"] = _score(_evaluator(cluster, name), turns)
    return found


def _per_pod(cluster: RandomCluster, turns: int) -> Mapping[str, float]:
    """PreFilter of pods that the plugin has to do with."""
    gang = [make_pod(f"gang-{number}", labels={LABEL: "gang"}) for number in range(10)]
    group = {"metadata": {"name": "gang", "namespace": "default"}, "spec": {"minMember": 10}}
    quotas = [
        {
            "metadata": {"name": name, "namespace": name},
            "spec": {"min": {"cpu": 50000}, "max": {"cpu": 90000}},
        }
        for name in ("default", *(f"team-{number}" for number in range(19)))
    ]
    plain = make_pod("prepared")
    annotated = msgspec.structs.replace(plain.metadata, annotations={ANNOTATION: "disk"})
    prepared = msgspec.structs.replace(plain, metadata=annotated)
    cases: Sequence[tuple[type[Plugin] | str, Pod, Sequence[Any], dict[str, Any]]] = (
        (Coscheduling, gang[0], [pod_group_kind()(group), *gang], {}),
        (CapacityScheduling, POD, [elastic_quota_kind()(quota) for quota in quotas], {}),
        (TwoStepBinding, prepared, [], {}),
        (NamespacePodQuota, POD, [], {"pods": {"default": 100_000}}),
        ("NodeResourcesFit", POD, [], {}),
    )
    found = {}
    for plugin, pod, objects, args in cases:
        evaluator = _evaluator(cluster, plugin, *objects, **args)
        nodes, state = evaluator.cluster.all_nodes(), CycleState(PodInfo(pod))
        run = partial(evaluator.runner.pre_filtering.run, state, pod, nodes)
        assert run().status.is_success, run().status
        found[plugin if isinstance(plugin, str) else plugin.name] = _least(turns, run, calls=20)
    return found


if __name__ == "__main__":
    main()
