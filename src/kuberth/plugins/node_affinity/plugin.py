"""NodeAffinity: a pod's nodeSelector and node affinity, and the profile's added affinity.

Required terms reject nodes, preferred terms add their weights. If a pod can only run on nodes that it names,
only these are searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from kuberth.api.core import Node, NodeSelectorTerm, Pod
from kuberth.api.core import NodeAffinity as Affinity
from kuberth.api.meta import ObjectMeta
from kuberth.api.selectors import (
    CompiledNodeSelector,
    CompiledPreferredTerm,
    RequiredNodeAffinity,
    compile_node_selector,
    compile_preferred_terms,
    required_node_affinity,
    required_node_selector,
)
from kuberth.api.selectors.compiled_cache import CompiledCache
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.selection import meets_node_selector, meets_required_affinity, sum_of_weights
from kuberth.config.plugin_args import NodeAffinityArgs
from kuberth.errors import SelectorError
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    FilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    Scores,
)
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.scores import normalized
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.plugins.hints import on_new

_NOT_ADDED: Final = Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
_NOT_PODS: Final = Status.unresolvable("node(s) didn't match Pod's node affinity/selector")
_CONFLICT: Final = Status.unresolvable("pod affinity terms conflict")

PreferredTerms = Sequence[CompiledPreferredTerm]
_REQUIRED: Final = StateKey[RequiredNodeAffinity]("NodeAffinity/required")
_PREFERRED: Final = StateKey[PreferredTerms]("NodeAffinity/preferred")
_NONE: Final = Affinity()


class _Added(NamedTuple):
    """The required node affinity that the profile's `addedAffinity` adds for every pod."""

    required: CompiledNodeSelector | None = None
    preferred: PreferredTerms | None = None


_NOTHING_ADDED: Final = _Added()


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions):
    name = "NodeAffinity"
    inputs = Inputs(
        {"spec.affinity", "spec.node_selector"},
        pre_filter=DependsOn.POD,
        filter=DependsOn.NODE_OBJECT,
        pre_score=DependsOn.POD,
        score=DependsOn.NODE_OBJECT,
    )

    def __init__(self, args: NodeAffinityArgs | None, _handle: Handle) -> None:
        self._added = _compile_added(args.added_affinity if args is not None else None)
        self._cache = CompiledCache[CompiledNodeSelector]()

    def pre_filter(self, state: CycleState, pod: Pod, _nodes: Nodes) -> PreFilterResult | Status | None:
        required = _of(pod).required_during_scheduling_ignored_during_execution
        if required is None and self._added.required is None and not pod.spec.node_selector:
            return SKIP
        state.write(_REQUIRED, required_node_affinity(pod))
        names = None if required is None else _named_nodes(required.node_selector_terms)
        if names is None:
            return None
        return PreFilterResult(names) if names else _CONFLICT

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        required = state.get(_REQUIRED)
        if required is None:  # PreFilter of this plugin is disabled
            required = required_node_affinity(pod)
        # An invalid term matches no node; upstream reports nothing more either.
        codes = np.where(meets_required_affinity(nodes, required), 0, 2)
        if self._added.required is not None:
            codes = np.where(meets_node_selector(nodes, self._added.required), codes, 1)
        return Verdict.choosing(codes, _NOT_ADDED, _NOT_PODS)

    def pre_score(self, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | None:
        prefers = _of(pod).preferred_during_scheduling_ignored_during_execution
        if not prefers and self._added.preferred is None:
            return SKIP
        compiled = _preferred_terms(pod)
        if isinstance(compiled, Status):
            return compiled
        state.write(_PREFERRED, compiled)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores | Status:
        """The sum of the weights of all matching preferred terms, the profile's and the pod's."""
        terms: PreferredTerms | Status | None = state.get(_PREFERRED)
        if terms is None:  # PreScore of this plugin is disabled
            terms = _preferred_terms(pod)
        if isinstance(terms, Status):
            return terms
        return sum_of_weights(nodes, (*(self._added.preferred or ()), *terms))

    def normalize_scores(self, _state: CycleState, _pod: Pod, scores: Scores) -> Scores:
        return normalized(scores)

    def events_to_register(self) -> Iterable[EventWithHint]:
        return [on_new(Node, Action.ADD | Action.UPDATE_NODE_LABEL, self._helps)]

    def _helps(self, pod: Pod, before: Node | None, after: Node) -> bool:
        """Only a node that matches now and did not before helps."""
        added, now = self._added.required, after.metadata
        if added is not None and not added.matches(now.labels, now.name):
            return False
        try:
            return self._matches(pod, now) and (before is None or not self._matches(pod, before.metadata))
        except SelectorError:
            return True

    def _matches(self, pod: Pod, node: ObjectMeta) -> bool:
        """Like `required_node_affinity(pod).matches`, without compiling all terms at each node change."""
        if any(node.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
            return False
        required = required_node_selector(pod)
        if required is None:
            return True
        compiled = self._cache.get(required)
        if compiled is None:
            compiled = compile_node_selector(required)
            self._cache.put(required, None, compiled, length=compiled.length)
        return compiled.matches(node.labels, node.name)


def _compile_added(affinity: Affinity | None) -> _Added:
    if affinity is None:
        return _NOTHING_ADDED
    required = None
    if affinity.required_during_scheduling_ignored_during_execution is not None:
        required = compile_node_selector(affinity.required_during_scheduling_ignored_during_execution)
        required.check()
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    return _Added(required, compile_preferred_terms(preferred) if preferred else None)


def _of(pod: Pod) -> Affinity:
    affinity = pod.spec.affinity
    return affinity.node_affinity if affinity is not None and affinity.node_affinity is not None else _NONE


def _preferred_terms(pod: Pod) -> PreferredTerms | Status:
    """The pod's preferred terms. As upstream, an invalid one fails the cycle, and the pod is retried."""
    try:
        return compile_preferred_terms(_of(pod).preferred_during_scheduling_ignored_during_execution)
    except SelectorError as exc:
        return Status.error(SelectorError(f"the pod's preferred node affinity is invalid: {exc}"))


def _named_nodes(terms: Sequence[NodeSelectorTerm]) -> frozenset[str] | None:
    """The names of the nodes that can match, if every term names nodes; None if any node may match."""
    if not terms:
        return None
    names: set[str] = set()
    for term in terms:
        lists = [
            field.values
            for field in term.match_fields
            if field.key == "metadata.name" and field.operator == "In"
        ]
        if not lists:
            return None
        names |= set(lists[0]).intersection(*lists[1:])
    return frozenset(names)
