"""Eviction of pods by NoExecute taints of their nodes or devices, at once or after a pod's tolerationSeconds.

In: nodes, pods, claims, slices and, with the gate DRADeviceTaintRules, rules that taint devices. Out: pods
marked as disrupted and deleted, with an event for each decision. A taint that is removed in time cancels the
eviction. As upstream, the tolerated time of a node's taint begins when the pod is first affected, and that of
a device's taint begins with the taint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import ClassVar, Final, TypeVar

from kuberth.api.core import Node, Pod, Taint, Toleration
from kuberth.api.resource import (
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from kuberth.api.taints import toleration_tolerates
from kuberth.api.wire import convert
from kuberth.clock import NANOSECONDS
from kuberth.errors import WireError
from kuberth.local.apiserver.objects import Obj, key_of, make_key, name_of, namespace_of
from kuberth.local.hollow.controlling import Controller, by_node
from kuberth.local.hollow.pod_claims import (
    CLAIMS,
    GROUP_CLAIMS_GATE,
    claim_keys,
    claims_of,
    is_for,
    is_reserved_for,
)
from kuberth.local.hollow.pod_states import disrupted, node_of
from kuberth.plugins.devices.slices import is_meant
from kuberth.text.timestamps import nanoseconds

_EFFECT: Final = "NoExecute"


class _EvictionController(Controller):
    """Evicts pods when they are due."""

    event: ClassVar[str]
    """The reason of its events."""
    reason: ClassVar[str]
    message: ClassVar[str]

    def set_up(self) -> None:
        self._pending_ns: dict[str, int] = {}
        """When pods are to be evicted, by UID."""
        self._queue = self.queue_of("pods", self._sync)

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and self._may_be_affected(old, new):
            self._queue.add(key_of(new))
        elif new is None and old is not None:
            self._pending_ns.pop(old["metadata"]["uid"], None)

    def _may_be_affected(self, old: Obj | None, new: Obj) -> bool:
        """Whether a change of a pod may lead to its eviction."""
        raise NotImplementedError

    def _due_ns(self, pod: Obj) -> int | None:
        """When the taints require the pod's eviction; None: never."""
        raise NotImplementedError

    async def _sync(self, pod: Obj) -> float | None:
        pods, uid = self._watched["pods"], pod["metadata"]["uid"]
        if pods.is_terminating(pod):
            return None
        due_ns, now_ns = self._due_ns(pod), self._clock.now_ns()
        if due_ns is None:
            if self._pending_ns.pop(uid, None) is not None:
                self._record(pod, "Cancelling deletion")
            return None
        if due_ns > now_ns:
            self._pending_ns[uid] = due_ns
            return (due_ns - now_ns) / NANOSECONDS
        status = disrupted(pod, reason=self.reason, message=self.message, clock=self._clock)
        await pods.write_status(pod, status)
        self._record(pod, "Marking for deletion")
        await pods.delete(pod)
        self._pending_ns.pop(uid, None)
        return None

    def _record(self, pod: Obj, what: str) -> None:
        self.record(pod, self.event, what)


class TaintEvictionController(_EvictionController):
    name = component = "taint-eviction-controller"
    event = "TaintManagerEviction"
    reason = "DeletionByTaintManager"
    message = "Taint manager: deleting due to NoExecute taint"

    def set_up(self) -> None:
        super().set_up()
        self._nodes = self.watch("nodes")
        self._pods = self.watch("pods", self._on_pod, indexes={"node": by_node})
        self._nodes.add_handler(self._on_node)

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        before, after = ([] if node is None else _taints(node) for node in (old, new))
        if before != after:
            for pod in self._pods.by("node", name_of(new or old or {})):
                self._queue.add(key_of(pod))

    def _may_be_affected(self, old: Obj | None, new: Obj) -> bool:
        node = self._nodes.get(node_of(new))
        if node is None or not _taints(node):
            return False
        return old is None or _node_and_tolerations(old) != _node_and_tolerations(new)

    def _due_ns(self, pod: Obj) -> int | None:
        node, now_ns = self._nodes.get(node_of(pod)), self._clock.now_ns()
        seconds = None if node is None else _seconds_to_stay(pod, node)
        if not seconds:
            return None if seconds is None else now_ns
        return self._pending_ns.get(pod["metadata"]["uid"], now_ns + seconds * NANOSECONDS)

    def _record(self, pod: Obj, what: str) -> None:
        of = " of" if what.startswith("Cancelling") else ""
        super()._record(pod, f"{what}{of} Pod {key_of(pod)}")


def _seconds_to_stay(pod: Obj, node: Obj) -> int | None:
    """How long the pod tolerates the node's taints; None if it may stay."""
    try:
        taints: list[Taint] = [taint for taint in convert(Node, node).spec.taints if taint.effect == _EFFECT]
        tolerations = convert(Pod, pod).spec.tolerations
    except WireError:
        return None
    used: list[Toleration] = []
    for taint in taints:
        tolerating = [one for one in tolerations if toleration_tolerates(one, taint)]
        if not tolerating:
            return 0
        used += tolerating[:1]
    seconds = [one.toleration_seconds for one in used if one.toleration_seconds is not None]
    return max(0, min(seconds)) if seconds else None


def _taints(node: Obj) -> list[Obj]:
    taints = node.get("spec", {}).get("taints") or ()
    return [taint for taint in taints if taint.get("effect") == _EFFECT]


def _node_and_tolerations(pod: Obj) -> object:
    return node_of(pod), pod["spec"].get("tolerations")


SLICES: Final = "resourceslices.resource.k8s.io"
RULES: Final = "devicetaintrules.resource.k8s.io"

T = TypeVar("T")


class DeviceTaintEvictionController(_EvictionController):
    name = component = "device-taint-eviction-controller"
    event = "DeviceTaintManagerEviction"
    reason = "DeletionByDeviceTaintManager"
    message = "Device Taint manager: deleting due to NoExecute taint"

    def set_up(self) -> None:
        super().set_up()
        gates = self._informers.core.gates
        self._is_on = gates.get("DRADeviceTaints", True)
        self._has_rules = self._is_on and gates.get("DRADeviceTaintRules", False)
        self._with_groups = gates.get(GROUP_CLAIMS_GATE, False)
        self._pods = self.watch("pods", self._on_pod, indexes={"claim": claim_keys})
        self._claims = self.watch(CLAIMS, self._on_claim, indexes={"device pool": _pools_of_claim})
        self._slices = self.watch(SLICES, self._on_slice, indexes={"device pool": _pools_of_slice})
        self._rules = self.watch(RULES, self._on_rule)

    def _may_be_affected(self, old: Obj | None, new: Obj) -> bool:
        return self._is_on and bool(node_of(new)) and next(claim_keys(new), None) is not None

    def _on_claim(self, old: Obj | None, new: Obj | None) -> None:
        if self._is_on:
            for pod in self._pods.by("claim", key_of(new or old or {})):
                self._queue.add(key_of(pod))

    def _on_slice(self, old: Obj | None, new: Obj | None) -> None:
        for slice_ in (old, new):
            for pool in () if slice_ is None else _pools_of_slice(slice_):
                for claim in self._claims.by("device pool", pool):
                    self._on_claim(None, claim)

    def _on_rule(self, old: Obj | None, new: Obj | None) -> None:
        if self._has_rules and (old or {}).get("spec") != (new or {}).get("spec"):
            for claim in self._claims.all():
                self._on_claim(None, claim)

    def _due_ns(self, pod: Obj) -> int | None:
        return min(self._dues_ns(pod), default=None)

    def _dues_ns(self, pod: Obj) -> Iterator[int]:
        """When each taint of the pod's devices requires its eviction."""
        if not node_of(pod):
            return
        for wanted in claims_of(pod):
            claim = self._claims.get(make_key(namespace_of(pod), wanted.claim)) if wanted.claim else None
            if claim is None or not is_reserved_for(pod, claim, with_groups=self._with_groups):
                continue
            if wanted.template and not is_for(pod, claim, with_groups=self._with_groups):
                continue
            for known in _read(ResourceClaim, (claim,)):
                allocation = known.status.allocation
                for result in () if allocation is None else allocation.devices.results:
                    dues_ns = (_device_due_ns(result, taint) for taint in self._taints_of(result))
                    yield from (due_ns for due_ns in dues_ns if due_ns is not None)

    def _taints_of(self, result: DeviceRequestAllocationResult) -> Iterator[DeviceTaint]:
        slices = list(_read(ResourceSlice, self._slices.by("device pool", f"{result.driver}/{result.pool}")))
        newest = max((slice_.spec.pool.generation for slice_ in slices), default=0)
        rules = _read(DeviceTaintRule, self._rules.all() if self._has_rules else ())
        # A rule also applies to devices that their driver no longer publishes.
        published = [
            device
            for slice_ in slices
            if slice_.spec.pool.generation == newest
            for device in slice_.spec.devices
            if device.name == result.device
        ][:1]
        for device in published:
            yield from (taint for taint in device.taints if taint.effect == _EFFECT)
        yield from (
            rule.spec.taint
            for rule in rules
            if rule.spec.taint.effect == _EFFECT and is_meant(rule, result.driver, result.pool, result.device)
        )


def _read(kind: type[T], objects: Iterable[Obj]) -> Iterator[T]:
    """The objects that can be read, as structs."""
    for obj in objects:
        with suppress(WireError):
            yield convert(kind, obj)


def _device_due_ns(result: DeviceRequestAllocationResult, taint: DeviceTaint) -> int | None:
    """When the taint requires eviction of the device's pods; None: never."""
    seconds: list[int] = []
    for toleration in result.tolerations:
        if toleration.effect == _EFFECT and toleration_tolerates(toleration, taint):
            if toleration.toleration_seconds is None:
                return None
            seconds.append(max(0, toleration.toleration_seconds))
    since_ns = 0 if taint.time_added is None else nanoseconds(taint.time_added)
    return since_ns + min(seconds, default=0) * NANOSECONDS


def _pools_of_claim(claim: Obj) -> list[str]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return [f"{result.get('driver')}/{result.get('pool')}" for result in results]


def _pools_of_slice(slice_: Obj) -> list[str]:
    spec = slice_["spec"]
    return [f"{spec.get('driver')}/{spec.get('pool', {}).get('name')}"]
