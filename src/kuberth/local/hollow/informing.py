"""Informers: local copies of resources, kept current by list and watch.

In: a `Core`, or the verbs of another server. Out: one shared `Informer` per resource, with indexes, handlers
for every change, and verbs whose effect is visible in it at once: a controller that reads what it just wrote
counts no pod twice, where upstream needs "expectations".
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final, Protocol

from kuberth.local.apiserver.objects import Obj, key_of, name_of, namespace_of, revision_of, with_metadata
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.hollow.working import retry_seconds

logger = logging.getLogger(__name__)

RESYNC_SECONDS: Final = 300.0
"""How often all handlers are called for every object, in case one missed a change."""
_RETRY_SECONDS: Final = 1.0

Handler = Callable[[Obj | None, Obj | None], None]
"""Called with the old and the new version; None where there is none."""
Keys = Callable[[Obj], Iterable[str]]


class ServerVerbs(Protocol):
    """The verbs of a server that informers use; a `Core` has them. Refusals are StatusErrors."""

    async def get(self, resource: str, name: str, *, namespace: str = "") -> Obj: ...

    async def list(self, resource: str) -> Obj: ...

    def watch(
        self, resource: str, *, resource_version: str = "", allow_bookmarks: bool = False
    ) -> AsyncIterator[tuple[str, Obj]]: ...

    async def create(self, resource: str, body: Obj, *, namespace: str = "") -> Obj: ...

    async def update(
        self, resource: str, name: str, body: Obj, *, namespace: str = "", subresource: str = ""
    ) -> Obj: ...

    async def delete(
        self, resource: str, name: str, *, namespace: str = "", options: Obj | None = None
    ) -> Obj: ...


class Informer:
    """Keeps all objects of one resource. Made by `Informers.of`."""

    def __init__(self, server: ServerVerbs, resource: str) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self._server = server
        self._objects: dict[str, Obj] = {}
        self._seen = 0
        """Every change up to this revision has been applied."""
        self._deleted: set[str] = set()
        """UIDs of objects that the server agreed to delete and whose last versions are still here."""
        self._handlers: list[Handler] = []
        self._retrying: set[tuple[Handler, str]] = set()
        self._indexes: dict[str, _Index] = {}

    # What is there

    def get(self, key: str) -> Obj | None:
        return self._objects.get(key)

    def all(self) -> list[Obj]:
        return list(self._objects.values())

    def by(self, index: str, value: str) -> list[Obj]:
        """The objects an index files under a value."""
        return [self._objects[key] for key in self._indexes[index].entries.get(value, ())]

    def count(self, index: str, value: str) -> int:
        """The number of objects that an index files under a value."""
        return len(self._indexes[index].entries.get(value, ()))

    def is_terminating(self, obj: Obj) -> bool:
        """Whether it is being deleted, or a delete call in this process has succeeded."""
        metadata = obj["metadata"]
        return "deletionTimestamp" in metadata or metadata.get("uid") in self._deleted

    def add_index(self, name: str, keys: Keys) -> None:
        """File every object under the values `keys` gives for it; a second call with the name is ignored."""
        if name not in self._indexes:
            index = self._indexes[name] = _Index(f"{self.resource} by {name}", keys)
            for key, obj in self._objects.items():
                index.move(key, obj)

    def add_handler(self, handler: Handler) -> None:
        """Call `handler` at every change, and now for what is there."""
        self._handlers.append(handler)
        for obj in self.all():
            self._notify_handler(handler, None, obj)

    # Verbs whose effect is seen here when they return

    async def create(self, body: Obj) -> Obj:
        return self._apply_response(
            await self._server.create(self.resource, body, namespace=namespace_of(body))
        )

    async def update(self, obj: Obj, *, subresource: str = "") -> Obj:
        """Replace an object (or its status); StatusError 409 if it was changed since it was read."""
        written = await self._server.update(
            self.resource, name_of(obj), obj, namespace=namespace_of(obj), subresource=subresource
        )
        return self._apply_response(written)

    async def create_if_absent(self, body: Obj) -> None:
        """Create an object; one that exists is left unchanged."""
        try:
            await self.create(body)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise

    async def write_status(self, obj: Obj, status: Obj) -> Obj:
        """Write the object's status if it differs; the object afterwards."""
        if status == obj.get("status", {}):
            return obj
        return await self.update({**obj, "status": status}, subresource="status")

    async def remove_finalizer(self, obj: Obj, finalizer: str) -> Obj:
        """Remove a finalizer of the object; the object afterwards."""
        rest = [each for each in obj["metadata"].get("finalizers") or () if each != finalizer]
        return await self.update(with_metadata(obj, finalizers=rest))

    async def delete(self, obj: Obj, *, grace_seconds: int | None = None, propagation: str = "") -> None:
        """Delete the object with this UID; it is no error if it is gone or was created again."""
        uid = obj["metadata"]["uid"]
        options: Obj = {"preconditions": {"uid": uid}}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if propagation:
            options["propagationPolicy"] = propagation
        try:
            await self._server.delete(
                self.resource, name_of(obj), namespace=namespace_of(obj), options=options
            )
        except StatusError as error:
            if error.code not in (404, 409):
                raise
        present = self._objects.get(key_of(obj))
        if present is not None and present["metadata"]["uid"] == uid:
            self._deleted.add(uid)
            # The object did not change, but handlers must no longer count it.
            self._notify(present, present)

    async def fetch(self, key: str) -> Obj | None:
        """The server's current version, for decisions that must not rest on a late watch."""
        namespace, _, name = key.rpartition("/")
        try:
            return self._apply_response(await self._server.get(self.resource, name, namespace=namespace))
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    # Following

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                await self._list()
                moved = await self._watch()
            except StatusError as error:
                moved = error.code == 410
                if not moved:
                    logger.warning("%s cannot be watched, retrying: %s", self.resource, error)
            except Exception:
                moved = False
                logger.exception("%s cannot be watched, retrying", self.resource)
            # A watch that ends is resumed at once, unless it brought nothing: then the store is closed.
            await asyncio.sleep(0 if moved else _RETRY_SECONDS)

    def resync(self) -> None:
        for obj in self.all():
            self._notify(obj, obj)

    async def _list(self) -> None:
        listing = await self._server.list(self.resource)
        revision = int(listing["metadata"]["resourceVersion"])
        items = {key_of(obj): obj for obj in listing["items"]}
        for key, obj in list(self._objects.items()):
            # What this process wrote after the list was taken stays.
            if key not in items and revision_of(obj) <= revision:
                self._remove(key, obj)
        for obj in items.values():
            self._apply(obj)
        self._seen = max(self._seen, revision)
        self.synced.set()

    async def _watch(self) -> bool:
        """Apply changes until the watch ends; whether there were any."""
        moved = False
        changes = self._server.watch(self.resource, resource_version=str(self._seen), allow_bookmarks=True)
        async for kind, obj in changes:
            if kind == "ERROR":
                raise StatusError(int(obj.get("code", 500)), str(obj.get("reason")), str(obj.get("message")))
            if kind == "DELETED":
                self._apply_deletion(obj)
            elif kind != "BOOKMARK":
                self._apply(obj)
            self._seen = max(self._seen, revision_of(obj))
            moved = True
        return moved

    def _apply_response(self, obj: Obj) -> Obj:
        """Apply what a verb answered, unless the watch is already further."""
        if revision_of(obj) > self._seen:
            self._apply(obj)
        return obj

    def _apply(self, obj: Obj) -> None:
        key = key_of(obj)
        old = self._objects.get(key)
        if old is not None:
            if revision_of(old) >= revision_of(obj):
                return
            if old["metadata"]["uid"] != obj["metadata"]["uid"]:
                # Deleted and made again under the same name: two different objects.
                self._remove(key, old)
                old = None
        self._objects[key] = obj
        for index in self._indexes.values():
            index.move(key, obj)
        self._notify(old, obj)

    def _apply_deletion(self, obj: Obj) -> None:
        key = key_of(obj)
        old = self._objects.get(key)
        if old is not None and revision_of(old) <= revision_of(obj):
            self._remove(key, old)

    def _remove(self, key: str, old: Obj) -> None:
        del self._objects[key]
        self._deleted.discard(old["metadata"]["uid"])
        for index in self._indexes.values():
            index.move(key, None)
        self._notify(old, None)

    def _notify(self, old: Obj | None, new: Obj | None) -> None:
        for handler in self._handlers:
            self._notify_handler(handler, old, new)

    def _notify_handler(self, handler: Handler, old: Obj | None, new: Obj | None, failures: int = 0) -> None:
        """Call a handler; a failure is logged and retried, and affects no other handler."""
        try:
            handler(old, new)
        except Exception:
            key, seconds = key_of(new or old or {}), retry_seconds(failures + 1)
            name = getattr(handler, "__qualname__", repr(handler))
            logger.exception("%s failed at %s %s; trying again", name, self.resource, key)
            if (handler, key) not in self._retrying:
                self._retrying.add((handler, key))
                asyncio.get_running_loop().call_later(
                    seconds, self._retry_handler, handler, key, failures + 1
                )

    def _retry_handler(self, handler: Handler, key: str, failures: int) -> None:
        self._retrying.discard((handler, key))
        obj = self._objects.get(key)
        if obj is not None:
            self._notify_handler(handler, obj, obj, failures)


class Informers:
    """The shared informers, one per resource, each started when it is first used."""

    def __init__(self, server: ServerVerbs) -> None:
        self.server = server
        self._informers: dict[str, Informer] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._spawned: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup | None = None

    @property
    def core(self) -> Core:
        """The server, for controllers that work only with a server in this process."""
        assert isinstance(self.server, Core)
        return self.server

    def of(self, resource: str) -> Informer:
        if resource not in self._informers:
            self._informers[resource] = Informer(self.server, resource)
            self._start(resource)
        return self._informers[resource]

    def drop(self, resource: str) -> None:
        """Stop following a resource that is no longer served."""
        self._informers.pop(resource, None)
        follower = self._followers.pop(resource, None)
        if follower is not None:
            follower.cancel()

    async def run(self) -> None:
        """Follow all resources until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for resource in self._informers:
                self._start(resource)
            try:
                while True:
                    await asyncio.sleep(RESYNC_SECONDS)
                    for informer in list(self._informers.values()):
                        informer.resync()
            finally:
                self._tasks = None
                for task in (*self._followers.values(), *self._spawned):
                    task.cancel()
                self._followers.clear()

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run a coroutine in the background until it ends or the informers stop."""
        if self._tasks is None:
            work.close()
        else:
            task = self._tasks.create_task(_log_failure(work, name), name=name)
            self._spawned.add(task)
            task.add_done_callback(self._spawned.discard)

    async def wait_synced(self) -> None:
        """Return when all informers so far have been listed."""
        for informer in list(self._informers.values()):
            await informer.synced.wait()

    def _start(self, resource: str) -> None:
        if self._tasks is not None:
            self._followers[resource] = self._tasks.create_task(
                self._informers[resource].run(), name=f"hollow-inform-{resource}"
            )


async def _log_failure(work: Coroutine[Any, Any, None], name: str) -> None:
    """Run a coroutine; a failure is logged and ends nothing else."""
    try:
        await work
    except Exception:
        logger.exception("%s failed", name)


class _Index:
    def __init__(self, name: str, keys: Keys) -> None:
        self.entries: dict[str, dict[str, None]] = {}
        self._filed: dict[str, tuple[str, ...]] = {}
        """Index values under which each object is filed, by key of the object."""
        self._name = name
        self._keys = keys

    def move(self, key: str, new: Obj | None) -> None:
        before, after = self._filed.get(key, ()), self._values(new)
        if before == after:
            return
        if after:
            self._filed[key] = after
        else:
            del self._filed[key]
        for value in before:
            if value not in after:
                filed = self.entries[value]
                del filed[key]
                if not filed:
                    del self.entries[value]
        for value in after:
            # A dict keeps the order in which objects came.
            self.entries.setdefault(value, {})[key] = None

    def _values(self, obj: Obj | None) -> tuple[str, ...]:
        try:
            # Without doubles, and hashable: an object is indexed once under a value.
            return () if obj is None else tuple(dict.fromkeys(self._keys(obj)))
        except Exception:
            logger.exception("%s: %s cannot be indexed", self._name, key_of(obj or {}))
            return ()
