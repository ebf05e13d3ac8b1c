"""`python -m benchmarks.explain`: what an explanation costs, by the kind of pod that is asked about.

In: a cluster of objects in memory. Out: CPU milliseconds from the objects to the JSON of the answer: of a
first question, which builds the cluster table, and of one more on the same copy of the cluster, as a running
scheduler answers it. All plugins run on every node, and every proposal is tried.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.config import default_configuration
from kuberth.explaining import Question, explain
from kuberth.explaining.cluster_copy import ClusterCopy
from kuberth.explaining.explanation import to_tree
from kuberth.testing import make_node, make_pod

PODS_PER_NODE: Final = 4
TAINT: Final = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
QUESTIONS: Final[dict[str, Pod]] = {
    "fits": make_pod("fits", cpu="100m"),
    "too large for any room": make_pod("large", cpu="3"),
    "too large for any node": make_pod("huge", cpu="64"),
    "preempts": make_pod("important", cpu="3", priority=10),
    "gated": make_pod("gated", cpu="3", gates=["a", "b"]),
    "wants a label": make_pod("picky", cpu="100m", nodeSelector={"disk": "ssd"}),
}


def cluster(nodes: int) -> list[Any]:
    objects: list[Any] = []
    for number in range(nodes):
        name = f"n{number}"
        zone = {"topology.kubernetes.io/zone": f"z{number % 3}"}
        objects.append(make_node(name, cpu="4", labels=zone, taints=[TAINT] if number % 10 == 0 else ()))
        objects += (make_pod(f"p{number}-{each}", cpu="800m", node=name) for each in range(PODS_PER_NODE))
    return objects


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    objects = cluster(parser.parse_args().nodes)
    gc.disable()  # as the command does
    print(f"{'pod':<24}{'first ms':>10}{'next ms':>9}  verdict, proposals")
    warm = ClusterCopy(default_configuration())
    explain(Question(make_pod("first"), objects), warm)
    for name, pod in QUESTIONS.items():
        spent = []
        for cluster_copy in (None, warm):
            started = time.process_time()
            found = explain(Question(pod, objects), cluster_copy)
            json.dumps(to_tree(found))
            spent.append(1000 * (time.process_time() - started))
            gc.collect()
        print(f"{name:<24}{spent[0]:>10.0f}{spent[1]:>9.0f}  {found.verdict}, {len(found.proposals)}")


if __name__ == "__main__":
    main()
