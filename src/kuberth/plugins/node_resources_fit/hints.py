"""Queueing hints of NodeResourcesFit: whether a change frees a resource that the pod requests.

In: a pod that the plugin rejected, and an object before and after. Out: whether the change may help the pod.
Invalid quantities raise, and the queue then retries the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kuberth.api.core import Node, Pod
from kuberth.api.pod_resources import CPU, PODS, compute_pod_request, pod_requests
from kuberth.api.quantity import milli_value, value
from kuberth.api.resource import DeviceClass
from kuberth.plugins.devices.classes import IMPLICIT_PREFIX
from kuberth.plugins.hints import has_node, is_same_pod
from kuberth.plugins.resources.requests import Amounts, positive_amounts, request_of_pending


class _Capacity(NamedTuple):
    pods: int
    amounts: Amounts


def pod_change_helps(pod: Pod, before: Pod | None, after: Pod | None) -> bool:
    """Helps if a pod was deleted or its requests were reduced."""
    if after is None:
        return before is not None and has_node(before)
    if is_same_pod(after, pod):
        return True
    if before is None or not after.spec.node_name:
        return False
    had, has = positive_amounts(compute_pod_request(before)), positive_amounts(compute_pod_request(after))
    freed = {name for name, amount in had.items() if amount > has.get(name, 0)}
    return bool(freed) and not freed.isdisjoint(positive_amounts(compute_pod_request(pod)))


def node_change_helps(
    pod: Pod,
    before: Node | None,
    after: Node | None,
    *,
    pod_level: bool,
    backed: Callable[[Iterable[str]], frozenset[str]],
) -> bool:
    """Helps if a new or resized node has what the pod lacked, and the pod fits on the empty node.

    `backed`: the resources backed by devices, if the node does not offer them itself.
    """
    if after is None:
        return False
    wanted = positive_amounts(request_of_pending(pod, pod_level=pod_level))
    offered = _capacity(after)
    as_devices = {name for name in backed(wanted) if offered.amounts.get(name, 0) <= 0}
    if offered.pods < 1 or any(
        amount > offered.amounts.get(name, 0) for name, amount in wanted.items() if name not in as_devices
    ):
        return False
    if before is None or as_devices:
        return True
    had = _capacity(before)
    return offered.pods > had.pods or any(
        offered.amounts.get(name, 0) > had.amounts.get(name, 0) for name in wanted
    )


def device_class_change_helps(pod: Pod, before: DeviceClass | None, after: DeviceClass) -> bool:
    """Helps if a device class backs another extended resource that the pod requests."""
    resource = after.spec.extended_resource_name or ""
    if before is not None and (before.spec.extended_resource_name or "") == resource:
        return False
    wanted = pod_requests(pod)
    return resource in wanted or (before is None and f"{IMPLICIT_PREFIX}{after.metadata.name}" in wanted)


def _capacity(node: Node) -> _Capacity:
    allocatable = node.status.allocatable
    return _Capacity(
        value(allocatable.get(PODS, "0")),
        {
            name: milli_value(quantity) if name == CPU else value(quantity)
            for name, quantity in allocatable.items()
        },
    )
