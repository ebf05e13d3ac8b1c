"""Answers about one pod, one node, or a part of a name.

In: the overview and a name. Out: trees of JSON; `UnknownName`, with similar names, if there is no such
object.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Final

from kuberth.api.core import Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import ConfigError
from kuberth.explaining.targets import ExplainTarget, find_pod
from kuberth.informers.store import object_key
from kuberth.overview.histories import PodHistory
from kuberth.overview.node_rows import NodeRows
from kuberth.overview.overview import Overview
from kuberth.overview.waiting import IN_FLIGHT, PERMIT, PLACED

FOUND: Final = 50
"""A search returns at most this many pods and this many nodes."""


class UnknownName(LookupError):  # noqa: N818  # an answer more than a fault
    """No pod or node has this name."""


def history_tree(overview: Overview, namespace: str, name: str) -> dict[str, Any]:
    key = f"{namespace}/{name}"
    pod = overview.scheduler.stores.of(Pod).get_by_key(key)
    history = overview.histories.named(key) if pod is None else overview.histories.of(pod.metadata.uid)
    if pod is None and history is None:
        try:
            find_pod(overview.scheduler.stores.of(Pod), ExplainTarget("Pod", name), namespace)
        except ConfigError as error:
            raise UnknownName(str(error)) from error
    return {
        "pod": _gone_pod(namespace, name, history) if pod is None else _pod(overview, pod, history),
        "moves": [] if history is None else [move.tree() for move in history.moves],
        "cycles": [] if history is None else [attempt.tree() for attempt in history.attempts],
    }


def _pod(overview: Overview, pod: Pod, history: PodHistory | None) -> dict[str, Any]:
    scheduler = overview.scheduler
    placed = scheduler.cluster.placed(pod.metadata.uid)
    queued = scheduler.queue.get(object_key(pod))
    return {
        **_gone_pod(pod.metadata.namespace, pod.metadata.name, history),
        "uid": pod.metadata.uid,
        "node": "" if placed is None else placed.node_name,
        "phase": pod.status.phase,
        "queue": QueueLookup(overview).of(pod),
        "priority": pod_priority(pod),
        "profile": pod.spec.scheduler_name,
        **({} if queued is None else {"attempts": queued.attempts}),
    }


def _gone_pod(namespace: str, name: str, history: PodHistory | None) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "name": name,
        "uid": "" if history is None else history.uid,
        "node": "",
        "phase": "",
        "queue": "" if history is None else history.queue,
        "priority": 0,
        "profile": "",
        "attempts": 0 if history is None else len(history.attempts),
    }


class QueueLookup:
    """Finds the queue of a pod, also while there are no subscribers and `QueueView` does not exist."""

    def __init__(self, overview: Overview) -> None:
        self._scheduler = overview.scheduler
        self._queues: dict[str, str] | None = None

    def of(self, pod: Pod) -> str:
        """The queue, `placed`, or "" for a pod of another scheduler."""
        scheduler, uid = self._scheduler, pod.metadata.uid
        if scheduler.cluster.placed(uid) is not None and not scheduler.cluster.is_assumed(uid):
            return PLACED
        if scheduler.waiting_pods.get(uid) is not None:
            return PERMIT
        if scheduler.cluster.is_assumed(uid):
            return IN_FLIGHT
        if self._queues is None:
            self._queues = {other.metadata.uid: IN_FLIGHT for other in scheduler.queue.in_flight()}
            for queue, waiting in scheduler.queue.pending_pods().items():
                self._queues |= {queued.uid: queue for queued in waiting}
        return self._queues.get(uid, "")


def node_tree(overview: Overview, name: str) -> dict[str, Any]:
    cluster = overview.scheduler.cluster
    row = cluster.row_of(name)
    if row is None:
        names = [each for each in cluster.names if each]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UnknownName(f"there is no node {name}{hint}")
    rows = overview.nodes if overview.subscribers else NodeRows(cluster)
    node = cluster.node_at(row)
    _, zone, pool, flags, allocatable, requested = rows.line(row)
    return {
        "name": name,
        "zone": zone,
        "pool": pool,
        "flags": flags,
        "labels": dict(node.metadata.labels),
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.spec.taints
        ],
        "allocatable": dict(zip(rows.resources, allocatable, strict=True)),
        "requested": dict(zip(rows.resources, requested, strict=True)),
        "pods": [_pod_on_node(info, rows.resources) for info in cluster.pods_at(row)],
    }


def _pod_on_node(info: PodInfo, resources: list[str]) -> list[Any]:
    request = info.request
    amounts = {
        "cpu": request.milli_cpu / 1000,
        "memory": request.memory,
        "pods": 1,
        "ephemeral-storage": request.ephemeral_storage,
        **request.scalars,
    }
    return [
        info.namespace,
        info.pod.metadata.name,
        info.pod.status.phase,
        info.priority,
        [amounts.get(name, 0) for name in resources],
    ]


def search_tree(overview: Overview, text: str) -> dict[str, Any]:
    where = QueueLookup(overview)
    cluster = overview.scheduler.cluster
    pods = []
    for pod in _pods_named(overview, text.lower()):
        placed = cluster.placed(pod.metadata.uid)
        node = "" if placed is None else placed.node_name
        pods.append([pod.metadata.namespace, pod.metadata.name, where.of(pod), node])
    nodes = sorted(name for name in cluster.names if name and text.lower() in name)
    return {"pods": pods, "nodes": nodes[:FOUND]}


def _pods_named(overview: Overview, text: str) -> Iterator[Pod]:
    """With a slash in the text, the namespace counts as part of the name."""
    found = 0
    for pod in overview.scheduler.stores.of(Pod):
        metadata = pod.metadata
        if text in (f"{metadata.namespace}/{metadata.name}" if "/" in text else metadata.name):
            yield pod
            found += 1
            if found == FOUND:
                return
