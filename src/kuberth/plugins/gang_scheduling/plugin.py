"""GangScheduling: pods of a gang are gated until enough of them exist, and bound when enough have a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.api.scheduling import PodGroup
from kuberth.cluster.pod_groups import GroupMembers, pod_group_not_found
from kuberth.cluster.pod_info import group_of
from kuberth.framework.cluster_events import Action, Concern, EventWithHint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    PermitPlugin,
    PermitResult,
    PreEnqueuePlugin,
)
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import Inputs
from kuberth.framework.status import Status
from kuberth.informers.store import object_key
from kuberth.plugins.hints import on_new

PERMIT_SECONDS: Final = 5 * 60.0
"""How long a pod keeps its node while its gang is incomplete."""


class _Gang(NamedTuple):
    min_count: int
    members: GroupMembers


class GangScheduling(PreEnqueuePlugin, PermitPlugin, EnqueueExtensions):
    name = "GangScheduling"
    gates_only_with = ("spec.scheduling_group",)
    inputs = Inputs({"info.group"})

    def __init__(self, _args: object, handle: Handle) -> None:
        self._handle = handle
        self._groups = handle.stores.of(PodGroup)
        self._members = handle.cluster.pod_groups

    # The gate

    def pre_enqueue(self, pod: Pod) -> Status | None:
        gang = self._gang(group_of(pod), missing=_not_in_queue)
        if not isinstance(gang, _Gang):
            return gang
        if gang.members.total < gang.min_count:
            return Status.unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
        return None

    def _gang(self, key: str, *, missing: Callable[[str], Status]) -> _Gang | Status | None:
        """The gang with this key; None if it is not a gang, the status `missing` without a PodGroup."""
        if not key:
            return None
        group = self._groups.get_by_key(key)
        if group is None:
            return missing(key)
        policy = group.spec.scheduling_policy.gang
        if policy is None:
            return None
        members = self._members.get(key)
        return Status.error(unknown_group(key)) if members is None else _Gang(policy.min_count, members)

    def events_to_register(self) -> Iterable[EventWithHint]:
        # Neither a PodGroup's policy nor a pod's group ever changes, so only additions matter.
        return [
            on_new(Pod, Action.ADD, self._completes, Concern(_groups_of, self._completed)),
            on_new(PodGroup, Action.ADD, _is_group_of, Concern(_groups_of, _added)),
        ]

    def _completed(self, _old: object, new: object) -> Iterable[str]:
        """The gang that a new pod completes: hints do not run for thousands of incomplete ones."""
        key = group_of(new) if isinstance(new, Pod) else ""
        return (key,) if key and self._is_complete(key) else ()

    def _completes(self, pod: Pod, _before: Pod | None, after: Pod) -> bool:
        # If many pods are still missing, one pod would not open the gate.
        key = group_of(pod)
        return bool(key) and group_of(after) == key and self._is_complete(key)

    def _is_complete(self, key: str) -> bool:
        group, members = self._groups.get_by_key(key), self._members.get(key)
        if group is None:
            return False
        gang = group.spec.scheduling_policy.gang
        return gang is None or members is None or members.total >= gang.min_count

    # Permit

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult | Status | None:
        gang = self._gang(group_of(pod), missing=_not_found)
        if not isinstance(gang, _Gang):
            return gang
        members = gang.members
        if members.scheduled < gang.min_count:
            # The group's own cycle activates the pods that it holds.
            if members.queued:
                self._handle.activator.activate({info.key: info.pod for info in members.queued.values()})
            return PermitResult.wait(PERMIT_SECONDS, "waiting for minCount pods from a gang to be scheduled")
        if len(self._handle.waiting_pods):
            for uid in members.assumed:
                if (waiting := self._handle.waiting_pods.get(uid)) is not None:
                    waiting.allow(self.name)
        return None


def _is_group_of(pod: Pod, _before: PodGroup | None, after: PodGroup) -> bool:
    return group_of(pod) == object_key(after)


def _groups_of(pod: Pod) -> Iterable[str]:
    return (group_of(pod),)


def _added(_old: object, new: object) -> Iterable[str]:
    return (object_key(new),) if isinstance(new, PodGroup) else ()


def unknown_group(key: str) -> str:
    return f"pod group state not found for pod group {key}"


def _not_in_queue(key: str) -> Status:
    name = key.rpartition("/")[2]
    return Status.unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')


def _not_found(key: str) -> Status:
    return Status.error(f"failed to get podGroup {key}: {pod_group_not_found(key)}")
