"""InterPodAffinity: places pods near other pods, or far from them.

In: the incoming pod's terms and those that placed pods carry. Out: required terms of both sides reject nodes,
preferred ones (and, with a configured weight, required affinity of placed pods) rank them. All counts are
read from the cluster table when needed, so they include what-ifs and the plugin does not need AddPod and
RemovePod.
"""

from __future__ import annotations

from collections.abc import Iterable

from kuberth.api.core import Node, Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.terms import MAX_TERMS_ONE_BY_ONE, Carried, Terms
from kuberth.config.plugin_args import InterPodAffinityArgs
from kuberth.framework.cluster_events import Action, Concern, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    Scores,
)
from kuberth.framework.handle import Handle
from kuberth.framework.hint_objects import changed_node_labels
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.scores import MAX_NODE_SCORE
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import on_change, on_new
from kuberth.plugins.inter_pod_affinity.filtering import RequiredTerms, broken_term, incoming_pod
from kuberth.plugins.inter_pod_affinity.hints import AffinityHints
from kuberth.plugins.inter_pod_affinity.scoring import DomainScores, scaled

_REQUIRED: StateKey[RequiredTerms] = StateKey("required inter-pod affinity")
_SCORES: StateKey[DomainScores] = StateKey("preferred inter-pod affinity")
_KEPT_SCORES: StateKey[DomainScores] = StateKey("preferred inter-pod affinity of equal pods")


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions):
    name = "InterPodAffinity"

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        self._args = args or InterPodAffinityArgs()
        terms = handle.cluster.terms
        self._labels = handle.cluster.selected_labels
        self._hints = AffinityHints()
        self.inputs = Inputs(
            {"metadata.namespace", "metadata.labels", "spec.affinity", "info.problems"},
            pre_filter=DependsOn.POD,
            filter=DependsOn.CLUSTER,
            pre_score=DependsOn.ANYTHING,
            score=DependsOn.ANYTHING,
            labels=self._labels,
            versions=(terms, handle.cluster.selection, *map(terms.carried_in, Carried)),
        )

    # Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        info = incoming_pod(state, pod)
        if info.problems and (problem := broken_term(pod)):
            return Status.unresolvable(f"parsing pod: {problem}")
        terms = nodes.table.terms
        has_own = info.required_affinity or info.required_anti_affinity
        if not has_own and not terms.carried(Carried.REQUIRED_ANTI_AFFINITY):
            return SKIP
        required = RequiredTerms(info, nodes.table)
        if not required.matter:
            return SKIP
        state.write(_REQUIRED, required)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        return state.read(_REQUIRED).verdict(nodes)

    # Score

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        info = incoming_pod(state, pod)
        if self._args.ignore_preferred_terms_of_existing_pods and not info.preferred_terms:
            return SKIP
        table = nodes.table
        if not info.preferred_terms and not self._is_preferred(table.terms):
            return SKIP
        weight = self._args.hard_pod_affinity_weight
        scores: DomainScores
        if len(info.preferred_terms) > MAX_TERMS_ONE_BY_ONE:  # these are not updated with pods
            scores = DomainScores(info, table, required_affinity_weight=weight)
        else:
            scores = state.for_equal_pods(
                self, _KEPT_SCORES, lambda: DomainScores(info, table, required_affinity_weight=weight)
            )
        if scores.is_empty:
            return SKIP
        state.write(_SCORES, scores)
        return None

    def _is_preferred(self, terms: Terms) -> bool:
        """Whether any placed pod has preferred terms."""
        counts_required = self._args.hard_pod_affinity_weight > 0
        return bool(
            terms.carried(Carried.PREFERRED) or (counts_required and terms.carried(Carried.REQUIRED_AFFINITY))
        )

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores:
        return state.read(_SCORES).over(nodes)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Scores) -> Scores:
        return scaled(scores, highest=MAX_NODE_SCORE)

    # Events

    def events_to_register(self) -> Iterable[EventWithHint]:
        pod_changes = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        node_changes = Action.ADD | Action.UPDATE_NODE_LABEL
        labels = Concern(self._hints.topology_keys, changed_node_labels)
        return [
            on_change(Pod, pod_changes, self._pod_change_helps),
            on_new(Node, node_changes, self._hints.node_change_helps, labels),
        ]

    def _pod_change_helps(self, pod: Pod, before: Pod | None, after: Pod | None) -> bool:
        if before is not None and not before.spec.node_name and before.status.nominated_node_name:
            # Its anti-affinity counts here, and nominations are not tracked between attempts.
            self._labels.register_terms(PodInfo(before))
        return self._hints.pod_change_helps(pod, before, after)
