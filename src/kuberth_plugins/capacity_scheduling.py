"""CapacityScheduling: namespaces share a cluster by the ElasticQuotas of scheduler-plugins.

In: ElasticQuotas (`scheduling.x-k8s.io/v1alpha1`), one per namespace, and pods. Out: no namespace exceeds its
`max`, all together do not exceed the sum of all `min`, and preemption gives a namespace its `min` back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kuberth.api import PlainObject, Pod, PodDisruptionBudget, register_kind
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework import (
    Action,
    ClusterEvent,
    CycleState,
    DependsOn,
    Diagnosis,
    EnqueueExtensions,
    EventWithHint,
    Handle,
    Hint,
    Inputs,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    Resource,
    Status,
)
from kuberth_plugins.amounts import amounts_of, requests_of
from kuberth_plugins.quota_preemption import Evictions, QuotaPreemption

Amounts = Mapping[str, int]


def elastic_quota_kind() -> type[PlainObject]:
    """The ElasticQuota of scheduler-plugins."""
    return register_kind(
        "ElasticQuota", group="scheduling.x-k8s.io", version="v1alpha1", plural="elasticquotas"
    )


class Quota(NamedTuple):
    """The guaranteed and the maximum amounts of a namespace. A missing resource is not limited."""

    min: Amounts
    max: Amounts


class Shares:
    """The quotas of all namespaces and their usage, in which pods can be moved to evaluate a decision."""

    def __init__(self, quotas: Mapping[str, Quota], used: Mapping[str, Amounts]) -> None:
        self.quotas = quotas
        self.used = {namespace: Counter(used.get(namespace, {})) for namespace in quotas}

    def add(self, info: PodInfo, sign: int = 1) -> None:
        if (used := self.used.get(info.namespace)) is not None:
            for resource, amount in requests_of(info.request).items():
                used[resource] += sign * amount

    def exceeds(self, namespace: str, bound: Amounts) -> bool:
        used = self.used[namespace]
        return any(used[resource] > amount for resource, amount in bound.items())

    def is_over_min(self, namespace: str) -> bool:
        return self.exceeds(namespace, self.quotas[namespace].min)

    def is_over_max(self, namespace: str) -> bool:
        return self.exceeds(namespace, self.quotas[namespace].max)

    def is_over_all(self) -> bool:
        """Whether all namespaces with a quota together use more of a resource than they are guaranteed."""
        resources = {resource for quota in self.quotas.values() for resource in quota.min}
        return any(
            sum(used[resource] for used in self.used.values())
            > sum(quota.min.get(resource, 0) for quota in self.quotas.values())
            for resource in resources
        )


class Usage:
    """The requests of the placed pods of every namespace; follows the cluster table from `begin` on."""

    def __init__(self, cluster: ClusterTable) -> None:
        self._cluster = cluster
        self._follows = False
        self._used: dict[str, Counter[str]] = {}

    def begin(self) -> None:
        self._used = self._count()
        self._cluster.observe(self)
        self._follows = True

    def end(self) -> None:
        self._cluster.unobserve(self)

    def by_namespace(self) -> Mapping[str, Amounts]:
        return self._used if self._follows else self._count()

    def pod_placed(self, info: PodInfo) -> None:
        self._used.setdefault(info.namespace, Counter()).update(requests_of(info.request))

    def pod_removed(self, info: PodInfo) -> None:
        self._used.setdefault(info.namespace, Counter()).subtract(requests_of(info.request))

    def _count(self) -> dict[str, Counter[str]]:
        used: dict[str, Counter[str]] = {}
        for info in self._cluster.placed_pods():
            used.setdefault(info.namespace, Counter()).update(requests_of(info.request))
        return used


class CapacityScheduling(PreFilterPlugin, PostFilterPlugin, EnqueueExtensions):
    """Elastic quotas, with scheduler-plugins' name for the plugin."""

    name = "CapacityScheduling"
    inputs = Inputs({"metadata.namespace"}, pre_filter=DependsOn.ANYTHING, post_filter=DependsOn.ANYTHING)

    def __init__(self, args: object, handle: Handle) -> None:
        self._handle = handle
        self._quotas = handle.stores.of(elastic_quota_kind())
        self._parsed: Mapping[str, Quota] = {}
        self._parsed_version = -1
        self._usage = Usage(handle.cluster)
        evictions = handle.shared.of(Evictions, lambda: Evictions(handle, plugin=self.name))
        self._preemption = QuotaPreemption(handle, evictions, handle.stores.of(PodDisruptionBudget))

    def start(self) -> None:
        self._usage.begin()

    def close(self) -> None:
        self._usage.end()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        namespace = pod.metadata.namespace
        shares = self.shares()
        if namespace not in shares.quotas:
            return None
        info = PodInfo(pod) if state.pod_info is None else state.pod_info
        for other in self.nominated_before(info, shares):
            shares.add(other)
        shares.add(info)
        if shares.is_over_max(namespace):
            return Status.unschedulable(f"the ElasticQuota of namespace {namespace} would exceed its max")
        if shares.is_over_all():
            return Status.unschedulable("all ElasticQuotas together would exceed the sum of their min")
        return None

    def post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        info = PodInfo(pod) if state.pod_info is None else state.pod_info
        shares = self.shares()
        ahead = self.nominated_before(info, shares) if pod.metadata.namespace in shares.quotas else []
        return self._preemption.preempt(state, info, diagnosis, shares, ahead)

    def shares(self) -> Shares:
        """The quotas and their current usage."""
        if self._parsed_version != self._quotas.version:
            self._parsed_version = self._quotas.version
            self._parsed = {
                each.metadata.namespace: Quota(
                    *(amounts_of(each.get("spec", {}).get(name)) for name in Quota._fields)
                )
                for each in self._quotas
            }
        return Shares(self._parsed, self._usage.by_namespace() if self._parsed else {})

    def nominated_before(self, info: PodInfo, shares: Shares) -> list[PodInfo]:
        """Nominated pods for which the pod must leave resources.

        Those of its own namespace with at least its priority, and those of others within their guarantee.
        """
        return [other for other in self._nominated() if _goes_before(other, info, shares)]

    def _nominated(self) -> Iterator[PodInfo]:
        nominator = self._handle.nominator
        for node_name in nominator.nominated_nodes():
            yield from nominator.nominated_on(node_name)

    def events_to_register(self) -> Iterable[EventWithHint]:
        quotas = ClusterEvent("elasticquotas.v1alpha1.scheduling.x-k8s.io", Action.ALL)
        return [
            EventWithHint(quotas, None),
            EventWithHint(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._after_deletion),
        ]

    def _after_deletion(self, pod: Pod, old: object, new: object) -> Hint:
        """A pod that left its node helps if a quota counted it."""
        is_counted = isinstance(old, Pod) and any(self._quotas.in_namespace(old.metadata.namespace))
        return Hint.QUEUE if is_counted else Hint.SKIP


def _goes_before(other: PodInfo, info: PodInfo, shares: Shares) -> bool:
    if other.uid == info.uid or other.namespace not in shares.quotas:
        return False
    if other.namespace == info.namespace:
        return other.priority >= info.priority
    return not shares.is_over_min(other.namespace)
