"""Disruption budgets: which evictions would break one.

In: the PodDisruptionBudgets of the cluster, and victims from the most important on. Out: the victims
that some budget has no disruption left for, and the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.selectors import Selector, compile_label_selector
from kuberth.cluster.pod_info import PodInfo
from kuberth.errors import SelectorError


class _Budget(NamedTuple):
    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    """Pods whose eviction the API server has already counted."""


class Budgets:
    """The budgets as they stand, read once per preemption."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[_Budget]] = {}
        for budget in budgets:
            try:
                selector = compile_label_selector(budget.spec.selector)
            except SelectorError:
                continue  # upstream: an unreadable selector protects no pod
            # An empty selector protects nothing either, unlike everywhere else in Kubernetes.
            if selector.empty or selector.matches_nothing:
                continue
            self._by_namespace.setdefault(budget.metadata.namespace, []).append(
                _Budget(selector, budget.status.disruptions_allowed, frozenset(budget.status.disrupted_pods))
            )

    def split(self, victims: Sequence[PodInfo]) -> tuple[Sequence[PodInfo], Sequence[PodInfo]]:
        """Those whose eviction would break a budget and those whose would not, each in the given order.

        Every victim uses up a disruption of each budget that covers it, so the order decides who exceeds.
        """
        if not self._by_namespace:
            return (), victims
        left = {name: [budget.allowed for budget in found] for name, found in self._by_namespace.items()}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for victim in victims:
            broken = self._use_up(victim, left.get(victim.namespace, []))
            (violating if broken else others).append(victim)
        return violating, others

    def _use_up(self, victim: PodInfo, left: list[int]) -> bool:
        # A pod without labels is covered by no budget, not even by one that asks for a label's absence.
        if not left or not victim.labels:
            return False
        broken = False
        for index, budget in enumerate(self._by_namespace[victim.namespace]):
            if victim.pod.metadata.name in budget.disrupted or not budget.selector.matches(victim.labels):
                continue
            left[index] -= 1
            broken = broken or left[index] < 0
        return broken
