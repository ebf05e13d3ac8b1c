"""A kubelet's admission of pods: whether a pod that is bound to a node fits there.

In: a pod, its node, and the pods that the node has admitted. Out: None, or a `Refusal` in a kubelet's words.
The scheduler checks the same; this catches races and pods whose nodeName was set by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from kuberth.api.core import Node, Pod, Taint
from kuberth.api.pod_resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, compute_pod_request
from kuberth.api.quantity import milli_value, value
from kuberth.api.selectors.nodes import required_node_affinity
from kuberth.api.taints import find_untolerated
from kuberth.api.wire import convert, decode
from kuberth.cluster.pod_info import HostPort, host_ports
from kuberth.errors import QuantityError, SelectorError, WireError
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.hollow.pod_states import node_of

_EVICTING: Final = "NoExecute"


class Refusal(NamedTuple):
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Load:
    """The resources that a pod uses on its node: thousandths of a core for cpu, bytes or units for all
    others."""

    amounts: Mapping[str, int]
    ports: tuple[HostPort, ...]


@dataclass(slots=True)
class _NodeUsage:
    used: Counter[str] = field(default_factory=Counter)
    loads: dict[str, _Load] = field(default_factory=dict)
    """Loads by UID of the pod."""


class AdmittedPods:
    """The pods that each node has admitted, and their resource usage."""

    def __init__(self) -> None:
        self._usage: dict[str, _NodeUsage] = {}
        self._nodes: dict[str, str] = {}
        """The node that admitted a pod, by UID."""

    def has(self, pod: Obj) -> bool:
        return pod["metadata"]["uid"] in self._nodes

    def add(self, pod: Obj) -> None:
        """Count a pod on its node, whether or not it fits."""
        if not self.has(pod):
            self._add(pod, _load(_typed(pod)))

    def recount(self, pod: Obj) -> None:
        """Count a pod that may have been resized by its present requests, if its node has admitted it."""
        if self.has(pod):
            self.remove(pod["metadata"]["uid"])
            self.add(pod)

    def remove(self, uid: str) -> None:
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        usage = self._usage[node]
        usage.used.subtract(usage.loads.pop(uid).amounts)
        if not usage.loads:
            del self._usage[node]

    def keep_only(self, node: str, uids: Collection[str]) -> None:
        """Stop counting pods of a node that are not among these."""
        usage = self._usage.get(node)
        for uid in () if usage is None else [uid for uid in usage.loads if uid not in uids]:
            self.remove(uid)

    def admit(self, pod: Obj, node: Obj) -> Refusal | None:
        """Count the pod on its node if it fits; otherwise return the first reason, in upstream's order."""
        if self.has(pod):
            return None
        typed = _typed(pod)
        load = _load(typed)
        usage = self._usage.get(node_of(pod), _NodeUsage())
        refusal = _too_full(load, usage, _allocatable(node)) or _misfit(typed, load, usage, node)
        if refusal is None:
            self._add(pod, load)
        return refusal

    def _add(self, pod: Obj, load: _Load) -> None:
        uid, node = pod["metadata"]["uid"], node_of(pod)
        usage = self._usage.setdefault(node, _NodeUsage())
        usage.loads[uid] = load
        usage.used.update(load.amounts)
        self._nodes[uid] = node


def _typed(pod: Obj) -> Pod | None:
    """The pod's spec as a struct; replicas share one, since they differ only in their node."""
    spec = {name: value for name, value in pod["spec"].items() if name != "nodeName"}
    return _read(msgspec.json.encode(spec))


@lru_cache(maxsize=256)
def _read(spec: bytes) -> Pod | None:
    try:
        return decode(Pod, b'{"spec":%s}' % spec)
    except WireError:
        return None


def _load(pod: Pod | None) -> _Load:
    """The load of a pod; an invalid pod counts as a pod without requests."""
    if pod is None:
        return _Load({}, ())
    try:
        request = compute_pod_request(pod, use_status=False)
    except QuantityError:
        return _Load({}, host_ports(pod))
    amounts = {
        CPU: request.milli_cpu,
        MEMORY: request.memory,
        EPHEMERAL_STORAGE: request.ephemeral_storage,
        **request.scalars,
    }
    return _Load({name: amount for name, amount in amounts.items() if amount > 0}, host_ports(pod))


def _allocatable(node: Obj) -> dict[str, int]:
    found = {}
    for name, amount in (node.get("status", {}).get("allocatable") or {}).items():
        try:
            found[name] = milli_value(amount) if name == CPU else value(amount)
        except QuantityError:
            continue
    return found


def _too_full(load: _Load, usage: _NodeUsage, allocatable: Mapping[str, int]) -> Refusal | None:
    asked = {PODS: 1, **load.amounts}
    used = {**usage.used, PODS: len(usage.loads)}
    for name, amount in asked.items():
        # As upstream: resources that the node does not have are not checked here.
        capacity = allocatable.get(name, None if "/" in name else 0)
        if capacity is not None and amount > capacity - used.get(name, 0):
            figures = f"requested: {amount}, used: {used.get(name, 0)}, capacity: {capacity}"
            return Refusal(f"OutOf{name}", f"Node didn't have enough resource: {name}, {figures}")
    return None


def _misfit(pod: Pod | None, load: _Load, usage: _NodeUsage, node: Obj) -> Refusal | None:
    if pod is None:
        return None
    labels: dict[str, str] = node["metadata"].get("labels") or {}
    try:
        wanted = required_node_affinity(pod).matches(labels, name_of(node))
    except SelectorError:
        wanted = False
    if not wanted:
        return _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    taken = [port for other in usage.loads.values() for port in other.ports] if load.ports else []
    if any(port.conflicts_with(other) for port in load.ports for other in taken):
        return _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    # A kubelet checks only taints that would evict the pod again.
    if find_untolerated(_evicting(node), pod.spec.tolerations, (_EVICTING,)) is not None:
        return _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _evicting(node: Obj) -> Sequence[Taint]:
    taints = node.get("spec", {}).get("taints") or ()
    if not any(taint.get("effect") == _EVICTING for taint in taints):
        return ()
    try:
        return convert(Node, {"spec": {"taints": taints}}).spec.taints
    except WireError:
        return ()


def _predicate(name: str, why: str) -> Refusal:
    return Refusal(name, f"Predicate {name} failed: {why}")
