"""Custom kinds: CustomResourceDefinitions become rows.

In: stored definitions. Out: rows to serve, and the definition's status (accepted names, Established).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, condition, name_of, with_condition
from kuberth.local.apiserver.printing.columns import NAME_AND_AGE, custom_columns
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.schema.structural import schema_causes, structure_of
from kuberth.local.apiserver.status_errors import Cause, invalid_value, invalid_values, required
from kuberth.text import names

CRDS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_APPROVED: Final = "api-approved.kubernetes.io"
_ESTABLISHED: Final = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)
_MAX_CAUSES: Final = 50
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer of a definition that waits for the finalizers of its objects."""


def rows_of(crd: Obj) -> Iterator[ServedResource]:
    """A row for each served version; they share the storage version's objects."""
    spec = crd["spec"]
    accepted = spec["names"]
    stored = next(
        (version["name"] for version in spec["versions"] if version.get("storage")),
        spec["versions"][0]["name"],
    )
    served = [version for version in spec["versions"] if version.get("served")]
    for version in served:
        scale = version.get("subresources", {}).get("scale")
        subresources = [name for name in ("status", "scale") if name in version.get("subresources", {})]
        paths = {}
        if scale:
            paths = {
                "specReplicas": _plain_path(scale.get("specReplicasPath", "")),
                "statusReplicas": _plain_path(scale.get("statusReplicasPath", "")),
                "selector": _plain_path(scale.get("labelSelectorPath", "")),
            }
        shown = version.get("additionalPrinterColumns")
        yield ServedResource(
            spec["group"],
            version["name"],
            accepted["kind"],
            accepted["plural"],
            namespaced=spec["scope"] == "Namespaced",
            singular=accepted.get("singular", ""),
            short_names=tuple(accepted.get("shortNames", ())),
            categories=tuple(accepted.get("categories", ())),
            subresources=tuple(subresources),
            columns=custom_columns(shown) if shown else NAME_AND_AGE,
            fields={
                _plain_path(each["jsonPath"]): _plain_path(each["jsonPath"])
                for each in version.get("selectableFields", ())
                if each.get("jsonPath")
            },
            has_generation=True,
            storage_version="" if version["name"] == stored else f"{spec['group']}/{stored}",
            custom=True,
            structure=structure_of((version.get("schema") or {}).get("openAPIV3Schema")),
            preferred=version is served[0],
            scale_paths=paths,
        )


def prepare(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Accept the names: a definition is established as soon as it is stored."""
    if any("name" not in version for version in new["spec"].get("versions", ())):
        return  # refused by validation
    present = new.get("status", {}) if old is not None else {}
    stored = [version["name"] for version in new["spec"].get("versions", ()) if version.get("storage")]
    before = present.get("storedVersions", [])
    new["status"] = {
        "conditions": present.get("conditions")
        or [
            {**condition(type_, True, reason, message), "lastTransitionTime": context.now}
            for type_, reason, message in _ESTABLISHED
        ],
        "acceptedNames": new["spec"]["names"],
        "storedVersions": [*before, *(name for name in stored if name not in before)],
    }


def terminating(crd: Obj, now: str) -> Obj:
    """A definition that is deleted as soon as the last of its objects is gone."""
    metadata = {
        "deletionTimestamp": now,
        "deletionGracePeriodSeconds": 0,
        **crd["metadata"],
        "finalizers": [*crd["metadata"].get("finalizers", ()), CLEANUP],
    }
    why = "CustomResource deletion is in progress"
    ending = condition("Terminating", True, "InstanceDeletionInProgress", why)
    return {**crd, "metadata": metadata, "status": with_condition(crd["status"], ending, now=now)}


def check_definition(crd: Obj, _path: str) -> Iterator[Cause]:
    spec, annotations = crd.get("spec", {}), crd["metadata"].get("annotations", {})
    group = spec.get("group", "")
    if name_of(crd) != f"{spec.get('names', {}).get('plural', '')}.{group}":
        why = 'must be spec.names.plural+"."+spec.group'
        yield invalid_value("metadata.name", name_of(crd), why)
    if group.endswith((".k8s.io", ".kubernetes.io")) and _APPROVED not in annotations:
        why = "protected groups must have approval annotation"
        yield required(f"metadata.annotations[{_APPROVED}]", why)


def check_definition_group(group: str, path: str) -> Iterator[Cause]:
    yield from invalid_values(path, group, names.subdomain_problems(group))
    if "." not in group:
        yield invalid_value(path, group, "should be a domain with at least one dot")


def check_definition_name(name: str, path: str) -> list[Cause]:
    return invalid_values(path, name, names.label_1035_problems(name.lower()))


def check_definition_version(version: Obj, path: str) -> Iterator[Cause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    else:
        yield from islice(schema_causes(schema, f"{path}.schema.openAPIV3Schema"), _MAX_CAUSES)
    scale = (version.get("subresources") or {}).get("scale")
    for field, start in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        if scale is not None and not scale.get(field, "").startswith(start):
            why = f"should be a json path under {start[:-1]}"
            yield invalid_value(f"{path}.subresources.scale.{field}", scale.get(field, ""), why)


def check_definition_versions(versions: list[Obj], path: str) -> Iterator[Cause]:
    storage = [version.get("name") for version in versions if version.get("storage")]
    if len(storage) != 1:
        yield invalid_value(path, storage, "must have exactly one version marked as storage version")
    listed = [version.get("name") for version in versions]
    if len(set(listed)) != len(listed):
        yield invalid_value(path, listed, "must contain unique version names")


def _plain_path(json_path: Any) -> str:
    """`.spec.replicas` → `spec.replicas`: the only JSON paths that definitions use here."""
    return str(json_path).removeprefix(".")
