"""Hollow nodes: kubelets that register, renew their leases and run nothing.

In: how many, of which shapes. Out: Nodes that are Ready, leases that are renewed, and kubelets for the pods
bound to them (`kubelet`). Every Node with the annotation `kuberth.dev/hollow: "true"` is hollow, also one
that was created with kubectl or is left from an earlier run. Annotations make it not ready or silent
(`annotations`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, annotation_of, find_condition, name_of, set_condition
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.annotations import is_silent, says_ready
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.kubelet import HollowKubelet, WorkingNode
from kuberth.local.hollow.shapes import (
    HOLLOW,
    default_capacity,
    load_shapes,
    make_nodes,
    node_address,
    node_status,
    reported_conditions,
)
from kuberth.local.hollow.working import keep_running, wait_all
from kuberth.text.timestamps import micro_stamp, stamp

logger = logging.getLogger(__name__)

LEASES: Final = "leases.coordination.k8s.io"
LEASE_NAMESPACE: Final = "kube-node-lease"
_RENEW_SECONDS: Final = 10.0
_RENEWALS_A_SECOND: Final = 100
"""The maximum rate of lease writes. With more nodes, each renews less often and its lease lasts longer, so
that heartbeats do not fill the event loop or the history from which watches resume."""
_RENEWAL_BATCHES: Final = 100
"""Leases are renewed in this many batches (5,000 in batches of 50), and other requests run between them."""
_REGISTER_AT_ONCE: Final = 250


class HollowNodes(Controller):
    """Registers nodes and runs their kubelets until cancelled."""

    name = "node"

    def __init__(
        self,
        informers: Informers,
        *,
        count: int = 0,
        shapes: Path | Sequence[Mapping[str, Any]] | None = None,
        clock: Clock,
    ) -> None:
        self.registered = asyncio.Event()
        """Set when all nodes are there."""
        self._shapes = load_shapes(shapes, count=count)
        self._names: dict[str, str] = {}
        """The hollow nodes, with their UIDs."""
        self._leases: dict[str, Obj] = {}
        """Leases of the nodes as last written, by name."""
        self._node_count = sum(shape.count for shape in self._shapes)
        super().__init__(informers, clock=clock)

    def set_up(self) -> None:
        self._queue = self.queue_of("nodes", self._sync)
        self._nodes = self.watch("nodes")
        self._kubelet = HollowKubelet(self._informers, working_node=self._working_node, clock=self._clock)
        self._nodes.add_handler(self._on_node)

    async def run(self) -> None:
        await self._register()
        await self.wait_synced()
        self.registered.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_running("nodes", super().run), name="hollow-nodes")
            tasks.create_task(keep_running("kubelet", self._kubelet.run), name="hollow-kubelet")
            tasks.create_task(keep_running("node leases", self._renew), name="hollow-leases")

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        name = name_of(new or old or {})
        if new is None or annotation_of(new, HOLLOW) != "true":
            self._names.pop(name, None)
            self._leases.pop(name, None)
            return
        if self._names.get(name) != new["metadata"]["uid"]:
            self._names[name] = new["metadata"]["uid"]
            self._kubelet.queue_pods_of(name)
        elif old is not None and _health(old) != _health(new):
            self._kubelet.queue_pods_of(name)
        if not is_silent(new) and not _is_reported(new):
            self._queue.add(name)

    def _working_node(self, name: str) -> WorkingNode | None:
        """A hollow node, unless its kubelet is silent or has not reported its capacity yet."""
        node = self._nodes.get(name)
        if node is None or name not in self._names or is_silent(node) or not _has_capacity(node):
            return None
        addresses = node.get("status", {}).get("addresses") or ()
        own = next((str(one.get("address", "")) for one in addresses if one.get("type") == "InternalIP"), "")
        return WorkingNode(node, own, says_ready(node))

    async def _register(self) -> None:
        nodes = list(make_nodes(self._shapes, now=stamp(self._clock)))
        for start in range(0, len(nodes), _REGISTER_AT_ONCE):
            # Nodes of an earlier run keep the labels and taints that users added.
            await wait_all(map(self._nodes.create_if_absent, nodes[start : start + _REGISTER_AT_ONCE]))

    async def _sync(self, node: Obj) -> None:
        """Write the status of a node that was created by hand or whose annotations changed."""
        name = name_of(node)
        if name not in self._names or is_silent(node) or _is_reported(node):
            return
        present, now = node.get("status") or {}, stamp(self._clock)
        conditions = present.get("conditions") or []
        for condition in reported_conditions(now, ready=says_ready(node)):
            conditions = set_condition(conditions, condition, now=now)
        self._node_count += 1
        fresh = node_status(
            present.get("capacity") or default_capacity(),
            present.get("allocatable"),
            name=name,
            address=node_address(self._node_count),
            now=now,
        )
        kept = {key: value for key, value in present.items() if value and key != "nodeInfo"}
        status = {**fresh, **kept, "conditions": conditions}
        await self._nodes.write_status(node, status)

    async def _renew(self) -> None:
        tick = 0
        while True:
            period = max(_RENEW_SECONDS, len(self._names) / _RENEWALS_A_SECOND)
            names = list(self._names.items())[tick % _RENEWAL_BATCHES :: _RENEWAL_BATCHES]
            names = [(name, uid) for name, uid in names if self._working_node(name) is not None]
            if names:
                # A kubelet renews four times in the life of a lease.
                seconds = round(4 * period)
                await wait_all(self._renew_one(name, uid, seconds) for name, uid in names)
            tick += 1
            await asyncio.sleep(period / _RENEWAL_BATCHES)

    async def _renew_one(self, name: str, uid: str, seconds: int) -> None:
        core, lease = self._informers.core, self._leases.pop(name, None)
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": seconds,
            "renewTime": micro_stamp(self._clock),
        }
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        try:
            if lease is None:
                lease = await core.get(LEASES, name, namespace=LEASE_NAMESPACE)
            metadata = {**lease["metadata"], "ownerReferences": [owner]}
            self._leases[name] = await core.update(
                LEASES, name, {**lease, "metadata": metadata, "spec": spec}, namespace=LEASE_NAMESPACE
            )
        except StatusError as error:
            if error.code != 404:
                return  # there are three more rounds before the lease runs out
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
                "spec": spec,
            }
            try:
                self._leases[name] = await core.create(LEASES, lease, namespace=LEASE_NAMESPACE)
            except StatusError as another:
                logger.debug("lease of node %s: %s", name, another)


def _is_reported(node: Obj) -> bool:
    """Whether the node's status is what its kubelet reports."""
    ready = find_condition(node, "Ready")
    wanted = "True" if says_ready(node) else "False"
    return ready is not None and ready.get("status") == wanted and _has_capacity(node)


def _has_capacity(node: Obj) -> bool:
    return bool(node.get("status", {}).get("allocatable"))


def _health(node: Obj) -> tuple[bool, ...]:
    return is_silent(node), says_ready(node), _has_capacity(node)
