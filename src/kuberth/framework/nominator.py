"""Promises: which pending pods have a node that preemption is clearing for them.

In: nominations from PostFilter and from the pods' own status. Out: the pods promised a node, which
Filter counts as if they were there. A promise ends when the pod is placed, deleted or promised another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo

_REMEMBERED_CHANGES: Final = 1024


class Nominator:
    """Nominated pods by node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        self._changes: list[str] = []
        self._forgotten = 0

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Promise `node_name` to the pod; an empty name withdraws any promise."""
        self.withdraw(pod.pod)
        if node_name and not pod.node_name:
            self._by_node.setdefault(node_name, {})[pod.uid] = pod
            self._node_of[pod.uid] = node_name
            self._note_change(node_name)

    def adopt(self, pod: PodInfo) -> None:
        """Take over the nomination that the pod's own status carries, if it does."""
        if pod.pod.status.nominated_node_name:
            self.nominate(pod, pod.pod.status.nominated_node_name)

    def update(self, old: Pod, new: PodInfo) -> None:
        """A new version of a pod: its status decides, unless it never spoke of a nomination.

        In that case a promise made here is kept, since its way to the status may still be under way.
        """
        node_name = new.pod.status.nominated_node_name
        if not node_name and not old.status.nominated_node_name:
            node_name = self._node_of.get(old.metadata.uid, "")
        self.withdraw(old)
        self.nominate(new, node_name)

    def withdraw(self, pod: Pod) -> None:
        """Take back what was promised to the pod, if anything was."""
        node_name = self._node_of.pop(pod.metadata.uid, None)
        if node_name is not None:
            promised = self._by_node[node_name]
            del promised[pod.metadata.uid]
            if not promised:
                del self._by_node[node_name]
            self._note_change(node_name)

    def node_of(self, uid: str) -> str:
        """The node promised to the pod, or ""."""
        return self._node_of.get(uid, "")

    def nominated_on(self, node_name: str) -> tuple[PodInfo, ...]:
        """The pods that a node is promised to."""
        return tuple(self._by_node.get(node_name, {}).values())

    def nominated_nodes(self) -> Iterable[str]:
        """The nodes that are promised to any pod."""
        return tuple(self._by_node)

    def __bool__(self) -> bool:
        """Whether anything is promised to anyone."""
        return bool(self._by_node)

    @property
    def version(self) -> int:
        """Grows with every promise that is made or ends."""
        return self._forgotten + len(self._changes)

    def changed_since(self, version: int) -> Iterable[str] | None:
        """The nodes whose promises changed after `version`; None if that is too long ago to say."""
        return (
            None if version < self._forgotten else dict.fromkeys(self._changes[version - self._forgotten :])
        )

    def _note_change(self, node_name: str) -> None:
        if len(self._changes) == _REMEMBERED_CHANGES:
            self._forgotten += len(self._changes)
            self._changes.clear()
        self._changes.append(node_name)
