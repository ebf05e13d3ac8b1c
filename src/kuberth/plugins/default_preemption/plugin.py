"""The plugin DefaultPreemption: checks eligibility, finds candidates, chooses a node and preempts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np

from kuberth.api.core import Pod
from kuberth.api.pod_resources import pod_priority
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.scheduling import PodGroup
from kuberth.cluster.pod_groups import pod_group_not_found
from kuberth.cluster.pod_info import PodInfo, group_of
from kuberth.cluster.what_if import LoggedWhatIf
from kuberth.config.plugin_args import DefaultPreemptionArgs
from kuberth.framework.cluster_events import EventWithHint
from kuberth.framework.cycle_state import CycleState, StateKey
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
)
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Inputs
from kuberth.framework.status import Code, Status
from kuberth.informers.store import Store, object_key
from kuberth.plugins.default_preemption.budgets import Budgets
from kuberth.plugins.default_preemption.candidates import (
    NO_ROWS,
    Candidate,
    Search,
    VictimSearch,
    resolvable_rows,
)
from kuberth.plugins.default_preemption.eviction import Evictions, PreemptorIdentity
from kuberth.plugins.default_preemption.extender_review import ExtenderReview
from kuberth.plugins.default_preemption.group_victims import GroupVictims
from kuberth.plugins.default_preemption.plans import VictimPlan, VictimPlans
from kuberth.plugins.default_preemption.trials import Preemptor
from kuberth.plugins.hints import on_deletion

NEVER: Final = "Never"
NOT_TO_PREEMPT: Final = "not eligible due to preemptionPolicy=Never."
CLEAR_NOMINATION: Final = PostFilterResult("")

Outcome = tuple[PostFilterResult | None, Status | None]


class Chosen(NamedTuple):
    """Preemption helps."""

    preemptor: Pod
    search: Search
    best: Candidate


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin, PodGroupPostFilterPlugin, EnqueueExtensions):
    name = "DefaultPreemption"

    def __init__(
        self, args: DefaultPreemptionArgs | None, handle: Handle, *, rng: random.Random | None = None
    ) -> None:
        """`rng` determines the node at which a search begins; None: that of the handle."""
        self._args = DefaultPreemptionArgs() if args is None else args
        self._handle = handle
        self._rng = handle.rng if rng is None else rng
        budgets = handle.stores.of(PodDisruptionBudget)
        self._budgets = Budgets(budgets)
        self._plan = StateKey[dict[frozenset[str], VictimPlan]]("DefaultPreemption/plans")
        self._plans = VictimPlans()
        self._no_plan = VictimPlan(self._budgets, handle.nominator, handle.cluster)
        self._pods = handle.stores.of(Pod)
        gates = handle.feature_gates
        self._by_topology = gates.enabled("TopologyAwareWorkloadScheduling")
        self._for_groups: GroupVictims | None = None
        self._groups: Store[PodGroup] = Store()
        if self._by_topology or gates.enabled("WorkloadAwarePreemption"):
            self._groups = handle.stores.of(PodGroup)
        self.inputs = Inputs(
            {"info.priority", "info.group", "spec.preemption_policy"},
            post_filter=DependsOn.CLUSTER,
            versions=(budgets.changes, self._groups.changes),
        )
        if gates.enabled("WorkloadAwarePreemption"):
            self._for_groups = GroupVictims(handle.cluster, self._groups, self._budgets)
        self._evictions = handle.shared.of(
            Evictions,
            lambda: Evictions(
                handle,
                plugin=self.name,
                asynchronous=gates.enabled("SchedulerAsyncPreemption"),
            ),
        )

    # The gate

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if self._for_groups is not None and pod.spec.scheduling_group is not None:
            group = self._groups.get_by_key(group_of(pod))
            if group is not None and self._evictions.gates(group):
                return Status.unresolvable("waiting for the preemption for this pod group to be finished")
            return None
        if self._evictions.gates(pod):
            return Status.unresolvable("waiting for the preemption for this pod to be finished")
        return None

    def events_to_register(self) -> Iterable[EventWithHint]:
        # Registered so that the gate is checked again. Whether to retry the pod is up to the plugins whose
        # rejection the preemption was to resolve.
        return [on_deletion(Pod, lambda _pod, _deleted: False)]

    # Preemption

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> Outcome:
        found = self._find(state, pod, diagnosis)
        return self._count_attempt(self._evict_for(state, found) if isinstance(found, Chosen) else found)

    def follows_verdicts(self, info: PodInfo) -> bool:
        """While no placed pod has a lower priority, there are no victims, even if other pods change."""
        return not self._handle.cluster.rows_with_priority_below(info.priority).any()

    async def post_filter_waiting(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> Outcome:
        """The same, with a review of the candidates by extenders."""
        found = self._find(state, pod, diagnosis)
        if isinstance(found, Chosen):
            found = await self._reviewed(state, found)
        return self._count_attempt(self._evict_for(state, found) if isinstance(found, Chosen) else found)

    async def _reviewed(self, state: CycleState, found: Chosen) -> Chosen | Outcome:
        preemptor = found.preemptor
        extenders = self._handle.extenders.preempting(preemptor)
        if not extenders:
            return found
        review = ExtenderReview(self._handle)
        agreed = await review.agreed_by_all(extenders, preemptor, found.search)
        if isinstance(agreed, Status):
            return None, agreed
        if self._pods.get_by_key(object_key(preemptor)) is None:
            return None, Status.error(f'pod "{preemptor.metadata.name}" not found')
        best = review.best_that_helps(agreed, state, preemptor)
        if best is None:
            return None, Status.unschedulable("no candidate node for preemption")
        return found._replace(best=best)

    def _count_attempt(self, outcome: Outcome) -> Outcome:
        result, status = outcome
        self._handle.metrics.preemption_attempts.inc()
        if status is None or not status.reasons:
            return result, status
        return result, Status(status.code, f"preemption: {status.message}", cause=status.cause)

    def post_filter_group(
        self, group: str, pods: Sequence[PodInfo], what_if: LoggedWhatIf, try_again: Callable[[], Status]
    ) -> Status | None:
        found = self._groups.get_by_key(group)
        if found is None or self._for_groups is None:
            return Status.error(pod_group_not_found(group))
        if any(info.pod.spec.preemption_policy == NEVER for info in pods):
            return Status.unschedulable(NOT_TO_PREEMPT)
        has_pod_constraints = any(
            info.required_affinity or info.pod.spec.topology_spread_constraints for info in pods
        )
        victims = self._for_groups.find(found, what_if, try_again, together=not has_pod_constraints)
        if isinstance(victims, Status):
            return victims
        self._evictions.start_for(PreemptorIdentity.group(found, pods), victims, node_name="cluster")
        return None

    def _why_not_for_member(self, pod: Pod) -> str:
        """Why a pod of a group may not preempt by itself; empty if it may."""
        if self._by_topology:
            group = self._groups.get_by_key(group_of(pod))
            if group is None:
                return "pod group for pod not found"
            if group.spec.scheduling_constraints is not None:
                return "not eligible due to placement-based pod group scheduling limitation"
        if self._for_groups is not None:
            return "not eligible due to workload aware preemption enabled"
        return ""

    def _find(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> Chosen | Outcome:
        """Find the candidates and choose the best one, or say why preemption does not help."""
        if pod.spec.scheduling_group is not None and (why := self._why_not_for_member(pod)):
            return None, Status.unschedulable(why)
        metadata = pod.metadata
        current = self._pods.get(metadata.name, namespace=metadata.namespace)
        if current is None:
            return None, Status.error(f'pod "{metadata.name}" not found')
        ineligible = self._why_not_eligible(current, diagnosis)
        if ineligible:
            return None, Status.unschedulable(ineligible)
        if self._handle.cluster.node_count == 0:
            return None, Status.error("no nodes available")
        found = self._search(state, current, diagnosis, is_the_same=current is pod)
        best = found.best()
        if best is None:
            if found.error:
                return None, Status.error(found.error)
            why = found.diagnosis().message(self._handle.cluster.node_count)
            return CLEAR_NOMINATION, Status.unschedulable(why)
        return Chosen(current, found, best)

    def _evict_for(self, state: CycleState, chosen: Chosen) -> Outcome:
        info = state.pod_info
        if info is None or info.pod is not chosen.preemptor:
            info = PodInfo(chosen.preemptor)
        self._evictions.start(info, chosen.best)
        return PostFilterResult(chosen.best.node_name), None

    def _why_not_eligible(self, pod: Pod, diagnosis: Diagnosis) -> str:
        """Why the pod may not preempt others; empty if it may."""
        if pod.spec.preemption_policy == NEVER:
            return NOT_TO_PREEMPT
        nominated = pod.status.nominated_node_name
        if not nominated:
            return ""
        node = self._handle.cluster.node_named(nominated)
        status = diagnosis.status_of(nominated, row=None if node is None else node.row)
        # There is no point in waiting for a node that has become unresolvable since.
        if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE or node is None:
            return ""
        priority = pod_priority(pod)
        if any(info.priority < priority and self._evictions.is_leaving(info) for info in node.pods):
            return "not eligible due to a terminating pod on the nominated node."
        return ""

    def _search(self, state: CycleState, pod: Pod, diagnosis: Diagnosis, *, is_the_same: bool) -> Search:
        """`is_the_same`: whether this is still the version of the pod that the cycle was about."""
        cluster, runner = self._handle.cluster, self._handle.runner
        if runner is None:
            raise RuntimeError("DefaultPreemption was called before its profile was complete")
        rows, priority = resolvable_rows(diagnosis, cluster), pod_priority(pod)
        # The usual case on a cluster full of equal pods.
        if not cluster.rows_with_priority_below(priority)[rows].any():
            return Search(self._no_plan, cluster, NO_ROWS, NO_ROWS, rows)
        preemptor = Preemptor(pod, runner, state, cluster=cluster, priority=priority)
        with self._plan_for(preemptor, may_share=is_the_same) as plan:
            # A random start spreads the victims over the cluster.
            rows = np.roll(rows, -self._rng.randrange(len(rows)))
            searching = VictimSearch(preemptor, budgets=self._budgets, plan=plan)
            return searching.search(rows, enough=self.candidates_to_find(len(rows)))

    @contextmanager
    def _plan_for(self, preemptor: Preemptor, *, may_share: bool) -> Iterator[VictimPlan]:
        """The plan of equal preemptors, without outdated results."""
        state, nominator, cluster = preemptor.state, self._handle.nominator, self._handle.cluster
        plan = VictimPlan(self._budgets, nominator, cluster)
        may_share = may_share and not cluster.is_supposing
        filtering = preemptor.runner.filtering
        if (
            may_share
            and filtering.evaluates_equal_pods_alike(state)
            and filtering.evaluates_nodes_independently(state)
        ):
            plans = state.for_equal_pods(self, self._plan, dict[frozenset[str], VictimPlan])
            plan = plans.setdefault(state.skip_filter, plan)
            self._plans.use(plan)
        plan.catch_up()
        # The pod's own nomination does not block the pod itself, only others.
        own_row = cluster.row_of(nominator.node_of(preemptor.pod.metadata.uid))
        if own_row is not None:
            plan.forget((own_row,))
        yield plan
        if own_row is not None:
            plan.forget((own_row,))

    def candidates_to_find(self, nodes: int) -> int:
        """The number of candidates to find among this many nodes; the search ends there."""
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), nodes)
