"""Dumps the state of a running scheduler to the log, on SIGUSR2.

In: a scheduler. Out: where its cluster table differs from the API, the pods on every node, and the pods in
each queue with their reasons.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from kuberth.api.core import Node, Pod
from kuberth.api.pods import UNFINISHED
from kuberth.assembly.scheduler import Scheduler
from kuberth.client.protocol import Api
from kuberth.cluster.table import ClusterTable
from kuberth.errors import ApiError
from kuberth.informers.store import object_key
from kuberth.queue.interface import SchedulingQueue

logger = logging.getLogger(__name__)


async def inspect(scheduler: Scheduler, api: Api) -> None:
    """Compare with the API and dump table and queue to the log."""
    try:
        nodes = (await api.list(Node)).items
        pods = (await api.list(Pod, field_selector=UNFINISHED)).items
    except ApiError as exc:
        logger.error("the cluster table cannot be compared with the API: %s", exc)
    else:
        differences = list(compare(scheduler.cluster, nodes, pods))
        for line in differences or ["the cluster table and the API agree"]:
            logger.info("compare: %s", line)
    for line in (*describe_nodes(scheduler.cluster), *describe_queue(scheduler.queue)):
        logger.info("dump: %s", line)


def compare(cluster: ClusterTable, nodes: Sequence[Node], pods: Sequence[Pod]) -> Iterator[str]:
    """Differences between the table and the API's current state, including changes in flight."""
    named = {node.metadata.name for node in nodes}
    known = {name for name in cluster.names if name}
    yield from (f"node {name} is on the API but not in the table" for name in sorted(named - known))
    yield from (f"node {name} is in the table but not on the API" for name in sorted(known - named))
    assigned = {pod.metadata.uid: pod for pod in pods if pod.spec.node_name}
    placed = {info.uid: info for info in cluster.placed_pods()}
    for uid, pod in assigned.items():
        info = placed.pop(uid, None)
        key = object_key(pod)
        if info is None:
            yield f"pod {key} is assigned on the API but not in the table"
        elif info.node_name != pod.spec.node_name:
            yield f"pod {key} is on {pod.spec.node_name} on the API but on {info.node_name} in the table"
    for info in placed.values():
        if not cluster.is_assumed(info.uid):
            yield f"pod {info.key} is in the table but not assigned on the API"


def describe_nodes(cluster: ClusterTable) -> Iterator[str]:
    for node in cluster.all_nodes():
        used = ", ".join(
            f"{resource} {node.requested(resource)}/{node.allocatable(resource)}"
            for resource in cluster.resources
            if node.allocatable(resource) or node.requested(resource)
        )
        yield f"node {node.name}: {node.pod_count} pods; {used}"


def describe_queue(queue: SchedulingQueue) -> Iterator[str]:
    for name, waiting in queue.pending_pods().items():
        yield f"queue {name}: {len(waiting)} pods"
        for queued in waiting:
            why = ", ".join(sorted(queued.rejectors)) or "no plugin"
            yield f"  {queued.key}: {queued.attempts} attempts, rejected by {why}"
    in_flight = [object_key(pod) for pod in queue.in_flight()]
    yield f"in flight: {', '.join(in_flight) or 'none'}"
