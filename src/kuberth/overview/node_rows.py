"""Nodes as rows of the stream: allocatable and requested amounts.

In: the columns of the cluster table, and its log of changed rows. Out: the rows that differ, and the names of
nodes that are gone. Nodes that did not change cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from kuberth.api.core import Node
from kuberth.api.well_known import ZONE
from kuberth.cluster.table import ClusterTable

NodeLine = tuple[str, str, str, int, list[float], list[float]]
"""Name, zone, pool, flags, allocatable and requested, in the order of `NodeRows.resources`."""

NOT_READY: Final = 1
UNSCHEDULABLE: Final = 2
TAINTED: Final = 4

POOL_LABELS: Final = (
    "kuberth.dev/pool",
    "node.kubernetes.io/instance-type",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "agentpool",
    "karpenter.sh/nodepool",
)
_ALWAYS: Final = ("cpu", "memory", "pods")
_EFFECTS: Final = ("NoSchedule", "NoExecute")
_MILLI: Final = 1000


class NodeChanges(NamedTuple):
    """What differs since the last `refresh`."""

    changed: Collection[str]
    gone: Mapping[str, str]
    """By name; there is only one reason, ""."""
    columns: bool
    """The resources changed, and with them all rows."""


class NodeRows:
    """The rows of the last `refresh`."""

    def __init__(self, cluster: ClusterTable) -> None:
        self._cluster = cluster
        self.resources: list[str] = []
        """The resources of the amounts in a row, in order."""
        self.rows: dict[str, NodeLine] = {}
        """By name."""
        self._names: dict[int, str] = {}
        self._changes = cluster.counted_changes.reader()
        self.refresh()

    def refresh(self) -> NodeChanges:
        """Update the rows of nodes that changed."""
        cluster, rows = self._cluster, self._changes.read()
        if (resources := _resources(cluster)) != self.resources:
            self.resources = resources
            self.rows.clear()
            self._names = {}
            self._update(range(cluster.slots))
            return NodeChanges((), {}, columns=True)
        return self._update(range(cluster.slots) if rows is None else sorted(rows))

    def line(self, row: int) -> NodeLine:
        return next(iter(self._lines([row])))

    def _update(self, rows: Iterable[int]) -> NodeChanges:
        cluster = self._cluster
        gone, live = {}, []
        for row in rows:
            before, now = self._names.get(row, ""), cluster.names[row]
            if before and before != now:
                del self._names[row]
                if cluster.row_of(before) is None and self.rows.pop(before, None) is not None:
                    gone[before] = ""
            if now:
                self._names[row] = now
                live.append(row)
        changed = []
        for line in self._lines(live):
            if self.rows.get(line[0]) != line:
                self.rows[line[0]] = line
                changed.append(line[0])
        return NodeChanges(changed, gone, columns=False)

    def _lines(self, rows: list[int]) -> Iterable[NodeLine]:
        cluster = self._cluster
        all_allocatable = self._amounts(cluster.allocatable, cluster.allowed_pods, rows)
        all_requested = self._amounts(cluster.requested, cluster.pod_count, rows)
        for row, allocatable, requested in zip(rows, all_allocatable, all_requested, strict=True):
            node = cluster.node_at(row)
            labels = node.metadata.labels
            yield (
                cluster.names[row],
                labels.get(ZONE, ""),
                pool_of(labels),
                flags_of(node),
                allocatable,
                requested,
            )

    def _amounts(self, columns: Any, pods: Any, rows: list[int]) -> list[list[float]]:
        """By row: cores, bytes, pods, then other resources, as plain numbers."""
        index = self._cluster.resources
        found = [pods[rows] if name == "pods" else columns[index[name], rows] for name in self.resources]
        lists: list[list[float]] = np.stack(found, axis=1).tolist()
        for amounts in lists:
            amounts[0] /= _MILLI
        return lists


def _resources(cluster: ClusterTable) -> list[str]:
    others = sorted(name for name in cluster.resources if name not in (*_ALWAYS, "ephemeral-storage"))
    return [*_ALWAYS, "ephemeral-storage", *others]


def pool_of(labels: Any) -> str:
    """The node pool or instance type, from the first label that a vendor sets."""
    return next((labels[key] for key in POOL_LABELS if labels.get(key)), "")


def flags_of(node: Node) -> int:
    flags = 0
    if any(each.type == "Ready" and each.status != "True" for each in node.status.conditions):
        flags |= NOT_READY
    if node.spec.unschedulable:
        flags |= UNSCHEDULABLE
    if any(taint.effect in _EFFECTS for taint in node.spec.taints):
        flags |= TAINTED
    return flags
