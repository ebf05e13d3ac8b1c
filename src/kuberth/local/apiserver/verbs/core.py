"""The verbs of the API, independent of any transport.

In: a resource, a name, a body, options. Out: objects, lists and watch events, or a `StatusError`. Reading,
checking and staging a write happen without an await, so writers never see partial writes of each other.
Responses, including errors, are given only after the writes that they depend on are durable.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, key_of, make_key, name_of, namespace_of, revision_of
from kuberth.local.apiserver.patching import managers
from kuberth.local.apiserver.patching.patching import APPLY_PATCHES, apply_patch
from kuberth.local.apiserver.resources import ResourceTable, ServedResource
from kuberth.local.apiserver.rules.admission import ACCOUNTS, DEFAULT_ACCOUNT, SCHEDULING_GATES_GATE
from kuberth.local.apiserver.rules.prepared_specs import PreparedSpecs
from kuberth.local.apiserver.schema import crds, fields
from kuberth.local.apiserver.schema.catalogue import rows_with
from kuberth.local.apiserver.status_errors import (
    StatusError,
    bad_request,
    expired,
    forbidden,
    invalid,
    method_not_supported,
    not_found,
    required,
    unknown_resource,
)
from kuberth.local.apiserver.store.store import CompactedError, RevisionStore, StorageError
from kuberth.local.apiserver.verbs import subresources
from kuberth.local.apiserver.verbs.aliases import to_stored, to_view
from kuberth.local.apiserver.verbs.bodies import FieldValidation, decode, decode_status
from kuberth.local.apiserver.verbs.deletion import plan_deletion, read_options
from kuberth.local.apiserver.verbs.reading import (
    Event,
    ListRequest,
    list_objects,
    parse_version,
    select,
    watch_events,
)
from kuberth.local.apiserver.verbs.writing import WriteOptions, Writer, expect_same_uid, storage_failed

_SUCCESS: Final[Obj] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_PATCH_OPTIONS: Final = ServedResource("meta.k8s.io", "v1", "PatchOptions", "patchoptions")
_TOO_OLD: Final = "too old resource version"
_UNDELETABLE: Final = ("default", "kube-system", "kube-public")
"""The namespaces that cannot be deleted."""

P = ParamSpec("P")
T = TypeVar("T")


def _writes(
    verb: Callable[Concatenate[Core, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Core, P], Coroutine[Any, Any, T]]:
    """A verb that reads staged state: an error waits for the writes on which it may depend.

    Otherwise a client could get a conflict with an object that it cannot find, or that never exists.
    """

    @wraps(verb)
    async def wrapped(core: Core, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await verb(core, *args, **kwargs)
        except StatusError:
            await core._durable()
            raise

    return wrapped


class Core:
    """The server without its sockets.

    A resource is given by its id, or as a row of `resources`. The namespaces, priority classes and accounts
    of every cluster are created if they are missing.
    """

    def __init__(
        self,
        store: RevisionStore,
        *,
        clock: Clock,
        feature_gates: Mapping[str, bool] | None = None,
        rng: random.Random | None = None,
    ) -> None:
        """Create a core; UIDs and generated names follow from the seed of `rng`, or else are random."""
        self._store = store
        self._clock = clock
        self.gates: Mapping[str, bool] = dict(feature_gates or {})
        """The explicitly set feature gates."""
        rng = random.SystemRandom() if rng is None else rng
        self._writer = Writer(store, clock=clock, gates=self.gates, rng=rng)
        self._prepared = PreparedSpecs(store)
        self.resources = ResourceTable(rows_with(feature_gates or {}))
        for crd in store.latest_list(crds.CRDS):
            self._serve(crd)
        for resource, objects in fields.read_table("bootstrap.yaml").items():
            for obj in objects:
                if store.latest(resource, key_of(obj)) is None:
                    self._create_first(self._row(resource), obj)
        self._writer.repair()

    @property
    def write_failure(self) -> str | None:
        """Why nothing can be written now, for a readiness probe; None if writes work."""
        failure = self._store.failure
        return None if failure is None else str(failure)

    async def get(
        self, resource: str | ServedResource, name: str, *, namespace: str = "", subresource: str = ""
    ) -> Obj:
        row = self._row(resource, subresource)
        found = self._store.get(row.stored_as, _key(row, namespace, name))
        if found is None:
            raise not_found(row, name)
        if subresource == "scale":
            return subresources.scale_of(row, found)
        if subresource not in ("", "status", "approval", "resize", "ephemeralcontainers"):
            raise method_not_supported(row, "get")
        return to_view(row, found)

    def find(self, resource: str, name: str, *, namespace: str = "") -> Obj | None:
        """The stored object, which the caller must not change; None if there is none."""
        row = self._row(resource)
        return self._store.get(row.stored_as, _key(row, namespace, name))

    async def list(
        self,
        resource: str | ServedResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: str = "",
    ) -> Obj:
        """A List object with items; without a namespace, the objects of all of them."""
        row = self._row(resource)
        selection = select(row, label_selector=label_selector, field_selector=field_selector)
        request = ListRequest(namespace, limit, continue_token, resource_version, resource_version_match)
        return list_objects(self._store, row, selection, request)

    def watch(
        self,
        resource: str | ServedResource,
        *,
        namespace: str = "",
        name: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        allow_bookmarks: bool = False,
        send_initial_events: bool = False,
        timeout_seconds: float | None = None,
    ) -> AsyncIterator[Event]:
        """Changes after a version; from "" or "0", the existing objects first.

        Errors in the request (including 410) are raised by the call itself, not by the iterator.
        """
        row = self._row(resource)
        selection = select(row, label_selector=label_selector, field_selector=field_selector)
        prefix = make_key(namespace, name) if name else f"{namespace}/" if namespace else ""

        def matches(obj: Obj) -> bool:
            if prefix:
                key = key_of(obj)
                if key != prefix if name else not key.startswith(prefix):
                    return False
            return selection.everything or selection.matches(obj)

        from_now = resource_version in ("", "0")
        since = self._store.revision if from_now else parse_version(resource_version)
        if since > self._store.revision:
            # Upstream would keep the watch silent until that version exists. After a restart without data
            # clients would then see no change for a long time.
            raise expired(f"Too large resource version: {since}, current: {self._store.revision}")
        initial = None
        if from_now or send_initial_events:
            initial, since = self._store.list(row.stored_as, namespace=namespace), self._store.revision
        try:
            return watch_events(
                self._store,
                row,
                matches=matches if prefix or not selection.everything else None,
                initial=initial,
                since=since,
                allow_bookmarks=allow_bookmarks,
                mark_initial_end=send_initial_events and allow_bookmarks,
                timeout_seconds=timeout_seconds,
            )
        except CompactedError:
            raise expired(f"{_TOO_OLD}: {since} ({self._store.compacted_revision})") from None

    @_writes
    async def create(
        self,
        resource: str | ServedResource,
        body: Any,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> Obj:
        """Unknown fields are dropped, unless `field_validation` says otherwise."""
        row = self._row(resource, subresource)
        if subresource == "binding":
            return await self._bind(row, namespace, name, body, dry_run=dry_run)
        if subresource == "eviction":
            return await self._evict(row, namespace, name, body, dry_run=dry_run)
        if subresource:
            raise method_not_supported(row, "post")
        if field_validation is not None:
            field_validation.check(row, body)
        crd = self._store.latest(crds.CRDS, row.id) if row.custom else None
        if crd is not None and crd["metadata"].get("deletionTimestamp"):
            why = "create not allowed while custom resource definition is terminating"
            raise StatusError(405, "MethodNotAllowed", why)
        options = WriteOptions(field_manager, dry_run=dry_run)
        key = self._prepared.key(row, body, namespace=namespace, tracked=bool(field_manager))
        prepared = self._prepared.get(key)
        obj = decode(row, body if prepared is None else {**body, "spec": {}})
        obj.setdefault("metadata", {})
        stored = self._writer.create(row, obj, options, namespace=namespace, prepared=prepared)
        if key is not None and prepared is None:
            self._prepared.add(key, stored)
        return await self._answer_when_durable(row, stored, dry_run=dry_run)

    @_writes
    async def update(
        self,
        resource: str | ServedResource,
        name: str,
        body: Any,
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        field_validation: FieldValidation | None = None,
    ) -> Obj:
        row = self._row(resource, subresource)
        old = self._latest(row, namespace, name)
        options = WriteOptions(field_manager, subresource, dry_run)
        if subresource == "scale":
            return await self._scale(row, old, decode(subresources.SCALE, body), options)
        if field_validation is not None:
            field_validation.check(row, body)
        new = decode_status(row, body, old) if subresource == "status" else decode(row, body)
        return await self._replace(row, old, new, options)

    @_writes
    async def patch(
        self,
        resource: str | ServedResource,
        name: str,
        patch: Any,
        *,
        content_type: str,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        force: bool = False,
        field_validation: FieldValidation | None = None,
    ) -> tuple[Obj, bool]:
        """The patched object, and whether an apply patch created it."""
        row = self._row(resource, subresource)
        if content_type.partition(";")[0].strip() in APPLY_PATCHES:
            if field_validation is not None:
                field_validation.check_applied()
            options = WriteOptions(field_manager, subresource, dry_run, applied=True)
            return await self._apply(row, name, patch, options, namespace=namespace, force=force)
        old = self._latest(row, namespace, name)
        options = WriteOptions(field_manager, subresource, dry_run)
        if subresource == "scale":
            patched = apply_patch(
                subresources.SCALE, subresources.scale_of(row, old), patch, content_type=content_type
            )
            return await self._scale(row, old, decode(subresources.SCALE, patched), options), False
        patched = apply_patch(row, to_view(row, old), patch, content_type=content_type)
        if field_validation is not None:
            field_validation.check_patched(row, patch, patched)
        new = decode(row, patched)
        expect_same_uid(row, old, new)
        return await self._replace(row, old, new, options), False

    @_writes
    async def delete(
        self,
        resource: str | ServedResource,
        name: str,
        *,
        namespace: str = "",
        options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """The object if it remains for a while (or its kind returns it), a Status if it is gone."""
        row = self._row(resource)
        asked = read_options(options)
        old = self._latest(row, namespace, name)
        stored, gone = self._remove(row, old, asked, dry_run=dry_run or bool(asked.get("dryRun")))
        answer = await self._answer_when_durable(row, stored, dry_run=stored is old)
        if gone and not row.returns_deleted:
            details = {"name": name, "kind": row.plural, "uid": old["metadata"]["uid"]}
            if row.group:
                details["group"] = row.group
            return {**_SUCCESS, "details": details}
        return answer

    @_writes
    async def delete_collection(
        self,
        resource: str | ServedResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> Obj:
        row = self._row(resource)
        asked = read_options(options)
        dry_run = dry_run or bool(asked.get("dryRun"))
        selection = select(row, label_selector=label_selector, field_selector=field_selector)
        chosen = [
            obj
            for obj in self._store.latest_list(row.stored_as, namespace=namespace)
            if selection.matches(obj)
        ]
        revision = self._store.revision
        for obj in chosen:
            stored, _ = self._remove(row, obj, asked, dry_run=dry_run)
            revision = max(revision, revision_of(stored))
        if not dry_run:
            await self._durable(revision)
        return {
            "kind": row.list_kind,
            "apiVersion": row.api_version,
            "metadata": {"resourceVersion": str(revision)},
            "items": [to_view(row, obj) for obj in chosen],
        }

    # Subresources, and patches that may create

    async def _bind(self, row: ServedResource, namespace: str, name: str, body: Any, *, dry_run: bool) -> Obj:
        asked = subresources.read_binding(body)
        wanted = asked.get("metadata", {})
        name = name or wanted.get("name", "")
        if wanted.get("name", name) != name:
            raise bad_request("name in URL does not match name in Binding object")
        if wanted.get("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        pod = self._latest(row, namespace, name)
        gates_hold = self.gates.get(SCHEDULING_GATES_GATE, True)
        bound = subresources.bound_pod(pod, asked, now=self._writer.now, gates_hold=gates_hold)
        if not dry_run:
            stored = self._writer.stage(row, make_key(namespace, name), bound)
            await self._durable(revision_of(stored))
        return {**_SUCCESS, "code": 201}

    async def _evict(
        self, row: ServedResource, namespace: str, name: str, body: Any, *, dry_run: bool
    ) -> Obj:
        asked = subresources.read_eviction(body)
        if asked.get("metadata", {}).get("name", name) != name:
            raise bad_request("name in URL does not match name in Eviction object")
        options = read_options(asked.get("deleteOptions"))
        dry_run = dry_run or bool(options.get("dryRun"))
        pod = self._latest(row, namespace, name)
        budgets = self._row("poddisruptionbudgets.policy")
        present = self._store.latest_list(budgets.stored_as, namespace=namespace)
        # The deletion is planned first: if its preconditions fail, the budget must not change.
        plan_deletion(row, pod, options, now_ns=self._clock.now_ns())
        budget = subresources.count_eviction(pod, present, now=self._writer.now)
        if not dry_run:
            if budget is not None:
                self._writer.stage(budgets, key_of(budget), budget)
            marked = self._writer.stage(row, key_of(pod), subresources.evicted_pod(pod, now=self._writer.now))
            options.get("preconditions", {}).pop("resourceVersion", None)
            stored, _ = self._remove(row, marked, options, dry_run=False)
            await self._durable(revision_of(stored))
        return {**_SUCCESS, "code": 201}

    async def _apply(
        self,
        row: ServedResource,
        name: str,
        patch: Any,
        options: WriteOptions,
        *,
        namespace: str,
        force: bool,
    ) -> tuple[Obj, bool]:
        """Server-side apply."""
        manager, subresource = options.manager, options.subresource
        if not manager:
            raise invalid(_PATCH_OPTIONS, "", [required("fieldManager", "is required for apply patch")])
        kind = subresources.SCALE if subresource == "scale" else row
        patch = managers.read_applied(kind, patch)
        wanted = decode(kind, patch)
        if "spec" not in patch:
            wanted.pop("spec", None)  # only the decoder added it, so no manager owns it
        managers.check_applied(wanted, name=name, namespace=namespace)
        now = self._writer.now
        old = self._store.latest(row.stored_as, _key(row, namespace, name))
        if old is None:
            if subresource:
                raise not_found(row, name)
            wanted.setdefault("metadata", {})["name"] = name
            wanted["metadata"]["managedFields"] = managers.first_applied(
                row, wanted, manager=manager, now=now
            )
            obj = decode(row, wanted)
            stored = self._writer.create(row, obj, options, namespace=namespace)
            return await self._answer_when_durable(row, stored, dry_run=options.dry_run), True
        if subresource == "scale":
            wanted = subresources.applied_scale(row, wanted)
        merged = managers.merge_applied(
            row, to_view(row, old), wanted, manager=manager, subresource=subresource, force=force, now=now
        )
        new = decode(row, merged)
        stored_view = await self._replace(row, old, new, options)
        return (subresources.scale_of(row, stored_view) if subresource == "scale" else stored_view), False

    async def _scale(self, row: ServedResource, old: Obj, asked: Obj, options: WriteOptions) -> Obj:
        stored = self._writer.replace(row, old, subresources.scaled(row, old, asked), options)
        return subresources.scale_of(
            row, await self._answer_when_durable(row, stored, dry_run=options.dry_run)
        )

    # The common ways of reading and writing

    def _row(self, resource: str | ServedResource, subresource: str = "") -> ServedResource:
        row = resource if isinstance(resource, ServedResource) else self.resources.by_id(resource)
        if row is None or (subresource and subresource not in row.subresources):
            raise unknown_resource()
        return row

    def _latest(self, row: ServedResource, namespace: str, name: str) -> Obj:
        found = self._store.latest(row.stored_as, _key(row, namespace, name))
        if found is None:
            raise not_found(row, name)
        return found

    async def _replace(self, row: ServedResource, old: Obj, new: Obj, options: WriteOptions) -> Obj:
        metadata = new.setdefault("metadata", {})
        if not row.namespaced:
            metadata.pop("namespace", None)
        for field, present, source in (
            ("name", name_of(old), "URL"),
            ("namespace", namespace_of(old), "request"),
        ):
            given = metadata.setdefault(field, present) if present else metadata.get(field, "")
            if given != present:
                why = f"does not match the {field} on the {source} ({present})"
                raise bad_request(f"the {field} of the object ({given}) {why}")
        stored = self._writer.replace(row, old, to_stored(row, new), options)
        return await self._answer_when_durable(row, stored, dry_run=options.dry_run)

    def _remove(self, row: ServedResource, old: Obj, options: Obj, *, dry_run: bool) -> tuple[Obj, bool]:
        """Stage a deletion; the object afterwards, and whether it is gone."""
        if row.id == "namespaces" and name_of(old) in _UNDELETABLE:
            raise forbidden(row, name_of(old), "this namespace may not be deleted")
        plan = plan_deletion(row, old, options, now_ns=self._clock.now_ns())
        if dry_run:
            return old, plan.remove
        stored = old
        if plan.marked is not None:
            stored = self._writer.stage(row, key_of(old), plan.marked)
        if plan.remove and row.id == crds.CRDS and self._remove_all(name_of(old)):
            marked = crds.terminating(plan.marked or old, self._writer.now)
            return self._writer.stage(row, key_of(old), marked), False
        if plan.remove:
            stored = self._writer.stage(row, key_of(old), None)
            self._after_write(row, stored, gone=True)
            if row.id == ACCOUNTS and name_of(old) == DEFAULT_ACCOUNT:
                self._writer.make_account(namespace_of(old))
            elif row.id == "services":
                # The Service of the API server comes back when it is deleted.
                for service in fields.read_table("bootstrap.yaml")["services"]:
                    if key_of(service) == key_of(old):
                        self._create_first(row, service)
        return stored, plan.remove

    async def _answer_when_durable(self, row: ServedResource, stored: Obj, *, dry_run: bool) -> Obj:
        """The written object as its resource shows it, once the write is durable."""
        if not dry_run:
            gone = self._store.latest(row.stored_as, key_of(stored)) is None
            self._after_write(row, stored, gone=gone)
            await self._durable(revision_of(stored))
        else:
            await self._durable()
        return to_view(row, stored)

    async def _durable(self, revision: int | None = None) -> None:
        """Wait until this revision, or else all that is staged, is durable."""
        try:
            await (self._store.settled() if revision is None else self._store.durable(revision))
        except StorageError as error:
            raise storage_failed(error) from error

    def _after_write(self, row: ServedResource, stored: Obj, *, gone: bool) -> None:
        if row.custom and gone:
            self._finish_definition(row)
        if row.id != crds.CRDS:
            return
        served = self.resources.by_id(name_of(stored))
        if served is not None and served.custom:
            if gone:
                for left in list(self._store.latest_list(served.stored_as)):
                    self._writer.stage(served, key_of(left), None)
            self.resources.remove(name_of(stored))
        if not gone:
            self._serve(stored)

    def _create_first(self, row: ServedResource, obj: Obj) -> None:
        """Create an object that every cluster has from the start."""
        self._writer.create(row, fields.copy_tree(obj), namespace=namespace_of(obj))

    def _serve(self, crd: Obj) -> None:
        present = self.resources.by_id(name_of(crd))
        if present is None or present.custom:
            for row in crds.rows_of(crd):
                self.resources.add(row)

    def _remove_all(self, resource: str) -> bool:
        """Delete the objects of a definition; whether some have finalizers and stay for a while."""
        row = self.resources.by_id(resource)
        if row is None or not row.custom:
            return False
        for obj in list(self._store.latest_list(row.stored_as)):
            plan = plan_deletion(row, obj, {}, now_ns=self._clock.now_ns())
            if plan.remove or plan.marked is not None:
                self._writer.stage(row, key_of(obj), None if plan.remove else plan.marked)
        return bool(self._store.latest_list(row.stored_as))

    def _finish_definition(self, row: ServedResource) -> None:
        """Delete a terminating definition after the last of its objects."""
        crd = self._store.latest(crds.CRDS, row.id)
        if crd is None or not crd["metadata"].get("deletionTimestamp"):
            return
        left = [each for each in crd["metadata"].get("finalizers", ()) if each != crds.CLEANUP]
        if left or self._store.latest_list(row.stored_as):
            return
        definitions = self._row(crds.CRDS)
        stored = self._writer.stage(definitions, key_of(crd), None)
        self._after_write(definitions, stored, gone=True)


def _key(row: ServedResource, namespace: str, name: str) -> str:
    return make_key(namespace if row.namespaced else "", name)
