"""Kept rejections: a pod that fits on no node is rejected like an equal pod before, if nothing has changed.

In: the end of a cycle without a feasible node. Out: the same rejection for equal pods. If pods on nodes have
changed, the plan evaluates these nodes again, and the rejection stays valid if every verdict is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.table import ClusterTable
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import FitError
from kuberth.framework.equal_pods import EqualPods, KeptRejection
from kuberth.framework.extension_points import PostFilterPlugin
from kuberth.framework.inputs import DependsOn, Inputs, Versioned
from kuberth.framework.nominator import Nominator
from kuberth.framework.plan import Plan, sum_of_versions
from kuberth.framework.profile import Profile
from kuberth.framework.status import Status

logger = logging.getLogger(__name__)


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
