"""PodDisruptionBudgets: how many pods may be evicted now.

In: budgets, pods, and the controllers that say how many pods there should be. Out: the budgets' status,
which the eviction verb honours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kuberth.local.apiserver.objects import (
    Obj,
    condition,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    selector_of,
    set_condition,
)
from kuberth.local.hollow.controllers.rollout import scaled
from kuberth.local.hollow.controlling import Controller, by_namespace
from kuberth.local.hollow.ownership import controller_of
from kuberth.local.hollow.pod_states import is_finished, is_ready
from kuberth.local.hollow.working import coalesce_seconds
from kuberth.text.timestamps import seconds_since, stamp

_BUDGETS: Final = "poddisruptionbudgets.policy"
_EVICTION_SECONDS: Final = 120.0
"""How long an evicted pod counts as gone until its deletion is seen."""
_SCALES: Final = {
    "Deployment": "deployments.apps",
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "ReplicationController": "replicationcontrollers",
}


class DisruptionController(Controller):
    name = "disruption"

    def set_up(self) -> None:
        self._queue = self.queue_of(_BUDGETS, self._sync)
        indexes = {"namespace": by_namespace}
        self._budgets = self.watch(_BUDGETS, self._queue.add_changed, indexes=indexes)
        self._pods = self.watch("pods", indexes=indexes)
        self._pods.add_handler(self._on_pod)
        self._owners = {kind: self.watch(id_, self._on_owner) for kind, id_ in _SCALES.items()}

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        pods = [pod for pod in (old, new) if pod is not None]
        namespace = namespace_of(pods[-1])
        for budget in self._budgets.by("namespace", namespace):
            selector = selector_of(budget["spec"].get("selector"))
            if any(selector.matches(labels_of(pod)) for pod in pods):
                seconds = coalesce_seconds(self._pods.count("namespace", namespace))
                self._queue.add_after(key_of(budget), seconds)

    def _on_owner(self, old: Obj | None, new: Obj | None) -> None:
        """Queue the budgets of a namespace whose controller was scaled: a budget may be a percentage."""
        if old is not None and new is not None and old["spec"].get("replicas") == new["spec"].get("replicas"):
            return
        for budget in self._budgets.by("namespace", namespace_of(new or old or {})):
            self._queue.add(key_of(budget))

    async def _sync(self, budget: Obj) -> float | None:
        selector = selector_of(budget["spec"].get("selector"))
        pods = [
            pod
            for pod in self._pods.by("namespace", namespace_of(budget))
            if not is_finished(pod) and selector.matches(labels_of(pod))
        ]
        status = self._status(budget, pods)
        await self._budgets.write_status(budget, status)
        return _EVICTION_SECONDS if status.get("disruptedPods") else None

    def _status(self, budget: Obj, pods: Sequence[Obj]) -> Obj:
        disrupted = self._disrupted(budget, pods)
        healthy = sum(
            is_ready(pod) and not self._pods.is_terminating(pod) and name_of(pod) not in disrupted
            for pod in pods
        )
        expected, desired = self._wanted(budget["spec"], pods)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        reason = "SufficientPods" if allowed else "InsufficientPods"
        generation = budget["metadata"].get("generation", 0)
        found = {**condition("DisruptionAllowed", allowed > 0, reason, ""), "observedGeneration": generation}
        before = budget.get("status", {}).get("conditions") or []
        status: Obj = {
            "observedGeneration": generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": set_condition(before, found, now=stamp(self._clock)),
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        return status

    def _disrupted(self, budget: Obj, pods: Sequence[Obj]) -> dict[str, str]:
        """Pods whose eviction was allowed and whose deletion has not been seen yet."""
        evicted: dict[str, str] = budget.get("status", {}).get("disruptedPods") or {}
        waiting = {name_of(pod) for pod in pods if "deletionTimestamp" not in pod["metadata"]}
        return {
            name: since
            for name, since in evicted.items()
            if name in waiting and seconds_since(since, self._clock) < _EVICTION_SECONDS
        }

    def _wanted(self, spec: Obj, pods: Sequence[Obj]) -> tuple[int, int]:
        """The expected number of pods, and how many of them must stay healthy."""
        if "maxUnavailable" in spec:
            expected = self._expected(pods)
            return expected, max(0, expected - scaled(spec["maxUnavailable"], expected, up=True))
        minimum = spec.get("minAvailable", 1)
        if isinstance(minimum, str):
            expected = self._expected(pods)
            return expected, scaled(minimum, expected, up=True)
        return len(pods), int(minimum)

    def _expected(self, pods: Sequence[Obj]) -> int:
        """The sum of what the pods' controllers ask for; pods on their own count for themselves."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = self._scale_of(pod)
            if owner is None:
                scales[pod["metadata"]["uid"]] = 1
            else:
                scales[owner["metadata"]["uid"]] = int(owner["spec"].get("replicas", 1))
        return sum(scales.values())

    def _scale_of(self, pod: Obj) -> Obj | None:
        """The controller with a scale: the deployment behind a replica set."""
        found, obj = None, pod
        for _ in range(2):
            reference = controller_of(obj)
            owners = None if reference is None else self._owners.get(reference.get("kind", ""))
            if reference is None or owners is None:
                break
            owner = owners.get(f"{namespace_of(pod)}/{reference['name']}")
            if owner is None or owner["metadata"]["uid"] != reference.get("uid"):
                break
            found = obj = owner
        return found
