"""The plugin: its extension points, and the events that may help a pod it rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kuberth.api.core import Node, PersistentVolume, PersistentVolumeClaim, Pod
from kuberth.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from kuberth.cluster.nodes import Nodes
from kuberth.config.plugin_args import UtilizationShapePoint, VolumeBindingArgs
from kuberth.errors import KuberthError
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    FilterPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Scores,
)
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.scores import FULL
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import on_any, on_new
from kuberth.plugins.volume_binding.assumptions import AssumedVolumes
from kuberth.plugins.volume_binding.binding import ClaimBinding, Decisions, VolumeBinder
from kuberth.plugins.volume_binding.claims import check_claims, sort_claims
from kuberth.plugins.volume_binding.finding import Findings, VolumeFinder, Wanted
from kuberth.plugins.volume_binding.provisioning import volume_limit
from kuberth.plugins.volume_binding.reach import NONE
from kuberth.plugins.volume_binding.scoring import CapacityScorer
from kuberth.plugins.volumes.claims import USERS_OF_CLAIM, attachable_volumes, claims_of, concerns_claim
from kuberth.plugins.volumes.csi_nodes import MIGRATED_PLUGINS

_DEFAULT_SHAPE: Final = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=FULL, score=0),
)


@dataclass(slots=True)
class _Cycle:
    """The state of one pod's cycle, and from Reserve on the decisions for its node."""

    wanted: Wanted
    everywhere: Findings | None = None
    """The findings for the whole table. Pods on nodes do not change them."""
    node_name: str = ""
    decisions: Decisions | None = None
    """None before Reserve, and if there is nothing to bind."""


_STATE: Final = StateKey[_Cycle]("VolumeBinding")


class VolumeBinding(
    PreFilterPlugin,
    FilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PreBindPlugin,
    EnqueueExtensions,
):
    name = "VolumeBinding"

    def __init__(self, args: VolumeBindingArgs | None, handle: Handle) -> None:
        args = VolumeBindingArgs() if args is None else args
        gates, stores = handle.feature_gates, handle.stores
        assumed = handle.shared.of(AssumedVolumes, lambda: AssumedVolumes.over(stores))
        self._cluster = handle.cluster
        self._errors = handle.metrics.volume_stage_errors
        self._finder = VolumeFinder(handle, assumed)
        self._binder = VolumeBinder(handle, assumed, timeout_seconds=args.bind_timeout_seconds)
        self._scorer: CapacityScorer | None = None
        if gates.enabled("StorageCapacityScoring"):
            self._scorer = CapacityScorer(args.shape or _DEFAULT_SHAPE)
        self._hints_enabled = gates.enabled("SchedulerQueueingHints")
        self.inputs = Inputs(
            {"metadata.namespace", "metadata.name", "spec.volumes", "info.attachable_volumes"},
            # Where capacities are scored, upstream scores every pod.
            only_with={"info.attachable_volumes"} if self._scorer is None else (),
            pre_filter=DependsOn.ANYTHING,
            filter=DependsOn.ANYTHING,
            pre_score=DependsOn.ANYTHING,
            score=DependsOn.ANYTHING,
        )

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        volumes = attachable_volumes(state, pod)
        if not volumes:
            return SKIP
        finder = self._finder
        uses = check_claims(pod, volumes, finder.claims.store)
        if isinstance(uses, Status):
            return uses
        if not uses:
            return SKIP
        claims = sort_claims(pod.metadata.namespace, uses, finder.claims, finder.classes)
        if isinstance(claims, Status):
            return claims
        state.write(_STATE, _Cycle(finder.wanted(claims)))
        return None

    def filter_nodes(self, state: CycleState, _pod: Pod, nodes: Nodes) -> Verdict | None:
        return self._found(state.read(_STATE), nodes).verdict()

    def _found(self, cycle: _Cycle, nodes: Nodes) -> Findings:
        if cycle.everywhere is not None:
            return cycle.everywhere.at(nodes)
        findings = self._finder.find(nodes, cycle.wanted)
        if findings.errors:
            self._errors.inc(("predicate",))
        if len(nodes) == nodes.table.slots and np.array_equal(nodes.rows(), np.arange(len(nodes))):
            cycle.everywhere = findings
        return findings

    def pre_score(self, _state: CycleState, _pod: Pod, _nodes: Nodes) -> Status | None:
        return SKIP if self._scorer is None else None

    def score_nodes(self, state: CycleState, _pod: Pod, nodes: Nodes) -> Scores:
        cycle = state.get(_STATE)
        if self._scorer is None or cycle is None:
            return np.zeros(len(nodes), np.int64)
        return self._scorer.scores(self._found(cycle, nodes), cycle.wanted.volumes)

    def reserve(self, state: CycleState, _pod: Pod, node_name: str) -> Status | None:
        cycle = state.get(_STATE)
        if cycle is None or not cycle.wanted.claims.waiting:
            return None
        node = self._cluster.node_named(node_name)
        if node is None:
            return Status.error(f'node "{node_name}" does not exist any more')
        findings = self._found(cycle, node.alone)
        verdict = findings.verdict()
        if verdict is not None:
            return verdict.status(int(verdict.codes[0]))
        try:
            cycle.decisions = self._binder.assume(_decisions(findings, cycle.wanted), node_name)
        except KuberthError as exc:
            self._errors.inc(("assume",))
            return Status.error(exc)
        cycle.node_name = node_name
        return None

    def unreserve(self, state: CycleState, _pod: Pod, _node_name: str) -> None:
        cycle = state.get(_STATE)
        if cycle is not None and cycle.decisions is not None:
            self._binder.revert(cycle.decisions)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        decisions = self._decided(state, pod, node_name)
        if isinstance(decisions, Status):
            return decisions
        return SKIP if decisions is None else None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        decisions = self._decided(state, pod, node_name)
        if decisions is None or isinstance(decisions, Status):
            return decisions
        try:
            await self._binder.bind(pod, node_name, decisions)
        except KuberthError as exc:
            self._errors.inc(("bind",))
            return Status.error(exc)
        return None

    def _decided(self, state: CycleState, pod: Pod, node_name: str) -> Decisions | Status | None:
        """The decisions to bind for the pod; None: nothing."""
        cycle = state.get(_STATE)
        if cycle is None:
            if any(claims_of(pod, attachable_volumes(state, pod))):
                return Status.error("the pod has claims, but PreFilter did not look at them")
            return None
        if not cycle.wanted.claims.waiting:
            return None
        if cycle.decisions is None or cycle.node_name != node_name:
            return Status.error(f'no pod volume found for node "{node_name}"')
        return cycle.decisions

    # Events

    def events_to_register(self) -> Iterable[EventWithHint]:
        node_actions = Action.ADD | Action.UPDATE_NODE_LABEL
        if not self._hints_enabled:
            node_actions |= Action.UPDATE_NODE_TAINT
        added_or_updated = Action.ADD | Action.UPDATE
        return [
            on_new(StorageClass, added_or_updated, _allows_other_topologies),
            on_new(PersistentVolumeClaim, added_or_updated, concerns_claim, USERS_OF_CLAIM),
            on_any(PersistentVolume, added_or_updated),
            on_any(Node, node_actions),
            on_new(CSINode, added_or_updated, _migrates_others),
            on_new(CSIDriver, Action.UPDATE, _requires_no_capacity),
            on_new(CSIStorageCapacity, added_or_updated, _allows_larger_volumes),
        ]


def _allows_other_topologies(_pod: Pod, before: StorageClass | None, after: StorageClass) -> bool:
    return before is None or before.allowed_topologies != after.allowed_topologies


def _migrates_others(_pod: Pod, before: CSINode | None, after: CSINode) -> bool:
    """A change helps only if it migrates in-tree plugins to CSI drivers, or back."""
    plugins = [
        None if node is None else node.metadata.annotations.get(MIGRATED_PLUGINS, "")
        for node in (before, after)
    ]
    return plugins[0] != plugins[1]


def _requires_no_capacity(pod: Pod, before: CSIDriver | None, after: CSIDriver) -> bool:
    """Helps if a driver of the pod no longer requires capacity checks."""
    eased = before is None or (before.spec.storage_capacity and not after.spec.storage_capacity)
    drivers = {volume.csi.driver for volume in pod.spec.volumes if volume.csi is not None}
    return bool(eased) and after.metadata.name in drivers


def _allows_larger_volumes(_pod: Pod, before: CSIStorageCapacity | None, after: CSIStorageCapacity) -> bool:
    if before is None:
        return True
    was, now = volume_limit(before), volume_limit(after)
    return now is not None and (was is None or now > was)


def _decisions(findings: Findings, wanted: Wanted) -> Decisions:
    """The volumes and claims chosen for the only node of a view."""
    decisions = Decisions()
    for claim, volumes, _room in findings.choices:
        index = int(volumes[0])
        if index == NONE:
            decisions.provisions.append(claim.claim)
        else:
            volume = wanted.volumes[claim.class_name][index].volume
            decisions.bindings.append(ClaimBinding(claim.claim, volume))
    return decisions
