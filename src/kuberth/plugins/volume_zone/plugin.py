"""VolumeZone: places a pod where its bound volumes are, by the volumes' zone and region labels.

A volume in several zones lists them in one label, separated by two underscores. A node without any zone or
region label is assumed to be in a cluster without zones, and passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kuberth.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.selectors import Operator, Requirement
from kuberth.api.storage import StorageClass
from kuberth.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE
from kuberth.cluster.arrays import Mask
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import everywhere, meets_requirement, nowhere
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import EnqueueExtensions, FilterPlugin, PreFilterPlugin
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import on_any, on_new
from kuberth.plugins.volumes.claims import (
    USERS_OF_CLAIM,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_not_found,
    mounts_claim,
    storage_class_not_found,
    volume_not_found,
)
from kuberth.plugins.volumes.csi_migration import ZONE_DELIMITER

_TOPOLOGY_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_SUCCESSORS: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}
"""The label to use if the node does not have the old one."""
_HAS_LABEL: Final = tuple(Requirement(key, Operator.EXISTS) for key in _TOPOLOGY_LABELS)
_ELSEWHERE: Final = Status.unresolvable("node(s) had no available volume zone")


class _Topology(NamedTuple):
    """The location of a volume: a label and its possible values."""

    volume: str
    key: str
    values: frozenset[str]


_STATE: Final = StateKey[tuple[_Topology, ...]]("VolumeZone")


class VolumeZone(PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    name = "VolumeZone"
    inputs = Inputs(
        {"metadata.namespace", "spec.volumes"},
        only_with={"info.volume_claims"},
        pre_filter=DependsOn.ANYTHING,
        filter=DependsOn.ANYTHING,
    )

    def __init__(self, _args: object, handle: Handle) -> None:
        self._claims = handle.stores.of(PersistentVolumeClaim)
        self._volumes = handle.stores.of(PersistentVolume)
        self._classes = handle.stores.of(StorageClass)
        self._hints_enabled = handle.feature_gates.enabled("SchedulerQueueingHints")

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        found = self._topologies(pod)
        if isinstance(found, Status):
            return found
        if not found:
            return SKIP
        state.write(_STATE, found)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        topologies = state.get(_STATE)
        if topologies is None:
            # PreFilter may be disabled on its own.
            found = self._topologies(pod)
            if isinstance(found, Status):
                return Verdict.rejecting(everywhere(nodes), found)
            topologies = found
        zoned = nowhere(nodes)
        for has_label in _HAS_LABEL:
            zoned |= meets_requirement(nodes, has_label)
        reachable = everywhere(nodes)
        for topology in topologies:
            reachable &= _is_within(nodes, topology)
        return Verdict.rejecting(zoned & ~reachable, _ELSEWHERE)

    def _topologies(self, pod: Pod) -> tuple[_Topology, ...] | Status:
        """The locations of the pod's bound volumes; a rejection if a claim is not in the required state."""
        found: tuple[_Topology, ...] = ()
        for source in pod.spec.volumes:
            if source.persistent_volume_claim is None:
                continue
            name = source.persistent_volume_claim.claim_name
            if not name:
                return Status.unresolvable("PersistentVolumeClaim had no name")
            claim = self._claims.get(name, namespace=pod.metadata.namespace)
            if claim is None:
                return Status.unresolvable(claim_not_found(name))
            if not claim.spec.volume_name:
                problem = self._problem_of_unbound(claim)
                if problem:
                    return Status.unresolvable(problem)
                continue
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return Status.unresolvable(volume_not_found(claim.spec.volume_name))
            found += _topologies_of(volume)
        return found

    def _problem_of_unbound(self, claim: PersistentVolumeClaim) -> str:
        """Why a claim without a volume should have one; empty if it waits for its pod to be placed."""
        class_name = claim_class(claim)
        if not class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self._classes.get(class_name)
        if storage_class is None:
            return storage_class_not_found(class_name)
        if storage_class.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{class_name}"'
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return ""
        return "PersistentVolume had no name"

    def events_to_register(self) -> Iterable[EventWithHint]:
        node_actions = Action.ADD | Action.UPDATE_NODE_LABEL
        if not self._hints_enabled:
            node_actions |= Action.UPDATE_NODE_TAINT
        added_or_updated = Action.ADD | Action.UPDATE
        return [
            on_new(StorageClass, Action.ADD, _waits_for_consumer),
            on_any(Node, node_actions),
            on_new(PersistentVolumeClaim, added_or_updated, mounts_claim, USERS_OF_CLAIM),
            on_new(PersistentVolume, added_or_updated, _has_moved),
        ]


def _waits_for_consumer(_pod: Pod, _before: StorageClass | None, after: StorageClass) -> bool:
    return after.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _has_moved(_pod: Pod, before: PersistentVolume | None, after: PersistentVolume) -> bool:
    """A new volume may help; a changed one only if its location has changed."""
    return before is None or _topologies_of(before) != _topologies_of(after)


def _is_within(nodes: Nodes, topology: _Topology) -> Mask:
    """Nodes whose label has one of the values; if an old label is absent, its successor counts."""
    values = tuple(sorted(topology.values))
    within = meets_requirement(nodes, Requirement(topology.key, Operator.IN, values))
    successor = _SUCCESSORS.get(topology.key)
    if successor is not None:
        absent = meets_requirement(nodes, Requirement(topology.key, Operator.DOES_NOT_EXIST))
        within |= absent & meets_requirement(nodes, Requirement(successor, Operator.IN, values))
    return within


def _topologies_of(volume: PersistentVolume) -> tuple[_Topology, ...]:
    """The locations of a volume; a label with an empty zone is ignored."""
    found: tuple[_Topology, ...] = ()
    for key in _TOPOLOGY_LABELS:
        if key in volume.metadata.labels:
            values = frozenset(value.strip() for value in volume.metadata.labels[key].split(ZONE_DELIMITER))
            if "" not in values:
                found += (_Topology(volume.metadata.name, key, values),)
    return found
