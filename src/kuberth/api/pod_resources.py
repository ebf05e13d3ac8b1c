"""Sums a pod's requests: containers, sidecars, init containers and overhead.

In: a pod. Out: exact quantities by resource name (`pod_requests`), or the integers that the cluster's
columns add up (`compute_pod_request`). The keyword flags are feature gates, with their defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

import msgspec

from kuberth.api.pods import ContainerStatus, Pod
from kuberth.api.quantity import Quantity, milli_value, parse, value
from kuberth.api.references import ResourceList
from kuberth.api.selectors.labels import is_label_key

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"
SIDECAR = "Always"
"""The restart policy of an init container that keeps running beside the following ones."""

# What a container without a request for CPU or memory counts for in scoring.
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
NON_MISSING_DEFAULTS: Mapping[str, Quantity] = MappingProxyType(
    {CPU: Quantity(DEFAULT_MILLI_CPU, -3), MEMORY: Quantity(DEFAULT_MEMORY)}
)

Requests = dict[str, Quantity]
_ZERO = Quantity(0)
_NO_SCALARS: Mapping[str, int] = MappingProxyType({})
_NO_DEFAULTS: Mapping[str, Quantity] = MappingProxyType({})


class PodRequest(msgspec.Struct, frozen=True):
    """A pod's requests in the units of the cluster table's columns.

    The `nonzero_` amounts include the scoring defaults of containers without a request.
    """

    milli_cpu: int
    """Thousandths of a core."""
    memory: int
    """Bytes."""
    ephemeral_storage: int
    """Bytes."""
    scalars: Mapping[str, int]
    """Any other resource by its name, in units (bytes for huge pages)."""
    nonzero_milli_cpu: int
    """Milli-CPU as in `milli_cpu`, with 100 for each container without a request."""
    nonzero_memory: int
    """Bytes as in `memory`, with 200 MiB for each container without a request."""

    def amounts(self) -> dict[str, int]:
        """Return the requests by resource name, without the scoring defaults."""
        return {
            CPU: self.milli_cpu,
            MEMORY: self.memory,
            EPHEMERAL_STORAGE: self.ephemeral_storage,
            **self.scalars,
        }


def compute_pod_request(
    pod: Pod,
    *,
    use_status: bool = True,
    pod_level_resources: bool = True,
    in_place_pod_level_resize: bool = True,
    with_devices: bool = False,
) -> PodRequest:
    """Compute the requests that a pod adds to the total of its node."""
    spec, status = pod.spec, pod.status
    if (
        len(spec.containers) == 1
        and not spec.init_containers
        and spec.resources is None
        and not spec.overhead
        and not (use_status and status.container_statuses)
        and not (with_devices and status.node_allocatable_resource_claim_statuses)
    ):
        return _plain_request(spec.containers[0].resources.requests)

    def requests_with(defaults: Mapping[str, Quantity]) -> Requests:
        return pod_requests(
            pod,
            use_status=use_status,
            pod_level_resources=pod_level_resources,
            in_place_pod_level_resize=in_place_pod_level_resize,
            with_devices=with_devices,
            container_defaults=defaults,
        )

    requests = requests_with(_NO_DEFAULTS)
    defaults = NON_MISSING_DEFAULTS
    if pod_level_resources and has_pod_level_requests(pod):
        # A request of the pod itself covers all containers: defaults only apply to other resources.
        defaults = {name: amount for name, amount in defaults.items() if name not in requests}
    nonzero = requests_with(defaults) if defaults else requests
    return PodRequest(
        requests.get(CPU, _ZERO).milli_value(),
        requests.get(MEMORY, _ZERO).value(),
        requests.get(EPHEMERAL_STORAGE, _ZERO).value(),
        {name: amount.value() for name, amount in requests.items() if is_scalar_resource(name)}
        or _NO_SCALARS,
        nonzero.get(CPU, _ZERO).milli_value(),
        nonzero.get(MEMORY, _ZERO).value(),
    )


def _plain_request(requests: ResourceList) -> PodRequest:
    """The request of a pod with just one container: each quantity is rounded separately."""
    milli_cpu = memory = ephemeral_storage = 0
    nonzero_milli_cpu, nonzero_memory = DEFAULT_MILLI_CPU, DEFAULT_MEMORY
    scalars: dict[str, int] | None = None
    for name, amount in requests.items():
        if name == CPU:
            milli_cpu = nonzero_milli_cpu = milli_value(amount)
        elif name == MEMORY:
            memory = nonzero_memory = value(amount)
        elif name == EPHEMERAL_STORAGE:
            ephemeral_storage = value(amount)
        elif is_scalar_resource(name):
            if scalars is None:
                scalars = {}
            scalars[name] = value(amount)
    return PodRequest(
        milli_cpu, memory, ephemeral_storage, scalars or _NO_SCALARS, nonzero_milli_cpu, nonzero_memory
    )


def pod_requests(
    pod: Pod,
    *,
    use_status: bool = True,
    pod_level_resources: bool = True,
    in_place_pod_level_resize: bool = True,
    exclude_overhead: bool = False,
    with_devices: bool = False,
    container_defaults: Mapping[str, Quantity] = _NO_DEFAULTS,
) -> Requests:
    """Exact requests by resource name.

    `use_status` (gate InPlacePodVerticalScaling): if the kubelet reports a larger allocated amount than the
    spec requests, that amount counts. `with_devices` (gate DRANodeAllocatableResources) adds the node
    resources that the pod's devices use. `container_defaults` replace missing requests of containers.
    """
    requests = _container_requests(pod, use_status=use_status, defaults=container_defaults)
    if with_devices:
        for claim in pod.status.node_allocatable_resource_claim_statuses:
            add_amounts(requests, parse_amounts(claim.resources))
    if pod_level_resources and has_pod_level_requests(pod):
        assert pod.spec.resources is not None
        requested: Mapping[str, Quantity] = parse_amounts(pod.spec.resources.requests)
        effective = requested
        if in_place_pod_level_resize and use_status and pod.status.resources is not None:
            effective = _effective(
                pod, requested, pod.status.resources.requests, pod.status.allocated_resources
            )
        for name in requested:
            if is_pod_level_resource(name):
                requests[name] = effective.get(name, _ZERO)
    if not exclude_overhead and pod.spec.overhead:
        add_amounts(requests, parse_amounts(pod.spec.overhead))
    return requests


def _container_requests(pod: Pod, *, use_status: bool, defaults: Mapping[str, Quantity]) -> Requests:
    statuses: dict[str, ContainerStatus] = {}
    if use_status:
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            statuses[status.name] = status

    def requests_of(name: str, requests: ResourceList, *, resizable: bool) -> Mapping[str, Quantity]:
        requested: Mapping[str, Quantity] = parse_amounts(requests)
        status = statuses.get(name) if resizable else None
        if status is not None and status.resources is not None:
            requested = _effective(pod, requested, status.resources.requests, status.allocated_resources)
        return {**defaults, **requested} if defaults else requested

    together = (
        requests_of(each.name, each.resources.requests, resizable=True) for each in pod.spec.containers
    )
    initial = []
    for each in pod.spec.init_containers:
        is_sidecar = each.restart_policy == SIDECAR
        initial.append((is_sidecar, requests_of(each.name, each.resources.requests, resizable=is_sidecar)))
    return sum_containers(together, initial)


def sum_containers(
    together: Iterable[Mapping[str, Quantity]], initial: Iterable[tuple[bool, Mapping[str, Quantity]]]
) -> Requests:
    """The sum of the containers' requests; `initial` has a flag for init containers that are sidecars.

    Containers run together; init containers run one by one, beside the sidecars started before them.
    """
    total: Requests = {}
    for requested in together:
        add_amounts(total, requested)
    sidecars: Requests = {}
    peak: Requests = {}
    for is_sidecar, requested in initial:
        if is_sidecar:
            add_amounts(total, requested)
            add_amounts(sidecars, requested)
            _raise_to(peak, sidecars)
        else:
            during = dict(requested)
            add_amounts(during, sidecars)
            _raise_to(peak, during)
    _raise_to(total, peak)
    return total


def _effective(
    pod: Pod, requested: Mapping[str, Quantity], actuated: ResourceList, allocated: ResourceList
) -> Requests:
    """During a resize, the larger of the desired and the actual amount counts, unless it is infeasible."""
    effective: Requests = {} if is_resize_infeasible(pod) else dict(requested)
    _raise_to(effective, parse_amounts(actuated))
    _raise_to(effective, parse_amounts(allocated))
    return effective


def parse_amounts(resources: ResourceList) -> Requests:
    return {name: parse(amount) for name, amount in resources.items()}


def add_amounts(total: Requests, amounts: Mapping[str, Quantity]) -> None:
    for name, amount in amounts.items():
        had = total.get(name)
        total[name] = amount if had is None else had + amount


def _raise_to(total: Requests, amounts: Mapping[str, Quantity]) -> None:
    for name, amount in amounts.items():
        had = total.get(name)
        if had is None or amount > had:
            total[name] = amount


def has_pod_level_requests(pod: Pod) -> bool:
    """Whether the pod itself has a request for a resource that is allowed at pod level."""
    resources = pod.spec.resources
    return resources is not None and any(map(is_pod_level_resource, resources.requests))


def is_pod_level_resource(name: str) -> bool:
    """Whether a pod can request the resource at pod level: CPU, memory and huge pages."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


def is_resize_infeasible(pod: Pod) -> bool:
    """Whether the kubelet reports that the pending resize can never be granted."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


@lru_cache(maxsize=4096)
def is_extended_resource(name: str) -> bool:
    """Whether it is a resource outside kubernetes.io, such as nvidia.com/gpu."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_label_key(f"requests.{name}")


@lru_cache(maxsize=4096)
def is_scalar_resource(name: str) -> bool:
    """Whether the scheduler counts the resource in addition to CPU, memory and ephemeral storage."""
    return (
        is_extended_resource(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


def pod_priority(pod: Pod) -> int:
    """The pod's priority; 0 if it has none."""
    return pod.spec.priority or 0
