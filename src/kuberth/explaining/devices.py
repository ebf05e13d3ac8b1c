"""Devices for a pod's claims: how many of a node match, how many are free, and which claims hold the others.

In: a pod and the cluster of an evaluator. Out: per node the `DeviceShortage`s of its requests. Constraints,
counters and taints are not considered: if enough devices are free, the plugin's own reason is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kuberth.api.core import Pod
from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from kuberth.config import FeatureGates
from kuberth.evaluation import Evaluator
from kuberth.informers.store import object_key
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.devices.features import DeviceFeatures
from kuberth.plugins.devices.sites import DeviceCandidate, Sites
from kuberth.plugins.devices.slices import DeviceId
from kuberth.plugins.devices.usage import takes_of
from kuberth.plugins.dynamic_resources.allocator.candidates import selects
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError, WantedClaim, WantedRequest


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
    """A request of a claim for which a node has too few free devices."""

    claim: str
    """namespace/name."""
    request: str
    needed: int
    matching: int
    """The number of matching devices of the node."""
    free: int
    """The number of matching devices that no claim has."""
    holders: tuple[Holder, ...]
    """The claims that hold the others, those with most devices first."""


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
                for take in takes_of(claim.status.allocation, shares=features.has_shares):
                    self._holders.setdefault(take.device, []).append(claim)
        classes = KnownClasses(stores.of(DeviceClass))
        self._wanted = [
            (object_key(claim), WantedClaim(claim.spec, 0, classes, first_key=0, features=features))
            for claim in _unallocated(pod, evaluator)
        ]
        self._known: dict[int, tuple[DeviceShortage, ...]] = {}

    def shortages(self, row: int) -> tuple[DeviceShortage, ...]:
        """The requests for which the node of this row has too few free devices."""
        site = int(self._sites.of_row[row])
        if site not in self._known:
            self._known[site] = tuple(self._of_site(site))
        return self._known[site]

    def _of_site(self, site: int) -> Iterator[DeviceShortage]:
        for key, claim in self._wanted:
            for alternatives in claim.requests:
                found = [self._counted(key, request, site) for request in alternatives]
                # One alternative suffices: the one with the smallest shortage is reported.
                if found and all(each.free < each.needed for each in found):
                    yield min(found, key=lambda each: each.needed - each.free)

    def _counted(self, claim: str, request: WantedRequest, site: int) -> DeviceShortage:
        matching = [
            each.device.id for each in self._sites.sites[site].candidates if _is_selected(request, each)
        ]
        held = [device for device in matching if device in self._holders]
        by_claim: dict[str, int] = {}
        claims: dict[str, ResourceClaim] = {}
        for device in held:
            for holder in self._holders[device]:
                key = object_key(holder)
                claims[key] = holder
                by_claim[key] = by_claim.get(key, 0) + 1
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
        return selects(request, candidate)
    except AllocationError:
        return False
