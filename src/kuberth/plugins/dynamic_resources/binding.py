"""Binds a pod's claims: written before the pod is bound, and awaited until their devices are ready.

In: a pod's cycle with the decided allocations, and the devices' status from drivers. Out: the claims
allocated and reserved for the pod, and the devices prepared (binding conditions); or why that failed, or
timed out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from kuberth.api.core import Pod, PodExtendedResourceClaimStatus
from kuberth.api.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from kuberth.clock import NANOSECONDS
from kuberth.errors import KuberthError
from kuberth.framework.handle import Handle, PodEvent
from kuberth.plugins.devices.inventory import Inventory
from kuberth.plugins.dynamic_resources.cycle import Cycle
from kuberth.plugins.dynamic_resources.extended import IN_MEMORY_NAME
from kuberth.plugins.dynamic_resources.finding import is_reserved_for, user_of
from kuberth.plugins.dynamic_resources.writing import ClaimWriter
from kuberth.plugins.polling import wait_until

BINDING_SECONDS: Final = 600.0
"""The maximum time for the preparation of devices, if the configuration sets none."""
_LONGEST_PAUSE_SECONDS: Final = 5.0
"""The longest polling interval for devices that need preparation."""


class DeviceBindingError(KuberthError):
    """The preparation of a device failed."""


class DeviceBindingTimeoutError(KuberthError):
    """The preparation of a device timed out."""


@dataclass(frozen=True, slots=True)
class ClaimBinder:
    """Writes the claims of placed pods, and waits until their devices are ready."""

    handle: Handle
    writer: ClaimWriter
    inventory: Inventory
    with_groups: bool
    """Whether claims created for a pod's group belong to the pod too."""
    timeout_seconds: float
    """The maximum time for the preparation of devices."""

    async def bind(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        """Bind all claims of the pod; raises KuberthError."""
        for index, claim in enumerate(cycle.claims):
            if is_reserved_for(pod, claim):
                claim = cycle.claims[index] = await self.writer.after_release(claim, user_of(pod))
            if not is_reserved_for(pod, claim, with_groups=self.with_groups):
                cycle.claims[index] = await self._bind(cycle, index, pod)
        if self.inventory.features.has_node_resources and pod.status.node_allocatable_resource_claim_statuses:
            cycle.has_patched_status = True
            await self.writer.patch_node_resources(pod)
        if self.inventory.features.has_conditions and any(map(has_conditions, cycle.claims)):
            await self._wait_and_count(cycle, pod, node_name)

    async def _bind(self, cycle: Cycle, index: int, pod: Pod) -> ResourceClaim:
        """Write one claim: its allocation, if decided in this cycle, and the reservation for the pod."""
        claim, allocation = cycle.claims[index], cycle.allocations.get(index)
        is_shared = index in cycle.shared
        if is_shared:
            metadata, allocation = claim.metadata, cycle.shared[index]
            known = self.inventory.claims.get(metadata.name, namespace=metadata.namespace)
            if known is None or known.metadata.uid != metadata.uid:
                raise KuberthError(f"claim {metadata.namespace}/{metadata.name} got deleted in the meantime")
            claim = known
        is_special = index == cycle.special
        if is_special and allocation is None and not claim.spec.devices.requests:
            return claim  # the node offers the resources by itself
        in_flight_uid = claim.metadata.uid
        if is_special and claim.metadata.name == IN_MEMORY_NAME:
            claim = await self._create(cycle, index)
        # If this fails, Unreserve gives the devices back.
        user = cycle.users.get(index) or user_of(pod)
        claim = await self.writer.reserve(claim, allocation, user, may_be_written=is_shared)
        self.inventory.claims.assume(claim)
        self.inventory.claims.end_pending(in_flight_uid)
        cycle.pending.discard(in_flight_uid)
        if is_special:
            if not cycle.mappings:
                raise KuberthError(
                    f"nil or empty request mappings, no update of pod {pod.metadata.namespace}/"
                    f"{pod.metadata.name} ExtendedResourceClaimStatus"
                )
            await self.writer.patch_pod_status(
                pod,
                PodExtendedResourceClaimStatus(
                    request_mappings=tuple(cycle.mappings), resource_claim_name=claim.metadata.name
                ),
            )
        return claim

    async def _create(self, cycle: Cycle, index: int) -> ResourceClaim:
        if cycle.created is None:
            raise KuberthError(f"extended resource claim not found for node {cycle.node_name}")
        metadata = replace(cycle.created.metadata, name="", uid="")
        created = await self.writer.create(replace(cycle.created, metadata=metadata))
        # From here on, Unreserve has to delete it.
        cycle.claims[index] = created
        return created

    async def _wait_and_count(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        started, status = time.perf_counter(), "error"
        try:
            await self._wait_until_ready(cycle, pod, node_name)
            status = "success"
        except DeviceBindingTimeoutError:
            status = "timeout"
            raise
        except DeviceBindingError:
            status = "failure"
            raise
        finally:
            seconds = time.perf_counter() - started
            for result in cycle.results():
                labels = (self.handle.profile_name, result.driver, status)
                self.handle.metrics.binding_conditions_wait.observe(labels, seconds)
                if result.binding_conditions:
                    self.handle.metrics.binding_conditions_allocations.inc(labels)

    async def _wait_until_ready(self, cycle: Cycle, pod: Pod, node_name: str) -> None:
        note = f"waiting for binding conditions for device on node {node_name}"
        self.handle.recorder.record(PodEvent(pod, "BindingConditionsPending", "Scheduling", note))
        if not await wait_until(
            partial(self._are_ready, cycle),
            timeout_seconds=self.timeout_seconds,
            longest_pause_seconds=_LONGEST_PAUSE_SECONDS,
        ):
            raise DeviceBindingTimeoutError("device binding timeout: context deadline exceeded")

    def _are_ready(self, cycle: Cycle) -> bool:
        for index, claim in enumerate(cycle.claims):
            name, namespace = claim.metadata.name, claim.metadata.namespace
            known = self.inventory.claims.get(name, namespace=namespace)
            if known is None:
                raise KuberthError(f'could not find ResourceClaim "{namespace}/{name}"')
            cycle.claims[index] = known
            if not is_ready(known):
                if self._is_out_of_time(known):
                    raise DeviceBindingTimeoutError(f"device binding timeout: claim={name}")
                return False
        return True

    def has_failed(self, claim: ResourceClaim) -> bool:
        """Whether the preparation of devices has failed."""
        if not self.inventory.features.has_conditions or not has_conditions(claim):
            return False
        try:
            ready = is_ready(claim)
        except DeviceBindingError:
            return True
        return not ready and self._is_out_of_time(claim)

    def _is_out_of_time(self, claim: ResourceClaim) -> bool:
        """Whether the claim was allocated too long ago for devices that are still not ready."""
        allocation = claim.status.allocation
        if allocation is None or allocation.allocation_timestamp is None or not has_conditions(claim):
            return False
        now_seconds = self.handle.clock.now_ns() / NANOSECONDS
        return allocation.allocation_timestamp.timestamp() + self.timeout_seconds < now_seconds


def has_conditions(claim: ResourceClaim) -> bool:
    """Whether a device of the claim needs preparation."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all devices are ready; raises DeviceBindingError if one failed."""
    if claim.status.allocation is None:
        return False
    for result in claim.status.allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        by_type = {condition.type: condition for condition in reversed(status.conditions)}
        for name in result.binding_failure_conditions:
            condition = by_type.get(name)
            if condition is not None and condition.status == "True":
                message = condition.message.replace("\\", "\\\\").replace('"', '\\"')
                raise DeviceBindingError(
                    f"device binding failed: claim={claim.metadata.name}, reason={condition.reason}, "
                    f'message="{message}"'
                )
        true = {name for name, condition in by_type.items() if condition.status == "True"}
        if not true.issuperset(result.binding_conditions):
            return False
    return True


def _status_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device):
            return status
    return None
