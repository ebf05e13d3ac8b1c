"""VolumeRestrictions: disks and claims that only one pod at a time may use.

A disk that a pod names itself (GCE, EBS, iSCSI, RBD) keeps other users of the same disk off its node, except
readers that share it. A claim with the access mode ReadWriteOncePod blocks all other pods that use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kuberth.api.core import Node, PersistentVolumeClaim, Pod
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.pod_volumes import Disk, disks, is_restricted
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import EnqueueExtensions, FilterPlugin, PreFilterExtensions
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import on_any, on_deletion, on_new
from kuberth.plugins.volumes.claims import USERS_OF_CLAIM, claim_not_found, mounts_claim

_DISK_IN_USE: Final = Status.unschedulable("node(s) had no available disk")
_CLAIM_IN_USE: Final = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use "
    "by another pod"
)


@dataclass(slots=True)
class _Restrictions:
    """The pod's disks and claims. Preemption changes `uses` as it removes and adds pods."""

    disks: tuple[Disk, ...]
    exclusive_claims: frozenset[str]
    """Names of the pod's claims that only one pod at a time may use."""
    uses: int
    """How often placed pods use them; initially, a claim in use counts once."""

    def clone(self) -> _Restrictions:
        return replace(self)

    def count(self, info: PodInfo, sign: int) -> None:
        # As upstream, only by name: a pod of another namespace counts too.
        self.uses += sign * sum(name in self.exclusive_claims for name in _claim_names(info.pod))


_STATE: Final = StateKey[_Restrictions]("VolumeRestrictions")


class VolumeRestrictions(PreFilterExtensions, FilterPlugin, EnqueueExtensions):
    name = "VolumeRestrictions"
    inputs = Inputs(
        {"metadata.namespace", "spec.volumes"},
        only_with={"info.volume_claims", "info.disks"},
        pre_filter=DependsOn.ANYTHING,
        filter=DependsOn.ANYTHING,
    )

    def __init__(self, _args: object, handle: Handle) -> None:
        self._claims = handle.stores.of(PersistentVolumeClaim)
        self._hints_enabled = handle.feature_gates.enabled("SchedulerQueueingHints")

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        names = _claim_names(pod)
        restricted = any(map(is_restricted, pod.spec.volumes))
        if not names and not restricted:
            return SKIP
        namespace = pod.metadata.namespace
        exclusive = set()
        for name in names:
            claim = self._claims.get(name, namespace=namespace)
            if claim is None:
                return Status.unresolvable(claim_not_found(name))
            if "ReadWriteOncePod" in claim.spec.access_modes:
                exclusive.add(name)
        uses = sum(f"{namespace}/{name}" in nodes.table.claims for name in exclusive)
        if not uses and not restricted:
            return SKIP
        state.write(_STATE, _Restrictions(disks(pod.spec.volumes), frozenset(exclusive), uses))
        return None

    def add_pod(self, state: CycleState, _pod: Pod, added: PodInfo, _node: NodeRow) -> None:
        state.read(_STATE).count(added, 1)

    def remove_pod(self, state: CycleState, _pod: Pod, removed: PodInfo, _node: NodeRow) -> None:
        state.read(_STATE).count(removed, -1)

    def filter_nodes(self, state: CycleState, _pod: Pod, nodes: Nodes) -> Verdict | None:
        restrictions = state.read(_STATE)
        in_use = _disk_in_use(nodes, restrictions.disks)
        codes = in_use.astype(np.int64)
        if restrictions.uses > 0:
            codes[~in_use] = 2
        return Verdict.choosing(codes, _DISK_IN_USE, _CLAIM_IN_USE)

    def events_to_register(self) -> Iterable[EventWithHint]:
        node_actions = Action.ADD
        if not self._hints_enabled:
            node_actions |= Action.UPDATE_NODE_TAINT | Action.UPDATE_NODE_LABEL
        return [
            on_deletion(Pod, _frees_disk_or_claim),
            on_any(Node, node_actions),
            on_new(PersistentVolumeClaim, Action.ADD, mounts_claim, USERS_OF_CLAIM),
        ]


def _frees_disk_or_claim(pod: Pod, deleted: Pod) -> bool:
    """Whether it used the same disk or the same claim. Other namespaces are ignored."""
    if deleted.metadata.namespace != pod.metadata.namespace:
        return False
    freed = set(disks(deleted.spec.volumes))
    return any(other in freed for disk in disks(pod.spec.volumes) for other in disk.conflicting) or not set(
        _claim_names(pod)
    ).isdisjoint(_claim_names(deleted))


def _claim_names(pod: Pod) -> Sequence[str]:
    """The claims that the pod names; those of ephemeral volumes belong to it anyway."""
    return [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]


def _disk_in_use(nodes: Nodes, wanted: Iterable[Disk]) -> Mask:
    """Nodes where a pod uses one of the disks in a conflicting way."""
    table = nodes.table
    in_use = np.zeros(table.slots, np.bool_)
    for disk in wanted:
        for other in disk.conflicting:
            if (users := table.disks.get(other)) is not None:
                in_use[users.rows()] = True
    return nodes.take(in_use)
