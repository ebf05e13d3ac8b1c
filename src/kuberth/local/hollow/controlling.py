"""The base of controllers: informers that they watch, queues whose keys they sync, events that they record.

In: resources with handlers, sync functions. Out: `run`, which waits until all that is watched has been listed
and then works off the queues until it is cancelled. A failed sync is logged and retried (see `working`).
Events are created in the background; one that cannot be written is dropped, since nothing may depend on it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar, Final

from kuberth.api.events import event_name
from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of, reference_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.informing import Handler, Informer, Informers, Keys
from kuberth.local.hollow.ownership import OWNER_INDEX, controller_of, index_owners
from kuberth.local.hollow.pod_states import node_of
from kuberth.local.hollow.working import Sync, Worker, coalesce_seconds
from kuberth.text.timestamps import stamp

logger = logging.getLogger(__name__)

_MOST_EVENTS: Final = 1000
"""The maximum number of events being written at a time; more are dropped."""


class Controller:
    """A controller watches resources, has work queues and records events."""

    name: ClassVar = ""
    component: ClassVar = ""
    """The component that its events name."""

    def __init__(self, informers: Informers, *, clock: Clock) -> None:
        self._informers = informers
        self._clock = clock
        self._events_under_way = 0
        self._watched: dict[str, Informer] = {}
        self._queues: list[Worker] = []
        self.set_up()

    def set_up(self) -> None:
        """Create the queues and watch the resources of this controller."""

    def queue(self, name: str, sync: Sync, *, parallel: int = 8) -> Worker:
        """Create a work queue; `sync` processes its keys while the controller runs."""
        queue = Worker(name, sync, parallel=parallel)
        self._queues.append(queue)
        return queue

    def queue_of(
        self,
        resource: str,
        sync: Callable[[Obj], Awaitable[float | None]],
        *,
        name: str = "",
        parallel: int = 8,
    ) -> Worker:
        """Create a work queue for keys of a watched resource; `sync` receives the objects that exist."""

        async def sync_present(key: str) -> float | None:
            obj = self._watched[resource].get(key)
            return None if obj is None else await sync(obj)

        return self.queue(name or self.name, sync_present, parallel=parallel)

    def watch(
        self, resource: str, handler: Handler | None = None, *, indexes: Mapping[str, Keys] | None = None
    ) -> Informer:
        """Watch a resource; returns its informer, which has synced before the controller starts."""
        informer = self._watched[resource] = self._informers.of(resource)
        for name, keys in (indexes or {}).items():
            informer.add_index(name, keys)
        if handler is not None:
            informer.add_handler(handler)
        return informer

    def watch_owned(self, resource: str, queue: Worker, *, kind: str, coalesce: bool = False) -> Informer:
        """The informer of a resource whose objects have owners of a kind; a change queues the owner.

        `coalesce`: wait until changes have gathered, longer where an owner has many objects.
        """
        informer = self.watch(resource)
        index_owners(informer)

        def queue_owner(old: Obj | None, new: Obj | None) -> None:
            for child in (old, new):
                reference = None if child is None else controller_of(child)
                if child is None or reference is None or reference.get("kind") != kind:
                    continue
                key = f"{namespace_of(child)}/{reference['name']}"
                if coalesce:
                    queue.add_after(key, coalesce_seconds(informer.count(OWNER_INDEX, reference["uid"])))
                else:
                    queue.add(key)

        informer.add_handler(queue_owner)
        return informer

    async def wait_synced(self) -> None:
        for informer in list(self._watched.values()):
            await informer.synced.wait()

    async def run(self) -> None:
        """Sync the keys of all queues until cancelled."""
        await self.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            for queue in self._queues:
                tasks.create_task(queue.run(), name=f"hollow-{queue.name}")

    def record(self, obj: Obj, reason: str, message: str, *, type_: str = "Normal") -> None:
        """Write an event about an object in the background."""
        if self._events_under_way >= _MOST_EVENTS:
            return
        namespace = namespace_of(obj) or "default"
        now = stamp(self._clock)
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": event_name(name_of(obj), secrets.token_hex(8)), "namespace": namespace},
            "involvedObject": {
                **reference_of(obj),
                "resourceVersion": obj["metadata"].get("resourceVersion", ""),
            },
            "reason": reason,
            "message": message,
            "type": type_,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": "",
        }
        self._informers.spawn(self._write_event(namespace, event), name=f"hollow-event-{reason}")

    @contextmanager
    def reporting_refusals(self, owner: Obj) -> Iterator[None]:
        """Record an event on the owner of pods if the server refuses one in the block, as quotas do."""
        try:
            yield
        except StatusError as error:
            self.record(owner, "FailedCreate", f"Error creating: {error}", type_="Warning")
            raise

    async def _write_event(self, namespace: str, event: Obj) -> None:
        self._events_under_way += 1
        try:
            await self._informers.server.create("events", event, namespace=namespace)
        except StatusError as error:
            logger.debug("event %s not written: %s", event["reason"], error)
        finally:
            self._events_under_way -= 1


def by_namespace(obj: Obj) -> Iterable[str]:
    return (namespace_of(obj),)


def by_node(pod: Obj) -> Iterable[str]:
    node = node_of(pod)
    return (node,) if node else ()
