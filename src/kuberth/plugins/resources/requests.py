"""A pod's requests in the forms used for filtering and scoring.

In: a pod, usually with its `PodInfo`, whose values are reused where they are the same. Out: integers by
resource: thousandths of a core for cpu, bytes or units for all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kuberth.api.core import Pod
from kuberth.api.pod_resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NON_MISSING_DEFAULTS,
    PodRequest,
    Requests,
    compute_pod_request,
    is_scalar_resource,
    pod_requests,
)
from kuberth.cluster.pod_info import PodInfo

REQUEST_FIELDS: Final = frozenset(
    {
        "spec.containers",
        "spec.init_containers",
        "spec.overhead",
        "spec.resources",
        "status.container_statuses",
        "status.init_container_statuses",
        "status.resources",
        "info.problems",
    }
)
"""The fields of a pod that requests are computed from."""

NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)

Amounts = Mapping[str, int]


def is_counted(resource: str) -> bool:
    """Whether nodes have a column for the resource; others, like `pods`, are not compared."""
    return resource in NATIVE or is_scalar_resource(resource)


def positive_amounts(request: PodRequest) -> Amounts:
    """The pod's real requests: a request of zero counts as absent."""
    return {name: amount for name, amount in request.amounts().items() if amount > 0}


def request_of_pending(pod: Pod, *, info: PodInfo | None = None, pod_level: bool = True) -> PodRequest:
    """The request of a pod without a node: resources in its status do not count.

    Raises QuantityError for an invalid request.
    """
    if info is not None and not info.problems and pod_level and not _has_reported_resources(pod):
        return info.request
    return compute_pod_request(pod, use_status=False, pod_level_resources=pod_level)


def amounts_for_fit_score(pod: Pod, info: PodInfo) -> Amounts:
    """Requests as NodeResourcesFit scores them.

    A container without CPU or memory requests counts with the scoring defaults. As in upstream's scorer,
    pod-level requests do not count here, although they do on the node once the pod is placed.
    """
    if info.problems or pod.spec.resources is not None or _has_reported_resources(pod):
        return _whole_numbers(
            pod_requests(
                pod, use_status=False, pod_level_resources=False, container_defaults=NON_MISSING_DEFAULTS
            )
        )
    request = info.request
    return {
        CPU: request.nonzero_milli_cpu,
        MEMORY: request.nonzero_memory,
        EPHEMERAL_STORAGE: request.ephemeral_storage,
        **request.scalars,
    }


def amounts_for_balance(pod: Pod, info: PodInfo, *, only_counted: bool) -> Amounts:
    """Requests as NodeResourcesBalancedAllocation scores them: the real ones, as the node will count them.

    Without `only_counted`, the result includes resources that no node counts.
    """
    if info.problems or not only_counted:
        return _whole_numbers(pod_requests(pod))
    return info.request.amounts()


def _whole_numbers(requests: Requests) -> Amounts:
    return {
        name: amount.milli_value() if name == CPU else amount.value() for name, amount in requests.items()
    }


def _has_reported_resources(pod: Pod) -> bool:
    status = pod.status
    return bool(status.container_statuses or status.init_container_statuses) or status.resources is not None
