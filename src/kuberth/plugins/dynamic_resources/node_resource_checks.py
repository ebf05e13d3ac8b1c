"""Checks node resources for pods whose devices use some (gate DRANodeAllocatableResources).

In: a cycle in which devices were found, a view of the nodes. Out: codes for nodes that lack the resources, or
where another pod uses them through the same claim; and the pod as it counts on its node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selection import meets_node_selector
from kuberth.cluster.table import ClusterTable
from kuberth.framework.status import Status
from kuberth.framework.verdict import distinct
from kuberth.plugins.devices.inventory import Inventory
from kuberth.plugins.dynamic_resources.cycle import Cycle, Variant
from kuberth.plugins.dynamic_resources.node_resources import (
    Footprint,
    footprint_of,
    take_of_allocation,
    taking,
)
from kuberth.plugins.resources.shortages import shortages

_NOTHING: Final = Footprint()


@dataclass(frozen=True, slots=True)
class NodeResourceChecks:
    """Checks whether nodes have the resources that a pod's devices use; shared by all cycles of a profile."""

    cluster: ClusterTable
    inventory: Inventory
    pod_level: bool
    """Whether pod-level requests count (gate PodLevelResources)."""

    def users_elsewhere(self, cycle: Cycle, nodes: Nodes, where: Mask) -> Iterable[tuple[Mask, Status]]:
        """Yield nodes where other pods use a claim that this pod shares.

        The share of each pod is unknown there.
        """
        in_use = nodes.table.device_claims
        if not in_use:
            return
        for index, claim in enumerate(cycle.claims):
            name = claim.metadata.name
            counts = in_use.get(f"{cycle.pod.metadata.namespace}/{name}")
            if claim.status.allocation is None or index in cycle.shared or counts is None:
                continue
            users = nodes.take(counts.column(nodes.table.slots))
            if index in cycle.selectors:
                users = np.where(meets_node_selector(nodes, cycle.selectors[index]), users, 0)
            several, one = where & (users > 1), where & (users == 1)
            where = where & (users == 0)
            claimed = f"node allocatable resource claim {name}"
            yield several, Status.unresolvable(f"{claimed} shared by multiple pods")
            yield one, Status.unresolvable(f"{claimed} is already used by another pod")

    def refusals(self, cycle: Cycle, nodes: Nodes, where: Mask) -> Iterable[tuple[Mask, Status]]:
        """Nodes with devices that lack the node resources for them."""
        bits = cycle.bits(nodes)
        sites = nodes.take(self.inventory.sites.of_row)
        for each in np.unique(bits[where]).tolist():
            variant = cycle.variant(each)
            here = where & (bits == each)
            numbers = np.zeros(len(nodes), np.int64)
            if variant.results is not None:
                numbers[here] = variant.results.taken[sites[here]]
            for number in np.unique(numbers[here]).tolist():
                footprint = self._footprint(cycle, each, number)
                there = here & (numbers == number)
                if footprint.refusal is not None:
                    yield there, footprint.refusal
                else:
                    lacking = shortages(nodes, footprint.amounts, counts_pods=False)
                    for code in () if lacking is None else distinct(lacking.codes[there]):
                        if lacking is not None and code:
                            yield there & np.equal(lacking.codes, code), lacking.status(code)

    def placed(self, cycle: Cycle, info: PodInfo, node_name: str) -> PodInfo:
        """The pod as it counts on a node; results for another node or attempt are discarded."""
        statuses = self._on(cycle, node_name).statuses
        if not statuses and not info.pod.status.node_allocatable_resource_claim_statuses:
            return info.placed_on(node_name)
        pod = replace(info.pod, spec=replace(info.pod.spec, node_name=node_name))
        return PodInfo(taking(pod, statuses), pod_level_resources=self.pod_level, with_devices=True)

    def _on(self, cycle: Cycle, node_name: str) -> Footprint:
        node = self.cluster.node_named(node_name)
        if node is None or not (cycle.to_allocate or cycle.shared):
            return _NOTHING
        self.inventory.refresh()
        bits, variant, site = cycle.on_node(node)
        has_devices = variant.results is not None and variant.results.found[site] is not None
        number = int(variant.results.taken[site]) if variant.results is not None and has_devices else 0
        return self._footprint(cycle, bits, number)

    def _footprint(self, cycle: Cycle, bits: int, number: int) -> Footprint:
        known = cycle.footprints.get((bits, number))
        if known is None:
            known = cycle.footprints[bits, number] = self._new_footprint(cycle, cycle.variant(bits), number)
        return known

    def _new_footprint(self, cycle: Cycle, variant: Variant, number: int) -> Footprint:
        found = [
            (cycle.claims[index], take_of_allocation(allocation, self.inventory.sites))
            for index, allocation in cycle.shared.items()
        ]
        if variant.results is not None:
            found += zip(cycle.demanded_claims(variant), variant.results.takes[number], strict=True)
        # A claim may be named twice; then the last devices found for it count.
        by_uid = {claim.metadata.uid: (claim, take) for claim, take in found}
        takes = [(claim, take) for claim, take in by_uid.values() if take is not None]
        if not takes:
            return _NOTHING
        return footprint_of(cycle.pod, takes, cycle.names, pod_level=self.pod_level)
