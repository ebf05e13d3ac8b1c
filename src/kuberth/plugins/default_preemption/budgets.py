"""Disruption budgets: which evictions would break one.

In: the PodDisruptionBudgets of the cluster, and victims from the most important on. Out: the victims
that some budget has no disruption left for, and the others. Budgets are filed by a label that they demand,
and only those that changed are read again, so that thousands of them cost a preemption nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.selectors import Selector, compile_label_selector
from kuberth.changes import Changes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.term_index import UNDEMANDING, LabelIndex, LabelPair, demanded_labels
from kuberth.errors import SelectorError
from kuberth.informers.store import Store


class _Budget(NamedTuple):
    namespace: str
    selector: Selector
    filed_under: tuple[LabelPair, ...]
    allowed: int
    disrupted: frozenset[str]
    """Pods whose eviction the API server has already counted."""


class Split(NamedTuple):
    """Victims by what budgets say of them, each group in the order they were given."""

    violating: Sequence[PodInfo]
    """Those whose eviction would break a budget."""
    others: Sequence[PodInfo]
    covering: frozenset[str]
    """All budgets that had a say, by key."""


ANY_PODS: Final = ""
"""Not a budget's key: the pods that budgets cover have changed."""
_NO_ONE: Final[frozenset[str]] = frozenset()


class Budgets:
    """The budgets of a store, as they stand whenever they are asked."""

    def __init__(self, store: Store[PodDisruptionBudget]) -> None:
        self._store = store
        self._store_changes = store.change_reader()
        self._budgets: dict[str, _Budget] = {}
        self._filed: dict[str, LabelIndex[str, _Budget]] = {}
        self.changes: Changes[str] = Changes()
        """Keys of the budgets that count differently than before; `ANY_PODS` if others are covered."""

    def split(self, victims: Sequence[PodInfo]) -> Split:
        """Those whose eviction would break a budget and those whose would not.

        Every victim uses up a disruption of each budget that covers it, so the order decides which victims
        exceed it.
        """
        self.catch_up()
        if not self._budgets:
            return Split((), victims, _NO_ONE)
        used: dict[str, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for victim in victims:
            (violating if self._breaks(victim, used) else others).append(victim)
        return Split(violating, others, frozenset(used))

    def split_units(
        self, units: Sequence[Sequence[PodInfo]]
    ) -> tuple[Sequence[Sequence[PodInfo]], Sequence[Sequence[PodInfo]]]:
        """The same for pods that are only evicted together: those that break a budget, and the others."""
        self.catch_up()
        used: dict[str, int] = {}
        violating: list[Sequence[PodInfo]] = []
        others: list[Sequence[PodInfo]] = []
        for unit in units:
            # The first pod that breaks one settles it; those after it are not counted.
            breaks = any(self._breaks(victim, used) for victim in unit)
            (violating if breaks else others).append(unit)
        return violating, others

    def _breaks(self, victim: PodInfo, used: dict[str, int]) -> bool:
        index, labels = self._filed.get(victim.namespace), victim.labels
        # A pod without labels is covered by no budget, not even by one that asks for a label's absence.
        if index is None or not labels:
            return False
        broken = False
        for key, budget in index.under((*labels.items(), UNDEMANDING)):
            if not budget.selector.matches(labels):
                continue
            counts = victim.pod.metadata.name not in budget.disrupted
            used[key] = used.get(key, 0) + counts
            broken = broken or (counts and used[key] > budget.allowed)
        return broken

    def catch_up(self) -> None:
        """Read the budgets that changed."""
        changed = self._store_changes.read()
        for key in self._store.keys() | self._budgets.keys() if changed is None else changed:
            old = self._budgets.pop(key, None)
            if old is not None:
                self._filed[old.namespace].remove(key, old.filed_under)
            present = self._store.get_by_key(key)
            new = None if present is None else _read(present)
            if new is not None:
                self._budgets[key] = new
                self._filed.setdefault(new.namespace, LabelIndex()).file(key, new, new.filed_under)
            if old != new:
                same_pods = old is not None and new is not None and old.selector == new.selector
                self.changes.note(key if same_pods else ANY_PODS)


def _read(budget: PodDisruptionBudget) -> _Budget | None:
    """The budget as it counts here; None if it protects no pod."""
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return None  # upstream: an unreadable selector protects no pod
    # An empty selector protects nothing either, unlike everywhere else in Kubernetes.
    if selector.empty or selector.matches_nothing:
        return None
    return _Budget(
        budget.metadata.namespace,
        selector,
        demanded_labels((selector,)),
        budget.status.disruptions_allowed,
        frozenset(budget.status.disrupted_pods),
    )
