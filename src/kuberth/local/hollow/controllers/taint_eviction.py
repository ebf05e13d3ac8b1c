"""Eviction by NoExecute taints of nodes, at once or after a pod's tolerationSeconds.

In: nodes and pods. Out: pods marked as disrupted and deleted, with an event for each decision. As upstream, a
pod's eviction time is set when its node is first tainted, and is cancelled only when the taints are removed.
"""

from __future__ import annotations

from typing import Final

from kuberth.api.core import Node, Pod, Taint, Toleration
from kuberth.api.taints import toleration_tolerates
from kuberth.api.wire import convert
from kuberth.clock import NANOSECONDS
from kuberth.errors import WireError
from kuberth.local.apiserver.objects import Obj, key_of, name_of
from kuberth.local.hollow.controlling import Controller, by_node
from kuberth.local.hollow.pod_states import disrupted, node_of

_EFFECT: Final = "NoExecute"


class TaintEvictionController(Controller):
    name = component = "taint-eviction-controller"

    def set_up(self) -> None:
        self._due_ns: dict[str, int] = {}
        """When pods are to be evicted, by UID."""
        self._queue = self.queue_of("pods", self._sync)
        self._nodes = self.watch("nodes")
        self._pods = self.watch("pods", self._on_pod, indexes={"node": by_node})
        self._nodes.add_handler(self._on_node)

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        before, after = ([] if node is None else _taints(node) for node in (old, new))
        if before != after:
            for pod in self._pods.by("node", name_of(new or old or {})):
                self._queue.add(key_of(pod))

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        if new is None:
            if old is not None:
                self._due_ns.pop(old["metadata"]["uid"], None)
            return
        node = self._nodes.get(node_of(new))
        if node is not None and _taints(node) and (old is None or _asked(old) != _asked(new)):
            self._queue.add(key_of(new))

    async def _sync(self, pod: Obj) -> float | None:
        if self._pods.is_leaving(pod):
            return None
        node, uid = self._nodes.get(node_of(pod)), pod["metadata"]["uid"]
        seconds = None if node is None else _seconds_to_stay(pod, node)
        if seconds is None:
            if self._due_ns.pop(uid, None) is not None:
                self._record(pod, "Cancelling deletion of")
            return None
        now_ns = self._clock.now_ns()
        due_ns = self._due_ns.setdefault(uid, now_ns + seconds * NANOSECONDS) if seconds else now_ns
        if due_ns > now_ns:
            return (due_ns - now_ns) / NANOSECONDS
        reason, message = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
        status = disrupted(pod, reason=reason, message=message, clock=self._clock)
        await self._pods.write_status(pod, status)
        self._record(pod, "Marking for deletion")
        await self._pods.delete(pod)
        return None

    def _record(self, pod: Obj, what: str) -> None:
        self._recorder.record(pod, "TaintManagerEviction", f"{what} Pod {key_of(pod)}")


def _seconds_to_stay(pod: Obj, node: Obj) -> int | None:
    """How long the pod tolerates the node's taints; None: for ever."""
    try:
        taints: list[Taint] = [taint for taint in convert(Node, node).spec.taints if taint.effect == _EFFECT]
        tolerations = convert(Pod, pod).spec.tolerations
    except WireError:
        return None
    used: list[Toleration] = []
    for taint in taints:
        tolerating = [one for one in tolerations if toleration_tolerates(one, taint)]
        if not tolerating:
            return 0
        used += tolerating[:1]
    seconds = [one.toleration_seconds for one in used if one.toleration_seconds is not None]
    return max(0, min(seconds)) if seconds else None


def _taints(node: Obj) -> list[Obj]:
    taints = node.get("spec", {}).get("taints") or ()
    return [taint for taint in taints if taint.get("effect") == _EFFECT]


def _asked(pod: Obj) -> object:
    return node_of(pod), pod["spec"].get("tolerations")
