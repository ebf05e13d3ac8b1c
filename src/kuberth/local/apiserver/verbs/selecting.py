"""The selection of objects for a list or a watch.

In: label and field selectors as they stand in a query, a namespace, a name. Out: a `Selection` with
`matches`, or a 400 in upstream's words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kuberth.api.selectors import FieldSelector, Selector, parse_field_selector, parse_selector
from kuberth.errors import SelectorError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.refusals import bad_request
from kuberth.local.apiserver.resources import ServedResource


@dataclass(frozen=True, slots=True)
class Selection:
    """A compiled choice among the objects of one resource."""

    labels: Selector
    fields: FieldSelector
    paths: dict[str, tuple[tuple[str, ...], str]]
    """Paths of the field selectors in stored objects, and what stands for an absent value."""

    @property
    def everything(self) -> bool:
        return self.labels.empty and self.fields.empty

    def matches(self, obj: Obj) -> bool:
        if not self.labels.empty and not self.labels.matches(obj["metadata"].get("labels") or {}):
            return False
        return self.fields.empty or self.fields.matches(lambda field: value_at(obj, *self.paths[field]))

    def only_name(self) -> str | None:
        return self.fields.requires_exact_match("metadata.name")


def select(row: ServedResource, *, label_selector: str = "", field_selector: str = "") -> Selection:
    try:
        labels = _labels(label_selector)
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    try:
        fields = _fields(field_selector)
    except SelectorError as error:
        raise bad_request(f"invalid field selector: {error}") from None
    paths: dict[str, tuple[tuple[str, ...], str]] = {}
    for name in fields.fields:
        path = _path(row, name)
        if path is None:
            raise bad_request(f"field label not supported: {name}")
        paths[name] = path
    return Selection(labels, fields, paths)


@lru_cache(maxsize=1024)
def _labels(text: str) -> Selector:
    return parse_selector(text)


@lru_cache(maxsize=1024)
def _fields(text: str) -> FieldSelector:
    return parse_field_selector(text)


def _path(row: ServedResource, name: str) -> tuple[tuple[str, ...], str] | None:
    if name == "metadata.name" or (name == "metadata.namespace" and row.namespaced):
        return tuple(name.split(".")), ""
    if name not in row.fields:
        return None
    path, _, absent = row.fields[name].partition("|")
    return tuple(path.split(".")), absent


def value_at(obj: Any, path: tuple[str, ...], absent: str = "") -> str:
    """A field's value as text; where it is empty, `absent`, or the field that it names after an "@"."""
    found = obj
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    if found is not None and (found != "" or not absent):
        return str(found)
    return value_at(obj, tuple(absent[1:].split("."))) if absent.startswith("@") else absent
