"""Eviction by NoExecute taints of devices, at once or after a pod's tolerationSeconds.

In: pods, claims, slices and, with the gate DRADeviceTaintRules, rules that taint devices. Out: pods marked as
disrupted and deleted, with an event for each decision. As upstream, the tolerated time begins with the taint,
only tolerations that name the effect count, and a taint that is removed in time cancels the eviction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeVar

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
from kuberth.local.apiserver.objects import Obj, key_of, make_key, namespace_of
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.pod_claims import (
    CLAIMS,
    GROUP_CLAIMS_GATE,
    claim_keys,
    claims_of,
    is_for,
    is_reserved_for,
)
from kuberth.local.hollow.pod_states import disrupted, node_of
from kuberth.plugins.devices.taint_rules import is_meant
from kuberth.text.timestamps import nanoseconds

SLICES: Final = "resourceslices.resource.k8s.io"
RULES: Final = "devicetaintrules.resource.k8s.io"
_EFFECT: Final = "NoExecute"
_REASON: Final = "DeviceTaintManagerEviction"

T = TypeVar("T")


class DeviceTaintEvictionController(Controller):
    name = component = "device-taint-eviction-controller"

    def set_up(self) -> None:
        gates = self._informers.core.gates
        self._is_on = gates.get("DRADeviceTaints", True)
        self._has_rules = self._is_on and gates.get("DRADeviceTaintRules", False)
        self._with_groups = gates.get(GROUP_CLAIMS_GATE, False)
        self._decided: set[str] = set()
        """UIDs of pods that are to be deleted later."""
        self._queue = self.queue_of("pods", self._sync)
        self._pods = self.watch("pods", self._on_pod, indexes={"claim": claim_keys})
        self._claims = self.watch(CLAIMS, self._on_claim, indexes={"device pool": _pools_of_claim})
        self._slices = self.watch(SLICES, self._on_slice, indexes={"device pool": _pools_of_slice})
        self._rules = self.watch(RULES, self._on_rule)

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            if old is not None:
                self._decided.discard(old["metadata"]["uid"])
        elif self._is_on and node_of(new) and next(claim_keys(new), None) is not None:
            self._queue.add(key_of(new))

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

    async def _sync(self, pod: Obj) -> float | None:
        if self._pods.is_leaving(pod):
            return None
        uid = pod["metadata"]["uid"]
        due_ns = min(self._dues_ns(pod), default=None)
        if due_ns is None:
            if uid in self._decided:
                self._decided.discard(uid)
                self._recorder.record(pod, _REASON, "Cancelling deletion")
            return None
        now_ns = self._clock.now_ns()
        if due_ns > now_ns:
            self._decided.add(uid)
            return (due_ns - now_ns) / NANOSECONDS
        reason = "DeletionByDeviceTaintManager"
        message = "Device Taint manager: deleting due to NoExecute taint"
        status = disrupted(pod, reason=reason, message=message, clock=self._clock)
        await self._pods.write_status(pod, status)
        self._recorder.record(pod, _REASON, "Marking for deletion")
        await self._pods.delete(pod)
        self._decided.discard(uid)
        return None

    def _dues_ns(self, pod: Obj) -> Iterator[int]:
        """When taints of the pod's devices require its eviction."""
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
                    dues_ns = (_due_ns(result, taint) for taint in self._taints_of(result))
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


def _due_ns(result: DeviceRequestAllocationResult, taint: DeviceTaint) -> int | None:
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
