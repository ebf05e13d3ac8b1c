"""Namespaces on their way out: their contents are deleted, then their finalizer is taken away.

In: namespaces that are Terminating, and what the server serves. Out: deletions, and an empty list of
finalizers when nothing is left.
"""

from __future__ import annotations

from typing import Final

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.conditions import set_condition
from kuberth.local.hollow.informing import Informers
from kuberth.local.hollow.working import Worker
from kuberth.text.timestamps import stamp

FINALIZER: Final = "kubernetes"
_AGAIN_SECONDS: Final = 0.25
"""How soon to look whether what was told to go is gone."""
_PATIENCE_SECONDS: Final = 5.0


class NamespaceController:
    name = "namespace"

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        self._core = informers.core
        self._clock = clock
        self._namespaces = informers.of("namespaces")
        self._waits: dict[str, float] = {}
        """How long to wait before the next look at a namespace: longer each time."""
        self._worker = Worker(self.name, self._sync)
        self._namespaces.add_handler(lambda old, new: self._worker.add(name_of(new or old or {})))

    async def run(self) -> None:
        await self._namespaces.synced.wait()
        await self._worker.run()

    async def _sync(self, name: str) -> float | None:
        namespace = self._namespaces.get(name)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            self._waits.pop(name, None)
            return None
        finalizers = namespace.get("spec", {}).get("finalizers") or []
        if FINALIZER not in finalizers:
            return None
        left = await self._empty(name)
        if left:
            await self._tell_left(namespace, left)
            seconds = self._waits.get(name, _AGAIN_SECONDS)
            self._waits[name] = min(2 * seconds, _PATIENCE_SECONDS)
            return seconds
        others = [each for each in finalizers if each != FINALIZER]
        spec = {**namespace.get("spec", {}), "finalizers": others}
        emptied = await self._namespaces.update({**namespace, "spec": spec}, subresource="finalize")
        if not others:
            await self._namespaces.delete(emptied)
        return None

    async def _empty(self, namespace: str) -> dict[str, int]:
        """Delete everything in a namespace; how many objects of which resource are not gone yet."""
        left = {}
        stored = {row.stored_as for row in self._core.resources if row.namespaced}
        for resource in sorted(stored):
            try:
                if not (await self._core.list(resource, namespace=namespace))["items"]:
                    continue
                await self._core.delete_collection(
                    resource, namespace=namespace, options={"propagationPolicy": "Background"}
                )
                if items := (await self._core.list(resource, namespace=namespace))["items"]:
                    left[resource] = len(items)
            except StatusError as error:
                if error.code != 404:  # a custom resource that is no longer served has no objects either
                    raise
        return left

    async def _tell_left(self, namespace: Obj, left: dict[str, int]) -> None:
        counts = ", ".join(f"{resource} has {count} resource instances" for resource, count in left.items())
        condition = {
            "type": "NamespaceContentRemaining",
            "status": "True",
            "reason": "SomeResourcesRemain",
            "message": f"Some resources are remaining: {counts}",
        }
        status = namespace.get("status", {})
        conditions = set_condition(status.get("conditions") or [], condition, now=stamp(self._clock))
        if conditions != status.get("conditions"):
            status = {**status, "conditions": conditions}
            await self._namespaces.update({**namespace, "status": status}, subresource="status")
