"""TopologyPlacementGenerator: a pod group may be placed on nodes that share a value of its topology key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kuberth.api.scheduling import PodGroup
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_groups import pod_group_not_found
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import PlacementCandidate, PlacementGeneratePlugin
from kuberth.framework.handle import Handle
from kuberth.framework.status import Status


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    name = "TopologyPlacementGenerator"

    def __init__(self, _args: object, handle: Handle) -> None:
        self._groups = handle.stores.of(PodGroup)
        self._cluster = handle.cluster

    def generate_placements(
        self, state: CycleState, group: str, nodes: Nodes
    ) -> Sequence[PlacementCandidate] | Status:
        found = self._groups.get_by_key(group)
        if found is None:
            return Status.error(pod_group_not_found(group))
        constraints = found.spec.scheduling_constraints
        if constraints is None or not constraints.topology:
            return [PlacementCandidate("", nodes)]
        # The API allows one key; a second one would have no meaning here.
        key = constraints.topology[0].key
        members = self._cluster.pod_groups.get(group)
        if members is None:
            return Status.error(f"pod group state not found for pod group {group}")
        domain = self._domain_of(key, members.scheduled_pods())
        if isinstance(domain, Status):
            return domain
        rows_of: dict[str, list[int]] = {}
        for row in nodes.rows().tolist():
            value = self._cluster.node_at(row).metadata.labels.get(key)
            if value is not None and domain in (None, value):
                rows_of.setdefault(value, []).append(row)
        return [
            PlacementCandidate(value, Nodes(self._cluster, np.array(rows, np.int64)))
            for value, rows in rows_of.items()
        ]

    def _domain_of(self, key: str, pods: Iterable[PodInfo]) -> str | Status | None:
        """The domain that has pods of the group already; None if there are no such pods."""
        domain: str | None = None
        for info in pods:
            node = self._cluster.node_named(info.node_name)
            if node is None:
                return _undecided(
                    f'getting node for pod {info.key}: nodeinfo not found for node name "{info.node_name}"'
                )
            value = node.node.metadata.labels.get(key)
            if value is None:
                return _undecided(f"no topology domain found for pod {info.key}")
            if domain not in (None, value):
                return _undecided(f"more than 1 domain found for pod group: {domain}, {value}")
            domain = value
        return domain


def _undecided(why: str) -> Status:
    return Status.error(f"cannot determine domain for already scheduled pods: {why}")
