"""A queue that shares the cluster between tenants: the tenant with the least usage for its weight is next.

In: the same as the default queue, and from the cluster table every pod that is placed or finishes. Out:
the first pod of the tenant whose dominant share (its largest share of any resource, divided by its
weight) is smallest. The number of pods counts as a resource. The order changes with every placement, which
a static `less` cannot express.

Use it as it is (tenants are namespaces, all equal):

    kuberth up --queue kuberth.queue.fair_share:FairShareQueue

or in code, with tenants by label and weights:

    Scheduler(api, queue=fair_share(tenant_label="team", weights={"research": 2}))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.errors import ConfigError
from kuberth.framework.queued_pod import QueuedPod
from kuberth.queue.interface import QueueContext, QueueFactory
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.queue.sub_queues import OrderedSubQueue, SortValue

TenantOf = Callable[[Pod], str]

DEFAULT_WEIGHT: Final = 1.0
PODS: Final = "pods"
"""Every pod counts as one of these, in addition to its requests."""


def by_namespace(pod: Pod) -> str:
    return pod.metadata.namespace


def fair_share(
    *, tenant_label: str | None = None, weights: Mapping[str, float] | None = None
) -> QueueFactory:
    """A factory for `Scheduler(queue=...)`. Pods without the label belong to the tenant ""."""
    checked = _checked(weights)

    def by_label(pod: Pod) -> str:
        return pod.metadata.labels.get(tenant_label or "", "")

    return lambda context: FairShareQueue(
        context, tenant_of=by_label if tenant_label else by_namespace, weights=checked
    )


def _checked(weights: Mapping[str, float] | None) -> Mapping[str, float]:
    for tenant, weight in (weights or {}).items():
        if not weight > 0:
            raise ConfigError(f"the weight of tenant {tenant!r} is {weight!r}; it must be greater than zero")
    return dict(weights or {})


class Usage:
    """The usage of every tenant, updated as pods are placed and finish."""

    def __init__(self, cluster: ClusterTable, tenant_of: TenantOf, weights: Mapping[str, float]) -> None:
        self._cluster = cluster
        self._tenant_of = tenant_of
        self._weights = weights
        self._used: dict[str, dict[str, int]] = {}
        cluster.observe(self)

    def close(self) -> None:
        """Stop following the cluster table."""
        self._cluster.unobserve(self)

    def pod_placed(self, info: PodInfo) -> None:
        self._count(info, 1)

    def pod_removed(self, info: PodInfo) -> None:
        self._count(info, -1)

    def _count(self, info: PodInfo, sign: int) -> None:
        tenant = self._tenant_of(info.pod)
        used = self._used.setdefault(tenant, {})
        for resource, amount in {**info.request.amounts(), PODS: 1}.items():
            total = used.pop(resource, 0) + sign * amount
            if total:
                used[resource] = total
        if not used:
            del self._used[tenant]

    def capacity(self) -> dict[str, int]:
        """The allocatable amounts of all nodes together."""
        cluster = self._cluster
        totals = cluster.allocatable[:, : cluster.slots].sum(axis=1)
        capacity = {resource: int(totals[index]) for resource, index in cluster.resources.items()}
        capacity[PODS] = int(cluster.allowed_pods[: cluster.slots].sum())
        return capacity

    def share(self, tenant: str, capacity: Mapping[str, int]) -> float:
        """The tenant's dominant share of `capacity`, divided by its weight."""
        used = self._used.get(tenant, {})
        shares = (amount / capacity[name] for name, amount in used.items() if capacity.get(name, 0) > 0)
        return max(shares, default=0.0) / self._weights.get(tenant, DEFAULT_WEIGHT)


class FairShareSubQueue:
    """Pods in one line per tenant. Implements `kuberth.queue.sub_queues.SubQueue`."""

    def __init__(self, usage: Usage, *, tenant_of: TenantOf, sort_value: SortValue) -> None:
        self._usage = usage
        self._tenant_of = tenant_of
        self._sort_value = sort_value
        self._lines: dict[str, OrderedSubQueue] = {}
        self._tenants: dict[str, str] = {}

    def add(self, queued: QueuedPod) -> None:
        self.remove(queued.key)
        tenant = self._tenant_of(queued.pod)
        self._tenants[queued.key] = tenant
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = OrderedSubQueue(self._sort_value)
        line.add(queued)

    def pop(self) -> QueuedPod | None:
        """The first pod of the tenant with the smallest share; between equals, the pod that sorts first."""
        capacity = self._usage.capacity()
        best: tuple[float, object, str] | None = None
        for tenant, line in self._lines.items():
            candidate = (self._usage.share(tenant, capacity), line.first_value(), tenant)
            if best is None or candidate < best:
                best = candidate
        queued = None if best is None else self._lines[best[2]].peek()
        return None if queued is None else self.remove(queued.key)

    def remove(self, key: str) -> QueuedPod | None:
        tenant = self._tenants.pop(key, None)
        if tenant is None:
            return None
        line = self._lines[tenant]
        queued = line.remove(key)
        if not len(line):
            del self._lines[tenant]
        return queued

    def get(self, key: str) -> QueuedPod | None:
        tenant = self._tenants.get(key)
        return None if tenant is None else self._lines[tenant].get(key)

    def lines(self) -> Sequence[OrderedSubQueue]:
        """The line of every tenant that has pods here."""
        return tuple(self._lines.values())

    def __contains__(self, key: object) -> bool:
        return key in self._tenants

    def __len__(self) -> int:
        return len(self._tenants)

    def __iter__(self) -> Iterator[QueuedPod]:
        for line in self._lines.values():
            yield from line


class FairShareQueue(PriorityQueue):
    """The default queue in everything but the order in which pods are popped, from backoff too."""

    def __init__(
        self,
        context: QueueContext,
        *,
        tenant_of: TenantOf = by_namespace,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        usage = self.usage = Usage(context.cluster, tenant_of, _checked(weights))
        super().__init__(
            context,
            sub_queue=lambda sort_value: FairShareSubQueue(usage, tenant_of=tenant_of, sort_value=sort_value),
        )

    def close(self) -> None:
        """Stop counting what tenants have."""
        self.usage.close()
        super().close()
