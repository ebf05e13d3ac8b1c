"""The node resources that devices use, such as CPU (gate DRANodeAllocatableResources).

In: the devices of claims on a node, and the pod. Out: the resources used by each claim, for the pod's status,
and the pod's total requests on the node, or why it cannot be placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from kuberth.api.core import NodeAllocatableResourceClaimStatus, Pod
from kuberth.api.pod_resources import CPU, EPHEMERAL_STORAGE, MEMORY, pod_requests
from kuberth.api.quantity import Quantity, parse
from kuberth.api.resource import AllocationResult, ResourceClaim
from kuberth.errors import QuantityError
from kuberth.framework.status import Status
from kuberth.plugins.devices.sites import Sites
from kuberth.plugins.devices.slices import KnownDevice

ClaimStatuses = tuple[NodeAllocatableResourceClaimStatus, ...]

_ZERO: Final = Quantity(0)
_ALWAYS_COMPARED: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class ClaimTake(NamedTuple):
    """The node resources that the devices of one claim use."""

    amounts: tuple[tuple[str, str], ...] = ()
    """Quantities by name of the resource."""
    problem: str = ""
    """Why the amounts are unknown; empty if they are known."""


def take_of(devices: Iterable[tuple[KnownDevice, Mapping[str, Quantity]]]) -> ClaimTake | None:
    """Add up the node resources of devices with their consumed capacity; None if no device uses any."""
    amounts: dict[str, Quantity] = {}
    is_taking = False
    for device, consumed in devices:
        for resource, key, multiplier in device.takes:
            is_taking = True
            amount = _ZERO if multiplier is None else multiplier
            if key:
                if not consumed:
                    return ClaimTake(
                        problem=f"device {device.spec.name}: ConsumedCapacity is nil, but Capacity key "
                        f"'{key}' is set in NodeAllocatableResourceMappings for resource {resource}"
                    )
                if key not in consumed:
                    continue
                amount = consumed[key] if multiplier is None else consumed[key] * multiplier
            amounts[resource] = amounts[resource] + amount if resource in amounts else amount
    if not is_taking:
        return None
    return ClaimTake(tuple((name, str(amounts[name])) for name in sorted(amounts)))


def take_of_allocation(allocation: AllocationResult, sites: Sites) -> ClaimTake | None:
    """The same for allocated devices."""
    found = []
    missing = ""
    for result in allocation.devices.results:
        device = sites.device((result.driver, result.pool, result.device))
        if device is None:
            missing = (
                missing or f"device {result.device}: device {result.device} not found in pool {result.pool}"
            )
            continue
        found.append((device, {name: parse(text) for name, text in result.consumed_capacity.items()}))
    take = take_of(found)
    return ClaimTake(problem=missing) if take is not None and missing else take


class Footprint(NamedTuple):
    """The requests of a pod, including its devices."""

    statuses: ClaimStatuses = ()
    amounts: Mapping[str, int] = {}
    """By resource: thousandths of a core, bytes."""
    refusal: Status | None = None
    """Why the pod cannot use the devices, on any node."""


def footprint_of(
    pod: Pod,
    takes: Iterable[tuple[ResourceClaim, ClaimTake]],
    names: Mapping[str, str],
    *,
    pod_level: bool,
) -> Footprint:
    """`names`: UIDs of the pod's claims, by the names that containers call them."""
    users = _users(pod, names)
    statuses = []
    for claim, take in takes:
        if take.problem:
            where = f"claim {pod.metadata.namespace}/{claim.metadata.name}"
            return Footprint(refusal=Status.error(f"{where}, {take.problem}"))
        if take.amounts:
            statuses.append(
                NodeAllocatableResourceClaimStatus(
                    resource_claim_name=claim.metadata.name,
                    containers=tuple(users.get(claim.metadata.uid, ())),
                    resources=dict(take.amounts),
                )
            )
    statuses.sort(key=lambda status: status.resource_claim_name.encode())
    for status in statuses:
        if not status.containers:
            return Footprint(
                refusal=Status.unresolvable(
                    f"claim {status.resource_claim_name}: node-allocatable resource claim not referenced by "
                    "any container within the pod"
                )
            )
    with_status = taking(pod, tuple(statuses))
    try:
        requests = pod_requests(
            with_status, use_status=False, pod_level_resources=pod_level, with_devices=True
        )
        short = _exceeding_own_limit(with_status, requests) if pod_level else None
    except QuantityError as exc:
        return Footprint(refusal=Status.error(exc))
    if short is not None:
        return Footprint(
            refusal=Status.unresolvable(
                f"pod level request for {short} is insufficient to cover the aggregated container and "
                "node-allocatable DRA requests"
            )
        )
    return Footprint(tuple(statuses), _amounts(requests))


def taking(pod: Pod, statuses: ClaimStatuses) -> Pod:
    """The pod with the node resources of its claims."""
    return replace(pod, status=replace(pod.status, node_allocatable_resource_claim_statuses=statuses))


def _users(pod: Pod, names: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """By UID of a claim: the names of the containers that use it."""
    users: dict[str, list[str]] = {}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for reference in container.resources.claims:
            if reference.name in names:
                users.setdefault(names[reference.name], []).append(container.name)
    return users


def _exceeding_own_limit(pod: Pod, requests: Mapping[str, Quantity]) -> str | None:
    """A resource for which containers and devices need more than the pod-level request."""
    if pod.spec.resources is None or not pod.spec.resources.requests:
        return None
    parts = pod_requests(pod, use_status=False, pod_level_resources=False, with_devices=True)
    return next((name for name in sorted(requests) if name in parts and parts[name] > requests[name]), None)


def _amounts(requests: Mapping[str, Quantity]) -> Mapping[str, int]:
    """The resources to compare with the node; NodeResourcesFit handles the others."""
    amounts = {
        name: requests[name].milli_value() if name == CPU else requests[name].value()
        for name in _ALWAYS_COMPARED
        if name in requests
    }
    amounts = {name: amount for name, amount in amounts.items() if amount > 0}
    pages = sorted(name for name in requests if name.startswith("hugepages-"))
    return amounts | {name: requests[name].value() for name in pages}
