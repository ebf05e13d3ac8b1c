"""The pods of each pod group, by their scheduling state.

In: pods that intake and the cluster table add, assume, assign and remove. Out: per group, its unscheduled,
assumed and assigned pods. Only the pods' `spec.schedulingGroup` counts: the PodGroup object need not exist.
A group exists here as long as it has a pod.

    pod:   (unknown) ──arrive──▶ unscheduled ──assume──▶ assumed ──assign (seen on the API)──▶ assigned
                                      ▲                     │
                                      └───────forget────────┘        leave: from anywhere to (unknown)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kuberth.cluster.pod_info import PodInfo


def pod_group_not_found(key: str) -> str:
    """The API's message for a missing PodGroup."""
    return f'podgroup.scheduling.k8s.io "{key.rpartition("/")[2]}" not found'


class GroupMembers:
    """The pods of one group, by UID."""

    __slots__ = ("_attempted", "_pending", "assigned", "assumed", "queued", "unscheduled")

    def __init__(self) -> None:
        self.unscheduled: dict[str, PodInfo] = {}
        """The pods without a node."""
        self.queued: dict[str, PodInfo] = {}
        """The unscheduled pods that are not in a scheduling cycle of the group."""
        self.assumed: dict[str, PodInfo] = {}
        """The pods that are assumed on a node, with the node."""
        self.assigned: dict[str, PodInfo] = {}
        """The bound pods."""
        self._attempted: set[str] = set()
        self._pending: dict[str, PodInfo] = {}
        """The assumed pods' objects in the API, without a node."""

    @property
    def total(self) -> int:
        """The number of pods."""
        return len(self.unscheduled) + len(self.assumed) + len(self.assigned)

    @property
    def scheduled(self) -> int:
        """The number of pods that have a node, assumed or bound."""
        return len(self.assumed) + len(self.assigned)

    def scheduled_pods(self) -> Iterator[PodInfo]:
        """The pods that have a node, with the node."""
        yield from self.assigned.values()
        yield from self.assumed.values()

    def begin_attempt(self, uids: Collection[str]) -> None:
        """Record that a cycle of the group begins with these pods."""
        self._attempted.update(uids)
        for uid in uids:
            self.queued.pop(uid, None)

    def end_attempt(self, uids: Collection[str]) -> None:
        """Record that the cycle has ended."""
        self._attempted.difference_update(uids)
        self.queued.update((uid, self.unscheduled[uid]) for uid in uids if uid in self.unscheduled)

    def arrive(self, info: PodInfo) -> None:
        """Add a pod without a node, or its new version."""
        if info.uid in self.assumed:
            self._pending[info.uid] = info
        elif info.uid not in self.assigned:
            self._wait(info)

    def assume(self, info: PodInfo) -> None:
        """Assume the pod on the node in its spec. Ignored if the pod has been removed meanwhile."""
        pending = self.unscheduled.pop(info.uid, None)
        if pending is not None:
            self.queued.pop(info.uid, None)
            self._pending[info.uid] = pending
            self.assumed[info.uid] = info

    def forget(self, uid: str) -> None:
        """Undo an assumption: the pod is unscheduled again."""
        if self.assumed.pop(uid, None) is not None:
            self._wait(self._pending.pop(uid))

    def assign(self, info: PodInfo) -> None:
        """Record that the pod is bound to the node in its spec."""
        self.leave(info.uid)
        self.assigned[info.uid] = info

    def leave(self, uid: str) -> None:
        """Remove the pod from any state."""
        for pods in (self.unscheduled, self.queued, self.assumed, self.assigned, self._pending):
            pods.pop(uid, None)

    def _wait(self, info: PodInfo) -> None:
        self.unscheduled[info.uid] = info
        if info.uid not in self._attempted:
            self.queued[info.uid] = info


class PodGroups:
    """All groups, by `namespace/name`. All methods expect pods with a group."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupMembers] = {}

    def get(self, group: str) -> GroupMembers | None:
        """The pods of a group; None if none is known."""
        return self._groups.get(group)

    def arrive(self, info: PodInfo) -> None:
        """Add a pod without a node, or its new version."""
        self._of(info).arrive(info)

    def assume(self, info: PodInfo) -> None:
        """Assume the pod on the node in its spec."""
        members = self._groups.get(info.group)
        if members is not None:
            members.assume(info)

    def forget(self, info: PodInfo) -> None:
        """Undo an assumption: the pod is unscheduled again."""
        members = self._groups.get(info.group)
        if members is not None:
            members.forget(info.uid)

    def assign(self, info: PodInfo) -> None:
        """Record that the pod is bound to the node in its spec."""
        self._of(info).assign(info)

    def leave(self, info: PodInfo) -> None:
        """Remove a pod that was deleted or has finished."""
        members = self._groups.get(info.group)
        if members is not None:
            members.leave(info.uid)
            if not members.total:
                del self._groups[info.group]

    def _of(self, info: PodInfo) -> GroupMembers:
        members = self._groups.get(info.group)
        if members is None:
            members = self._groups[info.group] = GroupMembers()
        return members

    def __len__(self) -> int:
        return len(self._groups)
