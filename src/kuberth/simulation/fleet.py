"""Executes the orders of node policies.

In: node policies and the changes of pods. Out: nodes created and deleted, and pods of deleted nodes evicted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Protocol

from kuberth.api.core import Node, Pod
from kuberth.client.protocol import Api, WatchEvent, WatchType
from kuberth.simulation.node_policies import (
    AddNode,
    ClusterNow,
    Decide,
    NodePolicy,
    NodeState,
    RemoveNode,
    node_of,
)
from kuberth.simulation.observing import ENDED


class NodeListener(Protocol):
    """Is notified when nodes join and leave."""

    def __call__(self, node: Node, *, joined: bool) -> None: ...


class Fleet:
    """The nodes of a run, as policies change them."""

    def __init__(
        self,
        api: Api,
        nodes: Sequence[Node],
        policies: Sequence[NodePolicy],
        *,
        seed: int,
        now: Callable[[], float],
        evict: Callable[[Pod], None],
        listeners: Sequence[NodeListener],
    ) -> None:
        self._api = api
        self._policies = policies
        self._seed = seed
        self._now = now
        self._evict = evict
        self._listeners = listeners
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
        slowest = max((each.interval for each in self._policies), default=0.0)
        return not self._policies or not (self._ordered or self._now() - self._changed <= 2 * slowest)

    def handle_pod(self, event: WatchEvent) -> None:
        """Process a change of a pod."""
        pod: Pod = event.object
        uid, name = pod.metadata.uid, pod.spec.node_name
        self._changed = self._now()
        over = event.type is WatchType.DELETED or pod.status.phase in ENDED
        if over or name:
            self._waiting.pop(uid, None)
        else:
            self._waiting[uid] = pod
        if not name:
            return
        if name not in self._nodes:
            if not over:
                self._evict(pod)
        elif over:
            if self._pods[name].pop(uid, None) is not None and not self._pods[name]:
                self._nodes[name] = self._nodes[name]._replace(empty_since=self._now())
        else:
            self._pods[name][uid] = pod

    async def run(self) -> None:
        """Run all policies until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number, policy in enumerate(self._policies):
                decide = policy.begin(random.Random(f"nodes {number} {self._seed}"))
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
        return ClusterNow(self._now(), nodes, self._ordered, list(self._waiting.values()))

    async def _add(self, order: AddNode) -> None:
        await asyncio.sleep(order.after)
        self._joined += 1
        node: Node = await self._api.create(node_of(order.shape, f"added-{self._joined}"))
        name = node.metadata.name
        self._nodes[name] = NodeState(node, 0, self._now(), added=True)
        self._pods[name] = {}
        self._ordered -= 1
        self._notify(node, joined=True)

    async def _remove(self, name: str) -> None:
        if name not in self._nodes:
            return
        gone = self._nodes.pop(name)
        self._notify(gone.node, joined=False)
        await self._api.delete(Node, name)
        for pod in self._pods.pop(name).values():
            self._evict(pod)

    def _notify(self, node: Node, *, joined: bool) -> None:
        self._changed = self._now()
        for notify in self._listeners:
            notify(node, joined=joined)
