"""Releases devices of unused claims for a pod that fits nowhere.

In: a cycle that found no node, and the claims whose devices kept the pod from some nodes. Out: at most one
pending write, and its message: the pod is retried when the write is seen.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kuberth.api.core import Pod
from kuberth.api.scheduling import PodGroup
from kuberth.cluster.pod_groups import pod_group_not_found
from kuberth.cluster.pod_info import group_of
from kuberth.cluster.table import ClusterTable
from kuberth.framework.handle import Spawner
from kuberth.framework.status import Status
from kuberth.informers.store import Store
from kuberth.plugins.devices.claims import KnownClaims
from kuberth.plugins.dynamic_resources.cycle import Cycle
from kuberth.plugins.dynamic_resources.extended import IN_MEMORY_NAME
from kuberth.plugins.dynamic_resources.finding import (
    ClaimsNotReady,
    claims_of_group,
    group_as_user,
    group_in,
    group_name_of,
    is_reserved_for,
)
from kuberth.plugins.dynamic_resources.writing import ClaimWriter

_DEALLOCATED: Final = Status.unschedulable("deallocation of ResourceClaim completed")
_DELETED: Final = Status.unschedulable("deletion of ResourceClaim completed")
_STILL_NOT: Final = Status.unschedulable("still not schedulable")
_GROUP_RELEASED: Final = Status.unresolvable("ResourceClaim unreserved for PodGroup")


@dataclass(frozen=True, slots=True)
class Releasing:
    writer: ClaimWriter
    claims: KnownClaims
    cluster: ClusterTable
    groups: Store[PodGroup] | None
    """None if groups have no claims."""
    spawn: Spawner
    rng: random.Random

    def release(
        self, cycle: Cycle, pod: Pod, unavailable: Sequence[int], again: Callable[[], None]
    ) -> Status:
        """Deallocate any one of the unavailable claims. If the write fails, `again` is called."""
        special = None if cycle.special is None else cycle.claims[cycle.special]
        is_stored = special is not None and special.metadata.name != IN_MEMORY_NAME
        for index in self.rng.sample(unavailable, len(unavailable)):
            claim = cycle.claims[index]
            if index == cycle.special:
                if is_stored:
                    break
                continue
            if all(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for[:2]) and (
                len(claim.status.reserved_for) < 2
            ):
                self.spawn(self.writer.deallocate(claim, again), name=f"deallocate {claim.metadata.name}")
                return _DEALLOCATED
        if special is not None and is_stored:
            self.spawn(self.writer.delete(special, again), name=f"delete {special.metadata.name}")
            return _DELETED
        return self._release_group(pod, again) or _STILL_NOT

    def _release_group(self, pod: Pod, again: Callable[[], None]) -> Status | None:
        """Deallocate a claim of the pod's group if none of its pods has a node, for better devices."""
        if self.groups is None or not group_name_of(pod):
            return None
        members = self.cluster.pod_groups.get(group_of(pod))
        # Pods that only this attempt of the group has placed do not count.
        if members is not None and any(map(self.cluster.placed, (*members.assumed, *members.assigned))):
            return None
        group = group_in(self.groups, pod)
        if group is None:
            return Status.error(pod_group_not_found(group_name_of(pod)))
        try:
            for claim in claims_of_group(group, self.claims):
                if claim.status.allocation is not None and is_reserved_for(pod, claim, with_groups=True):
                    work = self.writer.release(claim, group_as_user(group), again)
                    self.spawn(work, name=f"release {claim.metadata.name}")
                    return _GROUP_RELEASED
        except ClaimsNotReady as exc:
            return Status.error(exc)
        return None
