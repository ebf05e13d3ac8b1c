"""Policies that add and remove nodes: an autoscaler, spot interruptions, or your own.

In: the state of the cluster at regular times. Out: orders to add and remove nodes, which `Fleet` executes: it
creates and deletes nodes, and evicts pods of deleted nodes. A policy is a value; `begin` creates the function
that decides in one run, so that the same seed gives the same nodes.
"""

from __future__ import annotations

import asyncio
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, NamedTuple, Protocol

from kuberth.api.core import Node, Pod
from kuberth.api.pods import FINISHED
from kuberth.api.well_known import HOSTNAME, ZONE
from kuberth.client.protocol import Api, WatchEvent, WatchType
from kuberth.errors import ConfigError
from kuberth.simulation.arrivals import requests_of
from kuberth.simulation.clusters import from_shapes
from kuberth.simulation.observing import capacity_of


class AddNode(NamedTuple):
    """Order a node of a shape, in the format of node shape files; the run sets its name and number."""

    shape: Mapping[str, Any]
    after: float = 0.0
    """Seconds until the node is ready."""


class RemoveNode(NamedTuple):
    """Remove a node at once; its pods are evicted and recreated."""

    name: str


class NodeState(NamedTuple):
    """The current state of a node of the cluster."""

    node: Node
    pods: int
    empty_since: float
    """When its last pod ended, or when it joined; undefined while it has pods."""
    added: bool
    """Whether a policy added it."""


class ClusterNow(NamedTuple):
    """The state that a node policy sees."""

    seconds: float
    nodes: Mapping[str, NodeState]
    """Nodes by name, in the order in which they joined."""
    ordered: int
    """Nodes that are ordered but not ready yet."""
    waiting: Sequence[Pod]
    """Pods without a node."""


NodeOrder = AddNode | RemoveNode
Decide = Callable[[ClusterNow], Iterable[NodeOrder]]


class NodePolicy(ABC):
    """Adds and removes nodes during a run."""

    interval: float
    """Seconds between two calls."""

    @abstractmethod
    def begin(self, rng: random.Random) -> Decide:
        """Return the function that decides in one run; it is called every `interval` seconds."""

    def shapes(self) -> Sequence[Mapping[str, Any]]:
        """The shapes of nodes that the policy may add."""
        return ()


@dataclass(frozen=True, slots=True)
class Autoscaler(NodePolicy):
    """Adds nodes for pending pods, and removes its own nodes when they stay empty.

    It computes how many new nodes the requests of the pending pods fill, first fit. Unlike the cluster
    autoscaler, it does not simulate scheduling, so affinity is ignored.
    """

    shape: Mapping[str, Any] = field(default_factory=dict)
    """The shape of its nodes; by default 8 CPUs and 32 GiB."""
    most: int = 100
    """The maximum number of its nodes."""
    ready_after: float = 120.0
    """Seconds from ordering a node until it is ready."""
    idle_seconds: float = 600.0
    """Seconds after which an empty node is removed."""
    interval: float = 10.0

    def __post_init__(self) -> None:
        if self.interval <= 0 or self.ready_after < 0 or self.idle_seconds < 0 or self.most < 0:
            raise ConfigError("an autoscaler has a positive interval, and no time or number below zero")

    def shapes(self) -> Sequence[Mapping[str, Any]]:
        return (self.shape,)

    def begin(self, rng: random.Random) -> Decide:
        capacity = capacity_of(node_of(self.shape, "autoscaled"))
        return lambda now: self._decide(now, capacity)

    def _decide(self, now: ClusterNow, capacity: Mapping[str, float]) -> Iterable[NodeOrder]:
        own = [(name, each) for name, each in now.nodes.items() if each.added]
        empty = [(name, each) for name, each in own if not each.pods]
        # Pods that are pending although a node is empty or ordered may fit there, or on no node.
        more = _nodes_for(now.waiting, capacity) - len(empty) - now.ordered
        for _ in range(min(more, self.most - len(own) - now.ordered)):
            yield AddNode(self.shape, self.ready_after)
        for name, each in empty:
            if now.seconds - each.empty_since >= self.idle_seconds:
                yield RemoveNode(name)


def _nodes_for(pods: Iterable[Pod], capacity: Mapping[str, float]) -> int:
    """How many nodes the requests of the pods fill, first fit; pods that fit on none are ignored."""
    free: list[dict[str, float]] = []
    for pod in pods:
        asked = requests_of(pod)
        if any(number > capacity.get(name, 0.0) for name, number in asked.items()):
            continue
        for node in free:
            if all(number <= node[name] for name, number in asked.items()):
                break
        else:
            node = dict(capacity)
            free.append(node)
        for name, number in asked.items():
            node[name] -= number
    return len(free)


@dataclass(frozen=True, slots=True)
class SpotInterruptions(NodePolicy):
    """Removes nodes at random times, as a cloud does with spot nodes."""

    per_day: float = 1.0
    """Mean number of interruptions per node and day."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the affected nodes; by default all nodes."""
    back_after: float | None = 600.0
    """Seconds until a node of the same size replaces it; None: never."""
    interval: float = 60.0

    def __post_init__(self) -> None:
        if self.interval <= 0 or self.per_day < 0 or (self.back_after or 0.0) < 0:
            raise ConfigError("interruptions have a positive interval, and no time or rate below zero")

    def begin(self, rng: random.Random) -> Decide:
        chance = -math.expm1(-self.per_day * self.interval / 86_400)
        return lambda now: self._decide(now, rng, chance)

    def _decide(self, now: ClusterNow, rng: random.Random, chance: float) -> Iterable[NodeOrder]:
        for name, each in now.nodes.items():
            labels = each.node.metadata.labels
            if not all(labels.get(key) == value for key, value in self.labels.items()):
                continue
            if now.seconds and rng.random() < chance:
                yield RemoveNode(name)
                if self.back_after is not None:
                    yield AddNode(shape_like(each.node), self.back_after)


def shape_like(node: Node) -> dict[str, Any]:
    """The shape of a node: its size, labels and taints."""
    own = {HOSTNAME, ZONE}
    zone = node.metadata.labels.get(ZONE)
    return {
        "capacity": {name: str(number) for name, number in node.status.allocatable.items()},
        "labels": {name: value for name, value in node.metadata.labels.items() if name not in own},
        "taints": [
            {"key": each.key, "value": each.value, "effect": str(each.effect)} for each in node.spec.taints
        ],
        "zones": [zone] if zone else [],
    }


def node_of(shape: Mapping[str, Any], name: str) -> Node:
    """A node of this shape; its name ends with `-1`."""
    return from_shapes([{**shape, "name": name, "count": 1}], count=0).nodes[0]


class NodeListener(Protocol):
    """Is notified when nodes join and leave."""

    def __call__(self, node: Node, *, joined: bool) -> None: ...


@dataclass(eq=False)
class Fleet:
    """The nodes of a run, as policies change them."""

    api: Api
    nodes: InitVar[Sequence[Node]]
    policies: Sequence[NodePolicy]
    seed: int
    now: Callable[[], float]
    evict: Callable[[Pod], None]
    listeners: Sequence[NodeListener]

    def __post_init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = {node.metadata.name: NodeState(node, 0, 0.0, added=False) for node in nodes}
        self._pods: dict[str, dict[str, Pod]] = {name: {} for name in self._nodes}
        """Running pods by node and UID."""
        self._waiting: dict[str, Pod] = {}
        self._ordered = 0
        self._joined = 0
        self._changed = 0.0

    @property
    def empty(self) -> bool:
        """Whether there are no nodes: pods are then retried continuously, as in kube-scheduler."""
        return not self._nodes

    @property
    def idle(self) -> bool:
        """Whether policies have reacted to the last change, and no node is ordered."""
        slowest = max((each.interval for each in self.policies), default=0.0)
        return not self.policies or not (self._ordered or self.now() - self._changed <= 2 * slowest)

    def handle_pod(self, event: WatchEvent) -> None:
        """Process a change of a pod."""
        pod: Pod = event.object
        uid, name = pod.metadata.uid, pod.spec.node_name
        self._changed = self.now()
        over = event.type is WatchType.DELETED or pod.status.phase in FINISHED
        if over or name:
            self._waiting.pop(uid, None)
        else:
            self._waiting[uid] = pod
        if not name:
            return
        if name not in self._nodes:
            if not over:
                self.evict(pod)
        elif over:
            if self._pods[name].pop(uid, None) is not None and not self._pods[name]:
                self._nodes[name] = self._nodes[name]._replace(empty_since=self.now())
        else:
            self._pods[name][uid] = pod

    async def run(self) -> None:
        """Run all policies until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number, policy in enumerate(self.policies):
                decide = policy.begin(random.Random(f"nodes {number} {self.seed}"))
                tasks.create_task(self._follow(policy, decide, tasks), name=f"node policy {number + 1}")

    async def _follow(self, policy: NodePolicy, decide: Decide, tasks: asyncio.TaskGroup) -> None:
        while True:
            for order in list(decide(self._state())):
                if isinstance(order, RemoveNode):
                    await self._remove(order.name)
                else:
                    self._ordered += 1
                    tasks.create_task(self._add(order), name="ordered node")
            await asyncio.sleep(policy.interval)

    def _state(self) -> ClusterNow:
        nodes = {name: each._replace(pods=len(self._pods[name])) for name, each in self._nodes.items()}
        return ClusterNow(self.now(), nodes, self._ordered, list(self._waiting.values()))

    async def _add(self, order: AddNode) -> None:
        await asyncio.sleep(order.after)
        self._joined += 1
        node: Node = await self.api.create(node_of(order.shape, f"added-{self._joined}"))
        name = node.metadata.name
        self._nodes[name] = NodeState(node, 0, self.now(), added=True)
        self._pods[name] = {}
        self._ordered -= 1
        self._notify(node, joined=True)

    async def _remove(self, name: str) -> None:
        if name not in self._nodes:
            return
        gone = self._nodes.pop(name)
        self._notify(gone.node, joined=False)
        await self.api.delete(Node, name)
        for pod in self._pods.pop(name).values():
            self.evict(pod)

    def _notify(self, node: Node, *, joined: bool) -> None:
        self._changed = self.now()
        for notify in self.listeners:
            notify(node, joined=joined)
