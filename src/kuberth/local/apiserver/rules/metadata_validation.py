"""Validates an object's metadata. In: metadata. Out: causes, all at once, in upstream's words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import (
    Cause,
    forbidden_field,
    invalid_value,
    invalid_values,
    required,
    too_long,
)
from kuberth.text import names

MAX_ANNOTATIONS_BYTES: Final = 256 * 1024
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")


def validate_metadata(row: ServedResource, metadata: Obj) -> list[Cause]:
    causes = []
    rule = names.RULES[row.name_rule]
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if prefix:
        # A generated name has another end: a trailing dash or dot is allowed here.
        causes += invalid_values("metadata.generateName", prefix, rule(prefix.rstrip("-.") or prefix))
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        problems = names.path_segment_problems(name) or rule(name)
        causes += invalid_values("metadata.name", name, problems)
    if row.namespaced:
        namespace = metadata.get("namespace", "")
        causes += invalid_values("metadata.namespace", namespace, names.label_problems(namespace))
    return [*causes, *_validate_free(row, metadata)]


def validate_metadata_update(row: ServedResource, metadata: Obj, old: Obj) -> list[Cause]:
    causes = [
        invalid_value(f"metadata.{field}", metadata.get(field, ""), "field is immutable")
        for field in ("name", "namespace")
        if metadata.get(field, "") != old.get(field, "")
    ]
    if old.get("deletionTimestamp"):
        added = [each for each in metadata.get("finalizers", ()) if each not in old.get("finalizers", ())]
        if added:
            why = (
                f"no new finalizers can be added if the object is being deleted, found new finalizers {added}"
            )
            causes.append(forbidden_field("metadata.finalizers", why))
    return [*causes, *_validate_free(row, metadata)]


def validate_labels(labels: Any, field: str) -> list[Cause]:
    causes = []
    for key, value in (labels or {}).items():
        causes += invalid_values(field, key, names.label_key_problems(key))
        causes += invalid_values(field, value, names.label_value_problems(value))
    return causes


def validate_annotation_keys(annotations: Iterable[str], field: str) -> list[Cause]:
    """Annotation keys may use upper case in their prefix."""
    return [
        cause
        for key in annotations
        for cause in invalid_values(field, key, names.qualified_name_problems(key.lower()))
    ]


def _validate_free(row: ServedResource, metadata: Obj) -> list[Cause]:
    causes = validate_labels(metadata.get("labels"), "metadata.labels")
    annotations = metadata.get("annotations") or {}
    size = 0
    causes += validate_annotation_keys(annotations, "metadata.annotations")
    for key, value in annotations.items():
        size += len(key.encode("utf-8", "replace")) + len(value.encode("utf-8", "replace"))
    if size > MAX_ANNOTATIONS_BYTES:
        causes.append(too_long("metadata.annotations", MAX_ANNOTATIONS_BYTES))
    causes += _validate_owners(metadata.get("ownerReferences") or ())
    for index, finalizer in enumerate(metadata.get("finalizers") or ()):
        problems = names.qualified_name_problems(finalizer)
        # As upstream, finalizers of custom kinds may have any name.
        standard = "/" in finalizer or finalizer in _STANDARD_FINALIZERS
        if not problems and not standard and not row.custom:
            problems = ["name is neither a standard finalizer name nor is it fully qualified"]
        causes += invalid_values(f"metadata.finalizers[{index}]", finalizer, problems)
    return causes


def _validate_owners(owners: Iterable[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    controllers = []
    for owner in owners:
        causes += [
            invalid_value(f"metadata.ownerReferences.{field}", "", f"{what}must not be empty")
            for field, what in (("apiVersion", "version "), ("kind", ""), ("name", ""), ("uid", ""))
            if not owner.get(field)
        ]
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        why = f"Only one reference can have Controller set to true. Found {controllers}"
        causes.append(invalid_value("metadata.ownerReferences", controllers, why))
    return causes
