"""Queueing hints of NodeResourcesFit: whether a change frees a resource that the pod requests.

In: a pod that the plugin rejected, and the old and new version of a pod or node. Out: Queue or Skip. Invalid
input (no object, another kind, invalid quantities) raises, which the queue treats as Queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kuberth.api.core import Node, Pod
from kuberth.api.pod_resources import CPU, PODS, compute_pod_request, pod_requests
from kuberth.api.quantity import milli_value, value
from kuberth.api.resource import DeviceClass
from kuberth.framework.cluster_events import Hint
from kuberth.framework.hint_objects import before_and_after, expect
from kuberth.plugins.devices.classes import IMPLICIT_PREFIX
from kuberth.plugins.resources.requests import Amounts, positive_amounts, request_of_pending

_NOTHING: Final[Amounts] = {}


class _Capacity(NamedTuple):
    pods: int
    amounts: Amounts


def after_pod_event(pod: Pod, old: object, new: object) -> Hint:
    """Helps if a pod was deleted or its requests were reduced."""
    before, after = before_and_after(Pod, old, new)
    if after is None:
        if before is None:
            raise ValueError("a pod event without a pod")
        # A nominated pod held resources on its node too.
        had_node = before.spec.node_name or before.status.nominated_node_name
        return Hint.QUEUE if had_node else Hint.SKIP
    if after.metadata.uid == pod.metadata.uid:
        return Hint.QUEUE
    if before is None or not after.spec.node_name:
        return Hint.SKIP
    had, has = positive_amounts(compute_pod_request(before)), positive_amounts(compute_pod_request(after))
    freed = {name for name, amount in had.items() if amount > has.get(name, 0)}
    if not freed:
        return Hint.SKIP
    wanted = positive_amounts(compute_pod_request(pod))
    return Hint.SKIP if freed.isdisjoint(wanted) else Hint.QUEUE


def after_node_event(
    pod: Pod,
    old: object,
    new: object,
    *,
    pod_level: bool,
    backed: Callable[[Iterable[str]], frozenset[str]] = lambda _resources: frozenset(),
) -> Hint:
    """Helps if a new or resized node has what the pod lacked, and the pod fits on the empty node.

    `backed`: the resources backed by devices, if the node does not offer them itself.
    """
    before, after = before_and_after(Node, old, new)
    if after is None:
        return Hint.SKIP
    wanted = positive_amounts(request_of_pending(pod, pod_level=pod_level))
    offered = _capacity(after)
    as_devices = {name for name in backed(wanted) if offered.amounts.get(name, 0) <= 0}
    if offered.pods < 1 or any(
        amount > offered.amounts.get(name, 0) for name, amount in wanted.items() if name not in as_devices
    ):
        return Hint.SKIP
    if before is None:
        return Hint.QUEUE
    had = _capacity(before)
    gained = (
        bool(as_devices)
        or offered.pods > had.pods
        or any(offered.amounts.get(name, 0) > had.amounts.get(name, 0) for name in wanted)
    )
    return Hint.QUEUE if gained else Hint.SKIP


def after_device_class_event(pod: Pod, old: object, new: object) -> Hint:
    """Helps if a device class backs another extended resource that the pod requests."""
    before, after = before_and_after(DeviceClass, old, new)
    changed = expect(DeviceClass, after)
    resource = changed.spec.extended_resource_name
    if before is not None and (before.spec.extended_resource_name or "") == (resource or ""):
        return Hint.SKIP
    wanted = pod_requests(pod)
    if before is None and f"{IMPLICIT_PREFIX}{changed.metadata.name}" in wanted:
        return Hint.QUEUE
    return Hint.QUEUE if resource is not None and resource in wanted else Hint.SKIP


def _capacity(node: Node) -> _Capacity:
    allocatable = node.status.allocatable
    return _Capacity(
        value(allocatable.get(PODS, "0")),
        {
            name: milli_value(quantity) if name == CPU else value(quantity)
            for name, quantity in allocatable.items()
        },
    )
