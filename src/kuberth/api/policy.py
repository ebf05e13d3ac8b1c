"""The policy group (v1): disruption budgets, which preemption tries not to violate."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import msgspec

from kuberth.api.meta import Condition, LabelSelector, ObjectMeta
from kuberth.api.wire import Wire, always


class PodDisruptionBudgetSpec(Wire):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Wire):
    observed_generation: int = 0
    disrupted_pods: Mapping[str, datetime.datetime] = msgspec.field(default_factory=dict)
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Wire):
    api_version: str = always("policy/v1")
    kind: str = always("PodDisruptionBudget")
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
