"""PodTopologySpread: keeps matching pods evenly spread over zones, nodes or other domains.

In: the pod's constraints, or the configured default ones. Out: hard constraints reject nodes whose domain is
too full, soft ones rank nodes by how empty their domain is.
"""

from __future__ import annotations

from collections.abc import Iterable

from kuberth.api.core import Node, Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config.plugin_args import PodTopologySpreadArgs
from kuberth.errors import SelectorError
from kuberth.framework.cluster_events import Action, Concern, EventWithHint
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
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import on_change
from kuberth.plugins.pod_topology_spread.constraints import Constraint, ConstraintReader, Inclusion
from kuberth.plugins.pod_topology_spread.filtering import HardSpread
from kuberth.plugins.pod_topology_spread.hints import SpreadHints
from kuberth.plugins.pod_topology_spread.scoring import SoftSpread

_HARD: StateKey[HardSpread] = StateKey("hard topology spread")
_SOFT_CONSTRAINTS: StateKey[tuple[Constraint, ...]] = StateKey("soft topology spread constraints")
_SOFT: StateKey[SoftSpread] = StateKey("soft topology spread")


class PodTopologySpread(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions):
    name = "PodTopologySpread"

    def __init__(self, args: PodTopologySpreadArgs | None, handle: Handle) -> None:
        gates = handle.feature_gates
        self._reader = ConstraintReader(
            args or PodTopologySpreadArgs(),
            handle.stores,
            inclusion_policies=gates.enabled("NodeInclusionPolicyInPodTopologySpread"),
            match_label_keys=gates.enabled("MatchLabelKeysInPodTopologySpread"),
        )
        self._reader.register_defaults(handle.cluster.selected_labels)
        self._comparison_operators = gates.enabled("TaintTolerationComparisonOperators")
        self._hints = SpreadHints(self._reader)
        self.inputs = Inputs(
            {
                "metadata.namespace",
                "metadata.labels",
                "info.selecting_controller",
                "spec.topology_spread_constraints",
                "spec.affinity",
                "spec.node_selector",
                "spec.tolerations",
            },
            pre_filter=DependsOn.POD,
            filter=DependsOn.CLUSTER,
            pre_score=DependsOn.POD,
            score=DependsOn.ANYTHING,
            labels=handle.cluster.selected_labels,
            versions=(handle.cluster.selection, handle.cluster.terms, *self._reader.versions),
        )

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        try:
            hard, soft = self._reader.hard(pod), self._reader.soft(pod)
        except SelectorError as exc:
            return Status.unresolvable(f"topology spread constraint: {exc}")
        state.write(_SOFT_CONSTRAINTS, soft)
        if not hard:
            return SKIP
        state.write(_HARD, HardSpread(hard, pod, self._inclusion(pod, nodes)))
        return None

    # The counts are current and include what-ifs; these two only report pods that the counts omit but that
    # upstream adds and subtracts here.

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeRow) -> None:
        state.read(_HARD).count_uncounted(added, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeRow) -> None:
        state.read(_HARD).count_uncounted(removed, node, -1)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict:
        return state.read(_HARD).verdict(nodes)

    # Score

    def pre_score(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        if state.get(_SOFT_CONSTRAINTS) is None:  # PreFilter may be disabled in the profile
            state.write(_SOFT_CONSTRAINTS, self._reader.soft(pod))
        return None if state.read(_SOFT_CONSTRAINTS) else SKIP

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores:
        return self._soft_spread(state, pod, nodes).scores(nodes)

    def _soft_spread(self, state: CycleState, pod: Pod, nodes: Nodes) -> SoftSpread:
        """Domains count among all candidates, not only those that are being scored."""
        candidates = nodes if state.candidates is None else state.candidates
        spread = state.get(_SOFT)
        if spread is None or spread.candidates is not candidates:
            needs_all_keys = bool(pod.spec.topology_spread_constraints) or not self._reader.system_defaults
            soft = state.read(_SOFT_CONSTRAINTS)
            spread = SoftSpread(
                soft,
                pod,
                candidates,
                self._inclusion(pod, nodes),
                needs_all_keys=needs_all_keys,
                bare_nodes=state.scores_bare_nodes,
            )
            state.write(_SOFT, spread)
        return spread

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        return state.read(_SOFT).normalized(scores)

    def _inclusion(self, pod: Pod, nodes: Nodes) -> Inclusion:
        return Inclusion(pod, nodes.table, comparison_operators=self._comparison_operators)

    # Events

    def events_to_register(self) -> Iterable[EventWithHint]:
        pod_changes = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE
        node_changes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        labels = Concern(self._hints.topology_keys, self._hints.changed_labels)
        return [
            on_change(Pod, pod_changes, self._hints.pod_change_helps),
            on_change(Node, node_changes, self._hints.node_change_helps, labels),
        ]
