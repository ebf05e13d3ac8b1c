"""Deletes leftovers: pods of deleted nodes, which have no kubelet any more, and expired events.

In: nodes, pods and events. Out: deletions; pods without a grace period, after their node was missing for a
while.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from kuberth.clock import NANOSECONDS, Clock
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controlling import Controller, by_node
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.pod_states import disrupted, is_finished, node_of
from kuberth.text.timestamps import parse_timestamp

_QUARANTINE_SECONDS: Final = 5.0
"""A node may come back under its name (upstream waits 40 seconds, and its node may be anywhere)."""


_KEPT_SECONDS: Final = 3600
_LOOK_SECONDS: Final = 60.0


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


class ExpiredEventsController:
    name = "event-ttl"

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        # Listed once a minute: watching every event would cost more.
        self._core = informers.core
        self._clock = clock

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            oldest = self._clock.now_ns() - _KEPT_SECONDS * NANOSECONDS
            for event in (await self._core.list("events"))["items"]:
                if _last_seen(event) < oldest:
                    with suppress(StatusError):  # gone already
                        await self._core.delete("events", name_of(event), namespace=namespace_of(event))


def _last_seen(event: Obj) -> int:
    """Nanoseconds since the epoch; an event that does not say when it happened is from the beginning."""
    series = event.get("series") or {}
    moment = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return parse_timestamp(moment or event["metadata"].get("creationTimestamp")) or 0
