"""Records what happens to every pod and node of a run.

In: the changes of pods and nodes, and the events of the scheduler. Out: `Records`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from kuberth.api.core import Node, Pod
from kuberth.client.protocol import WatchEvent, WatchType
from kuberth.framework.handle import PodEvent
from kuberth.simulation.arrivals import requests_of
from kuberth.simulation.observing import ENDED, capacity_of, is_preempted
from kuberth.simulation.outcomes import NodeRecord, PodRecord, Records, StoryLine, rounded


class RunRecorder:
    """The story of each pod, and the lifetime of each node."""

    def __init__(self, nodes: Sequence[Node], *, now: Callable[[], float]) -> None:
        self._now = now
        self._pods: dict[str, PodRecord] = {}
        """By UID."""
        self._last: dict[str, str] = {}
        """The last recorded event of each pod, except rejections."""
        self._nodes: dict[str, NodeRecord] = {}
        self._left: list[NodeRecord] = []
        for node in nodes:
            self.note_node(node, joined=True)

    def note(self, event: WatchEvent) -> None:
        """Process a change of a pod."""
        pod: Pod = event.object
        uid = pod.metadata.uid
        if uid not in self._pods:
            metadata = pod.metadata
            self._pods[uid] = PodRecord(
                metadata.name, metadata.namespace, pod.spec.priority or 0, requests_of(pod), []
            )
            self._add(uid, "created", "")
        if pod.spec.node_name and self._last[uid] == "created":
            self._add(uid, "bound", pod.spec.node_name)
        if self._last[uid] not in ("created", "bound"):
            return
        if pod.metadata.deletion_timestamp is not None and is_preempted(pod):
            self._add(uid, "preempted", "")
        elif pod.status.phase in ENDED:
            self._add(uid, "finished", "")
        elif event.type is WatchType.DELETED:
            gone = pod.spec.node_name and pod.spec.node_name not in self._nodes
            self._add(uid, "evicted" if gone else "deleted", "")

    def note_event(self, event: PodEvent) -> None:
        """Process an event that the scheduler recorded for a pod."""
        uid = event.regarding.metadata.uid
        if event.reason == "FailedScheduling" and uid in self._pods:
            self._pods[uid].story.append(StoryLine(rounded(self._now()), "rejected", event.note))

    def note_node(self, node: Node, *, joined: bool) -> None:
        """Process a node that joins or leaves."""
        name, now = node.metadata.name, rounded(self._now())
        if joined:
            self._nodes[name] = NodeRecord(name, capacity_of(node), now, None)
        else:
            self._left.append(msgspec.structs.replace(self._nodes.pop(name), left=now))

    def records(self, end: float) -> Records:
        nodes = sorted((*self._nodes.values(), *self._left), key=lambda each: (each.joined, each.name))
        return Records(list(self._pods.values()), nodes, rounded(end))

    def _add(self, uid: str, what: str, detail: str) -> None:
        self._last[uid] = what
        self._pods[uid].story.append(StoryLine(rounded(self._now()), what, detail))
