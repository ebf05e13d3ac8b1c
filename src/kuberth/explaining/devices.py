"""Devices for claims and extended resources: how many match, how many are free, which claims have others.

In: a pod and the cluster of an evaluator. Out: per node the `DeviceShortage`s of its requests. Constraints,
counters and taints are not considered: if enough devices are free, the plugin's own reason is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kuberth.api.core import ContainerExtendedResourceRequest, Pod
from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates
from kuberth.evaluation import Evaluator
from kuberth.informers.store import object_key
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.features import DeviceFeatures
from kuberth.plugins.devices.sites import DeviceCandidate, Sites
from kuberth.plugins.devices.slices import DeviceId
from kuberth.plugins.devices.usage import allocated_devices
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError, WantedClaim, WantedRequest
from kuberth.plugins.dynamic_resources.extended import (
    backed_resources,
    requests_for,
    special_claim,
    with_requests,
)


class Holder(NamedTuple):
    """A claim that has some of the devices."""

    claim: str
    """namespace/name."""
    pods: tuple[Pod, ...]
    """The pods for which it is reserved."""
    devices: int

    @property
    def text(self) -> str:
        pods = ", ".join(map(object_key, self.pods))
        return f"claim {self.claim} ({f'pod {pods}' if pods else 'no pod'})"


@dataclass(frozen=True, slots=True)
class DeviceShortage:
    """A request of a claim, or for an extended resource, for which a node has too few free devices."""

    claim: str
    """namespace/name; "" for an extended resource."""
    request: str
    needed: int
    matching: int
    """The number of matching devices of the node."""
    free: int
    """The number of matching devices that no claim has."""
    holders: tuple[Holder, ...]
    """The claims that hold the others, those with most devices first."""
    backing: ContainerExtendedResourceRequest | None = None
    """The extended resource and its container; None for a request of a claim."""

    @property
    def subject(self) -> str:
        """What the devices are for."""
        if self.backing is None:
            return f"request {self.request} of ResourceClaim {self.claim}"
        return f"{self.backing.resource_name} of container {self.backing.container_name}"


class DeviceCounts:
    """Counts devices for the claims of one pod."""

    def __init__(self, evaluator: Evaluator, pod: Pod, gates: FeatureGates) -> None:
        stores, features = evaluator.stores, DeviceFeatures.of(gates)
        self._stores = stores
        self._sites = Sites(stores.of(ResourceSlice), evaluator.cluster, features=features)
        self._sites.refresh()
        self._holders: dict[DeviceId, list[ResourceClaim]] = {}
        for claim in stores.of(ResourceClaim):
            if claim.status.allocation is not None:
                for take in allocated_devices(claim.status.allocation, shares=features.has_shares):
                    self._holders.setdefault(take.device, []).append(claim)
        self._pod, self._cluster, self._features = pod, evaluator.cluster, features
        self._classes = KnownClasses(stores.of(DeviceClass))
        has_extended = gates.enabled("DRAExtendedResource")
        self._backed = backed_resources(PodInfo(pod).request.scalars, self._classes) if has_extended else {}
        self._wanted = [(object_key(claim), self._parse(claim)) for claim in _unallocated(pod, evaluator)]
        self._known: dict[tuple[int, tuple[str, ...]], tuple[DeviceShortage, ...]] = {}

    def shortages(self, row: int) -> tuple[DeviceShortage, ...]:
        """The requests for which the node of this row has too few free devices."""
        site, node = int(self._sites.of_row[row]), NodeRow(self._cluster, row)
        # Extended resources that the node does not offer itself are backed by devices.
        backed = tuple(name for name in self._backed if not node.allocatable(name))
        if (site, backed) not in self._known:
            self._known[site, backed] = tuple(self._site_shortages(site, backed))
        return self._known[site, backed]

    def _parse(self, claim: ResourceClaim) -> WantedClaim:
        return WantedClaim(claim.spec, 0, self._classes, first_key=0, features=self._features)

    def _site_shortages(self, site: int, backed: Iterable[str]) -> Iterator[DeviceShortage]:
        requests, mappings = requests_for(self._pod, backed, self._classes)
        special = self._parse(with_requests(special_claim(self._pod), requests))
        backing = {mapping.request_name: mapping for mapping in reversed(mappings)}
        for key, claim in (*self._wanted, ("", special)):
            for alternatives in claim.requests:
                found = [
                    self._count(key, request, site, None if key else backing[request.name])
                    for request in alternatives
                ]
                # One alternative suffices: the one with the smallest shortage is reported.
                if found and all(each.free < each.needed for each in found):
                    yield min(found, key=lambda each: each.needed - each.free)

    def _count(
        self, claim: str, request: WantedRequest, site: int, backing: ContainerExtendedResourceRequest | None
    ) -> DeviceShortage:
        matching = [
            each.device.id for each in self._sites.sites[site].candidates if _is_selected(request, each)
        ]
        held = [device for device in matching if device in self._holders]
        holders = [holder for device in held for holder in self._holders[device]]
        claims = {object_key(holder): holder for holder in holders}
        by_claim = Counter(map(object_key, holders))
        return DeviceShortage(
            claim,
            request.sub_name,
            needed=max(1, len(matching)) if request.is_all else request.count,
            matching=len(matching),
            free=len(matching) - len(held),
            holders=tuple(
                Holder(key, self._pods_of(claims[key]), by_claim[key])
                for key in sorted(by_claim, key=lambda key: (-by_claim[key], key))
            ),
            backing=backing,
        )

    def _pods_of(self, claim: ResourceClaim) -> tuple[Pod, ...]:
        found = [
            self._stores.of(Pod).get(consumer.name, namespace=claim.metadata.namespace)
            for consumer in claim.status.reserved_for
            if consumer.resource == "pods"
        ]
        return tuple(pod for pod in found if pod is not None)


def _unallocated(pod: Pod, evaluator: Evaluator) -> Iterator[ResourceClaim]:
    created = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    for reference in pod.spec.resource_claims:
        name = reference.resource_claim_name or created.get(reference.name)
        claim = (
            evaluator.stores.of(ResourceClaim).get(name, namespace=pod.metadata.namespace) if name else None
        )
        if claim is not None and claim.status.allocation is None:
            yield claim


def _is_selected(request: WantedRequest, candidate: DeviceCandidate) -> bool:
    if request.problem is not None:
        return False
    try:
        return request.selects(candidate)
    except AllocationError:
        return False
