"""An API server's verbs over dictionaries of typed objects, for simulations and tests.

In: objects created, patched, bound and deleted. Out: the same objects, and watch events in order. It
implements the rules that a scheduler relies on (unique names, UIDs, increasing versions, preconditions, one
binding per pod, graceful deletion) with the local API server's own code. It neither defaults nor validates
objects, and namespaces need not exist. Trees are built only if a struct does not suffice
(docs/adr/0016-memory-api.md).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Final, TypeVar, cast

import msgspec

from kuberth.api.core import Binding, Pod
from kuberth.api.kinds import REGISTRY, KindInfo
from kuberth.api.plain import PlainObject
from kuberth.api.pods import PodCondition, PodStatus
from kuberth.api.wire import convert, decode, to_builtins
from kuberth.client.protocol import Api, ObjectList, WatchEvent, WatchType
from kuberth.client.reading import read_change, read_items
from kuberth.client.writes import Verb, Write, write_of_binding
from kuberth.clock import Clock, SystemClock
from kuberth.errors import WireError
from kuberth.local.apiserver.objects import make_key
from kuberth.local.apiserver.patching.patching import apply_patch
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema.catalogue import GATED_ROWS, ROWS
from kuberth.local.apiserver.status_errors import (
    already_exists,
    bad_request,
    expired,
    not_found,
    too_large_version,
)
from kuberth.local.apiserver.store.subscriptions import Change, ChangeLog, SlowWatcherError
from kuberth.local.apiserver.verbs.deletion import plan_deletion
from kuberth.local.apiserver.verbs.reading import BOOKMARK_SECONDS, Selection, parse_version, select, value_at
from kuberth.local.apiserver.verbs.subresources import bound_pod, read_binding
from kuberth.local.apiserver.verbs.writing import expect_same, expect_same_uid, finalized
from kuberth.local.in_process import api_errors
from kuberth.text.timestamps import moment, timestamp

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

Matcher = Callable[[Any], bool]

KEEP_CHANGES: Final = 20_000
"""The number of changes from which a watch can resume; a watch further behind has to list again."""
_FIRST_VERSION: Final = 1
"""The version of an empty cluster: zero means "any" in the API."""
_SERVED: Final = {
    (row.group, row.version, row.plural): row for row in (*ROWS, *chain.from_iterable(GATED_ROWS.values()))
}


class MemoryApi(Api):
    """A cluster in dictionaries of typed objects."""

    def __init__(
        self,
        *,
        keep_changes: int = KEEP_CHANGES,
        clock: Clock | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        steady: bool = False,
    ) -> None:
        """Create an empty cluster; without PodSchedulingReadiness, pods that carry gates can be bound.

        With `steady`, watches send no bookmarks, so that virtual time jumps over hours without changes.
        """
        self.steady = steady
        """Whether watches need no bookmarks."""
        self._gates_hold = (feature_gates or {}).get("PodSchedulingReadiness", True)
        self._tables: dict[str, _Table] = {}
        """Tables by resource. All versions of a kind share theirs."""
        self._table_of: dict[type[Any], _Table] = {}
        self._version = _FIRST_VERSION
        self._compacted = _FIRST_VERSION
        """Changes up to this version are compacted."""
        self._waiters: dict[asyncio.Event, None] = {}  # woken in order, which is the same in every run
        """Events of the calls of `next_change`."""
        self._keep_changes = keep_changes
        self._uids = 0
        self._clock = SystemClock() if clock is None else clock

    # Synchronous verbs, for tests: they store objects unchanged

    def put(self, obj: T) -> T:
        """Create an object."""
        with api_errors(f"create {REGISTRY.of(type(obj)).kind} {_key(obj)}"):
            return self._add(obj if cast(Any, obj).metadata.uid else self._with_new_uid(obj))

    def replace(self, obj: T) -> T:
        """Store a new version of an object that exists."""
        old = self.read(type(obj), _key(obj))
        return self._write(_with_metadata(obj, uid=cast(Any, old).metadata.uid))

    def change(self, kind: type[T], key: str, change: Callable[[T], T]) -> T:
        """Store the result of `change` for the current version."""
        return self._write(change(self.read(kind, key)))

    def read(self, kind: type[T], key: str) -> T:
        """The object with this namespace/name; NotFoundError if it does not exist."""
        with api_errors(f"get {REGISTRY.of(kind).kind} {key}"):
            return cast(T, _seen_as(kind, self._present(kind, key)))

    def all(self, kind: type[T]) -> Sequence[T]:
        """The objects of a kind."""
        return tuple(read_items(_seen_as, kind, self._all(kind), what=f"list {REGISTRY.of(kind).plural}"))

    def remove(self, kind: type[Any], key: str) -> None:
        """Remove an object at once, as a kubelet does with a pod that has ended."""
        with api_errors(f"delete {REGISTRY.of(kind).kind} {key}"):
            self._remove(kind, key)

    def assign(self, binding: Binding) -> None:
        """Bind a pod."""
        self.write_nowait(write_of_binding(binding))

    async def next_change(self) -> None:
        """Return when any object has changed."""
        waiter = asyncio.Event()
        self._waiters[waiter] = None
        try:
            await waiter.wait()
        finally:
            self._waiters.pop(waiter, None)

    # The protocol

    async def list(
        self, kind: type[Any], *, resource_version: str = "", field_selector: str = ""
    ) -> ObjectList:
        info = REGISTRY.of(kind)
        what = f"list {info.plural}"
        with api_errors(what):
            selection = select(_row_of(kind), field_selector=field_selector)
            wanted = parse_version(resource_version or "0")
            if wanted > self._version:
                raise too_large_version(wanted, self._version)
        matches = _matcher(selection)
        chosen = [obj for obj in self._all(kind) if matches(obj)]
        return ObjectList(read_items(_seen_as, kind, chosen, what=what), str(self._version))

    async def watch(
        self, kind: type[Any], *, resource_version: str, field_selector: str = ""
    ) -> AsyncIterator[WatchEvent]:
        info = REGISTRY.of(kind)
        what = f"watch {info.plural}"
        read = partial(read_change, _seen_as, kind, what=what)
        with api_errors(what):
            selection = select(_row_of(kind), field_selector=field_selector)
            since = parse_version(resource_version or "0")
            present: Sequence[Any] = ()
            if since == 0:
                since, present = self._version, self._all(kind)
            self._expect_known(since)
        matches = _matcher(selection)
        changes = self._table(kind).log.subscribe(since=since, limit=self._keep_changes)
        try:
            for obj in present:
                if matches(obj) and (event := read(WatchType.ADDED, obj)) is not None:
                    yield event
            while True:
                while (change := changes.read_nowait()) is not None:
                    type_, obj = _event(change, matches)
                    if type(obj) is kind:
                        yield WatchEvent(type_, obj, obj.metadata.resource_version)
                    elif obj is not None and (event := read(type_, obj)) is not None:
                        yield event
                if self.steady:
                    await changes.wait()
                    continue
                settled = self._version  # what comes while the wait ends is not delivered yet
                try:
                    async with asyncio.timeout_at(_next_bookmark()):
                        await changes.wait()
                except TimeoutError:
                    yield WatchEvent(WatchType.BOOKMARK, None, str(settled))
        except SlowWatcherError:
            # As upstream: the watch ends, and the client resumes from the last version it saw.
            return
        finally:
            changes.close()

    async def get(self, kind: type[T], name: str, *, namespace: str = "") -> T:
        return self.read(kind, make_key(namespace, name))

    async def write(self, write: Write) -> Any:
        return self.write_nowait(write)

    def write_nowait(self, write: Write) -> Any:
        """Perform a write at once, without a task."""
        with api_errors(write):
            if write.subresource == "binding":
                return self._bind(write)
            if write.verb is Verb.CREATE:
                return self._create(write.body)
            if write.verb is Verb.UPDATE:
                return self._update(write)
            return self._patch(write) if write.verb is Verb.PATCH else self._delete(write)

    def _create(self, obj: Any) -> Any:
        metadata = obj.metadata
        if metadata.resource_version:
            raise bad_request("resourceVersion should not be set on objects to be created")
        if not metadata.name and metadata.generate_name:
            obj = _with_metadata(obj, name=f"{metadata.generate_name}{self._uids:05d}")
        return self._add(self._with_new_uid(obj))

    def _update(self, write: Write) -> Any:
        row, old = _row_of(write.kind), to_builtins(self._present(write.kind, _key_of(write)))
        new = to_builtins(write.body)
        expect_same(row, old, new["metadata"])
        return self._store(write, row, old, new)

    def _patch(self, write: Write) -> Any:
        kind, subresource, patch = write.kind, write.subresource, write.body
        present = self._present(kind, _key_of(write))
        part = getattr(present, subresource, None) if subresource and type(present) is kind else None
        if isinstance(part, msgspec.Struct) and patch.keys() <= {"metadata", subresource}:
            changed = _patched_without_tree(present, part, patch, subresource)
            if changed is None:
                changed = _patched(present, part, write)
            if changed != part:
                present = self._write(msgspec.structs.replace(present, **{subresource: changed}))
            return present
        row, old = _row_of(kind), to_builtins(present)
        return self._store(write, row, old, _merged(row, old, write))

    def _bind(self, write: Write) -> None:
        pod, binding = self._present(Pod, _key_of(write)), write.body
        if isinstance(binding, bytes):
            binding = decode(Binding, binding)
        self._write(self._bound(pod, binding, now_ns=self._clock.now_ns()))

    def _delete(self, write: Write) -> None:
        kind, key = write.kind, _key_of(write)
        old = self._present(kind, key)
        tree = _pod_outline(old) if isinstance(old, Pod) else to_builtins(old)
        plan = plan_deletion(_row_of(kind), tree, write.delete_options, now_ns=self._clock.now_ns())
        if plan.marked is not None and isinstance(old, Pod):
            metadata = _rewritten(old.metadata, tree["metadata"], plan.marked["metadata"])
            self._write(msgspec.structs.replace(old, metadata=metadata))
        elif plan.marked is not None:
            self._write(convert(type(old), plan.marked))
        if plan.remove:
            self._remove(kind, key)

    # What is stored

    def _bound(self, pod: Pod, binding: Binding, *, now_ns: int) -> Pod:
        plain = _bound_without_tree(pod, binding, now_ns=now_ns)
        if plain is not None:
            return plain
        spec = {"nodeName": pod.spec.node_name, "schedulingGates": pod.spec.scheduling_gates}
        old = _outline(pod, spec=spec, status=pod.status)
        asked = read_binding(to_builtins(binding))
        new = bound_pod(old, asked, now=timestamp(now_ns), gates_hold=self._gates_hold)
        return msgspec.structs.replace(
            pod,
            metadata=_rewritten(pod.metadata, old["metadata"], new["metadata"]),
            spec=msgspec.structs.replace(pod.spec, node_name=new["spec"]["nodeName"]),
            status=_rewritten(pod.status, old["status"], new["status"]),
        )

    def _table(self, kind: type[Any]) -> _Table:
        table = self._table_of.get(kind)
        if table is None:
            resource = REGISTRY.of(kind).resource_id
            table = self._table_of[kind] = self._tables.setdefault(resource, _Table(resource))
        return table

    def _all(self, kind: type[Any]) -> Sequence[Any]:
        return tuple(self._table(kind).objects.values())

    def _present(self, kind: type[Any], key: str) -> Any:
        obj = self._table(kind).objects.get(key)
        if obj is None:
            raise not_found(_row_of(kind), key.rpartition("/")[2])
        return obj

    def _store(self, write: Write, row: ServedResource, old: Mapping[str, Any], new: dict[str, Any]) -> Any:
        """Store the result of an update or a patch, as far as it may change the object."""
        kind, subresource = write.kind, write.subresource
        if subresource:
            new = {**old, subresource: new.get(subresource, {})}
        elif row.has_status:
            new = {**new, "status": old.get("status", {})}
        new["metadata"] = {**new["metadata"], **_owned(old)}
        written, present = convert(kind, new), convert(kind, old)
        if written == present:
            return present
        if finalized(row, new, dict(old)):
            self._remove(kind, _key(written))
            return written
        return self._write(written)

    def _add(self, obj: T) -> T:
        key = _key(obj)
        if key in self._table(type(obj)).objects:
            raise already_exists(_row_of(type(obj)), cast(Any, obj).metadata.name)
        return self._write(obj)

    def _remove(self, kind: type[Any], key: str) -> None:
        obj, table = self._present(kind, key), self._table(kind)
        del table.objects[key]
        self._record_change(table, key, _with_metadata(obj, resource_version=str(self._version + 1)), None)

    def _with_new_uid(self, obj: T) -> T:
        self._uids += 1
        return _with_metadata(obj, uid=f"uid-{self._uids:08d}")

    def _write(self, obj: T) -> T:
        obj = _with_metadata(obj, resource_version=str(self._version + 1))
        table, key = self._table(type(obj)), _key(obj)
        old = table.objects.get(key)
        table.objects[key] = obj
        self._record_change(table, key, old, obj)
        return obj

    def _record_change(self, table: _Table, key: str, old: Any, new: Any) -> None:
        """Log a change and wake watches; `new`, or else `old`, gets the next resource version."""
        self._version += 1
        table.log.append(Change(self._version, table.log.resource, key, old, new))
        table.log.wake_readers()
        # Some slack, so that few changes pay for dropping old ones.
        if self._version - self._compacted > self._keep_changes + self._keep_changes // 4:
            self._compacted = self._version - self._keep_changes
            for each in self._tables.values():
                each.log.drop_until(self._compacted)
        for waiter in self._waiters:
            waiter.set()

    def _expect_known(self, version: int) -> None:
        if version > self._version:
            raise expired(f"Too large resource version: {version}, current: {self._version}")
        if version < self._compacted:
            raise expired(f"too old resource version: {version} ({self._compacted})")


class _Table:
    """The objects of one resource, and the log of their changes."""

    __slots__ = ("log", "objects")

    def __init__(self, resource: str) -> None:
        self.objects: dict[str, Any] = {}
        """Objects by key."""
        self.log = ChangeLog(resource)


def _next_bookmark() -> float:
    """The time of the next bookmark, the same for all watches: virtual time jumps once for all of them."""
    return (asyncio.get_running_loop().time() // BOOKMARK_SECONDS + 1) * BOOKMARK_SECONDS


def _event(change: Change, matches: Matcher) -> tuple[WatchType, Any]:
    """The change as a watch with this selection sees it: leaving the selection is a deletion.

    The object is None if the watch does not see the change.
    """
    old: Any = change.old
    new: Any = change.new
    if new is not None and matches(new):
        return (WatchType.MODIFIED if old is not None and matches(old) else WatchType.ADDED), new
    if old is None or not matches(old):
        return WatchType.DELETED, None
    return WatchType.DELETED, old if new is None else _with_metadata(
        old, resource_version=str(change.revision)
    )


def _row_of(kind: type[Any]) -> ServedResource:
    return _row(REGISTRY.of(kind))


@lru_cache(maxsize=256)
def _row(info: KindInfo) -> ServedResource:
    """The local cluster's row for the kind; an unknown kind is served as a custom resource."""
    served = _SERVED.get((info.group, info.version, info.plural))
    if served is not None:
        return served
    return ServedResource(
        info.group, info.version, info.kind, info.plural, namespaced=info.namespaced, custom=True
    )


def _matcher(selection: Selection) -> Matcher:
    """The selection for structs, if possible without trees: watches select pods at every change."""
    if selection.everything:
        return lambda obj: True
    if not selection.labels.empty:
        return lambda obj: selection.matches(to_builtins(obj))
    requirements = sorted(selection.fields.requirements, key=lambda each: each.field)
    wanted = [
        (
            attrgetter(".".join(map(_attribute, selection.paths[field][0]))),
            field,
            [(each.value, each.negated) for each in of_field],
        )
        for field, of_field in groupby(requirements, key=lambda each: each.field)
    ]

    def matches(obj: Any) -> bool:
        if not isinstance(obj, msgspec.Struct):
            return selection.matches(to_builtins(obj))
        for get, field, named in wanted:
            try:
                value = get(obj)
            except AttributeError:
                value = None
            if not (isinstance(value, str) and value):
                value = value_at(to_builtins(obj), *selection.paths[field])
            for name, negated in named:
                if (value == name) is negated:
                    return False
        return True

    return matches


def _outline(obj: Any, **parts: Any) -> dict[str, Any]:
    """The tree of an object's metadata and of these parts alone, without empty fields."""
    metadata = obj.metadata
    if metadata.deletion_timestamp is None:
        own = {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "generation": metadata.generation,
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "finalizers": list(metadata.finalizers),
        }
    else:
        own = to_builtins(metadata)
    tree = {name: to_builtins(part) for name, part in parts.items()}
    return {
        name: {field: value for field, value in part.items() if value or value == 0}
        for name, part in (("metadata", own), *tree.items())
    }


def _bound_without_tree(pod: Pod, binding: Binding, *, now_ns: int) -> Pod | None:
    """The result of `bound_pod` for the usual pod; None: something is refused, merged or cleared."""
    wanted, target = binding.metadata, binding.target
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    if (
        wanted.uid not in ("", metadata.uid)
        or wanted.resource_version
        or wanted.labels
        or wanted.annotations
        or target.kind not in ("", "Node")
        or not target.name
        or (binding.api_version, binding.kind) != ("v1", "Binding")
        or metadata.deletion_timestamp is not None
        or spec.node_name
        or spec.scheduling_gates
        or status.conditions
        or status.nominated_node_name
    ):
        return None
    scheduled = PodCondition(type="PodScheduled", status="True", last_transition_time=moment(now_ns))
    return msgspec.structs.replace(
        pod,
        spec=msgspec.structs.replace(spec, node_name=target.name),
        status=msgspec.structs.replace(status, conditions=(scheduled,)),
    )


def _rewritten(part: S, old: Mapping[str, Any], new: Mapping[str, Any]) -> S:
    """A part of an object with what differs between two trees of it."""
    names = _field_names(type(part))
    changed = {name: new[name] for name in new if name in names and new[name] != old.get(name)}
    for name in old.keys() - new.keys():
        changed[name] = None
    read = convert(type(part), changed)
    return msgspec.structs.replace(part, **{names[name]: getattr(read, names[name]) for name in changed})


def _patched(obj: Any, part: msgspec.Struct, write: Write) -> msgspec.Struct:
    """A part of an object after a patch of this part alone."""
    old = _outline(obj, **{write.subresource: part})
    return convert(type(part), _merged(_row_of(write.kind), old, write).get(write.subresource, {}))


def _merged(row: ServedResource, old: dict[str, Any], write: Write) -> dict[str, Any]:
    """The tree of an object after a patch whose preconditions hold."""
    new: dict[str, Any] = apply_patch(row, old, to_builtins(write.body), content_type=write.content_type)
    expect_same_uid(row, old, new)
    expect_same(row, old, new.get("metadata", {}))
    return new


def _patched_without_tree(
    obj: Any, part: msgspec.Struct, patch: Mapping[str, Any], name: str
) -> msgspec.Struct | None:
    """A part after a patch that sets texts, numbers and a pod's condition; None: use `_patched`."""
    given, metadata, names = patch.get(name, {}), patch.get("metadata", {}), _field_names(type(part))
    if metadata and metadata != {"uid": obj.metadata.uid}:
        return None
    if not isinstance(given, dict):
        return None
    merged: dict[str, Any] = {}
    if isinstance(part, PodStatus):
        given = dict(given)
        if "conditions" in given:
            conditions = _with_condition(part.conditions, given.pop("conditions"))
            if conditions is None:
                return None
            merged["conditions"] = conditions
        if given.get("nominatedNodeName", "") is None:
            del given["nominatedNodeName"]
            merged["nominated_node_name"] = ""
    if not all(key in names and _is_plain(value) for key, value in given.items()):
        return None
    read = convert(type(part), given)
    return msgspec.structs.replace(part, **{names[key]: getattr(read, names[key]) for key in given}, **merged)


def _with_condition(present: tuple[PodCondition, ...], patch: object) -> tuple[PodCondition, ...] | None:
    """A pod's conditions with one that a patch sets; None: the patch does more than that."""
    if not isinstance(patch, list) or len(patch) != 1 or not isinstance(patch[0], dict):
        return None
    given, names, types = patch[0], _field_names(PodCondition), [each.type for each in present]
    if not all(key in names and _is_plain(value) for key, value in given.items()) or "type" not in given:
        return None
    try:
        new = convert(PodCondition, given)
    except WireError:
        return None  # which is refused with the path from the status on
    times = types.count(new.type)
    if times == 0:
        return (new, *present)  # what a patch names stands before what it does not
    if times > 1:
        return None
    changed = {names[key]: getattr(new, names[key]) for key in given}
    return tuple(
        msgspec.structs.replace(each, **changed) if each.type == new.type else each for each in present
    )


def _is_plain(value: object) -> bool:
    """Whether a patch with this value replaces what is there: neither a null, nor a map or a list."""
    return type(value) in (str, int, float, bool)


@lru_cache(maxsize=256)
def _field_names(kind: type[msgspec.Struct]) -> dict[str, str]:
    """A struct's fields by their names in JSON."""
    return {field.encode_name: field.name for field in msgspec.structs.fields(kind)}


def _pod_outline(pod: Pod) -> dict[str, Any]:
    """The fields of a pod that a deletion reads."""
    spec: dict[str, Any] = {"nodeName": pod.spec.node_name}
    if pod.spec.termination_grace_period_seconds is not None:
        spec["terminationGracePeriodSeconds"] = pod.spec.termination_grace_period_seconds
    return _outline(pod, spec=spec, status={"phase": pod.status.phase})


@lru_cache(maxsize=256)
def _attribute(name: str) -> str:
    """The struct's name of a field: podIP is pod_ip, nodeName is node_name."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _seen_as(kind: type[Any], obj: Any) -> Any:
    """The object as this kind reads it: another version of the kind may have written it."""
    return obj if type(obj) is kind else convert(kind, {**to_builtins(obj), **_type_of(kind)})


def _type_of(kind: type[Any]) -> dict[str, str]:
    try:
        info = REGISTRY.of(kind)
    except TypeError:  # the bare metadata of any kind
        return {}
    return {"apiVersion": info.api_version, "kind": info.kind}


def _owned(old: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata that only the server sets."""
    owned = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
    return {name: value for name, value in old["metadata"].items() if name in owned}


def _key(obj: Any) -> str:
    return make_key(obj.metadata.namespace, obj.metadata.name)


def _key_of(write: Write) -> str:
    return make_key(write.namespace, write.name)


def _with_metadata(obj: T, **fields: Any) -> T:
    metadata = msgspec.structs.replace(cast(Any, obj).metadata, **fields)
    if isinstance(obj, msgspec.Struct):
        return msgspec.structs.replace(obj, metadata=metadata)
    return cast(T, cast(PlainObject, obj).with_metadata(metadata))
