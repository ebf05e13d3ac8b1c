"""The kubelets of hollow nodes: they admit, start, restart and stop pods.

In: pods bound to hollow nodes, and their annotations (`annotations`). Out: their status (addresses, start
time, container states, conditions), events about failures, and the removal of deleted pods. A pod that does
not fit on its node is refused in a kubelet's words; the scheduler checks the same, so this catches races and
pods whose nodeName was set by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from kuberth.clock import NANOSECONDS, Clock
from kuberth.cluster.pod_info import HostPort, host_ports
from kuberth.errors import QuantityError, SelectorError, WireError
from kuberth.local.apiserver.objects import Obj, key_of, name_of
from kuberth.local.hollow.annotations import behavior_of
from kuberth.local.hollow.container_states import (
    KILLED,
    STOPPED,
    ContainersState,
    Step,
    advance,
    creating,
    finished,
    refused,
    started,
    state_from,
)
from kuberth.local.hollow.controlling import Controller, by_node
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.pod_claims import CLAIMS, GROUP_CLAIMS_GATE, claim_keys, problem_with_claims
from kuberth.local.hollow.pod_states import is_finished, node_of, phase
from kuberth.local.hollow.shapes import address
from kuberth.text.timestamps import parse_timestamp, stamp

_EVICTING: Final = "NoExecute"


class Refusal(NamedTuple):
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Load:
    """What a pod uses on its node: thousandths of a core for cpu, bytes or units for all others."""

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

    def retain(self, node: str, uids: Collection[str]) -> None:
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


_POD_NET: Final = 10 << 24 | 128 << 16
"""10.128.0.0/9: eight million pods before addresses repeat."""
_POD_ADDRESSES: Final = (1 << 23) - 2
_PARALLEL: Final = 64
"""Most status writes at a time; they share a commit."""


class WorkingNode(NamedTuple):
    """A hollow node whose kubelet runs and has reported its capacity."""

    obj: Obj
    address: str
    ready: bool


class HollowKubelet(Controller):
    name = component = "kubelet"

    def __init__(
        self, informers: Informers, *, working_node: Callable[[str], WorkingNode | None], clock: Clock
    ) -> None:
        """`working_node` finds a node by name; None if its kubelet does not run here or is silent."""
        self._working_node = working_node
        self._core = informers.core
        self._with_groups = informers.core.gates.get(GROUP_CLAIMS_GATE, False)
        self._admitted = AdmittedPods()
        self._states: dict[str, ContainersState] = {}
        """State of containers by UID of the pod, for pods whose annotations depend on time."""
        self._unchanged: dict[str, tuple[Obj, Obj]] = {}
        """Pods, with their nodes, that need nothing until one of the two changes; by UID."""
        self._deletion_seen_ns: dict[str, int] = {}
        """When the deletion of pods was first seen, by UID."""
        self._claim_problems: dict[str, str] = {}
        """The problem last reported of pods whose devices are not ready, by UID."""
        self._last_address = 0
        super().__init__(informers, clock=clock)

    def set_up(self) -> None:
        self._queue = self.queue_of("pods", self._sync, parallel=_PARALLEL)
        indexes = {"claim": claim_keys, "node": by_node, "address": _addresses}
        self._pods = self.watch("pods", self._on_pod, indexes=indexes)
        self._claims = self.watch(CLAIMS, self._on_claim)

    def queue_pods_of(self, node: str) -> None:
        """Queue the pods of a node that was added or whose health changed."""
        for pod in self._pods.by("node", node):
            self._queue.add(key_of(pod))

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        if new is None or is_finished(new):
            self._admitted.remove(uid)
            self._states.pop(uid, None)
            self._unchanged.pop(uid, None)
            self._claim_problems.pop(uid, None)
        elif node_of(new) and "startTime" in new.get("status", {}):
            # Also pods of an earlier run, before new ones are admitted.
            self._admitted.add(new)
            if old is not None and old["spec"] != new["spec"]:
                self._admitted.recount(new)
        if new is None:
            self._deletion_seen_ns.pop(uid, None)
        elif node_of(new) and (not is_finished(new) or "deletionTimestamp" in new["metadata"]):
            self._queue.add(key_of(new))

    def _on_claim(self, old: Obj | None, new: Obj | None) -> None:
        for pod in self._pods.by("claim", key_of(new or old or {})):
            if pod["metadata"]["uid"] in self._claim_problems:
                self._queue.add(key_of(pod))

    async def _sync(self, pod: Obj) -> float | None:
        if (node := self._working_node(node_of(pod))) is None:
            return None
        if "deletionTimestamp" in pod["metadata"]:
            return await self._stop(pod)
        if is_finished(pod):
            return None
        uid, unchanged = pod["metadata"]["uid"], self._unchanged.get(pod["metadata"]["uid"])
        # This kubelet's own writes come back as changes.
        if unchanged is not None and unchanged[0] is pod and unchanged[1] is node.obj:
            return None
        if not pod.get("status", {}).get("startTime") and (refusal := await self._refusal(pod, node)):
            await self._pods.write_status(pod, refused(pod, **refusal._asdict(), now=stamp(self._clock)))
            self.record(pod, refusal.reason, refusal.message, type_="Warning")
            return None
        if phase(pod) != "Running" and await self._waits_for_devices(pod, node):
            return None
        step = self._step(pod, node)
        if step.status != pod.get("status"):
            pod = await self._pods.write_status(pod, step.status)
        if step.seconds is not None:
            self._states[uid] = step.state
        elif self._pods.get(key_of(pod)) is pod:
            self._unchanged[uid] = pod, node.obj
        for event in step.events:
            self.record(pod, event.reason, event.message, type_=event.type)
        return step.seconds

    async def _waits_for_devices(self, pod: Obj, node: WorkingNode) -> bool:
        """Whether claims of the pod are not allocated or not reserved for it; an event says so once."""
        uid = pod["metadata"]["uid"]
        problem = problem_with_claims(pod, self._claims.get, with_groups=self._with_groups)
        if not problem:
            self._claim_problems.pop(uid, None)
            return False
        reported, self._claim_problems[uid] = self._claim_problems.get(uid), problem
        status = creating(pod, host=node.address, now=stamp(self._clock))
        if status != pod.get("status"):
            pod = await self._pods.write_status(pod, status)
        if reported != problem:
            message = f"Failed to prepare dynamic resources: prepare dynamic resources: {problem}"
            self.record(pod, "FailedPrepareDynamicResources", message, type_="Warning")
        return True

    async def _refusal(self, pod: Obj, node: WorkingNode) -> Refusal | None:
        if self._admitted.admit(pod, node.obj) is None:
            return None
        # The informer may be late: check with the server before a pod is refused for good.
        name = node_of(pod)
        there = await self._core.list("pods", field_selector=f"spec.nodeName={name}")
        present = [one for one in there["items"] if not is_finished(one)]
        self._admitted.retain(name, {one["metadata"]["uid"] for one in present})
        for one in present:
            self._admitted.recount(one)
        current = await self._core.get("nodes", name)
        return self._admitted.admit(pod, current)

    def _step(self, pod: Obj, node: WorkingNode) -> Step:
        now_ns, status = self._clock.now_ns(), pod.get("status") or {}
        if phase(pod) != "Running" or "startTime" not in status:
            own = status.get("podIP")
            own = own or (node.address if pod["spec"].get("hostNetwork") else self._next_address())
            status = started(pod, host=node.address, own=own, now=stamp(self._clock))
            state = ContainersState(now_ns)
        else:
            known = self._states.get(pod["metadata"]["uid"])
            state = known if known is not None and known.is_of(status) else state_from(status, now_ns=now_ns)
        return advance(pod, status, state, node_ready=node.ready, now_ns=now_ns)

    async def _stop(self, pod: Obj) -> float | None:
        """Stop a deleted pod; seconds until the next check while its containers are stopping."""
        metadata, exit_code = pod["metadata"], STOPPED
        if not is_finished(pod):
            stop, kill = self._seconds_to_end(pod)
            if min(stop, kill) > 0:
                return min(stop, kill)
            exit_code = STOPPED if stop <= kill else KILLED
        if metadata.get("finalizers"):
            # It will be seen for a while yet, so it has to look finished.
            if not is_finished(pod):
                status, now = pod.get("status") or {}, stamp(self._clock)
                pod = await self._pods.write_status(pod, finished(pod, status, exit_code=exit_code, now=now))
            if metadata.get("deletionGracePeriodSeconds") == 0:
                return None
        await self._pods.delete(pod, grace_seconds=0)
        return None

    def _seconds_to_end(self, pod: Obj) -> tuple[float, float]:
        """When its containers stop by themselves, and when they are killed."""
        if "startTime" not in pod.get("status", {}):
            return 0.0, 0.0
        metadata, now_ns = pod["metadata"], self._clock.now_ns()
        due_ns = parse_timestamp(metadata["deletionTimestamp"]) or now_ns
        asked_ns = due_ns - (metadata.get("deletionGracePeriodSeconds") or 0) * NANOSECONDS
        # Timestamps are whole seconds: what was asked in this one was asked just now, and what is due in
        # one is due at its end.
        just_now = now_ns - asked_ns < NANOSECONDS
        first_ns = self._deletion_seen_ns.setdefault(metadata["uid"], now_ns if just_now else asked_ns)
        stop = behavior_of(pod).stop_seconds - (now_ns - first_ns) / NANOSECONDS
        return stop, (due_ns - now_ns) / NANOSECONDS + 1.0

    def _next_address(self) -> str:
        while True:
            candidate = address(_POD_NET, self._last_address % _POD_ADDRESSES)
            self._last_address += 1
            # After a restart, pods from before hold the first ones.
            if not self._pods.by("address", candidate):
                return candidate


def _addresses(pod: Obj) -> Iterable[str]:
    own = pod.get("status", {}).get("podIP")
    return (own,) if own else ()
