"""`python -m benchmarks.cycle`: what one scheduling cycle costs, by kind of pod and size of the cluster.

In: a cluster table with zones, hostnames and two pods on every node, no API. Out: a table of the median
microseconds a pod from PreFilter to the pod assumed on its node, and how they grow with the nodes. The
cycle is the scheduler's own, with its own sampling of nodes.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kuberth.cluster.pod_info import PodInfo
from kuberth.evaluation import Evaluator
from kuberth.framework.queued_pod import QueuedPod
from kuberth.outcomes.placement import Placement
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.testing import make_node, make_pod

ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONES: Final = 3
PODS_PER_NODE: Final = 2
APPS: Final = 20
"""Distinct labels of the pods that are there already."""
NODES_PER_PEER: Final = 10
"""Number of nodes for each pod of the kind that is measured."""
WARM_UP: Final = 30

Spec = dict[str, Any]
LABELS: Final = {"color": "blue"}
SELECTOR: Final = {"matchLabels": LABELS}


def _affinity(field: str, topology_key: str, *, required: bool) -> Spec:
    term = {"topologyKey": topology_key, "labelSelector": SELECTOR}
    if required:
        rules: Spec = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    else:
        rules = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    return {"affinity": {field: rules}}


def _node_affinity() -> Spec:
    zones = {"key": ZONE, "operator": "In", "values": ["zone-0", "zone-1"]}
    term = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}}


def _spread() -> Spec:
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": SELECTOR,
    }
    return {"topologySpreadConstraints": [constraint]}


KINDS: Mapping[str, Spec] = {
    "plain": {},
    "node-affinity": _node_affinity(),
    "spread": _spread(),
    "required-affinity": _affinity("podAffinity", ZONE, required=True),
    "preferred-affinity": _affinity("podAffinity", HOSTNAME, required=False),
    "required-anti-affinity": _affinity("podAntiAffinity", HOSTNAME, required=True),
    "preferred-anti-affinity": _affinity("podAntiAffinity", HOSTNAME, required=False),
}


def main() -> None:
    options = _parser().parse_args()
    sizes: Sequence[int] = sorted(set(options.nodes))
    medians: dict[str, list[float]] = {kind: [] for kind in options.kinds}
    for size in sizes:
        evaluator = cluster_of(size)
        for kind in medians:
            medians[kind].append(_measure(evaluator, kind, pods=options.pods, templates=options.templates))
    for line in _table(sizes, medians):
        print(line)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cycle", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000, 50000], metavar="N")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--pods", type=int, default=300, metavar="N", help="pods measured of each kind (300)")
    parser.add_argument(
        "--templates",
        type=int,
        default=1,
        metavar="N",
        help="number of pod templates, used in turn; they differ in a label and in their requests (1)",
    )
    return parser


def cluster_of(size: int) -> Evaluator:
    evaluator = Evaluator()
    for number in range(size):
        name = f"node-{number}"
        zone = {ZONE: f"zone-{number % ZONES}"}
        evaluator.cluster.set_node(make_node(name, cpu="32", memory="128Gi", labels=zone))
        for place in range(PODS_PER_NODE):
            labels = {"app": f"app-{(number * PODS_PER_NODE + place) % APPS}"}
            pod = make_pod(f"{name}-{place}", node=name, cpu="500m", memory="500Mi", labels=labels)
            evaluator.cluster.add_pod(PodInfo(pod))
    return evaluator


@contextmanager
def peers(evaluator: Evaluator, kind: str) -> Iterator[None]:
    """Pods of the kind on some nodes; they leave with everything that was placed meanwhile."""
    cluster = evaluator.cluster
    before = {info.uid for info in cluster.placed_pods()}
    for number in range(0, cluster.node_count, NODES_PER_PEER):
        cluster.add_pod(pod_of(f"peer-{number}", kind, node=f"node-{number}"))
    yield
    for info in [info for info in cluster.placed_pods() if info.uid not in before]:
        cluster.remove_pod(info.uid)


def pod_of(name: str, kind: str, *, node: str = "", template: int = 0) -> PodInfo:
    labels = LABELS | ({"template": str(template)} if template else {})
    cpu = f"{100 + template}m"
    return PodInfo(make_pod(name, node=node, cpu=cpu, memory="100Mi", labels=labels, **KINDS[kind]))


def _measure(evaluator: Evaluator, kind: str, *, pods: int, templates: int) -> float:
    """The median microseconds of one cycle."""
    cycle = SchedulingCycle(
        evaluator.cluster,
        nominator=evaluator.nominator,
        metrics=evaluator.runner.metrics,
        rng=random.Random(1),
    )

    def schedule(info: PodInfo) -> None:
        outcome = cycle.run(QueuedPod(info, timestamp_ns=0), evaluator.runner)
        if not isinstance(outcome, Placement):
            raise SystemExit(f"a pod of kind {kind} fits nowhere: {outcome.status.message}")

    with peers(evaluator, kind):
        waiting = [
            pod_of(f"pending-{number}", kind, template=number % templates) for number in range(WARM_UP + pods)
        ]
        for info in waiting[:WARM_UP]:
            schedule(info)
        gc.collect()
        return 1e6 * statistics.median(_seconds(schedule, info) for info in waiting[WARM_UP:])


def _seconds(action: Callable[[PodInfo], None], info: PodInfo) -> float:
    started = time.thread_time()
    action(info)
    return time.thread_time() - started


def _table(sizes: Sequence[int], medians: Mapping[str, Sequence[float]]) -> Iterator[str]:
    width = max(map(len, medians))
    yield f"{'µs a pod':<{width}}" + "".join(f"{f'{size} nodes':>20}" for size in sizes)
    for kind, figures in medians.items():
        cells = [f"{figure:.0f} ({figure / figures[0]:.1f}x)" for figure in figures]
        yield f"{kind:<{width}}" + "".join(f"{cell:>20}" for cell in cells)


if __name__ == "__main__":
    main()
