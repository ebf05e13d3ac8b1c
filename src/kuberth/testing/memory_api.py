"""A cluster in this process: the API's verbs over plain dictionaries.

In: objects created, patched, bound and deleted. Out: the same objects, and watch events in order. It
keeps the rules a scheduler relies on (unique names, UIDs, increasing versions, one binding per pod) and
nothing else.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from kuberth.api.core import Binding, Pod, PodCondition
from kuberth.api.selectors import FieldSelector, parse_field_selector
from kuberth.api.wire import convert, to_builtins
from kuberth.client.protocol import ObjectList, WatchEvent, WatchType
from kuberth.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError

T = TypeVar("T")

_SNAKE: Final = re.compile(r"(?<!^)([A-Z]+)")
_MERGE_KEYS: Final = {"conditions": "type", "containerStatuses": "name", "volumesAttached": "name"}
"""Lists that a strategic merge patch merges entry by entry, and by which field."""


class MemoryApi:
    """Implements `kuberth.client.protocol.Api`."""

    def __init__(self, *, feature_gates: Mapping[str, bool] | None = None) -> None:
        """With PodSchedulingReadiness off, pods that carry scheduling gates can be bound."""
        self._gates_hold = (feature_gates or {}).get("PodSchedulingReadiness", True)
        self._objects: dict[type[Any], dict[str, Any]] = {}
        self._version = 0
        self._history: list[_Change] = []
        self._wakers: set[asyncio.Event] = set()
        self._uids = 0

    # Synchronous verbs, for tests and demos; the protocol's verbs below are these, awaited.

    def put(self, obj: T) -> T:
        """Create an object."""
        kind, key = type(obj), _key(obj)
        objects = self._objects.setdefault(kind, {})
        if key in objects:
            raise AlreadyExistsError(f"{kind.__name__} {key} already exists")
        metadata = cast(Any, obj).metadata
        if not metadata.uid:
            self._uids += 1
            obj = _with_metadata(obj, uid=f"uid-{self._uids:08d}")
        return self._write(obj)

    def replace(self, obj: T) -> T:
        """Store a new version of an object that exists."""
        old = self.read(type(obj), _key(obj))
        return self._write(_with_metadata(obj, uid=cast(Any, old).metadata.uid))

    def change(self, kind: type[T], key: str, change: Callable[[T], T]) -> T:
        """Store what `change` makes of the present version."""
        return self._write(change(self.read(kind, key)))

    def read(self, kind: type[T], key: str) -> T:
        """The object of this namespace/name; NotFoundError if there is none."""
        try:
            return cast(T, self._objects.get(kind, {})[key])
        except KeyError:
            raise NotFoundError(f"{kind.__name__} {key} not found") from None

    def all(self, kind: type[T]) -> Sequence[T]:
        """All objects of a kind."""
        return tuple(self._objects.get(kind, {}).values())

    def remove(self, kind: type[Any], key: str) -> None:
        """Delete an object."""
        obj = self.read(kind, key)
        del self._objects[kind][key]
        self._note(obj, None)

    async def next_change(self) -> None:
        """Return when any object has changed."""
        waker = asyncio.Event()
        self._wakers.add(waker)
        try:
            await waker.wait()
        finally:
            self._wakers.discard(waker)

    # The protocol

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        selector = parse_field_selector(field_selector)
        chosen = [obj for obj in self.all(kind) if selector.matches(partial(_field, obj))]
        return ObjectList(chosen, str(self._version))

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        selector = parse_field_selector(field_selector)
        seen = int(resource_version or 0)
        waker = asyncio.Event()
        self._wakers.add(waker)
        try:
            while True:
                waker.clear()
                fresh = self._since(seen)
                seen = self._version
                for change in fresh:
                    if change.kind is kind and (event := _event(change, selector)) is not None:
                        yield event
                if self._version == seen:
                    await waker.wait()
        finally:
            self._wakers.discard(waker)

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        return self.read(kind, _join(namespace, name))

    async def create(self, obj: T) -> T:
        return self.put(obj)

    async def update(self, obj: T) -> T:
        present = cast(Any, self.read(type(obj), _key(obj))).metadata.resource_version
        if (expected := cast(Any, obj).metadata.resource_version) not in ("", present):
            raise ConflictError(f"{type(obj).__name__} {_key(obj)} is at version {present}, not {expected}")
        return self.replace(obj)

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
        return self._write(convert(kind, _merged(to_builtins(old), patch)))

    async def bind(self, binding: Binding) -> None:
        key = _join(binding.metadata.namespace, binding.metadata.name)
        pod = self.read(Pod, key)
        wanted = {"uid": binding.metadata.uid, "resourceVersion": binding.metadata.resource_version}
        _expect_version(pod, wanted, f"pod {key}")
        if pod.spec.node_name:
            raise ConflictError(f"pod {key} is already assigned to node {pod.spec.node_name!r}")
        if pod.metadata.deletion_timestamp is not None:
            raise ConflictError(f"pod {key} is being deleted, cannot be assigned to a host")
        if self._gates_hold and pod.spec.scheduling_gates:
            raise ConflictError(f"pod {key} has non-empty .spec.schedulingGates")
        scheduled = PodCondition(type="PodScheduled", status="True")
        others = tuple(condition for condition in pod.status.conditions if condition.type != "PodScheduled")
        replace = msgspec.structs.replace
        self._write(
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

    def _write(self, obj: T) -> T:
        obj = _with_metadata(obj, resource_version=str(self._version + 1))
        objects = self._objects.setdefault(type(obj), {})
        old = objects.get(_key(obj))
        objects[_key(obj)] = obj
        self._note(old, obj)
        return obj

    def _note(self, old: Any, new: Any) -> None:
        self._version += 1
        self._history.append(_Change(str(self._version), type(old if new is None else new), old, new))
        for waker in self._wakers:
            waker.set()

    def _since(self, version: int) -> Sequence[_Change]:
        if version > self._version:
            raise ApiError(f"resource version {version} is in the future", code=410, reason="Expired")
        # Every change has its own version, counted from one.
        return self._history[version:]


class _Change(NamedTuple):
    version: str
    kind: type[Any]
    old: Any
    new: Any


def _event(change: _Change, selector: FieldSelector) -> WatchEvent | None:
    """The change as a watch with this selector sees it: leaving the selection is a deletion."""
    old = change.old if change.old is not None and selector.matches(partial(_field, change.old)) else None
    new = change.new if change.new is not None and selector.matches(partial(_field, change.new)) else None
    if new is not None:
        return WatchEvent(WatchType.ADDED if old is None else WatchType.MODIFIED, new, change.version)
    if old is None:
        return None
    last = _with_metadata(old if change.new is None else change.new, resource_version=change.version)
    return WatchEvent(WatchType.DELETED, last, change.version)


def _field(obj: Any, path: str) -> str:
    """A field by its JSON path, as field selectors name it."""
    for part in path.split("."):
        obj = getattr(obj, _SNAKE.sub(r"_\1", part).lower(), "")
    return str(obj)


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
