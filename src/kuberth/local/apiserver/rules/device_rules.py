"""Admission of claims, claim templates, slices and taint rules.

In: objects, and the one before for an update. Out: fields set that the server owns and dropped whose gate is
off; admin access is refused outside of namespaces that allow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.status_errors import forbidden_field, invalid

LISTS: Final = ("bools", "ints", "strings", "versions")
"""The fields of an attribute that have several values."""
_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_GATED_VALUES: Final = "DRAListTypeAttributes"
_GATED_MAPPINGS: Final = "DRANodeAllocatableResources"


def prepare_claim(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if old is None:
        _expect_admin(new, new["spec"], context)


def prepare_template(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if old is None:
        _expect_admin(new, new["spec"]["spec"], context)


def _expect_admin(obj: Obj, spec: Obj, context: WriteContext) -> None:
    """Refuse admin access outside of namespaces that are labelled for it."""
    for index, request in enumerate(spec.get("devices", {}).get("requests") or ()):
        if (request.get("exactly") or {}).get("adminAccess"):
            namespace = context.store.latest("namespaces", namespace_of(obj)) or {"metadata": {}}
            if (namespace["metadata"].get("labels") or {}).get(_ADMIN_LABEL) != "true":
                why = (
                    f"admin access to devices requires the `{_ADMIN_LABEL}: true` label "
                    "on the containing namespace"
                )
                cause = forbidden_field(f"spec.devices.requests[{index}].adminAccess", why)
                raise invalid(context.row, name_of(obj), [cause])
            return


def prepare_claim_status(new: Obj, old: Obj, _context: WriteContext) -> None:
    """Drop the drivers' status of devices that are no longer allocated."""
    reported = new["status"].get("devices")
    if not reported:
        new["status"].pop("devices", None)
        return
    gone = set(allocated(old)) - set(allocated(new))
    kept = [device for device in reported if device_id(device) not in gone]
    if kept:
        new["status"]["devices"] = kept
    else:
        del new["status"]["devices"]


def allocated(claim: Obj) -> Iterator[tuple[str, ...]]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return map(device_id, (allocation.get("devices") or {}).get("results") or ())


def device_id(device: Obj) -> tuple[str, ...]:
    return tuple(device.get(field) or "" for field in ("driver", "pool", "device", "shareID"))


def prepare_slice(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Set the time of taints; drop fields whose gate is off, except on slices that already have them."""
    before = (old or {}).get("spec", {}).get("devices") or ()
    had_lists = any(has_lists(device) for device in before)
    had_mappings = any("nodeAllocatableResourceMappings" in device for device in before)
    for device in new.get("spec", {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint.setdefault("timeAdded", context.now)
        if not context.gates.get(_GATED_VALUES, False) and not had_lists:
            for value in (device.get("attributes") or {}).values():
                for field in LISTS:
                    value.pop(field, None)
        if not context.gates.get(_GATED_MAPPINGS, False) and not had_mappings:
            device.pop("nodeAllocatableResourceMappings", None)
        for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
            mapping.setdefault("allocationMultiplier", "1")


def has_lists(device: Obj) -> bool:
    return any(field in value for value in (device.get("attributes") or {}).values() for field in LISTS)


def prepare_taint_rule(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Set the time of the taint: of its creation, or of the change to another effect."""
    taint = new.setdefault("spec", {}).setdefault("taint", {})
    taint.setdefault("timeAdded", context.now)
    if old is None:
        return
    before = old["spec"]["taint"]
    changed = taint.get("effect") != before.get("effect")
    if changed and taint["timeAdded"] == before.get("timeAdded"):
        taint["timeAdded"] = context.now
