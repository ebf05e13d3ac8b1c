"""A rule that reads a custom resource: a namespace's pods are placed while its Budget is open.

kubectl apply -f examples/budget-crd.yaml
kuberth run --plugin examples.team_budgets:TeamBudgets --config ...   # which enables TeamBudgets

The scheduler may be there before the definition is: until it appears, no namespace has a budget.
"""

from __future__ import annotations

from collections.abc import Iterable

from kuberth.api import Pod, register_kind
from kuberth.cluster.nodes import Nodes
from kuberth.framework import (
    Action,
    ClusterEvent,
    CycleState,
    EnqueueExtensions,
    EventWithHint,
    Handle,
    Hint,
    PreFilterPlugin,
    Status,
)

Budget = register_kind("Budget", group="example.com", version="v1", plural="budgets")


class TeamBudgets(PreFilterPlugin, EnqueueExtensions):
    name = "TeamBudgets"

    def __init__(self, args: object, handle: Handle) -> None:
        self._budgets = handle.stores.of(Budget)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        budgets = list(self._budgets.in_namespace(pod.metadata.namespace))
        if any(budget.get("spec", {}).get("open") for budget in budgets):
            return None
        return Status.unresolvable("the budget is closed" if budgets else "the namespace has no budget")

    def events_to_register(self) -> Iterable[EventWithHint]:
        changed = ClusterEvent("budgets.v1.example.com", Action.ADD | Action.UPDATE)
        return [EventWithHint(changed, self._after_budget_change)]

    def _after_budget_change(self, pod: Pod, old: object, new: object) -> Hint:
        """Only an open budget of the pod's own namespace can help it."""
        assert isinstance(new, Budget)
        own = new.metadata.namespace == pod.metadata.namespace
        return Hint.QUEUE if own and new.get("spec", {}).get("open") else Hint.SKIP
