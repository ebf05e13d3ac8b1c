"""The steps of every write: decode, default, admit, validate, stage.

In: a row, a body, and for updates how to build the new object. Out: the staged object, or a `StatusError`.
There is no await in here, so a write sees all earlier writes and no later ones.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from kuberth.clock import Clock
from kuberth.local.apiserver.objects import Obj, key_of, make_key, name_of, namespace_of
from kuberth.local.apiserver.patching import managers
from kuberth.local.apiserver.patching.managers import changes_with_status
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules import pod_validation, quotas
from kuberth.local.apiserver.rules.admission import ACCOUNTS, DEFAULT_ACCOUNT, expect_namespace
from kuberth.local.apiserver.rules.kind_rules import rules_for
from kuberth.local.apiserver.rules.metadata_validation import validate_metadata, validate_metadata_update
from kuberth.local.apiserver.rules.prepared_specs import PreparedSpec
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.status_errors import (
    Cause,
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    invalid_value,
    modified,
)
from kuberth.local.apiserver.store.store import RevisionStore, StorageError
from kuberth.local.apiserver.verbs.aliases import to_stored, to_view
from kuberth.text.names import GENERATE_ATTEMPTS, generate_name
from kuberth.text.timestamps import timestamp

_SERVER_METADATA: Final = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)
"""Metadata that only the server sets."""
_ACCOUNTS_ROW: Final = ServedResource("", "v1", "ServiceAccount", ACCOUNTS)


class WriteOptions(NamedTuple):
    """How an object is written."""

    manager: str = ""
    """The name of the field manager; "": fields are not tracked."""
    subresource: str = ""
    dry_run: bool = False
    applied: bool = False
    """The object comes with its managedFields: it was merged by server-side apply."""


_UNTRACKED: Final = WriteOptions()
_WRITTEN_AS: Final = {"scale": "", "approval": "status"}
"""Subresources that are written as another one is."""


class Writer:
    """Turns what clients send into staged objects."""

    def __init__(
        self, store: RevisionStore, *, clock: Clock, gates: Mapping[str, bool], rng: random.Random
    ) -> None:
        """UIDs and the ends of generated names are drawn from `rng`."""
        self.store = store
        self._clock = clock
        self._gates = gates
        self._rng = rng

    @property
    def now(self) -> str:
        return timestamp(self._clock.now_ns())

    def _context(self, row: ServedResource) -> WriteContext:
        return WriteContext(row, self.store, self._gates, self.now)

    def create(
        self,
        row: ServedResource,
        obj: Obj,
        options: WriteOptions = _UNTRACKED,
        *,
        namespace: str,
        prepared: PreparedSpec | None = None,
    ) -> Obj:
        """Stage a new, decoded object and return it as stored; `prepared` replaces its spec and status."""
        obj = to_stored(row, obj)
        metadata = obj.setdefault("metadata", {})
        if metadata.pop("resourceVersion", "") not in ("", "0"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        for name in (*_SERVER_METADATA, "selfLink"):
            metadata.pop(name, None)
        _set_namespace(row, metadata, namespace)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._free_name(row, namespace, metadata["generateName"])
        uid = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        metadata |= {"uid": str(uid), "creationTimestamp": self.now}
        if row.has_generation:
            metadata["generation"] = 1
        context = self._context(row)
        if row.namespaced:
            expect_namespace(metadata.get("name", ""), namespace, context)
        if prepared is None:
            rules = rules_for(row)
            rules.default(obj)
            self._track_fields(row, None, obj, options)
            rules.prepare(obj, None, context)
            causes = [*validate_metadata(row, metadata), *rules.validate(obj, None)]
        else:
            if prepared.fields is not None:
                name, now = options.manager, self.now
                metadata |= managers.first_of_prepared(row, metadata, prepared.fields, name=name, now=now)
            obj["spec"], obj["status"] = prepared.spec, prepared.status
            causes = validate_metadata(row, metadata)
        if causes:
            raise invalid(row, name_of(obj), causes)
        key = make_key(metadata.get("namespace", "") if row.namespaced else "", metadata["name"])
        if self.store.latest(row.stored_as, key) is not None:
            raise already_exists(row, metadata["name"])
        self._check_limits(obj, None, context)
        if options.dry_run:
            return obj
        stored = self.stage(row, key, obj)
        if row.id == "namespaces":
            self.make_account(name_of(obj))
        return stored

    def replace(self, row: ServedResource, old: Obj, new: Obj, options: WriteOptions) -> Obj:
        """Stage `new` (as stored, and owned by the caller) instead of `old`, and return the stored object.

        An object that was only waiting for its finalizers is removed with the last of them.
        """
        name, subresource = name_of(old), _WRITTEN_AS.get(options.subresource, options.subresource)
        metadata, old_metadata = new.setdefault("metadata", {}), old["metadata"]
        expect_same(row, old, metadata)
        for field in _SERVER_METADATA:
            if field in old_metadata:
                metadata[field] = old_metadata[field]
            else:
                metadata.pop(field, None)
        metadata.pop("selfLink", None)
        metadata["resourceVersion"] = old_metadata["resourceVersion"]
        if not options.manager and "managedFields" in old_metadata:
            metadata.setdefault("managedFields", old_metadata["managedFields"])
        rules = rules_for(row)
        causes: list[Cause]
        if subresource == "status":
            metadata = _metadata_with_status(row, old_metadata, metadata)
            new = {**old, "metadata": metadata, "status": new.get("status") or {}}
            rules.default_status(new)
            rules.prepare_status(new, old, self._context(row))
            self._track_fields(row, old, new, options)
            causes = [
                *validate_metadata_update(row, new["metadata"], old_metadata),
                *rules.validate_status(new, old),
            ]
        elif subresource == "finalize":
            kept = {name: value for name, value in old_metadata.items() if name != "managedFields"}
            if "managedFields" in metadata:
                kept["managedFields"] = metadata["managedFields"]
            new, causes = {**old, "metadata": kept, "spec": new.get("spec") or {}}, []
            self._track_fields(row, old, new, options)
        elif subresource == "resize":
            rules.default(new)
            managed = {"managedFields": metadata["managedFields"]} if "managedFields" in metadata else {}
            new = {**pod_validation.resized(new, old), "metadata": {**old_metadata, **managed}}
            self._track_fields(row, old, new, options)
            causes = pod_validation.validate_resize(new, old, spec_causes=rules.validate(new, None))
        else:
            if row.has_status:
                new.pop("status", None)
                if "status" in old:
                    new["status"] = old["status"]
            rules.default(new)
            self._track_fields(row, old, new, options)
            rules.prepare(new, old, self._context(row))
            causes = [*validate_metadata_update(row, metadata, old_metadata), *rules.validate(new, old)]
        if causes:
            raise invalid(row, name, causes)
        if new == old:
            return old
        if subresource in ("", "resize"):
            self._check_limits(new, old, self._context(row))
        if row.has_generation and _spec_of(new) != _spec_of(old):
            new["metadata"] = {**new["metadata"], "generation": int(old_metadata.get("generation", 0)) + 1}
        if options.dry_run:
            return new
        key = make_key(namespace_of(old), name)
        if finalized(row, new, old):
            last = self.stage(row, key, None)
            return {
                **new,
                "metadata": {**new["metadata"], "resourceVersion": last["metadata"]["resourceVersion"]},
            }
        return self.stage(row, key, new)

    def _track_fields(self, row: ServedResource, old: Obj | None, new: Obj, options: WriteOptions) -> None:
        """Record in the metadata of `new` which fields its writer owns."""
        if not options.manager or options.applied:
            return
        view, name = to_view(row, new), options.manager
        if old is None:
            reset = managers.is_reset(new["metadata"].get("managedFields"))
            first = [] if reset else managers.first_writer(row, view, name=name, now=self.now)
            managed = managers.written(first)
        else:
            managed = managers.after_update(
                row, to_view(row, old), view, name=name, subresource=options.subresource, now=self.now
            )
        new["metadata"].pop("managedFields", None)
        if managed:
            new["metadata"]["managedFields"] = managed

    def stage(self, row: ServedResource, key: str, new: Obj | None) -> Obj:
        """Stage a version, or None for a deletion; the quotas that count it are staged with it."""
        try:
            old = self.store.latest(row.stored_as, key)
            stored = self.store.stage(row.stored_as, key, new)
            for quota in quotas.recounted(self.store, row, None if new is None else stored, old):
                counted = self.store.stage(quotas.QUOTAS, key_of(quota), quota)
                if row.stored_as == quotas.QUOTAS and key_of(quota) == key:
                    stored = counted  # it counts itself
            return stored
        except StorageError as error:
            raise storage_failed(error) from error

    def make_account(self, namespace: str) -> None:
        """Create the default service account of a namespace if it is missing."""
        found = self.store.latest("namespaces", namespace)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        if self.store.latest(ACCOUNTS, make_key(namespace, DEFAULT_ACCOUNT)) is None:
            metadata = {"name": DEFAULT_ACCOUNT, "namespace": namespace}
            account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata}
            self.create(_ACCOUNTS_ROW, account, namespace=namespace)

    def repair(self) -> None:
        """Complete what an earlier version, or a crash between two writes, left incomplete."""
        for namespace in list(self.store.latest_list("namespaces")):
            self.make_account(name_of(namespace))
        for quota in list(self.store.latest_list(quotas.QUOTAS)):
            counted = quotas.counted(quota, self.store)
            if counted["status"] != quota.get("status"):
                self.store.stage(quotas.QUOTAS, key_of(quota), counted)

    def _check_limits(self, new: Obj, old: Obj | None, context: WriteContext) -> None:
        """Check limit ranges, then quotas, after validation, as upstream."""
        if context.row.namespaced:
            quotas.check_limit_ranges(new, old, context)
            quotas.check_quotas(new, old, context)

    def _free_name(self, row: ServedResource, namespace: str, prefix: str) -> str:
        name = ""
        for _ in range(GENERATE_ATTEMPTS):
            name = generate_name(prefix, self._rng)
            if self.store.latest(row.stored_as, make_key(namespace, name)) is None:
                return name
        raise already_exists(row, name)


def expect_same(row: ServedResource, old: Obj, metadata: Obj) -> None:
    """UID and resourceVersion of an update are preconditions if given; 409 or 422."""
    name = name_of(old)
    if (uid := metadata.get("uid")) and uid != old["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
        raise conflict(row, name, why + old["metadata"]["uid"])
    version = metadata.get("resourceVersion", "")
    if version not in ("", "0"):
        if version != old["metadata"]["resourceVersion"]:
            raise modified(row, name)
    elif not row.unconditional_update:
        cause = Cause("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
        # Upstream names the resource here, not the kind.
        raise invalid(replace(row, kind=row.plural), name, [cause])


def expect_same_uid(row: ServedResource, old: Obj, patched: Obj) -> None:
    """A patch has no preconditions: one that names another UID tries to change it."""
    uid = patched.get("metadata", {}).get("uid")
    if uid and uid != old["metadata"]["uid"]:
        raise invalid(row, name_of(old), [invalid_value("metadata.uid", uid, "field is immutable")])


def storage_failed(error: StorageError) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {error}")


def _set_namespace(row: ServedResource, metadata: Obj, namespace: str) -> None:
    """Set the namespace of the request; 400 for an object of another one."""
    given = metadata.get("namespace", "")
    if not row.namespaced:
        metadata.pop("namespace", None)  # a given namespace is ignored, as upstream
        return
    if not namespace:
        raise bad_request("an empty namespace may not be set during creation")
    if given and given != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def _metadata_with_status(row: ServedResource, old: Obj, new: Obj) -> Obj:
    """Most of the metadata can be written together with a status."""
    if new == old:
        return new
    kept = {name: value for name, value in old.items() if not changes_with_status(row, name)}
    changed = {name: value for name, value in new.items() if changes_with_status(row, name)}
    managed = {"managedFields": new["managedFields"]} if "managedFields" in new else {}
    return {**changed, **kept, **managed}


def _spec_of(obj: Obj) -> Obj:
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def finalized(row: ServedResource, new: Obj, old: Obj) -> bool:
    """Whether the last finalizer of a terminating object was just removed."""
    metadata = new["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("deletionGracePeriodSeconds")
        and _finalizers(row, old)
        and not _finalizers(row, new)
    )


def _finalizers(row: ServedResource, obj: Obj) -> list[str]:
    """A namespace has a second list of them, in its spec."""
    own: list[str] = obj["metadata"].get("finalizers", [])
    return [*own, *obj.get("spec", {}).get("finalizers", [])] if row.id == "namespaces" else own
