"""SchedulingGates: gates pods with scheduling gates (KEP-3521)."""

from __future__ import annotations

from collections.abc import Iterable

from kuberth.api.core import Pod
from kuberth.framework.cluster_events import Action, EventWithHint
from kuberth.framework.extension_points import EnqueueExtensions, PreEnqueuePlugin
from kuberth.framework.status import Status
from kuberth.plugins.hints import is_same_pod, on_new


class SchedulingGates(PreEnqueuePlugin, EnqueueExtensions):
    name = "SchedulingGates"
    gates_only_with = ("spec.scheduling_gates",)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not pod.spec.scheduling_gates:
            return None
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return Status.unresolvable(f"waiting for scheduling gates: [{gates}]")

    def events_to_register(self) -> Iterable[EventWithHint]:
        gates_gone = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return [on_new(Pod, gates_gone, lambda pod, _before, after: is_same_pod(pod, after))]
