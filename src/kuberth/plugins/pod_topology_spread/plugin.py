"""PodTopologySpread: keep matching pods evenly spread over zones, nodes or any other domains.

In: the pod's constraints, or the configured default ones. Out: hard constraints rule out nodes whose
domain is too full, soft ones rank nodes by how empty their domain is.
"""

from __future__ import annotations

from collections.abc import Iterable

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config.plugin_args import PodTopologySpreadArgs
from kuberth.errors import SelectorError
from kuberth.framework.cluster_events import Action, ClusterEvent, EventWithHint, Resource
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    FilterPlugin,
    PreFilterExtensions,
    PreScorePlugin,
    ScorePlugin,
    Scores,
)
from kuberth.framework.handle import Handle
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.pod_topology_spread.constraints import Constraint, ConstraintReader
from kuberth.plugins.pod_topology_spread.filtering import HardSpread
from kuberth.plugins.pod_topology_spread.hints import SpreadHints
from kuberth.plugins.pod_topology_spread.inclusion import Inclusion
from kuberth.plugins.pod_topology_spread.scoring import SoftSpread

_CONSTRAINTS: StateKey[tuple[tuple[Constraint, ...], tuple[Constraint, ...]]] = StateKey("constraints")
_KEPT_HARD: StateKey[HardSpread] = StateKey("hard topology spread of equal pods")
_HARD: StateKey[HardSpread] = StateKey("hard topology spread")
_SOFT_CONSTRAINTS: StateKey[tuple[Constraint, ...]] = StateKey("soft topology spread constraints")
_SOFT: StateKey[SoftSpread] = StateKey("soft topology spread")


class PodTopologySpread(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions):
    name = "PodTopologySpread"
    reads = frozenset(
        {
            "metadata.namespace",
            "metadata.labels",
            "metadata.owner_references",
            "spec.topology_spread_constraints",
            "spec.affinity",
            "spec.node_selector",
            "spec.tolerations",
        }
    )

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        gates = handle.feature_gates
        self._reader = ConstraintReader(
            args or PodTopologySpreadArgs(),
            handle.stores,
            inclusion_policies=gates.enabled("NodeInclusionPolicyInPodTopologySpread"),
            match_label_keys=gates.enabled("MatchLabelKeysInPodTopologySpread"),
        )
        self._comparison_operators = gates.enabled("TaintTolerationComparisonOperators")
        self._hints = SpreadHints(self._reader)

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        try:
            hard, soft = state.recall(
                _CONSTRAINTS,
                self._reader.version(pod),
                lambda: (self._reader.hard(pod), self._reader.soft(pod)),
            )
        except SelectorError as exc:
            return Status.unresolvable(f"topology spread constraint: {exc}")
        state.write(_SOFT_CONSTRAINTS, soft)
        if not hard:
            return SKIP
        table = nodes.table
        spread = state.recall(
            _KEPT_HARD,
            (table.selection_version, table.terms.version, hard),
            lambda: HardSpread(hard, pod, self._inclusion(pod, nodes)),
        )
        state.write(_HARD, spread.clone())
        return None

    # The counts themselves are read live and so follow a what-if; these two only tell of pods that the
    # counts leave out and that upstream nevertheless adds and subtracts here.

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeRow) -> None:
        state.read(_HARD).note_uncounted(added, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeRow) -> None:
        state.read(_HARD).note_uncounted(removed, node, -1)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return state.read(_HARD).verdict(nodes)

    # Score

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        soft = state.get(_SOFT_CONSTRAINTS)
        if soft is None:  # PreFilter may be disabled in the profile
            soft = self._reader.soft(pod)
        if not soft:
            return SKIP
        needs_all_keys = bool(pod.spec.topology_spread_constraints) or not self._reader.system_defaults
        spread = SoftSpread(
            soft,
            pod,
            nodes,
            self._inclusion(pod, nodes),
            needs_all_keys=needs_all_keys,
            bare_nodes=state.scores_bare_nodes,
        )
        state.write(_SOFT, spread)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores:
        return state.read(_SOFT).scores(nodes)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        return state.read(_SOFT).normalized(scores)

    def _inclusion(self, pod: Pod, nodes: Nodes) -> Inclusion:
        return Inclusion(pod, nodes.table, comparison_operators=self._comparison_operators)

    # Events

    def events_to_register(self) -> Iterable[EventWithHint]:
        pod_changes = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE
        node_changes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return [
            EventWithHint(ClusterEvent(Resource.POD, pod_changes), self._hints.after_pod_change),
            EventWithHint(ClusterEvent(Resource.NODE, node_changes), self._hints.after_node_change),
        ]
