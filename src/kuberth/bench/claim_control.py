"""Runs the resource claim controller of the local cluster on any API server.

In: an arena. Out: claims created from templates, released when their pods are done and deleted after them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kuberth.clock import SystemClock
from kuberth.local.apiserver.objects import Obj, key_of
from kuberth.local.hollow.controllers.resource_claims import ResourceClaimController
from kuberth.local.hollow.informing import Informers, ServerVerbs
from kuberth.local.hollow.pod_claims import CLAIMS, owning_pod
from kuberth.local.hollow.working import Worker, keep_running


@asynccontextmanager
async def controlled_claims(server: ServerVerbs) -> AsyncIterator[None]:
    """Claims are seen to while the block lasts."""
    informers = Informers(server)
    claims = ResourceClaimController(informers, clock=SystemClock())
    orphans = OrphanedClaims(informers)
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(keep_running("informers", informers.run), name="bench-informers"),
            tasks.create_task(keep_running("claims", claims.run), name="bench-claims"),
            tasks.create_task(keep_running("orphaned claims", orphans.run), name="bench-orphaned-claims"),
        ]
        try:
            await informers.wait_synced()
            yield
        finally:
            for task in running:
                task.cancel()


class OrphanedClaims:
    """Deletes claims after their pods: the only part of a garbage collector that is needed here."""

    def __init__(self, informers: Informers) -> None:
        self._claims = informers.of(CLAIMS)
        self._worker = Worker("orphaned claims", self._sync)
        self.run = self._worker.run
        self._gone: dict[str, str] = {}
        """UIDs of pods that are gone, by key of their claim."""
        self._claims.add_index("pod", _owner)
        informers.of("pods").add_handler(self._note_pod)

    def _note_pod(self, old: Obj | None, new: Obj | None) -> None:
        if old is None or new is not None:
            return
        for claim in self._claims.by("pod", old["metadata"]["uid"]):
            self._gone[key_of(claim)] = old["metadata"]["uid"]
            self._worker.add(key_of(claim))

    async def _sync(self, key: str) -> None:
        claim, uid = self._claims.get(key), self._gone.pop(key)
        if claim is not None and _owner(claim) == [uid] and not self._claims.is_leaving(claim):
            await self._claims.delete(claim)


def _owner(claim: Obj) -> list[str]:
    owner = owning_pod(claim)
    return [] if owner is None else [owner["uid"]]
