"""Objects in other forms: tables as kubectl prints them, and metadata alone.

In: an object or a list, and the form that the client requested. Out: a Table or PartialObjectMetadata(List).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kuberth.local.apiserver.http.negotiation import Form
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.printing.columns import NAME_AND_AGE
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.status_errors import StatusError, bad_request

META_V1: Final = "meta.k8s.io/v1"
_INCLUDES: Final = ("None", "Metadata", "Object")
"""What the rows of a table may have besides their cells, as `includeObject` in a query says it."""


def to_table(
    resource: ServedResource,
    objects: Iterable[Obj],
    list_metadata: Obj | None,
    *,
    now: int,
    include_object: str = "Metadata",
    api_version: str = META_V1,
) -> Obj:
    """`now` is in nanoseconds; `include_object` is None, Metadata or Object, as in the query."""
    columns = resource.columns or NAME_AND_AGE
    rows: list[Obj] = []
    for obj in objects:
        row: Obj = {"cells": [column.cell(obj, now) for column in columns]}
        phase = obj.get("status", {}).get("phase") if resource.id == "pods" else None
        if phase in ("Succeeded", "Failed"):
            message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
        if include_object != "None":
            is_whole = include_object == "Object"
            row["object"] = obj if is_whole else metadata_alone(obj, api_version=api_version)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": dict(list_metadata or {}),
        "columnDefinitions": [
            {name: getattr(column, name) for name in ("name", "type", "format", "description", "priority")}
            for column in columns
        ],
        "rows": rows,
    }


def metadata_alone(obj: Obj, *, api_version: str = META_V1) -> Obj:
    """An object reduced to its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj.get("metadata", {})}


def parse_include(text: str) -> str:
    """The value of `includeObject`; 400 for an unknown one."""
    if text and text not in _INCLUDES:
        why = f"includeObject: Unsupported value: {text!r}"
        raise bad_request(f"Unable to convert to Table as requested: {why}")
    return text or "Metadata"


class Printer:
    """Converts objects to the form that a request accepts."""

    def __init__(self, row: ServedResource, form: Form, *, include: str, now_ns: int = 0) -> None:
        self._row = row
        self._form = form
        self._include = include
        self.now_ns = now_ns
        self._headers = True
        self._api_version = f"meta.k8s.io/{form.version}"

    @property
    def is_plain(self) -> bool:
        return not self._form.kind

    def convert(self, obj: Obj) -> Obj:
        """The object in the requested form; a Status is never converted."""
        kind = obj.get("kind")
        if self.is_plain or kind == "Status":
            return obj
        is_list = "items" in obj and str(kind).endswith("List")
        if self._form.kind == "Table":
            return self._table(obj, obj["items"] if is_list else [obj])
        if is_list != (self._form.kind == "PartialObjectMetadataList"):
            found = "a list" if is_list else "not a list"
            message = f"you requested {self._form.kind}, but the requested object is {found}"
            raise StatusError(406, "NotAcceptable", message)
        if is_list:
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": self._api_version,
                "metadata": obj.get("metadata", {}),
                "items": [metadata_alone(item, api_version=self._api_version) for item in obj["items"]],
            }
        return metadata_alone(obj, api_version=self._api_version)

    def convert_event(self, event: str, obj: Obj) -> Obj:
        """The object of a watch event in the requested form; of a table only the first has column headers."""
        if self._form.kind != "Table" or obj.get("kind") == "Status":
            return self.convert(obj)
        # A bookmark is no object that could be printed.
        table = self._table(obj, [] if event == "BOOKMARK" else [obj])
        self._headers = False
        return table

    def _table(self, obj: Obj, items: list[Obj]) -> Obj:
        metadata = obj.get("metadata", {})
        kept = ("resourceVersion", "continue", "remainingItemCount")
        table = to_table(
            self._row,
            items,
            {key: metadata[key] for key in kept if key in metadata},
            now=self.now_ns,
            include_object=self._include,
            api_version=self._api_version,
        )
        if not self._headers:
            table["columnDefinitions"] = None
        return table
