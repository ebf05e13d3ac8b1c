"""Binding conditions: devices that need preparation before a pod is bound.

In: a claim with the devices' status from drivers. Out: ready or not, failed with a reason, or timed out.
"""

from __future__ import annotations

from kuberth.api.resource import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from kuberth.clock import NANOSECONDS
from kuberth.errors import KuberthError


class DeviceBindingError(KuberthError):
    """The preparation of a device failed."""


class DeviceBindingTimeoutError(KuberthError):
    """The preparation of a device timed out."""


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


def is_out_of_time(claim: ResourceClaim, *, timeout_seconds: float, now_ns: int) -> bool:
    """Whether the claim was allocated too long ago for devices that are still not ready."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_conditions(claim):
        return False
    return allocation.allocation_timestamp.timestamp() + timeout_seconds < now_ns / NANOSECONDS


def _status_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    for status in claim.status.devices:
        if (status.driver, status.pool, status.device) == (result.driver, result.pool, result.device):
            return status
    return None
