"""Nominated nodes of pending pods.

In: nominations from PostFilter and from the pods' status. Out: the nominated pods of a node, which Filter
counts as if they were there. A nomination ends when the pod is placed, deleted or nominated for another node.
"""

from __future__ import annotations

from kuberth.api.core import Pod
from kuberth.changes import Changes
from kuberth.cluster.pod_info import PodInfo


class Nominator:
    """Nominated pods by node."""

    def __init__(self) -> None:
        self.by_node: dict[str, dict[str, PodInfo]] = {}
        """Nominated pods by node and UID. Read-only."""
        self._node_of: dict[str, str] = {}
        self.changes: Changes[str] = Changes()
        """The names of nodes whose nominated pods have changed."""

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Nominate the pod for `node_name`; "" removes its nomination."""
        self.withdraw(pod.pod)
        if node_name and not pod.node_name:
            self.by_node.setdefault(node_name, {})[pod.uid] = pod
            self._node_of[pod.uid] = node_name
            self.changes.note(node_name)

    def adopt(self, pod: PodInfo) -> None:
        """Add the nomination from the pod's status, if there is one."""
        if pod.pod.status.nominated_node_name:
            self.nominate(pod, pod.pod.status.nominated_node_name)

    def update(self, old: Pod, new: PodInfo) -> None:
        """Apply a new version of a pod: its status counts, unless no version has had a nomination.

        In that case a nomination made here is kept, since its status patch may still be in flight.
        """
        node_name = new.pod.status.nominated_node_name
        if not node_name and not old.status.nominated_node_name:
            node_name = self._node_of.get(old.metadata.uid, "")
        self.withdraw(old)
        self.nominate(new, node_name)

    def withdraw(self, pod: Pod) -> None:
        """Remove the pod's nomination, if there is one."""
        node_name = self._node_of.pop(pod.metadata.uid, None)
        if node_name is not None:
            nominated = self.by_node[node_name]
            del nominated[pod.metadata.uid]
            if not nominated:
                del self.by_node[node_name]
            self.changes.note(node_name)

    def node_of(self, uid: str) -> str:
        """The pod's nominated node, or ""."""
        return self._node_of.get(uid, "")

    def nominated_on(self, node_name: str) -> tuple[PodInfo, ...]:
        """The pods nominated for a node."""
        return tuple(self.by_node.get(node_name, {}).values())

    def nominated_nodes(self) -> tuple[str, ...]:
        """The nodes with nominated pods."""
        return tuple(self.by_node)

    def __bool__(self) -> bool:
        """Whether any pod has a nomination."""
        return bool(self.by_node)
