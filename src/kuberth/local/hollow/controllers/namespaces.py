"""Deletes namespaces: first their contents, then their finalizer.

In: Terminating namespaces, and the served resources. Out: deletions, pods first; conditions with what remains
and why; an empty list of finalizers when nothing remains.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from kuberth.local.apiserver.objects import Obj, condition, set_condition
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controlling import Controller
from kuberth.text.timestamps import stamp

FINALIZER: Final = "kubernetes"
_AGAIN_SECONDS: Final = 0.25
"""Seconds before the first check whether the deleted objects are gone."""
_PATIENCE_SECONDS: Final = 5.0
_PODS: Final = "pods"
_FINE: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""The conditions of a terminating namespace while nothing blocks its deletion."""


@dataclass(slots=True)
class _Remainder:
    """The objects that remain in a namespace."""

    resources: dict[str, int] = field(default_factory=dict)
    """How many objects, by resource."""
    finalizers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def troubles(self) -> dict[str, tuple[str, str]]:
        """Reason and message of the conditions that report a problem."""
        found = {}
        if self.failures:
            failures = ", ".join(sorted(self.failures))
            message = f"Failed to delete all resource types, {len(self.failures)} remaining: {failures}"
            found["NamespaceDeletionContentFailure"] = ("ContentDeletionFailed", message)
        if self.resources:
            # The group of the oldest resources is empty.
            titles = {name if "." in name else f"{name}.": count for name, count in self.resources.items()}
            counts = [f"{title} has {count} resource instances" for title, count in titles.items()]
            message = f"Some resources are remaining: {', '.join(sorted(counts))}"
            found["NamespaceContentRemaining"] = ("SomeResourcesRemain", message)
        if self.finalizers:
            counts = [f"{name} in {count} resource instances" for name, count in self.finalizers.items()]
            message = f"Some content in the namespace has finalizers remaining: {', '.join(sorted(counts))}"
            found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        return found


class NamespaceController(Controller):
    name = "namespace"

    def set_up(self) -> None:
        self._core = self._informers.core
        self._waits: dict[str, float] = {}
        """How long to wait before the next check of a namespace: longer each time."""
        queue = self.queue(self.name, self._sync)
        self._namespaces = self.watch("namespaces", queue.add_changed)

    async def _sync(self, name: str) -> float | None:
        namespace = self._namespaces.get(name)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            self._waits.pop(name, None)
            return None
        finalizers = namespace.get("spec", {}).get("finalizers") or []
        if FINALIZER not in finalizers:
            return None
        left = await self._empty(name)
        namespace = await self._write_conditions(namespace, left)
        if left.resources or left.failures:
            seconds = self._waits.get(name, _AGAIN_SECONDS)
            self._waits[name] = min(2 * seconds, _PATIENCE_SECONDS)
            return seconds
        others = [each for each in finalizers if each != FINALIZER]
        spec = {**namespace.get("spec", {}), "finalizers": others}
        emptied = await self._namespaces.update({**namespace, "spec": spec}, subresource="finalize")
        if not others:
            await self._namespaces.delete(emptied)
        return None

    async def _empty(self, namespace: str) -> _Remainder:
        """Delete the contents of a namespace, pods first; what remains."""
        left = _Remainder()
        await self._delete_all(_PODS, namespace, left)
        if left.resources or left.failures:
            # Pods may need the other objects to terminate.
            return left
        for resource in sorted({row.stored_as for row in self._core.resources if row.namespaced} - {_PODS}):
            await self._delete_all(resource, namespace, left)
        return left

    async def _delete_all(self, resource: str, namespace: str, left: _Remainder) -> None:
        try:
            if not (await self._core.list(resource, namespace=namespace))["items"]:
                return
            await self._core.delete_collection(
                resource, namespace=namespace, options={"propagationPolicy": "Background"}
            )
            items: list[Obj] = (await self._core.list(resource, namespace=namespace))["items"]
        except StatusError as error:
            if error.code != 404:  # a custom resource that is no longer served has no objects either
                left.failures.append(str(error))
            return
        if items:
            left.resources[resource] = len(items)
            for item in items:
                left.finalizers.update(item["metadata"].get("finalizers") or ())

    async def _write_conditions(self, namespace: Obj, left: _Remainder) -> Obj:
        status, now = namespace.get("status", {}), stamp(self._clock)
        conditions = status.get("conditions") or []
        for type_, fine in _FINE.items():
            trouble = left.troubles.get(type_)
            reason, message = trouble or fine
            found = condition(type_, trouble is not None, reason, message)
            conditions = set_condition(conditions, found, now=now)
        if conditions == status.get("conditions"):
            return namespace
        status = {**status, "conditions": conditions}
        return await self._namespaces.write_status(namespace, status)
