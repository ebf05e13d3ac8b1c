"""Reading: the objects that a list or a watch selects, lists in chunks, and watch events.

In: selectors, a limit, a continue token, where to start. Out: a List object, or watch events in order; or a
400 or 410 in upstream's words. A later chunk shows the same revision as the first: changes since then are
undone on a copy of the current list.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kuberth.api.selectors import FieldSelector, Selector, parse_field_selector, parse_selector
from kuberth.errors import SelectorError
from kuberth.local.apiserver.objects import Obj, key_of
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import Cause, bad_request, expired, invalid, too_large_version
from kuberth.local.apiserver.store.store import Change, CompactedError, RevisionStore, SlowWatcherError
from kuberth.local.apiserver.verbs.aliases import to_view

_parse_labels: Final = lru_cache(maxsize=1024)(parse_selector)
_parse_fields: Final = lru_cache(maxsize=1024)(parse_field_selector)


@dataclass(frozen=True, slots=True)
class Selection:
    """A compiled choice among the objects of one resource."""

    labels: Selector
    fields: FieldSelector
    paths: dict[str, tuple[tuple[str, ...], str]]
    """Paths of the field selectors in stored objects, and what stands for an absent value."""

    @property
    def everything(self) -> bool:
        return self.labels.empty and self.fields.empty

    def matches(self, obj: Obj) -> bool:
        if not self.labels.empty and not self.labels.matches(obj["metadata"].get("labels") or {}):
            return False
        return self.fields.empty or self.fields.matches(lambda field: value_at(obj, *self.paths[field]))

    def only_name(self) -> str | None:
        return self.fields.requires_exact_match("metadata.name")


def select(row: ServedResource, *, label_selector: str = "", field_selector: str = "") -> Selection:
    try:
        labels = _parse_labels(label_selector)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    try:
        fields = _parse_fields(field_selector)
    except SelectorError as error:
        raise bad_request(f"invalid field selector: {error}") from None
    paths: dict[str, tuple[tuple[str, ...], str]] = {}
    for name in fields.fields:
        path = _path(row, name)
        if path is None:
            raise bad_request(f"field label not supported: {name}")
        paths[name] = path
    return Selection(labels, fields, paths)


def _path(row: ServedResource, name: str) -> tuple[tuple[str, ...], str] | None:
    if name == "metadata.name" or (name == "metadata.namespace" and row.namespaced):
        return tuple(name.split(".")), ""
    if name not in row.fields:
        return None
    path, _, absent = row.fields[name].partition("|")
    return tuple(path.split(".")), absent


def value_at(obj: Any, path: tuple[str, ...], absent: str = "") -> str:
    """A field's value as text; where it is empty, `absent`, or the field that it names after an "@"."""
    found = obj
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if found is not None and (found != "" or not absent):
        return str(found)
    return value_at(obj, tuple(absent[1:].split("."))) if absent.startswith("@") else absent


EXPIRED_TOKEN: Final = (
    "The provided continue parameter is too old to display a consistent list result. You must start a new "
    "list without the continue parameter."
)


class ListRequest(NamedTuple):
    namespace: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""


def list_objects(
    store: RevisionStore, row: ServedResource, selection: Selection, request: ListRequest
) -> Obj:
    if problems := _problems(request):
        raise invalid(_LIST_OPTIONS, "", problems)
    start = ""
    if request.continue_token:
        revision, start = _read_token(request.continue_token)
        items = _as_of(store, row, request.namespace, revision)
        if items is None:
            raise expired(EXPIRED_TOKEN)
    else:
        revision, items = _first_items(store, row, selection, request)
    if start:
        items = [obj for obj in items if key_of(obj) > start]
    if not selection.everything:
        items = [obj for obj in items if selection.matches(obj)]
    metadata: Obj = {"resourceVersion": str(revision)}
    # Upstream serves version 0 from its cache, which knows no chunks.
    limit = request.limit if request.resource_version != "0" else 0
    if 0 < limit < len(items):
        metadata["continue"] = _token(revision, key_of(items[limit - 1]))
        if selection.everything:
            metadata["remainingItemCount"] = len(items) - limit
        items = items[:limit]
    return {
        "kind": row.list_kind,
        "apiVersion": row.api_version,
        "metadata": metadata,
        "items": [to_view(row, obj) for obj in items],
    }


def parse_version(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 19:
        return int(text)
    problem = f'strconv.ParseUint: parsing "{text[:64]}": invalid syntax'
    raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text[:64]}": {problem}')


def _first_items(
    store: RevisionStore, row: ServedResource, selection: Selection, request: ListRequest
) -> tuple[int, list[Obj]]:
    match = request.resource_version_match
    if request.resource_version not in ("", "0"):
        revision = parse_version(request.resource_version)
        if revision > store.revision:
            # Upstream waits three seconds for it first.
            raise too_large_version(revision, store.revision)
        # Without a match, a limit asks for the exact version: what upstream did before matches existed.
        if match == "Exact" or (not match and request.limit > 0):
            items = _as_of(store, row, request.namespace, revision)
            if items is None:
                raise expired(f"The resourceVersion for the provided list is too old: {revision}")
            return revision, items
    name = selection.only_name()
    if name is not None and (request.namespace or not row.namespaced):
        found = store.get(row.stored_as, f"{request.namespace}/{name}" if request.namespace else name)
        return store.revision, [] if found is None else [found]
    return store.revision, store.list(row.stored_as, namespace=request.namespace)


def _as_of(store: RevisionStore, row: ServedResource, namespace: str, revision: int) -> list[Obj] | None:
    """The objects at an earlier revision; None if it is compacted."""
    if revision == store.revision:
        return store.list(row.stored_as, namespace=namespace)
    try:
        changes = store.changes_since(row.stored_as, revision)
    except CompactedError:
        return None
    objects = {key_of(obj): obj for obj in store.list(row.stored_as, namespace=namespace)}
    prefix = f"{namespace}/" if namespace else ""
    for change in reversed(changes):
        if not change.key.startswith(prefix):
            continue
        if change.old is None:
            objects.pop(change.key, None)
        else:
            objects[change.key] = change.old
    return [objects[key] for key in sorted(objects)]


def _problems(request: ListRequest) -> list[Cause]:
    match, version = request.resource_version_match, request.resource_version
    problems = []
    if match:
        why = ""
        if not version:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        elif request.continue_token:
            why = "resourceVersionMatch is forbidden when continue is provided"
        elif match not in ("Exact", "NotOlderThan"):
            message = f'Unsupported value: "{match[:64]}": supported values: "Exact", "NotOlderThan", ""'
            problems.append(Cause("resourceVersionMatch", message, "FieldValueNotSupported"))
        elif match == "Exact" and version == "0":
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        if why:
            problems.append(Cause("resourceVersionMatch", f"Forbidden: {why}", "FieldValueForbidden"))
    if request.continue_token and version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    return problems


_LIST_OPTIONS: Final = ServedResource("meta.k8s.io", "v1", "ListOptions", "listoptions")


def _token(revision: int, key: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": key}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        found = json.loads(text)
        revision, start = found["rv"], found["start"]
    except (binascii.Error, ValueError, TypeError, KeyError, RecursionError):
        raise bad_request("continue key is not valid: it was not issued by this server") from None
    if type(revision) is not int or type(start) is not str or revision < 1:
        raise bad_request("continue key is not valid: it was not issued by this server")
    return revision, start


BOOKMARK_SECONDS: Final = 60.0
"""Interval of bookmarks for quiet watches, as upstream."""
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

Event = tuple[str, Obj]


def watch_events(
    store: RevisionStore,
    row: ServedResource,
    *,
    matches: Callable[[Obj], bool] | None,
    initial: Sequence[Obj] | None,
    since: int,
    allow_bookmarks: bool,
    mark_initial_end: bool,
    timeout_seconds: float | None,
) -> AsyncIterator[Event]:
    """The events of a watch; `matches` None is a watch of everything."""

    async def events() -> AsyncIterator[Event]:
        loop = asyncio.get_running_loop()
        deadline = None if timeout_seconds is None else loop.time() + timeout_seconds
        try:
            if initial is not None:
                for obj in initial:
                    if matches is None or matches(obj):
                        yield "ADDED", to_view(row, obj)
                if mark_initial_end:
                    yield _bookmark(row, since, annotations={INITIAL_EVENTS_END: "true"})
            next_bookmark = loop.time() + BOOKMARK_SECONDS if allow_bookmarks else None
            while True:
                # Nothing is awaited while there is something to read.
                while (change := changes.read_nowait()) is not None:
                    event = _event(row, change, matches)
                    if event is not None:
                        yield event
                    if deadline is not None and loop.time() >= deadline:
                        return
                # What is committed now is in the subscription already; if nothing comes, all was delivered.
                settled = store.revision
                wake = min((at for at in (deadline, next_bookmark) if at is not None), default=None)
                try:
                    async with asyncio.timeout_at(wake):
                        if not await changes.wait():
                            return
                except TimeoutError:
                    if allow_bookmarks:
                        yield _bookmark(row, settled)
                    if deadline is not None and loop.time() >= deadline:
                        return
                    next_bookmark = loop.time() + BOOKMARK_SECONDS
        except SlowWatcherError:
            # As upstream: the connection ends and the client resumes from the last version it saw.
            return
        finally:
            changes.close()

    # Subscribed before the first await, so that nothing between list and watch is missed.
    changes = store.subscribe(row.stored_as, since=since)
    return events()


def _event(row: ServedResource, change: Change, matches: Callable[[Obj], bool] | None) -> Event | None:
    old, new = change.old, change.new
    if matches is None and new is not None:
        return ("ADDED" if old is None else "MODIFIED"), to_view(row, new)
    new_matches = new is not None and (matches is None or matches(new))
    old_matches = old is not None and (matches is None or matches(old))
    if new is not None and new_matches:
        return ("MODIFIED" if old_matches else "ADDED"), to_view(row, new)
    if old is None or not old_matches:
        return None
    # As upstream: what the object was while it was selected, at the version that took it out.
    old = {**old, "metadata": {**old["metadata"], "resourceVersion": str(change.revision)}}
    return "DELETED", to_view(row, old)


def _bookmark(row: ServedResource, revision: int, *, annotations: dict[str, str] | None = None) -> Event:
    metadata: Obj = {"resourceVersion": str(revision), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    return "BOOKMARK", {"kind": row.kind, "apiVersion": row.api_version, "metadata": metadata}
