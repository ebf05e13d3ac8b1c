"""Objects as a Table, which is what `kubectl get` asks for.

In: a row of the resource table and objects of it. Out: a meta.k8s.io/v1 Table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.printing.columns import NAME_AND_AGE
from kuberth.local.apiserver.resources import Column, ServedResource

META_V1: Final = "meta.k8s.io/v1"


def to_table(
    resource: ServedResource,
    objects: Iterable[Obj],
    list_metadata: Obj | None,
    *,
    now: int,
    include_object: str = "Metadata",
    api_version: str = META_V1,
) -> Obj:
    """`now` is in nanoseconds; `include_object` is None, Metadata or Object, as the query says it."""
    columns = resource.columns or NAME_AND_AGE
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": dict(list_metadata or {}),
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [
            to_row(resource, obj, now=now, include_object=include_object, api_version=api_version)
            for obj in objects
        ],
    }


def to_row(
    resource: ServedResource,
    obj: Obj,
    *,
    now: int,
    include_object: str = "Metadata",
    api_version: str = META_V1,
) -> Obj:
    cells: list[Any] = [column.cell(obj, now) for column in resource.columns or NAME_AND_AGE]
    row: Obj = {"cells": cells}
    if resource.id == "pods" and obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        phase = obj["status"]["phase"]
        message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
        row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
    if include_object == "Object":
        row["object"] = obj
    elif include_object == "Metadata":
        row["object"] = metadata_alone(obj, api_version=api_version)
    return row


def metadata_alone(obj: Obj, *, api_version: str = META_V1) -> Obj:
    """An object reduced to its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": api_version,
        "metadata": obj.get("metadata", {}),
    }


def _definition(column: Column) -> Obj:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
