"""The state of one pod's cycle: its claims, and the devices of nodes for those that are not allocated.

In: claims found at PreFilter. Out: codes and scores over views of nodes, and the allocations for the chosen
node. Nodes are distinguished by their site and by which of the pod's extended resources they offer themselves
(`Variant`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.api.resource import (
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kuberth.api.selectors import CompiledNodeSelector
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.selection import everywhere, nowhere
from kuberth.plugins.devices.classes import KnownClasses
from kuberth.plugins.dynamic_resources.allocator.results import allocations
from kuberth.plugins.dynamic_resources.extended import Mappings, requests_for, with_requests
from kuberth.plugins.dynamic_resources.node_resources import Footprint
from kuberth.plugins.dynamic_resources.site_results import (
    FIRST_SCORE,
    SearchBudget,
    SiteResults,
    SiteResultsCache,
)


class Variant(NamedTuple):
    """The demand on nodes that offer the same of the pod's extended resources."""

    results: SiteResults | None
    """None: no devices are needed."""
    special: ResourceClaim | None
    """The claim for extended resources, with requests."""
    mappings: Mappings


@dataclass(slots=True)
class Cycle:
    """The state of one cycle, from PreFilter to PreBind."""

    pod: Pod
    results_cache: SiteResultsCache
    claims: list[ResourceClaim]
    """The pod's own claims, and the one for extended resources last; replaced as they are written."""
    special: int | None
    """The index of the claim for extended resources."""
    selectors: Mapping[int, CompiledNodeSelector]
    """The nodes that can use each allocated claim."""
    to_allocate: Sequence[int]
    budget: SearchBudget
    """The remaining search budget of this attempt."""
    backed: Mapping[str, int] = field(default_factory=dict)
    """The extended resources that could be backed by devices."""
    variants: dict[int, Variant] = field(default_factory=dict)
    first_special_uid: str = ""
    node_name: str = ""
    allocations: dict[int, AllocationResult] = field(default_factory=dict)
    """Decided at Reserve, written at PreBind."""
    shared: dict[int, AllocationResult] = field(default_factory=dict)
    """Allocations of another pod of the group in the same attempt; the first pod writes them."""
    pending: set[str] = field(default_factory=set)
    """UIDs of the claims with pending allocations for this pod."""
    mappings: Mappings = ()
    """The variant of the chosen node."""
    created: ResourceClaim | None = None
    """The claim for extended resources to be created."""
    users: Mapping[int, ResourceClaimConsumerReference] = field(default_factory=dict)
    """The consumer of claims if the pod has a group: the pod, or the group."""
    names: Mapping[str, str] = field(default_factory=dict)
    """UIDs of the pod's own claims, by the names that containers call them."""
    footprints: dict[tuple[int, int], Footprint] = field(default_factory=dict)
    """The pod's requests including those of devices, by variant and devices."""
    has_patched_status: bool = False
    """Whether the pod's status may list the node resources of its devices."""

    @property
    def user_claims(self) -> Sequence[ResourceClaim]:
        return self.claims if self.special is None else self.claims[: self.special]

    def results(self) -> Iterator[DeviceRequestAllocationResult]:
        """The devices of all allocated claims."""
        for claim in self.claims:
            if claim.status.allocation is not None:
                yield from claim.status.allocation.devices.results

    @property
    def _classes(self) -> KnownClasses:
        return self.results_cache.inventory.classes

    def variant(self, bits: int) -> Variant:
        """The demand for a bit set of backed resources that nodes do not offer."""
        known = self.variants.get(bits)
        if known is None:
            known = self.variants[bits] = self._variant(bits)
        return known

    def _variant(self, bits: int) -> Variant:
        if not self.to_allocate:
            return Variant(None, None, ())
        special: ResourceClaim | None = None
        mappings: Mappings = ()
        if self.special is not None:
            missing = [name for place, name in enumerate(self.backed) if bits >> place & 1]
            if not missing and not self.user_claims:
                return Variant(None, None, ())
            if self.claims[self.special].status.allocation is None:
                requests, mappings = requests_for(self.pod, missing, self._classes)
                special = with_requests(self.claims[self.special], requests)
        specs = [
            special.spec if special is not None and index == self.special else self.claims[index].spec
            for index in self.to_allocate
        ]
        return Variant(self.results_cache.of(specs), special, mappings)

    def on_node(self, node: NodeRow) -> tuple[int, Variant, int]:
        """The bit set and the variant of a node, whose devices are searched, and the index of its site."""
        bits = int(self.bits(node.alone)[0])
        variant, site = self.variant(bits), int(self.results_cache.inventory.sites.of_row[node.row])
        if variant.results is not None:
            variant.results.update(np.array([site], np.int64), self.budget)
        return bits, variant, site

    def demanded_claims(self, variant: Variant) -> Sequence[ResourceClaim]:
        """The claims of the variant's demand."""
        return [
            variant.special if variant.special is not None and index == self.special else self.claims[index]
            for index in self.to_allocate
        ]

    def bits(self, nodes: Nodes) -> NDArray[np.int64]:
        """int64[position]: the bit set of backed resources that nodes do not offer themselves."""
        bits = np.zeros(len(nodes), np.int64)
        for place, name in enumerate(self.backed):
            if self._classes.behind(name) is not None:
                bits |= _lacks(nodes, name).astype(np.int64) << place
        return bits

    def cannot_fit(self, nodes: Nodes) -> Mask:
        """Nodes that lack a resource without a device class."""
        mask = nowhere(nodes)
        for name in self.backed:
            if self._classes.behind(name) is None:
                for position in np.flatnonzero(_lacks(nodes, name) & nodes.live()).tolist():
                    mask[position] |= name not in nodes.node(position).node.status.allocatable
        return mask

    def choose_node(self, node: NodeRow) -> bool:
        """Use the devices found for the node; False if none were found."""
        _bits, variant, site = self.on_node(node)
        found = None if variant.results is None else variant.results.found[site]
        if variant.results is None or found is None:
            return False
        self.node_name = node.name
        self.mappings, self.created = variant.mappings, variant.special
        decided = allocations(variant.results.demand, found, node.name)
        self.allocations = dict(zip(self.to_allocate, decided, strict=True))
        return True

    def score_of_allocated(self) -> int:
        """The score of already allocated claims."""
        return sum(_score(claim) for claim in self.claims if claim.status.allocation is not None)


def _lacks(nodes: Nodes, resource: str) -> Mask:
    """Nodes that do not offer the resource."""
    index = nodes.table.resource_index(resource)
    if index is None:
        return everywhere(nodes)
    lacks: Mask = nodes.take(nodes.table.allocatable[index]) == 0
    return lacks


def _score(claim: ResourceClaim) -> int:
    assert claim.status.allocation is not None
    given = {result.request for result in claim.status.allocation.devices.results}
    return sum(
        FIRST_SCORE - place
        for request in claim.spec.devices.requests
        if request.exactly is None
        for place, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in given
    )
