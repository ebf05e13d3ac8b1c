"""Lists: complete, in chunks, or at an earlier revision.

In: a selection, limit, continue token and resourceVersion rules. Out: a List object. A later chunk shows the
same revision as the first: changes since then are undone on a copy of the current list.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final, NamedTuple

from kuberth.local.apiserver.objects import Obj, key_of
from kuberth.local.apiserver.refusals import bad_request, expired, invalid, too_large_version
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import Cause
from kuberth.local.apiserver.store.store import CompactedError, RevisionStore
from kuberth.local.apiserver.verbs.aliases import to_view
from kuberth.local.apiserver.verbs.selecting import Selection

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
