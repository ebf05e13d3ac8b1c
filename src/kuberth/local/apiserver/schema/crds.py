"""Custom kinds: CustomResourceDefinitions become rows.

In: stored definitions. Out: rows to serve, and the definition's status (accepted names, Established).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.printing.columns import NAME_AND_AGE, custom_columns
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules import names
from kuberth.local.apiserver.rules.metadata_validation import (
    invalid_value,
    invalid_values,
    not_supported,
    required,
)
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.schema.structural import schema_causes, structure_of
from kuberth.local.apiserver.status_errors import Cause

CRDS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_APPROVED: Final = "api-approved.kubernetes.io"
_SCOPES: Final = ("Cluster", "Namespaced")
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


def default(crd: Obj) -> None:
    spec = crd.setdefault("spec", {})
    accepted = spec.setdefault("names", {})
    if accepted.get("kind"):
        accepted.setdefault("singular", accepted["kind"].lower())
        accepted.setdefault("listKind", accepted["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})


def prepare(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Accept the names: a definition is established as soon as it is stored."""
    if any("name" not in version for version in new["spec"].get("versions", ())):
        return  # refused by validation
    present = new.get("status", {}) if old is not None else {}
    stored = [version["name"] for version in new["spec"].get("versions", ()) if version.get("storage")]
    before = present.get("storedVersions", [])
    new["status"] = {
        "conditions": present.get("conditions") or _established(context.now),
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
    condition = {
        "type": "Terminating",
        "status": "True",
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
        "lastTransitionTime": now,
    }
    others = [each for each in crd["status"].get("conditions", ()) if each.get("type") != "Terminating"]
    status = {**crd["status"], "conditions": [*others, condition]}
    return {**crd, "metadata": metadata, "status": status}


def _established(now: str) -> list[Obj]:
    return [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        }
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]


def validate(crd: Obj, old: Obj | None) -> list[Cause]:
    spec = crd.get("spec", {})
    accepted = spec.get("names", {})
    group, plural, kind = spec.get("group", ""), accepted.get("plural", ""), accepted.get("kind", "")
    causes = []
    if name_of(crd) != f"{plural}.{group}":
        why = 'must be spec.names.plural+"."+spec.group'
        causes.append(invalid_value("metadata.name", name_of(crd), why))
    if not group:
        causes.append(required("spec.group"))
    else:
        causes += invalid_values("spec.group", group, names.subdomain_problems(group))
        if "." not in group:
            causes.append(invalid_value("spec.group", group, "should be a domain with at least one dot"))
    if spec.get("scope") not in _SCOPES:
        causes.append(
            not_supported("spec.scope", spec["scope"], _SCOPES)
            if spec.get("scope")
            else required("spec.scope")
        )
    for field, value in (("plural", plural), ("kind", kind)):
        path = f"spec.names.{field}"
        if not value:
            causes.append(required(path))
        else:
            causes += invalid_values(path, value, names.label_1035_problems(value.lower()))
    annotations = crd["metadata"].get("annotations", {})
    if group.endswith((".k8s.io", ".kubernetes.io")) and _APPROVED not in annotations:
        why = "protected groups must have approval annotation"
        causes.append(required(f"metadata.annotations[{_APPROVED}]", why))
    causes += _validate_versions(spec.get("versions", []))
    if old is not None:
        for field, new_value, old_value in (
            ("spec.group", group, old["spec"]["group"]),
            ("spec.names.kind", kind, old["spec"]["names"]["kind"]),
            ("spec.names.plural", plural, old["spec"]["names"]["plural"]),
            ("spec.scope", spec.get("scope"), old["spec"]["scope"]),
        ):
            if new_value != old_value:
                causes.append(invalid_value(field, new_value, "field is immutable"))
    return causes


def _validate_versions(versions: list[Obj]) -> list[Cause]:
    causes: list[Cause] = []
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name", "")
        causes += invalid_values(f"{path}.name", name, names.label_1035_problems(name))
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            causes.append(required(f"{path}.schema.openAPIV3Schema", "schemas are required"))
        else:
            causes += islice(schema_causes(schema, f"{path}.schema.openAPIV3Schema"), _MAX_CAUSES)
        scale = (version.get("subresources") or {}).get("scale")
        if scale is not None:
            for field, start in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
                if not scale.get(field, "").startswith(start):
                    why = f"should be a json path under {start[:-1]}"
                    causes.append(
                        invalid_value(f"{path}.subresources.scale.{field}", scale.get(field, ""), why)
                    )
    storage = [version.get("name") for version in versions if version.get("storage")]
    if len(storage) != 1:
        why = "must have exactly one version marked as storage version"
        causes.append(invalid_value("spec.versions", storage, why))
    listed = [version.get("name") for version in versions]
    if len(set(listed)) != len(listed):
        why = "must contain unique version names"
        causes.append(invalid_value("spec.versions", listed, why))
    return causes


def _plain_path(json_path: Any) -> str:
    """`.spec.replicas` → `spec.replicas`: the only JSON paths that definitions use here."""
    return str(json_path).removeprefix(".")
