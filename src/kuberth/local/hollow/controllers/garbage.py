"""Garbage collection: dependents whose owners are deleted.

In: all objects with their owner references, and the finalizers that say how a deletion propagates. Out:
dependents deleted (background, foreground) or orphaned, as upstream's garbage collector does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple

from kuberth.local.apiserver.objects import Obj, key_of, namespace_of, with_metadata
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.deletion import FOREGROUND, ORPHAN
from kuberth.local.hollow.controlling import Controller
from kuberth.local.hollow.informing import Informer

_IGNORED: Final = {"events", "events.events.k8s.io"}
"""Resources that are not watched, as upstream: many short-lived objects without owners."""
_KINDS_SECONDS: Final = 0.5
"""How often to look for kinds that custom resource definitions added or took away."""


class _Owner(Enum):
    SOLID = auto()
    ABSENT = auto()
    WAITING = auto()
    """The finalizer of an owner that is being deleted in the foreground, after its dependents."""


class _Place(NamedTuple):
    resource: str
    key: str


class GarbageController(Controller):
    name = "garbagecollector"

    def set_up(self) -> None:
        self._core = self._informers.core
        self._places: dict[str, _Place] = {}
        """The place of every object, by UID."""
        self._dependents: dict[str, dict[str, None]] = {}
        """UIDs of dependents by the UID of an owner, which may not be there."""
        self._queue = self.queue(self.name, self._sync, parallel=32)
        self._changed = -1
        self._follow()

    async def run(self) -> None:
        await self.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_changes(), name="hollow-garbage-kinds")
            await super().run()

    async def _follow_changes(self) -> None:
        while True:
            await asyncio.sleep(_KINDS_SECONDS)
            self._follow()

    def _follow(self) -> None:
        """Follow every kind that is served now."""
        if self._changed == self._core.resources.changed:
            return
        self._changed = self._core.resources.changed
        served = {row.stored_as for row in self._core.resources} - _IGNORED
        for resource in served - self._watched.keys():
            self.watch(resource, partial(self._on_change, resource))
        for resource in self._watched.keys() - served:
            gone = self._watched.pop(resource)
            self._informers.drop(resource)
            for obj in gone.all():
                self._on_change(resource, obj, None)

    def _on_change(self, resource: str, old: Obj | None, new: Obj | None) -> None:
        uid = (new or old or {})["metadata"]["uid"]
        if old is not None and new is not None and uid in self._places and _is_same(old, new):
            if not all(reference["uid"] in self._places for reference in _references(new)):
                self._queue.add(uid)
            return
        before = set() if old is None else {reference["uid"] for reference in _references(old)}
        after = set() if new is None else {reference["uid"] for reference in _references(new)}
        for owner in after:
            self._dependents.setdefault(owner, {})[uid] = None
        for owner in before - after:
            self._remove_dependent(owner, uid)
            # An owner that waits for its dependents may have waited for this one.
            if owner in self._places:
                self._queue.add(owner)
        if new is None:
            self._places.pop(uid, None)
            for dependent in self._dependents.get(uid, ()):
                self._queue.add(dependent)
            return
        self._places[uid] = _Place(resource, key_of(new))
        if "deletionTimestamp" in new["metadata"]:
            if new["metadata"].get("finalizers"):
                self._queue.add(uid)
        elif not all(owner in self._places for owner in after):
            self._queue.add(uid)

    def _remove_dependent(self, owner: str, dependent: str) -> None:
        dependents = self._dependents.get(owner, {})
        dependents.pop(dependent, None)
        if not dependents:
            self._dependents.pop(owner, None)

    def _object(self, uid: str) -> tuple[Informer, Obj] | None:
        place = self._places.get(uid)
        informer = None if place is None else self._watched.get(place.resource)
        if place is None or informer is None:
            return None
        obj = informer.get(place.key)
        return None if obj is None or obj["metadata"]["uid"] != uid else (informer, obj)

    async def _sync(self, uid: str) -> None:
        found = self._object(uid)
        if found is None:
            return
        informer, obj = found
        finalizers = obj["metadata"].get("finalizers") or ()
        if "deletionTimestamp" in obj["metadata"]:
            if ORPHAN in finalizers:
                await self._orphan_dependents(informer, obj)
            elif FOREGROUND in finalizers:
                await self._finish_foreground(informer, obj)
            return
        references = _references(obj)
        states = [await self._state(reference, namespace_of(obj)) for reference in references]
        kept = [one for one, state in zip(references, states, strict=True) if state is _Owner.SOLID]
        if len(kept) == len(references):
            return
        if kept:
            await informer.update(with_metadata(obj, ownerReferences=kept))
        elif _Owner.WAITING in states and self._dependents.get(uid):
            # Its owner waits for it, so it waits for its own dependents.
            await informer.delete(obj, propagation="Foreground")
        else:
            policies = {ORPHAN: "Orphan", FOREGROUND: "Foreground"}
            policy = next((policies[each] for each in finalizers if each in policies), "Background")
            await informer.delete(obj, propagation=policy)

    async def _state(self, reference: Obj, namespace: str) -> _Owner:
        found = self._object(reference["uid"])
        if found is not None:
            _, owner = found
            if namespace_of(owner) not in ("", namespace):
                return _Owner.ABSENT  # owners live beside their dependents, or in no namespace
            metadata = owner["metadata"]
            waits = "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or ())
            return _Owner.WAITING if waits else _Owner.SOLID
        row = self._core.resources.by_kind(reference.get("apiVersion", ""), reference.get("kind", ""))
        if row is None:
            return _Owner.SOLID  # the kind is unknown: nothing is deleted on a guess
        try:
            owner = await self._core.get(
                row.id, reference.get("name", ""), namespace=namespace if row.namespaced else ""
            )
        except StatusError as error:
            if error.code in (400, 404):
                return _Owner.ABSENT
            raise
        return _Owner.SOLID if owner["metadata"]["uid"] == reference["uid"] else _Owner.ABSENT

    async def _orphan_dependents(self, informer: Informer, owner: Obj) -> None:
        """Orphan: remove the owner from its dependents' references, then remove its finalizer."""
        uid = owner["metadata"]["uid"]
        for dependent in list(self._dependents.get(uid, ())):
            if (found := self._object(dependent)) is not None:
                holder, obj = found
                rest = [each for each in _references(obj) if each["uid"] != uid]
                await holder.update(with_metadata(obj, ownerReferences=rest))
        await informer.remove_finalizer(owner, ORPHAN)

    async def _finish_foreground(self, informer: Informer, owner: Obj) -> None:
        uid = owner["metadata"]["uid"]
        above = self._owners_above(owner)
        blocked = False
        for dependent in list(self._dependents.get(uid, ())):
            found = self._object(dependent)
            if found is None:
                continue
            if "deletionTimestamp" not in found[1]["metadata"]:
                self._queue.add(dependent)
            # In a cycle each would wait for the other, so none waits.
            if dependent not in above and any(
                each["uid"] == uid and each.get("blockOwnerDeletion") for each in _references(found[1])
            ):
                blocked = True
        if not blocked:
            await informer.remove_finalizer(owner, FOREGROUND)

    def _owners_above(self, obj: Obj) -> set[str]:
        """The owners of an object, their owners, and so on."""
        above: set[str] = set()
        waiting = [obj]
        while waiting:
            for reference in _references(waiting.pop()):
                uid = reference["uid"]
                if uid not in above:
                    above.add(uid)
                    if (found := self._object(uid)) is not None:
                        waiting.append(found[1])
        return above


def _is_same(old: Obj, new: Obj) -> bool:
    """Whether nothing changed that matters for garbage collection, as with nearly every change of a pod."""
    if "deletionTimestamp" in new["metadata"]:
        return False
    return bool(old["metadata"].get("ownerReferences") == new["metadata"].get("ownerReferences"))


def _references(obj: Obj) -> list[Obj]:
    references: Iterable[Obj] = obj["metadata"].get("ownerReferences") or ()
    return [reference for reference in references if reference.get("uid")]
