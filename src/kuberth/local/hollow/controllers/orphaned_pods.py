"""Pods of deleted nodes, which no kubelet can end any more, are deleted.

In: nodes and pods. Out: deletions without grace, after a node was seen to be missing for a while.
"""

from __future__ import annotations

from typing import Final

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.hollow.controlling import Controller, by_node
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.pod_states import disrupted, is_finished, node_of

_QUARANTINE_SECONDS: Final = 5.0
"""A node may come back under its name (upstream waits 40 seconds, and its node may be anywhere)."""


class OrphanedPodsController:
    name = "podgc"

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        self._clock = clock
        self._controller = Controller(informers)
        self._queue = self._controller.queue(self.name, self._sync)
        self._nodes = self._controller.watch("nodes", self._on_node)
        self._pods = self._controller.watch("pods", self._on_pod, indexes={"node": by_node})

    async def run(self) -> None:
        await self._controller.wait_synced()
        for pod in self._pods.all():
            self._on_pod(None, pod)
        await self._controller.run()

    def _on_node(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None:
            self._queue.add_after(name_of(old), _QUARANTINE_SECONDS)

    def _on_pod(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and node_of(new) and self._nodes.get(node_of(new)) is None:
            self._queue.add_after(node_of(new), _QUARANTINE_SECONDS)

    async def _sync(self, node: str) -> None:
        pods = self._pods.by("node", node)
        if pods and await self._nodes.fetch(node) is None:
            for pod in pods:
                await self._remove(pod)

    async def _remove(self, pod: Obj) -> None:
        """Mark the pod as failed, so that its owner does not wait for it, and delete it."""
        if not is_finished(pod):
            reason, message = "DeletionByPodGC", "PodGC: node no longer exists"
            status = disrupted(pod, reason=reason, message=message, clock=self._clock)
            failed = {**pod, "status": {**status, "phase": "Failed"}}
            pod = await self._pods.update(failed, subresource="status")
        await self._pods.delete(pod, grace_seconds=0)
