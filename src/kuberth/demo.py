"""A small cluster in memory for `kuberth up`: zones, a tainted node, spread replicas, a gated pod.

In: how many nodes and pods. Out: the pods after every one was placed or told why not.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kuberth.api.core import Namespace, Node, Pod
from kuberth.api.wire import convert
from kuberth.app import Scheduler
from kuberth.client.memory import MemoryApi
from kuberth.cluster.table import ClusterTable
from kuberth.config import load
from kuberth.framework.registry import Registry
from kuberth.queue.interface import QueueFactory


@dataclass(frozen=True, slots=True)
class DemoResult:
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    cluster: ClusterTable
    seconds: float


async def run_demo(
    *, nodes: int, pods: int, config_path: Path | None, registry: Registry, queue: QueueFactory | None
) -> DemoResult:
    api = MemoryApi()
    api.put(convert(Namespace, {"metadata": {"name": "default"}}))
    for index in range(nodes):
        api.put(convert(Node, _node(index)))
    for index in range(pods):
        api.put(convert(Pod, _pod(index)))
    config = None
    if config_path is not None:
        config = load(
            config_path,
            known_plugins=registry.names(),
            extension_points=registry.extension_points(),
            args_types=registry.args_types(),
        )
    scheduler = Scheduler(api, config=config, registry=registry, queue=queue)
    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.run(), name="scheduler")
        while not all(map(_is_settled, api.all(Pod))):
            await api.next_change()
        seconds = time.perf_counter() - started
        scheduler.stop()
    return DemoResult(api.all(Node), api.all(Pod), scheduler.cluster, seconds)


def _is_settled(pod: Pod) -> bool:
    """Placed, gated, or tried and told why not."""
    return bool(
        pod.spec.node_name
        or pod.spec.scheduling_gates
        or any(condition.type == "PodScheduled" for condition in pod.status.conditions)
    )


def _node(index: int) -> dict[str, Any]:
    name = f"node-{index + 1}"
    zone = "abc"[index % 3]
    node: dict[str, Any] = {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{zone}"},
        },
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
    if index % 6 == 5:
        node["spec"] = {"taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]}
    return node


def _pod(index: int) -> dict[str, Any]:
    kinds = (_web, _database, _batch)
    pod = kinds[index % 3](index)
    if index % 20 == 18:
        pod["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    elif index % 20 == 19:
        pod["metadata"]["name"] = f"giant-{index + 1}"
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "64"
    return pod


def _base(name: str, app: str, cpu: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}],
        },
    }


def _web(index: int) -> dict[str, Any]:
    pod = _base(f"web-{index + 1}", "web", "500m")
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    return pod


def _database(index: int) -> dict[str, Any]:
    pod = _base(f"db-{index + 1}", "db", "250m")
    pod["spec"]["priority"] = 100
    return pod


def _batch(index: int) -> dict[str, Any]:
    pod = _base(f"batch-{index + 1}", "batch", "1")
    pod["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    return pod
