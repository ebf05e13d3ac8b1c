"""Cleans up: deletes pods of deleted nodes and expired events, and recounts quotas.

In: nodes, pods, events, quotas. Out: deletions; pods without a grace period, after their node was missing for
a while.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.patching.patching import MERGE_PATCH
from kuberth.local.apiserver.rules.quotas import QUOTAS
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controlling import Controller, by_node
from kuberth.local.hollow.pod_states import disrupted, is_finished, node_of
from kuberth.text.timestamps import parse_timestamp

_QUARANTINE_SECONDS: Final = 5.0
"""A node may come back under its name (upstream waits 40 seconds, and its node may be anywhere)."""
_KEPT_SECONDS: Final = 3600
_EVENTS_SECONDS: Final = 60.0
_QUOTAS_SECONDS: Final = 300.0


class OrphanedPodsController(Controller):
    name = "podgc"

    def set_up(self) -> None:
        self._queue = self.queue(self.name, self._sync)
        self._nodes = self.watch("nodes", self._on_node)
        self._pods = self.watch("pods", self._on_pod, indexes={"node": by_node})

    async def run(self) -> None:
        await self.wait_synced()
        for pod in self._pods.all():
            self._on_pod(None, pod)
        await super().run()

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
            pod = await self._pods.write_status(pod, {**status, "phase": "Failed"})
        await self._pods.delete(pod, grace_seconds=0)


class ExpiredEventsController(Controller):
    name = "event-ttl"

    async def run(self) -> None:
        # Events are listed once a minute: to watch all of them would cost more.
        core = self._informers.core
        while True:
            await asyncio.sleep(_EVENTS_SECONDS)
            oldest = self._clock.now_ns() - _KEPT_SECONDS * NANOSECONDS
            for event in (await core.list("events"))["items"]:
                if _last_seen(event) < oldest:
                    with suppress(StatusError):  # gone already
                        await core.delete("events", name_of(event), namespace=namespace_of(event))


class QuotaController(Controller):
    """Lets the server recount quotas every five minutes, in case a client overwrote their status.

    The server updates the counts with every write of other objects. An empty patch of a quota recounts it.
    """

    name = "resourcequota"

    async def run(self) -> None:
        core = self._informers.core
        while True:
            await asyncio.sleep(_QUOTAS_SECONDS)
            for quota in (await core.list(QUOTAS))["items"]:
                name, namespace = name_of(quota), namespace_of(quota)
                with suppress(StatusError):  # gone already
                    await core.patch(QUOTAS, name, {}, content_type=MERGE_PATCH, namespace=namespace)


def _last_seen(event: Obj) -> int:
    """Nanoseconds since the epoch; an event that does not say when it happened is from the beginning."""
    series = event.get("series") or {}
    moment = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return parse_timestamp(moment or event["metadata"].get("creationTimestamp")) or 0
