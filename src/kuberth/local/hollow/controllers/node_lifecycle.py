"""Nodes that stop sending heartbeats or report problems: conditions, taints, and pods that are not ready.

In: nodes, the leases their kubelets renew, pods. Out: conditions Unknown on a node whose lease is overdue;
the taints that follow from a node's conditions, as upstream maps them; the Ready condition of pods on nodes
that stopped being ready. Unlike upstream all such nodes are handled at once, however many there are, and a
node that never had a lease keeps the conditions it was created with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj, find_condition, is_true, name_of, namespace_of, set_condition
from kuberth.local.hollow.controlling import Controller, by_node
from kuberth.local.hollow.nodes import LEASE_NAMESPACE
from kuberth.local.hollow.pod_states import is_finished
from kuberth.text.timestamps import stamp

_GRACE_SECONDS: Final = 50.0
"""How long a node may send no heartbeat."""
_LEASES: Final = 1.25
"""The grace period as a multiple of the lease duration: 50 seconds for a lease of 40."""
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_TAINTS: Final = {
    ("Ready", "False"): "node.kubernetes.io/not-ready",
    ("Ready", "Unknown"): "node.kubernetes.io/unreachable",
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_EVICTING: Final = (_TAINTS["Ready", "False"], _TAINTS["Ready", "Unknown"])
"""Keys that come with the effect NoExecute too."""
_OWN: Final = {(key, "NoSchedule") for key in (*_TAINTS.values(), _UNSCHEDULABLE)} | {
    (key, "NoExecute") for key in _EVICTING
}


class NodeLifecycleController(Controller):
    name = "nodelifecycle"
    component = "node-controller"

    def set_up(self) -> None:
        self._heard_ns: dict[str, int] = {}
        """When a node's kubelet last reported: when its lease, or the heartbeat time of its status, was seen
        to change, according to this clock."""
        self._queue = self.queue_of("nodes", self._sync)
        self._pods = self.watch("pods", indexes={"node": by_node})
        self._leases = self.watch("leases.coordination.k8s.io", self._on_lease)
        self._nodes = self.watch("nodes", self._on_node)

    def _on_lease(self, old: Obj | None, new: Obj | None) -> None:
        lease = new or old or {}
        if namespace_of(lease) != LEASE_NAMESPACE:
            return
        name = name_of(lease)
        if new is None:
            self._heard_ns.pop(name, None)
        elif old is None or _renewed(old) != _renewed(new):
            if name not in self._heard_ns:
                self._queue.add(name)
            self._heard_ns[name] = self._clock.now_ns()

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            return
        name = name_of(new)
        if old is not None and name in self._heard_ns and _posted(old) != _posted(new):
            self._heard_ns[name] = self._clock.now_ns()
        self._queue.add(name)

    async def _sync(self, node: Obj) -> float | None:
        name = name_of(node)
        left = self._seconds_to_silence(name)
        ready = find_condition(node, "Ready")
        if left is not None and left <= 0 and (ready is None or ready.get("status") != "Unknown"):
            node = await self._write_unknown(node)
        taints = list(self._taints(node))
        if taints != (node.get("spec", {}).get("taints") or []):
            spec = {**node.get("spec", {}), "taints": taints}
            node = await self._nodes.update({**node, "spec": spec})
        if find_condition(node, "Ready") is not None and not is_true(node, "Ready"):
            await self._unready_pods(name)
        return left if left is not None and left > 0 else None

    def _seconds_to_silence(self, name: str) -> float | None:
        """Seconds until the heartbeat is overdue; None for a node that never sent one."""
        heard, lease = self._heard_ns.get(name), self._leases.get(f"{LEASE_NAMESPACE}/{name}")
        if heard is None or lease is None:
            return None
        life = lease.get("spec", {}).get("leaseDurationSeconds") or 0
        return max(_GRACE_SECONDS, _LEASES * life) - (self._clock.now_ns() - heard) / NANOSECONDS

    async def _write_unknown(self, node: Obj) -> Obj:
        status, now = node.get("status", {}), stamp(self._clock)
        was_ready, conditions = is_true(node, "Ready"), status.get("conditions") or []
        for type_ in _REPORTED:
            present = find_condition(node, type_)
            if present is None:
                condition = {
                    "type": type_,
                    "reason": "NodeStatusNeverUpdated",
                    "message": "Kubelet never posted node status.",
                    "lastHeartbeatTime": node["metadata"].get("creationTimestamp"),
                }
            else:
                words = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
                condition = {**present, "reason": words[0], "message": words[1]}
            conditions = set_condition(conditions, {**condition, "status": "Unknown"}, now=now)
        status = {**status, "conditions": conditions}
        written = await self._nodes.write_status(node, status)
        if was_ready:
            message = f"Node {name_of(node)} status is now: NodeNotReady"
            self.record(node, "NodeNotReady", message)
        return written

    def _taints(self, node: Obj) -> Iterator[Obj]:
        """The taints that the node should have: those of other writers, and those of its conditions."""
        wanted = _wanted(node)
        present: list[Obj] = node.get("spec", {}).get("taints") or []
        for taint in present:
            kind = (taint.get("key", ""), taint.get("effect", ""))
            if kind not in _OWN or kind in wanted:
                yield taint
        there = {(taint.get("key"), taint.get("effect")) for taint in present}
        for key, effect in wanted:
            if (key, effect) not in there:
                yield {"key": key, "effect": effect, "timeAdded": stamp(self._clock)}

    async def _unready_pods(self, name: str) -> None:
        for pod in self._pods.by("node", name):
            if not is_true(pod, "Ready") or is_finished(pod):
                continue
            ready = find_condition(pod, "Ready") or {}
            conditions = pod["status"]["conditions"]
            conditions = set_condition(conditions, {**ready, "status": "False"}, now=stamp(self._clock))
            status = {**pod["status"], "conditions": conditions}
            await self._pods.write_status(pod, status)
            self.record(pod, "NodeNotReady", "Node is not ready", type_="Warning")


def _wanted(node: Obj) -> list[tuple[str, str]]:
    """Keys and effects that follow from the node's conditions and spec."""
    conditions: list[Obj] = node.get("status", {}).get("conditions") or []
    keys = [key for one in conditions if (key := _TAINTS.get((one.get("type", ""), one.get("status", ""))))]
    wanted = [(key, "NoSchedule") for key in keys]
    if node.get("spec", {}).get("unschedulable"):
        wanted.append((_UNSCHEDULABLE, "NoSchedule"))
    return wanted + [(key, "NoExecute") for key in keys if key in _EVICTING]


def _renewed(lease: Obj) -> object:
    return lease.get("spec", {}).get("renewTime")


def _posted(node: Obj) -> object:
    return (find_condition(node, "Ready") or {}).get("lastHeartbeatTime")
