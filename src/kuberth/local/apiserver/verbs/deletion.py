"""Decides what a deletion does: remove now, or mark and wait for a kubelet, finalizers or garbage collection.

In: the stored object and DeleteOptions. Out: the changes to stage, as upstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema import fields
from kuberth.local.apiserver.status_errors import Cause, bad_request, conflict, invalid
from kuberth.text.timestamps import timestamp

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_DEFAULT_GRACE: Final = 30
_OPTIONS: Final = ServedResource(
    "meta.k8s.io", "v1", "DeleteOptions", "deleteoptions", schema="meta.v1.DeleteOptions"
)


class Deletion(NamedTuple):
    """The changes to stage: the version `marked` (None: nothing), then the removal if `remove`."""

    marked: Obj | None
    remove: bool


def read_options(options: Mapping[str, Any] | None) -> Obj:
    """DeleteOptions of the right shape; 400 otherwise."""
    if not options:
        return {}
    try:
        found = fields.read_object(_OPTIONS.schema, dict(options))
    except fields.ShapeError as error:
        raise bad_request(f"DeleteOptions cannot be read: {error}") from None
    policy = found.get("propagationPolicy")
    causes = []
    if policy is not None and "orphanDependents" in found:
        why = "orphanDependents and deletionPropagation cannot be both set"
        causes.append(Cause("propagationPolicy", f'Invalid value: "{policy}": {why}'))
    if policy not in (None, "Background", "Foreground", "Orphan"):
        message = (
            f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        )
        causes.append(Cause("propagationPolicy", message, "FieldValueNotSupported"))
    dry_run = found.get("dryRun", [])
    if any(each != "All" for each in dry_run):
        message = f'Unsupported value: {dry_run}: supported values: "All"'.replace("'", '"')
        causes.append(Cause("dryRun", message, "FieldValueNotSupported"))
    if causes:
        raise invalid(_OPTIONS, "", causes)
    return found


def plan_deletion(row: ServedResource, old: Obj, options: Obj, *, now_ns: int) -> Deletion:
    _check_preconditions(row, old, options)
    if row.id == "namespaces":
        return _plan_namespace(old, now_ns)
    metadata = old["metadata"]
    finalizers = _finalizers_after(row, metadata, options)
    changed: Obj = {}
    if finalizers != metadata.get("finalizers", []):
        changed["finalizers"] = finalizers
    grace = _grace_seconds(row, old, options)
    marked_already = "deletionTimestamp" in metadata
    if marked_already and not (grace < metadata.get("deletionGracePeriodSeconds", 0)):
        # Being deleted already, and not asked to be quicker.
        if not finalizers and metadata.get("deletionGracePeriodSeconds", 0) == 0:
            return Deletion(None, remove=True)
        return Deletion(_with_metadata(old, changed) if changed else None, remove=False)
    remove = grace == 0 and not finalizers
    if remove and row.id != "pods":
        return Deletion(None, remove=True)
    # A pod is marked even if it is removed at once: watchers see its deletion timestamp.
    changed |= {
        "deletionTimestamp": timestamp(now_ns + grace * NANOSECONDS),
        "deletionGracePeriodSeconds": grace,
    }
    if metadata.get("generation") and not marked_already:
        changed["generation"] = metadata["generation"] + 1
    return Deletion(_with_metadata(old, changed), remove=remove)


def _plan_namespace(old: Obj, now_ns: int) -> Deletion:
    """A namespace ends in two steps: its contents go first, then its own finalizer is taken away."""
    metadata = old["metadata"]
    waits = bool(old.get("spec", {}).get("finalizers") or metadata.get("finalizers"))
    if not waits:
        return Deletion(None, remove=True)
    if "deletionTimestamp" in metadata:
        return Deletion(None, remove=False)
    marked = _with_metadata(old, {"deletionTimestamp": timestamp(now_ns)})
    marked["status"] = {**old.get("status", {}), "phase": "Terminating"}
    return Deletion(marked, remove=False)


def _check_preconditions(row: ServedResource, old: Obj, options: Obj) -> None:
    wanted = options.get("preconditions", {})
    metadata = old["metadata"]
    for field, title, end in (
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ):
        if field in wanted and wanted[field] != metadata[field]:
            asked = f"the {title} in the precondition ({wanted[field]})"
            why = f"{asked} does not match the {title} in record ({metadata[field]}). {end}"
            # Upstream names the kind here, not the resource.
            raise conflict(replace(row, group="", plural=row.kind), name_of(old), why)


def _grace_seconds(row: ServedResource, old: Obj, options: Obj) -> int:
    """The grace period; only pods that a kubelet has to stop have one."""
    if row.id != "pods":
        return 0
    spec, status = old.get("spec", {}), old.get("status", {})
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.get("gracePeriodSeconds")
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
    # Limited to what a timestamp can hold.
    return 1 if grace < 0 else min(int(grace), 10**9)


def _finalizers_after(row: ServedResource, metadata: Obj, options: Obj) -> list[str]:
    """The finalizers by which the garbage collector learns of the propagation policy."""
    present = list(metadata.get("finalizers", []))
    policy = options.get("propagationPolicy")
    orphan = options.get("orphanDependents")
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if policy is None:
        if ORPHAN in present or FOREGROUND in present:
            return present
        policy = "Orphan" if row.orphans_by_default else "Background"
    kept = [each for each in present if each not in (ORPHAN, FOREGROUND)]
    if policy == "Orphan":
        return [*kept, ORPHAN]
    if policy == "Foreground":
        return [*kept, FOREGROUND]
    return kept


def _with_metadata(obj: Obj, changed: Obj) -> Obj:
    metadata = {**obj["metadata"], **changed}
    if not metadata.get("finalizers"):
        metadata.pop("finalizers", None)
    return {**obj, "metadata": metadata}
