"""Which pods belong to a group, and how far each of them has come.

In: pods as intake and the cluster table see them come, take a node and leave. Out: per group the pods that
are unscheduled, assumed and assigned. It goes by the pods' `spec.schedulingGroup` alone: PodGroup objects
need not exist. A group is known as long as one of its pods is.

    pod:   (unknown) ──arrive──▶ unscheduled ──assume──▶ assumed ──assign (seen on the API)──▶ assigned
                                      ▲                     │
                                      └───────forget────────┘        leave: from anywhere to (unknown)
"""

from __future__ import annotations

from collections.abc import Iterator

from kuberth.cluster.pod_info import PodInfo


class GroupMembers:
    """The pods of one group, by UID."""

    __slots__ = ("_pending", "assigned", "assumed", "in_hand", "unscheduled")

    def __init__(self) -> None:
        self.unscheduled: dict[str, PodInfo] = {}
        """Those that have no node."""
        self.assumed: dict[str, PodInfo] = {}
        """Those that count on a node which the API has not confirmed, with it."""
        self.assigned: dict[str, PodInfo] = {}
        """Those that are bound."""
        self.in_hand: set[str] = set()
        """Those that a group's scheduling cycle is busy with: nobody else can bring them forward."""
        self._pending: dict[str, PodInfo] = {}
        """Assumed pods as the API knows them, without a node."""

    @property
    def total(self) -> int:
        """How many pods there are."""
        return len(self.unscheduled) + len(self.assumed) + len(self.assigned)

    @property
    def scheduled(self) -> int:
        """How many of them have a node, confirmed or not."""
        return len(self.assumed) + len(self.assigned)

    def scheduled_pods(self) -> Iterator[PodInfo]:
        """Those that have a node, with it."""
        yield from self.assigned.values()
        yield from self.assumed.values()

    def arrive(self, info: PodInfo) -> None:
        """A pod without a node is new, or has a new version."""
        if info.uid in self.assumed:
            self._pending[info.uid] = info
        elif info.uid not in self.assigned:
            self.unscheduled[info.uid] = info

    def assume(self, info: PodInfo) -> None:
        """The pod counts on the node in its spec. One that has left meanwhile is not taken in again."""
        pending = self.unscheduled.pop(info.uid, None)
        if pending is not None:
            self._pending[info.uid] = pending
            self.assumed[info.uid] = info

    def forget(self, uid: str) -> None:
        """It does not any more."""
        if self.assumed.pop(uid, None) is not None:
            self.unscheduled[uid] = self._pending.pop(uid)

    def assign(self, info: PodInfo) -> None:
        """The API says that the pod is on the node in its spec."""
        self.leave(info.uid)
        self.assigned[info.uid] = info

    def leave(self, uid: str) -> None:
        """The pod is gone, wherever it was."""
        for pods in (self.unscheduled, self.assumed, self.assigned, self._pending):
            pods.pop(uid, None)


class PodGroups:
    """All groups, by `namespace/name`. Every pod that comes here has one."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupMembers] = {}

    def get(self, group: str) -> GroupMembers | None:
        """The pods of a group; None if not one is known."""
        return self._groups.get(group)

    def arrive(self, info: PodInfo) -> None:
        """A pod without a node is new, or has a new version."""
        self._of(info).arrive(info)

    def assume(self, info: PodInfo) -> None:
        """The pod counts on the node in its spec."""
        members = self._groups.get(info.group)
        if members is not None:
            members.assume(info)

    def forget(self, info: PodInfo) -> None:
        """It does not any more."""
        members = self._groups.get(info.group)
        if members is not None:
            members.forget(info.uid)

    def assign(self, info: PodInfo) -> None:
        """The API says that the pod is on the node in its spec."""
        self._of(info).assign(info)

    def leave(self, info: PodInfo) -> None:
        """A pod is gone: deleted, or it has ended."""
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
