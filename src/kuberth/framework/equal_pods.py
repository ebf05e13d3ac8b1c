"""Results that equal pods share: one value per signature.

In: what `Plans` computes for the first of these pods, and the end of a cycle without a feasible node. Out:
the answers that hold for all of them, the plugins to call for each, the plan of the nodes, and the last
rejection of such a pod. If pods on nodes have changed since, the plan evaluates these nodes again, and the
rejection stays valid if every verdict is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState, GroupAttempt, StateKey
from kuberth.framework.diagnosis import FitError
from kuberth.framework.extension_points import PostFilterPlugin, PreFilterPlugin, PreScorePlugin
from kuberth.framework.inputs import DependsOn, Inputs, Versioned
from kuberth.framework.nominator import Nominator
from kuberth.framework.plan import Plan, sum_of_versions
from kuberth.framework.profile import Profile
from kuberth.framework.running.filters import Filter
from kuberth.framework.running.scorers import Scorer
from kuberth.framework.status import Status

logger = logging.getLogger(__name__)


class KeptRejection(NamedTuple):
    """The rejection of a pod that fits on no node."""

    status: Status
    """The status, with its diagnosis and the message of PostFilter."""
    nomination: str | None
    """"" clears the pod's nomination, None leaves it unchanged."""
    version: int
    """The sum of the versions of everything that it depends on, except the pods on nodes."""
    rows_version: int
    """The version of the pods on nodes."""
    unschedulable_plugins: Set[str]
    """The plugins that rejected the pod on some node."""
    pending_plugins: Set[str]
    """The rejecting plugins that returned Pending."""
    preemption_attempts: int = 0
    """The number of preemption attempts for the pod."""
    group: GroupAttempt | None = None
    """The attempt of a group in which the pod was rejected."""
    verdicts: tuple[Plan, int] | None = None
    """The plan that rejects every node, with the version of its verdicts, if the rejection is valid as long
    as the verdicts do not change. None: every change of a node or its pods ends it."""


class EqualPods:
    """Results that pods of one signature share."""

    def __init__(self, signed: frozenset[str], versions: Sequence[Versioned] = ()) -> None:
        self.signed = signed
        """The plugins whose stated fields are part of the signature."""
        self.versions = versions
        """What the answers of these plugins depend on besides the pod."""
        self.plan: Plan | None = None
        """The plan of the nodes; None if PreFilter rejects pods or narrows the search."""
        self.memory: dict[StateKey[Any], Any] = {}
        """Values of plugins that equal pods share (`CycleState.for_equal_pods`)."""
        self.written: dict[StateKey[Any], Any] = {}
        """The data that PreFilter and PreScore wrote."""
        self.pre_filter: Sequence[PreFilterPlugin] = ()
        """Plugins to call at PreFilter."""
        self.pre_score: Sequence[PreScorePlugin] = ()
        """Plugins to call at PreScore."""
        self.uncached_filters: Sequence[Filter] = ()
        """Filters whose verdicts the plan does not cache; they come after all others."""
        self.uncached_scorers: Sequence[Scorer] = ()
        """Scorers whose scores the plan does not cache."""
        self.kept_scorers: dict[str, int] = {}
        """By plugin: the index of a scorer whose scores the plan caches."""
        self.scored_by: tuple[Scorer, ...] = ()
        """All scorers of these pods, in order, unless a PreScore plugin to call skips them."""
        self.unconcerned: frozenset[str] = frozenset()
        """Plugins that ignore these pods."""
        self.rejection: KeptRejection | None = None
        """The last rejection of such a pod; it may be outdated."""
        self.rejection_versions: Sequence[Versioned] | None = None
        """What a rejection of these pods depends on; None if some plugin does not state it."""
        self.rejection_needs_plan = False
        """Whether a rejection is kept only if the plan rejects every node, because an uncached filter may
        change its answer at any time."""
        self._skipped_filter: dict[tuple[str, ...], frozenset[str]] = {}
        self._skipped_score: dict[tuple[str, ...], frozenset[str]] = {}

    def enter(self, state: CycleState) -> None:
        """Begin a pod's attempt with these results."""
        state.equal_pods = self
        state.write_all(self.written)

    @property
    def is_current(self) -> bool:
        """Whether the results are still valid."""
        return self._versions == sum_of_versions(self.versions)

    def prepared(self, skip_filter: Iterable[str], skip_score: Iterable[str]) -> None:
        """Record that the results are valid as of now, and the plugins that skip these pods."""
        self._versions = sum_of_versions(self.versions)
        self._skipped_filter = {(): frozenset(skip_filter)}
        self._skipped_score = {(): frozenset(skip_score)}

    def skip_filter(self, skipped: Sequence[str]) -> frozenset[str]:
        """The plugins whose Filter is skipped, with the pod's own `skipped`; equal sets are one object."""
        return _union(self._skipped_filter, skipped)

    def skip_score(self, skipped: Sequence[str]) -> frozenset[str]:
        """The same for Score."""
        return _union(self._skipped_score, skipped)


def _union(known: dict[tuple[str, ...], frozenset[str]], more: Sequence[str]) -> frozenset[str]:
    key = tuple(more)
    found = known.get(key)
    if found is None:
        found = known[key] = known[()].union(key)
    return found


@dataclass(eq=False, kw_only=True)
class Rejections:
    """Keeps rejections in the `EqualPods` for which they are valid."""

    profile: Profile
    statements: Mapping[str, Inputs]
    cluster: ClusterTable
    nominator: Nominator

    def has_nomination(self, info: PodInfo) -> bool:
        """Whether the pod itself has a nomination, so that equal pods may get other verdicts."""
        return bool(info.pod.status.nominated_node_name or self.nominator.node_of(info.uid))

    def versions(self, equal_pods: EqualPods) -> Sequence[Versioned] | None:
        """What a rejection depends on besides the pods on nodes; None if some plugin does not state it."""
        versions: list[Versioned] = [self.nominator.changes, *equal_pods.versions]
        for plugin in self.profile.post_filter:
            inputs = self.statements.get(plugin.name)
            if inputs is None or inputs.post_filter is DependsOn.ANYTHING:
                return None
            versions += inputs.versions
        return tuple(dict.fromkeys(versions))

    def needs_plan(self, equal_pods: EqualPods) -> bool:
        """Whether an uncached filter may change its answer at any time.

        Plugins that are called at PreFilter do not count, because they skip these pods.
        """
        called = {plugin.name for plugin in equal_pods.pre_filter}
        stated = (
            self.statements.get(each.name) for each in equal_pods.uncached_filters if each.name not in called
        )
        return any(inputs is None or inputs.filter is DependsOn.ANYTHING for inputs in stated)

    def keep(
        self, state: CycleState, status: Status, nomination: str | None, *, preemption_attempts: int = 0
    ) -> None:
        """Keep the rejection of a pod that fits on no node and that PostFilter could not help."""
        equal_pods, info, cause = state.equal_pods, state.pod_info, status.cause
        if (
            equal_pods is not None
            and info is not None
            and isinstance(cause, FitError)
            and equal_pods.rejection_versions is not None
            and not nomination
            and not self.has_nomination(info)
            and skips_all_called(equal_pods, state)
            and (not equal_pods.rejection_needs_plan or self._plan_rejects_all(equal_pods, state))
        ):
            diagnosis = cause.diagnosis
            equal_pods.rejection = KeptRejection(
                status,
                nomination,
                sum_of_versions(equal_pods.rejection_versions),
                self.cluster.changes.version,
                frozenset(diagnosis.unschedulable_plugins),
                frozenset(diagnosis.pending_plugins),
                preemption_attempts,
                state.group,
                self._verdicts(equal_pods, state, info),
            )

    def current(self, equal_pods: EqualPods, state: CycleState) -> KeptRejection | None:
        """The last rejection of these pods, if this pod would be rejected in the same way now.

        During the attempt of a group, only rejections of the same attempt count.
        """
        kept = equal_pods.rejection
        if kept is None or kept.group is not state.group or equal_pods.rejection_versions is None:
            return None
        if kept.version != sum_of_versions(equal_pods.rejection_versions):
            kept = equal_pods.rejection = None
        elif kept.rows_version != self.cluster.changes.version:
            kept = equal_pods.rejection = self._renewed(kept, equal_pods, state)
        return kept

    def _renewed(self, kept: KeptRejection, equal_pods: EqualPods, state: CycleState) -> KeptRejection | None:
        """The same rejection, if the verdicts on the changed nodes are the same as before."""
        info = state.pod_info
        if kept.verdicts is None or info is None:
            return None
        plan = kept.verdicts[0]
        if not plan.refresh(state, info.pod) or self._verdicts(equal_pods, state, info) != kept.verdicts:
            return None
        return kept._replace(rows_version=self.cluster.changes.version)

    def _plan_rejects_all(self, equal_pods: EqualPods, state: CycleState) -> bool:
        """Whether no uncached filter was called; with nominated pods, all are called."""
        plan = equal_pods.plan
        return plan is not None and plan.rejects_all and state.group is None and not self.nominator.by_node

    def _verdicts(self, equal_pods: EqualPods, state: CycleState, info: PodInfo) -> tuple[Plan, int] | None:
        """The plan's verdicts, if the rejection depends only on these."""
        plan = equal_pods.plan
        if plan is None or state.group is not None or not plan.rejects_all:
            return None
        if not all(self._follows_verdicts(plugin, info) for plugin in self.profile.post_filter):
            return None
        return plan, plan.verdicts_version

    def _follows_verdicts(self, plugin: PostFilterPlugin, info: PodInfo) -> bool:
        inputs = self.statements.get(plugin.name)
        if inputs is not None and inputs.post_filter is DependsOn.POD:
            return True
        try:
            return plugin.follows_verdicts(info)
        except Exception:
            logger.exception("plugin %r failed at follows_verdicts; its answer is not kept", plugin.name)
            return False


def skips_all_called(equal_pods: EqualPods, state: CycleState) -> bool:
    """Whether every plugin that was called at PreFilter skipped this pod."""
    return all(plugin.name in state.skip_filter for plugin in equal_pods.pre_filter)
