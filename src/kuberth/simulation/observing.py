"""Measures a run.

In: the changes of the pods of an API. Out: waits, utilization, fragmentation and fairness. It uses neither
the scheduler nor its table, only what any client of the cluster can see.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from kuberth.api import quantity
from kuberth.api.core import Node, Pod
from kuberth.api.pods import FINISHED
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.framework.handle import PodEvent
from kuberth.simulation.arrivals import amount, requests_of
from kuberth.simulation.outcomes import (
    NodeRecord,
    PodCounts,
    PodRecord,
    Records,
    Sample,
    StoryLine,
    Waits,
    rounded,
    waits,
)

MAX_SAMPLES: Final = 480
"""A longer run is sampled less often."""
SHORT_DRAIN: Final = 0.01
"""Up to this share of a run's time, the time after the last arrival counts as part of the arrivals."""
MAX_POD_SIZES: Final = 24
"""Fragmentation is computed for this number of the most frequent pod sizes."""
_PENDING: Final = -1
_ELSEWHERE: Final = -2
"""The row of a pod on a node that is not measured."""


Vector = np.ndarray[Any, np.dtype[np.float64]]
"""A number per resource."""


class PodUsage(NamedTuple):
    """The tracked state of a pod."""

    since: float
    row: int
    """The row of its node; or _PENDING, or _ELSEWHERE."""
    demand: int
    """Its index among the kinds of requests."""
    tenant: str
    priority: int


class ClusterUsage:
    """Tracks which pods are pending, which run where and since when, and the resources that they use."""

    def __init__(self, nodes: Sequence[Node], *, later: Sequence[Node] = ()) -> None:
        """`later` have the resources of nodes that may join."""
        capacities = [capacity_of(node) for node in (*nodes, *later)]
        self.resources = sorted({name for each in capacities for name, number in each.items() if number})
        self._columns = {name: column for column, name in enumerate(self.resources)}
        self._rows: dict[str, int] = {}
        # (nodes, resources): CPUs, bytes, devices; zero in the rows of removed nodes.
        self._capacity = np.zeros((0, len(self.resources)))
        self._free = self._capacity
        self._total = np.full(len(self.resources), np.inf)
        """The capacity of all nodes; infinite for a resource that no node has."""
        self._taken = np.zeros(len(self.resources))
        self._pods_on: Counter[int] = Counter()
        self._add_rows(nodes, capacities[: len(nodes)])
        self._demands: dict[tuple[tuple[str, float], ...], int] = {}
        self._vectors: list[Vector] = []
        self._asked: list[int] = []
        """How many pods of each kind of requests have arrived."""
        self._by_spec: dict[int, tuple[Any, int]] = {}
        self._tracked: dict[str, PodUsage] = {}
        self._held: dict[str, Vector] = {}
        self._wants: Counter[str] = Counter()
        """How many pods each tenant has, pending or running."""
        self._waited: dict[tuple[str, int], list[float]] = {}
        self.running = 0
        self.waiting = 0
        self.arrived = 0
        self.placed = 0
        self.finished = 0
        self.preempted = 0
        self._leaving: set[str] = set()

    def _add_rows(self, nodes: Sequence[Node], capacities: Sequence[Mapping[str, float]]) -> None:
        self._rows.update((node.metadata.name, len(self._free) + row) for row, node in enumerate(nodes))
        added = np.array([[each.get(name, 0.0) for name in self.resources] for each in capacities])
        added = added.reshape(len(nodes), len(self.resources))
        self._capacity = np.vstack((self._capacity, added))
        self._free = np.vstack((self._free, added))
        self._update_total()

    def node_joined(self, node: Node) -> None:
        self._add_rows([node], [capacity_of(node)])

    def node_left(self, name: str) -> None:
        """Remove a node: its pods are measured until they end, and its capacity is not free."""
        row = self._rows.pop(name)
        self._free[row] -= self._capacity[row]
        self._capacity[row] = 0.0
        self._update_total()

    def _update_total(self) -> None:
        total = self._capacity.sum(axis=0)
        self._total = np.where(total > 0, total, np.inf)

    @property
    def node_count(self) -> int:
        return len(self._rows)

    @property
    def used_nodes(self) -> int:
        """The number of nodes with pods."""
        return len(self._pods_on)

    def record_arrival(self, pod: Pod, now: float) -> None:
        demand = self._demand(pod)
        self._asked[demand] += 1
        tenant = pod.metadata.namespace
        self._tracked[pod.metadata.uid] = PodUsage(now, _PENDING, demand, tenant, pod.spec.priority or 0)
        self._wants[tenant] += 1
        self.arrived += 1
        self.waiting += 1

    def record_start(self, pod: Pod, now: float) -> None:
        """Record that the pod has a node."""
        tracked = self._tracked[pod.metadata.uid]
        self._waited.setdefault((tracked.tenant, tracked.priority), []).append(now - tracked.since)
        self.waiting -= 1
        self.placed += 1
        self.running += 1
        row = self._rows.get(pod.spec.node_name, _ELSEWHERE)
        self._tracked[pod.metadata.uid] = tracked._replace(row=row, since=now)
        if row >= 0:
            vector = self._vectors[tracked.demand]
            self._pods_on[row] += 1
            self._free[row] -= vector
            self._taken += vector
            held = self._held.get(tracked.tenant)
            if held is None:
                held = self._held[tracked.tenant] = np.zeros(len(self.resources))
            held += vector

    def record_end(self, pod: Pod, *, finished: bool) -> None:
        tracked = self._tracked.pop(pod.metadata.uid, None)
        if tracked is None:
            return
        self._leaving.discard(pod.metadata.uid)
        self._wants[tracked.tenant] -= 1
        self.finished += finished
        if tracked.row == _PENDING:
            self.waiting -= 1
            return
        self.running -= 1
        if tracked.row >= 0:
            vector = self._vectors[tracked.demand]
            self._pods_on[tracked.row] -= 1
            if not self._pods_on[tracked.row]:
                del self._pods_on[tracked.row]
            self._free[tracked.row] += vector
            self._taken -= vector
            self._held[tracked.tenant] -= vector

    def record_preemption(self, pod: Pod) -> None:
        """Mark the pod as preempted; further changes until its deletion count once."""
        uid = pod.metadata.uid
        if uid not in self._leaving and is_preempted(pod):
            self._leaving.add(uid)
            self.preempted += 1

    def is_tracked(self, pod: Pod) -> bool:
        return pod.metadata.uid in self._tracked

    def has_started(self, pod: Pod) -> bool:
        tracked = self._tracked.get(pod.metadata.uid)
        return tracked is not None and tracked.row != _PENDING

    def _demand(self, pod: Pod) -> int:
        known = self._by_spec.get(id(pod.spec))
        if known is not None and known[0] is pod.spec:
            return known[1]
        requests = requests_of(pod)
        key = tuple(sorted(requests.items()))
        if key not in self._demands:
            vector = np.zeros(len(self.resources))
            for name, number in requests.items():
                if name in self._columns:
                    vector[self._columns[name]] = number
            self._demands[key] = len(self._vectors)
            self._vectors.append(vector)
            self._asked.append(0)
        if len(self._by_spec) < 10_000:
            self._by_spec[id(pod.spec)] = pod.spec, self._demands[key]
        return self._demands[key]

    # Results

    def used(self) -> Vector:
        """The used share of each resource."""
        return self._share(self._taken)

    def _share(self, amounts: Vector) -> Vector:
        """Shares of the capacity of all nodes; 0 for a resource that no node has now."""
        shares: Vector = amounts / self._total
        return shares

    def fragmentation(self) -> float:
        """The share of free resources that is on nodes where a pod of the workload does not fit.

        For each frequent kind of pod, weighted by its frequency: for the resource of which it requests the
        largest share of the cluster, the part of the free amount that is on nodes where the pod does not fit.
        """
        kinds = sorted(range(len(self._asked)), key=lambda kind: (-self._asked[kind], kind))[:MAX_POD_SIZES]
        weights = sum(self._asked[kind] for kind in kinds)
        lost = 0.0
        free = np.maximum(self._free, 0.0)
        for kind in kinds:
            vector = self._vectors[kind]
            column = int(self._share(vector).argmax())
            whole = free[:, column].sum()
            if whole > 0:
                fits = (self._free + 1e-9 >= vector).all(axis=1)
                lost += self._asked[kind] * float(free[~fits, column].sum() / whole)
        return lost / weights if weights else 0.0

    def fairness(self) -> float:
        """Jain's index over tenants that currently have pods."""
        shares = []
        for tenant, wanted in self._wants.items():
            if wanted > 0:
                held = self._held.get(tenant)
                shares.append(0.0 if held is None else max(0.0, float(self._share(held).max())))
        squares = sum(share * share for share in shares)
        return sum(shares) ** 2 / (len(shares) * squares) if squares > 1e-18 else 1.0

    def counts(self) -> PodCounts:
        return PodCounts(self.arrived, self.placed, self.finished, self.preempted, self.waiting)

    def waits_by(self, key: Callable[[str, int], str], *, now: float) -> dict[str, Waits]:
        """Waits of each group of pods; `key` returns the group for a tenant and a priority."""
        seconds: dict[str, list[float]] = {}
        still: dict[str, list[float]] = {}
        for (tenant, priority), waited in self._waited.items():
            seconds.setdefault(key(tenant, priority), []).extend(waited)
        for tracked in self._tracked.values():
            if tracked.row == _PENDING:
                still.setdefault(key(tracked.tenant, tracked.priority), []).append(now - tracked.since)
        names = sorted(seconds.keys() | still.keys())
        return {name: waits(seconds.get(name, ()), still_waiting=still.get(name, ())) for name in names}


def capacity_of(node: Node) -> dict[str, float]:
    """The amounts of a node for pods: CPUs, bytes, devices."""
    return {name: amount(name, quantity.parse(given)) for name, given in node.status.allocatable.items()}


def is_preempted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.reason == "PreemptionByScheduler"
        for each in pod.status.conditions
    )


class RunObserver:
    """Processes every change of a pod, and samples the state of the cluster."""

    def __init__(
        self,
        usage: ClusterUsage,
        *,
        now: Callable[[], float],
        interval: float,
        last_arrival: float,
        on_sample: Callable[[Sample], None] = lambda _sample: None,
    ) -> None:
        """`last_arrival` 0: all pods exist from the start, and no time counts as the drain."""
        self.usage = usage
        self._now = now
        self._interval = interval
        self._last_arrival = last_arrival or math.inf
        self._on_sample = on_sample
        self.samples: list[Sample] = []
        self._since = 0.0
        # Utilization, nodes and nodes with pods, multiplied by seconds: until the last arrival, and after it.
        self._areas = np.zeros((2, len(usage.resources) + 2))
        self._used = np.zeros(len(usage.resources) + 2)
        self.last_change = 0.0
        self._waited = 0.0
        self._waited_until = 0.0

    def handle_pod(self, event: WatchEvent) -> None:
        """Process a change of a pod."""
        usage, pod, now = self.usage, event.object, self._now()
        self.waiting_seconds()
        is_deleted = event.type is WatchType.DELETED
        if is_deleted or pod.status.phase in FINISHED:
            self._add_time(now)
            usage.record_end(pod, finished=not is_deleted and pod.status.phase == "Succeeded")
        else:
            if not usage.is_tracked(pod):
                usage.record_arrival(pod, now)
            if pod.spec.node_name and not usage.has_started(pod):
                self._add_time(now)
                usage.record_start(pod, now)
            if pod.metadata.deletion_timestamp is not None:
                usage.record_preemption(pod)
        self.last_change = now

    @property
    def seconds(self) -> float:
        """The time since the start."""
        return self._now()

    def waiting_seconds(self) -> float:
        """The sum of the waits of all pods until now."""
        now = self._now()
        self._waited += self.usage.waiting * (now - self._waited_until)
        self._waited_until = now
        return self._waited

    def handle_node(self, node: Node, *, joined: bool) -> None:
        """Process a node that joins or leaves."""
        self._add_time(self._now())
        if joined:
            self.usage.node_joined(node)
        else:
            self.usage.node_left(node.metadata.name)

    def _add_time(self, now: float) -> None:
        since = self._since
        if now <= since:
            return
        usage, used = self.usage, self._used
        used[:-2] = usage.used()
        used[-2] = usage.node_count
        used[-1] = usage.used_nodes
        if since < self._last_arrival:
            end = min(now, self._last_arrival)
            self._areas[0] += used * (end - since)
            since = end
        if since < now:
            self._areas[1] += used * (now - since)
        self._since = now

    async def sample(self) -> None:
        """Take samples until cancelled; the interval doubles when there are too many of them."""
        while True:
            self.take_sample()
            if len(self.samples) >= MAX_SAMPLES:
                self.samples = self.samples[::2]
                self._interval *= 2
            await asyncio.sleep(self._interval)

    def take_sample(self) -> None:
        """Take a sample now; of several at the same time the last one counts."""
        usage, now = self.usage, rounded(self._now())
        if self.samples and self.samples[-1].at == now:
            self.samples.pop()
        used = dict(zip(usage.resources, (rounded(float(each)) for each in usage.used()), strict=True))
        self.samples.append(
            Sample(
                now,
                used,
                rounded(usage.fragmentation()),
                rounded(usage.fairness()),
                usage.running,
                usage.waiting,
            )
        )
        self._on_sample(self.samples[-1])

    def finish(self, end: float) -> None:
        """Count the time to the end of the run."""
        self._add_time(end)

    @property
    def arrival_seconds(self) -> float:
        """Time of the last arrival, or of the end if the run ended before it or soon after it."""
        return self._last_arrival if self._since * (1 - SHORT_DRAIN) > self._last_arrival else self._since

    def utilisation(self) -> dict[str, float]:
        """Means from the start to the last arrival."""
        return self._means(self._arrival_areas(), self.arrival_seconds or 1.0)

    def mean_nodes(self) -> tuple[float, float]:
        """Mean numbers of nodes, and of nodes with pods, from the start to the last arrival."""
        if not self.arrival_seconds:
            return float(self.usage.node_count), float(self.usage.used_nodes)
        there, used = self._arrival_areas()[-2:] / self.arrival_seconds
        return rounded(float(there)), rounded(float(used))

    def _arrival_areas(self) -> Vector:
        areas: Vector = self._areas[0] if self.arrival_seconds < self._since else self._areas.sum(axis=0)
        return areas

    def drain_utilisation(self) -> dict[str, float]:
        """Means from the last arrival to the end; {} if no time passed."""
        drain = self._since - self.arrival_seconds
        return self._means(self._areas[1], drain) if drain > 0 else {}

    def _means(self, areas: Vector, seconds: float) -> dict[str, float]:
        return {
            name: rounded(float(area / seconds))
            for name, area in zip(self.usage.resources, areas[:-2], strict=True)
        }


class RunRecorder:
    """Records the story of each pod, from its changes and the scheduler's events, and nodes' lifetimes."""

    def __init__(self, nodes: Sequence[Node], *, now: Callable[[], float]) -> None:
        self._now = now
        self._pods: dict[str, PodRecord] = {}
        """By UID."""
        self._last: dict[str, str] = {}
        """The last recorded event of each pod, except rejections."""
        self._nodes: dict[str, NodeRecord] = {}
        self._left: list[NodeRecord] = []
        for node in nodes:
            self.handle_node(node, joined=True)

    def handle_pod(self, event: WatchEvent) -> None:
        """Process a change of a pod."""
        pod: Pod = event.object
        uid = pod.metadata.uid
        if uid not in self._pods:
            metadata = pod.metadata
            self._pods[uid] = PodRecord(
                metadata.name, metadata.namespace, pod.spec.priority or 0, requests_of(pod), []
            )
            self._add(uid, "created", "")
        if pod.spec.node_name and self._last[uid] == "created":
            self._add(uid, "bound", pod.spec.node_name)
        if self._last[uid] not in ("created", "bound"):
            return
        if pod.metadata.deletion_timestamp is not None and is_preempted(pod):
            self._add(uid, "preempted", "")
        elif pod.status.phase in FINISHED:
            self._add(uid, "finished", "")
        elif event.type is WatchType.DELETED:
            gone = pod.spec.node_name and pod.spec.node_name not in self._nodes
            self._add(uid, "evicted" if gone else "deleted", "")

    def handle_event(self, event: PodEvent) -> None:
        """Process an event that the scheduler recorded for a pod."""
        uid = event.regarding.metadata.uid
        if event.reason == "FailedScheduling" and uid in self._pods:
            self._pods[uid].story.append(StoryLine(rounded(self._now()), "rejected", event.note))

    def handle_node(self, node: Node, *, joined: bool) -> None:
        """Process a node that joins or leaves."""
        name, now = node.metadata.name, rounded(self._now())
        if joined:
            self._nodes[name] = NodeRecord(name, capacity_of(node), now, None)
        else:
            self._left.append(msgspec.structs.replace(self._nodes.pop(name), left=now))

    def records(self, end: float) -> Records:
        nodes = sorted((*self._nodes.values(), *self._left), key=lambda each: (each.joined, each.name))
        return Records(list(self._pods.values()), nodes, rounded(end))

    def _add(self, uid: str, what: str, detail: str) -> None:
        self._last[uid] = what
        self._pods[uid].story.append(StoryLine(rounded(self._now()), what, detail))
