"""The built-in resources, read from resources.yaml.

In: resources.yaml, which explains its fields. Out: `ROWS`, the rows that the server starts with, and
`GATED_ROWS`. Names, short names, categories and selectable fields are upstream's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kuberth.local.apiserver.printing.columns import NAME_AND_AGE, built_in_columns
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema.fields import read_table

_SCALE_PATHS: Final = {
    "specReplicas": "spec.replicas",
    "statusReplicas": "status.replicas",
    "selector": "spec.selector",
}


def _read_rows() -> Iterator[tuple[str, ServedResource]]:
    """The rows with the feature gates that they need."""
    for api_version, kinds in read_table("resources.yaml").items():
        group, _, first = api_version.rpartition("/")
        for kind, definition in kinds.items():
            for version in (first, *definition.get("also", ())):
                yield definition.get("gate", ""), _row(group, version, kind, definition, first=first)


def _row(group: str, version: str, kind: str, definition: Mapping[str, Any], *, first: str) -> ServedResource:
    flags, subresources = definition.get("flags", ()), tuple(definition.get("subresources", ()))
    schema = definition.get("schema", f"{group.partition('.')[0] or 'core'}.{first}.{kind}")
    also_stored_as = "" if version == first else f"{group}/{first}"
    return ServedResource(
        group,
        version,
        kind,
        definition.get("plural", f"{kind.lower()}s"),
        namespaced=definition.get("scope") != "Cluster",
        singular=definition.get("singular", ""),
        short_names=tuple(definition.get("shortNames", ())),
        categories=tuple(definition.get("categories", ())),
        subresources=subresources,
        columns=built_in_columns(definition["columns"]) if "columns" in definition else NAME_AND_AGE,
        fields=dict(map(_selectable_field, definition.get("selectableFields", ()))),
        name_rule=definition.get("nameRule", "subdomain"),
        schema=schema.format(version=version),
        has_generation="has_generation" in flags,
        unconditional_update="conditional_update" not in flags,
        returns_deleted="returns_deleted" in flags,
        storage=definition.get("storage", ""),
        storage_version=definition.get("storageVersion", also_stored_as),
        orphans_by_default="orphans_by_default" in flags,
        preferred=version == first,
        scale_paths=_SCALE_PATHS if "scale" in subresources else {},
    )


def _selectable_field(text: str) -> tuple[str, str]:
    selector, _, path = text.partition("=")
    return selector.partition("|")[0], path or selector


_READ: Final = tuple(_read_rows())
ROWS: Final = tuple(row for gate, row in _READ if not gate)
GATED_ROWS: Final[Mapping[str, tuple[ServedResource, ...]]] = {
    gate: tuple(row for needed, row in _READ if needed == gate) for gate, _ in _READ if gate
}
"""Rows that are served only while a feature gate is on."""


def rows_with(gates: Mapping[str, bool]) -> tuple[ServedResource, ...]:
    """The rows to serve with these gates; one that is not mentioned is off."""
    gated = (row for gate, rows in GATED_ROWS.items() if gates.get(gate, False) for row in rows)
    return (*ROWS, *gated)
