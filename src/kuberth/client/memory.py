"""A cluster in this process: the API's verbs over plain dictionaries.

In: objects created, patched, bound and deleted. Out: the same objects, and watch events in order. It
keeps the rules a scheduler relies on (unique names, UIDs, increasing versions, one binding per pod) and
nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from kuberth.api.core import Binding, Pod, PodCondition
from kuberth.api.wire import convert, to_builtins
from kuberth.client.protocol import ObjectList, WatchEvent, WatchType
from kuberth.errors import ApiError, ConflictError, NotFoundError

T = TypeVar("T")

_MERGE_KEYS: Final = {"conditions": "type", "containerStatuses": "name", "volumesAttached": "name"}
"""Lists that a strategic merge patch merges entry by entry, and by which field."""


class MemoryApi:
    """Implements `kuberth.client.protocol.Api`."""

    def __init__(self) -> None:
        self._objects: dict[type[Any], dict[str, Any]] = {}
        self._version = 0
        self._history: list[tuple[int, type[Any], WatchEvent]] = []
        self._wakers: set[asyncio.Event] = set()
        self._uids = 0

    # Synchronous verbs, for tests and demos; the protocol's verbs below are these, awaited.

    def put(self, obj: T) -> T:
        """Create an object."""
        kind, key = type(obj), _key(obj)
        objects = self._objects.setdefault(kind, {})
        if key in objects:
            raise ConflictError(f"{kind.__name__} {key} already exists")
        metadata = cast(Any, obj).metadata
        if not metadata.uid:
            self._uids += 1
            obj = _with_metadata(obj, uid=f"uid-{self._uids:08d}")
        return self._write(WatchType.ADDED, obj)

    def replace(self, obj: T) -> T:
        """Store a new version of an object that exists."""
        old = self.read(type(obj), _key(obj))
        return self._write(WatchType.MODIFIED, _with_metadata(obj, uid=cast(Any, old).metadata.uid))

    def change(self, kind: type[T], key: str, change: Callable[[T], T]) -> T:
        """Store what `change` makes of the present version."""
        return self._write(WatchType.MODIFIED, change(self.read(kind, key)))

    def read(self, kind: type[T], key: str) -> T:
        try:
            return cast(T, self._objects.get(kind, {})[key])
        except KeyError:
            raise NotFoundError(f"{kind.__name__} {key} not found") from None

    def all(self, kind: type[T]) -> Sequence[T]:
        return tuple(self._objects.get(kind, {}).values())

    def remove(self, kind: type[Any], key: str) -> None:
        obj = self.read(kind, key)
        del self._objects[kind][key]
        self._note(WatchType.DELETED, _with_metadata(obj, resource_version=str(self._version + 1)))

    async def next_change(self) -> None:
        """Return when any object has changed."""
        waker = asyncio.Event()
        self._wakers.add(waker)
        try:
            await waker.wait()
        finally:
            self._wakers.discard(waker)

    # The protocol

    async def list(self, kind: type[Any]) -> ObjectList:
        return ObjectList(self.all(kind), str(self._version))

    async def watch(self, kind: type[Any], *, resource_version: str) -> AsyncIterator[WatchEvent]:
        seen = int(resource_version or 0)
        waker = asyncio.Event()
        self._wakers.add(waker)
        try:
            while True:
                waker.clear()
                fresh = [entry for entry in self._since(seen) if entry[1] is kind]
                seen = self._version
                for _version, _kind, event in fresh:
                    yield event
                if self._version == seen:
                    await waker.wait()
        finally:
            self._wakers.discard(waker)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        return self.read(kind, _join(namespace, name))

    async def create(self, obj: T) -> T:
        return self.put(obj)

    async def patch(
        self,
        kind: type[T],
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> T:
        key = _join(namespace, name)
        old = self.read(kind, key)
        _expect_version(old, patch.get("metadata") or {}, f"{kind.__name__} {key}")
        if subresource:
            patch = {subresource: patch.get(subresource, {})}
        return self._write(WatchType.MODIFIED, convert(kind, _merged(to_builtins(old), patch)))

    async def bind(self, binding: Binding) -> None:
        key = _join(binding.metadata.namespace, binding.metadata.name)
        pod = self.read(Pod, key)
        wanted = {"uid": binding.metadata.uid, "resourceVersion": binding.metadata.resource_version}
        _expect_version(pod, wanted, f"pod {key}")
        if pod.spec.node_name:
            raise ConflictError(f"pod {key} is already assigned to node {pod.spec.node_name!r}")
        if pod.metadata.deletion_timestamp is not None:
            raise ConflictError(f"pod {key} is being deleted, cannot be assigned to a host")
        if pod.spec.scheduling_gates:
            raise ConflictError(f"pod {key} has non-empty .spec.schedulingGates")
        scheduled = PodCondition(type="PodScheduled", status="True")
        others = tuple(condition for condition in pod.status.conditions if condition.type != "PodScheduled")
        replace = msgspec.structs.replace
        self._write(
            WatchType.MODIFIED,
            replace(
                pod,
                spec=replace(pod.spec, node_name=binding.target.name),
                status=replace(pod.status, conditions=(*others, scheduled)),
            ),
        )

    async def delete(
        self,
        kind: type[Any],
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        key = _join(namespace, name)
        obj = self.read(kind, key)
        if uid and obj.metadata.uid != uid:
            raise ConflictError(f"{kind.__name__} {key} has UID {obj.metadata.uid}, not {uid}")
        self.remove(kind, key)

    def _write(self, type_: WatchType, obj: T) -> T:
        obj = _with_metadata(obj, resource_version=str(self._version + 1))
        self._objects.setdefault(type(obj), {})[_key(obj)] = obj
        self._note(type_, obj)
        return obj

    def _note(self, type_: WatchType, obj: Any) -> None:
        self._version += 1
        self._history.append((self._version, type(obj), WatchEvent(type_, obj)))
        for waker in self._wakers:
            waker.set()

    def _since(self, version: int) -> Sequence[tuple[int, type[Any], WatchEvent]]:
        if version > self._version:
            raise ApiError(f"resource version {version} is in the future", code=410, reason="Expired")
        # Every change has its own version, counted from one.
        return self._history[version:]


def _key(obj: Any) -> str:
    return _join(obj.metadata.namespace, obj.metadata.name)


def _join(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _with_metadata(obj: T, **fields: Any) -> T:
    metadata = msgspec.structs.replace(cast(Any, obj).metadata, **fields)
    return cast(T, msgspec.structs.replace(cast(Any, obj), metadata=metadata))


def _expect_version(obj: Any, wanted: Mapping[str, Any], what: str) -> None:
    """UID and resource version are preconditions where they are given."""
    if (uid := wanted.get("uid")) and uid != obj.metadata.uid:
        raise ConflictError(f"{what} has UID {obj.metadata.uid}, not {uid}")
    if (version := wanted.get("resourceVersion")) and version != obj.metadata.resource_version:
        raise ConflictError(f"{what} is at version {obj.metadata.resource_version}, not {version}")


def _merged(old: Any, patch: Any, *, key: str = "") -> Any:
    """A strategic merge: maps merge, null deletes, known lists merge by their key, others are replaced."""
    if isinstance(patch, Mapping):
        merged = dict(old) if isinstance(old, Mapping) else {}
        for name, value in patch.items():
            if value is None:
                merged.pop(name, None)
            else:
                merged[name] = _merged(merged.get(name), value, key=name)
        return merged
    if isinstance(patch, list | tuple) and isinstance(old, list | tuple) and key in _MERGE_KEYS:
        by = _MERGE_KEYS[key]
        entries = {entry[by]: entry for entry in old}
        for entry in patch:
            entries[entry[by]] = _merged(entries.get(entry[by]), entry)
        return list(entries.values())
    return patch
