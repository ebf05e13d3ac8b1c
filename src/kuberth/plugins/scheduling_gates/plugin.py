"""SchedulingGates: gates pods with scheduling gates (KEP-3521)."""

from __future__ import annotations

from collections.abc import Iterable

from kuberth.api.core import Pod
from kuberth.framework.cluster_events import Action, ClusterEvent, EventWithHint, Hint, Resource
from kuberth.framework.extension_points import EnqueueExtensions, PreEnqueuePlugin
from kuberth.framework.hint_objects import expect
from kuberth.framework.status import Status


class SchedulingGates(PreEnqueuePlugin, EnqueueExtensions):
    name = "SchedulingGates"
    gates_only_with = ("spec.scheduling_gates",)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if not pod.spec.scheduling_gates:
            return None
        gates = " ".join(gate.name for gate in pod.spec.scheduling_gates)
        return Status.unresolvable(f"waiting for scheduling gates: [{gates}]")

    def events_to_register(self) -> Iterable[EventWithHint]:
        gates_gone = ClusterEvent(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return [EventWithHint(gates_gone, self._after_gates_are_gone)]

    def _after_gates_are_gone(self, pod: Pod, _old: object, new: object) -> Hint:
        return Hint.QUEUE if expect(Pod, new).metadata.uid == pod.metadata.uid else Hint.SKIP
