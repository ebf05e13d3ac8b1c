"""Preemption between namespaces with elastic quotas, so that a namespace gets its guaranteed amounts.

In: a pod without a node, the quotas and their usage. Out: the best node for it, and its victims deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kuberth.api import Pod, PodDisruptionBudget, compile_label_selector
from kuberth.cluster.nodes import NodeRow
from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import Code, CycleState, Diagnosis, Handle, PostFilterResult, Status
from kuberth.framework.handle import PodEvent
from kuberth.informers.store import Store

if TYPE_CHECKING:
    from kuberth_plugins.capacity_scheduling import Shares

logger = logging.getLogger(__name__)


class Candidate(NamedTuple):
    """A node on which the pod fits without the victims."""

    node_name: str
    victims: Sequence[PodInfo]
    violations: int
    """How many of the victims a disruption budget protects."""

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """Fewer violations first, then victims of lower priority, then fewer victims."""
        priorities = [info.priority for info in self.victims]
        return self.violations, max(priorities), sum(priorities), len(priorities)


class Evictions:
    """Deletes victims; a victim counts as terminating from the decision on."""

    def __init__(self, handle: Handle, *, plugin: str) -> None:
        self._handle = handle
        self._plugin = plugin
        self._pods = handle.stores.of(Pod)
        self._leaving: set[str] = set()

    def is_leaving(self, info: PodInfo) -> bool:
        return info.uid in self._leaving or info.pod.metadata.deletion_timestamp is not None

    def start(self, preemptor: PodInfo, chosen: Candidate) -> None:
        victims = [info for info in chosen.victims if not self.is_leaving(info)]
        self._leaving.update(info.uid for info in victims)
        work = self._evict_all(preemptor, victims, chosen.node_name)
        self._handle.spawn(work, name=f"preemption for {preemptor.key}")

    async def _evict_all(self, preemptor: PodInfo, victims: Iterable[PodInfo], node_name: str) -> None:
        for info in victims:
            try:
                await self._evict(info, preemptor, node_name)
            except Exception:
                logger.exception("victim %s of pod %s could not be evicted", info.key, preemptor.key)
                self._handle.activator.activate({preemptor.key: preemptor.pod})
            finally:
                self._leaving.discard(info.uid)

    async def _evict(self, victim: PodInfo, preemptor: PodInfo, node_name: str) -> None:
        metadata = victim.pod.metadata
        waiting = self._handle.waiting_pods.get(victim.uid)
        if waiting is None or not waiting.preempt(self._plugin, "preempted"):
            await self._handle.api.delete(Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid)
        note = f"Preempted by pod {preemptor.uid} on node {node_name}"
        event = PodEvent(victim.pod, "Preempted", "Preempting", note, related=preemptor.pod)
        self._handle.recorder.record(event)


class QuotaPreemption:
    """Finds the node on which preemption for the pod costs least."""

    def __init__(self, handle: Handle, evictions: Evictions, budgets: Store[PodDisruptionBudget]) -> None:
        self._handle = handle
        self._evictions = evictions
        self._budgets = budgets

    def preempt(
        self, state: CycleState, info: PodInfo, diagnosis: Diagnosis, shares: Shares, ahead: Sequence[PodInfo]
    ) -> tuple[PostFilterResult | None, Status | None]:
        """`ahead` are the nominated pods for which the pod leaves resources."""
        if info.pod.spec.preemption_policy == "Never":
            return None, Status.unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
        nominated = self._handle.cluster.node_named(info.pod.status.nominated_node_name)
        if nominated is not None and any(map(self._evictions.is_leaving, nominated.pods)):
            return None, Status.unschedulable("preemption: a pod is still leaving the nominated node")
        for other in (*ahead, info):
            shares.add(other)
        candidates = [
            candidate
            for node in self._handle.cluster.all_nodes()
            if diagnosis.status_of(node.name, row=node.row).code != Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            and (candidate := self._candidate(state, info, node, shares)) is not None
        ]
        if not candidates:
            return PostFilterResult(""), Status.unschedulable("preemption: no victims help by the quotas")
        best = min(candidates, key=lambda candidate: candidate.cost)
        self._evictions.start(info, best)
        return PostFilterResult(best.node_name), None

    def _candidate(self, state: CycleState, info: PodInfo, node: NodeRow, shares: Shares) -> Candidate | None:
        """The victims on one node; `shares` is restored afterwards."""
        possible = self._possible_victims(info, node, shares)
        try:
            return self._without(state, info, node, shares, possible) if possible else None
        finally:
            for victim in possible:
                shares.add(victim)

    def _possible_victims(self, info: PodInfo, node: NodeRow, shares: Shares) -> list[PodInfo]:
        """The pods that the quotas let the pod preempt, removed from `shares`; lowest priority first.

        Beyond its own min, a namespace preempts its own pods. Within it, those of namespaces that exceed
        theirs, until they do not. Pods without a quota preempt others without one.
        """
        own, quotas = info.namespace, shares.quotas
        borrows = own in quotas and shares.is_over_min(own)
        possible: list[PodInfo] = []
        for other in sorted(node.pods, key=_importance, reverse=True):
            if own not in quotas:
                may_go = other.namespace not in quotas and other.priority < info.priority
            elif borrows:
                may_go = other.namespace == own and other.priority < info.priority
            else:
                may_go = other.namespace in quotas and other.namespace != own
                may_go = may_go and shares.is_over_min(other.namespace)
            if may_go:
                possible.append(other)
                shares.add(other, -1)
        return possible

    def _without(
        self, state: CycleState, info: PodInfo, node: NodeRow, shares: Shares, possible: Sequence[PodInfo]
    ) -> Candidate | None:
        runner, trial = self._handle.runner, state.clone()
        assert runner is not None, "a profile that runs has a runner"
        filtering = runner.filtering
        taken_back: list[PodInfo] = []

        def fits() -> bool:
            if info.namespace in shares.quotas and (
                shares.is_over_max(info.namespace) or shares.is_over_all()
            ):
                return False
            return filtering.status(trial, info.pod, node).is_success

        with self._handle.cluster.what_if() as what_if:
            for victim in possible:
                what_if.remove_pod(victim, node.row)
                filtering.run_remove_pod(trial, info.pod, victim, node)
            victims: list[PodInfo] = []
            violations = 0
            if fits():
                protected = self._protected(possible)
                ordered = sorted(possible, key=lambda each: (each.uid not in protected, _importance(each)))
                for victim in ordered:
                    what_if.add_pod(victim, node.row)
                    filtering.run_add_pod(trial, info.pod, victim, node)
                    shares.add(victim)
                    if fits():
                        taken_back.append(victim)
                        continue
                    what_if.remove_pod(victim, node.row)
                    filtering.run_remove_pod(trial, info.pod, victim, node)
                    shares.add(victim, -1)
                    victims.append(victim)
                    violations += victim.uid in protected
        for victim in taken_back:
            shares.add(victim, -1)
        return Candidate(node.name, victims, violations) if victims else None

    def _protected(self, pods: Sequence[PodInfo]) -> set[str]:
        """The UIDs of pods whose eviction would violate a disruption budget."""
        left = {
            id(budget): (
                budget,
                compile_label_selector(budget.spec.selector),
                budget.status.disruptions_allowed,
            )
            for budget in self._budgets
        }
        protected: set[str] = set()
        for info in sorted(pods, key=_importance):
            for key, (budget, selector, allowed) in left.items():
                if budget.metadata.namespace == info.namespace and selector.matches(info.labels):
                    left[key] = budget, selector, allowed - 1
                    if allowed <= 0:
                        protected.add(info.uid)
        return protected


def _importance(info: PodInfo) -> tuple[int, bool, float]:
    """A sort key: higher priorities first, then pods that started earlier."""
    started = info.pod.status.start_time
    return -info.priority, started is None, 0.0 if started is None else started.timestamp()
