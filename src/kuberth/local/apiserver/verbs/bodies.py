"""From what a client sent to an object of its kind. In: a JSON tree. Out: a fresh object, or a 400."""

from __future__ import annotations

from typing import Any

from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.refusals import bad_request
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema import fields


def decode(row: ServedResource, body: Any, *, type_name: str | None = None) -> Obj:
    """A body as a fresh object of this row; 400 if it is none."""
    try:
        obj = fields.read_object(row.schema if type_name is None else type_name, body)
    except fields.ShapeError as error:
        message = f'{row.kind} in version "{row.version}" cannot be handled as a {row.kind}: {error}'
        raise bad_request(message) from None
    version, kind = obj.get("apiVersion", row.api_version), obj.get("kind", row.kind)
    if version != row.api_version:
        problem = f'no kind "{kind}" is registered for version "{version}"'
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {row.kind}: {problem}')
    if kind != row.kind:
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {row.kind}: no kind "{kind}"'
        )
    if isinstance(body.get("metadata"), dict) and body["metadata"].get("managedFields") == []:
        obj["metadata"]["managedFields"] = [{}]  # an empty list asks for something: to forget them
    if "spec" in fields.fields_of(row.schema):
        # As upstream, where a spec is no pointer: an object that has none is one that asks for nothing.
        obj.setdefault("spec", {})
    return {"kind": row.kind, "apiVersion": row.api_version, **obj}


def check_strict(row: ServedResource, body: Any) -> None:
    """400 for fields the kind does not have, as fieldValidation=Strict asks."""
    if unknown := [f'unknown field "{path}"' for path in fields.unknown_fields(row.schema, body)]:
        message = f'{row.kind} in version "{row.version}" cannot be handled as a {row.kind}: '
        raise bad_request(f"{message}strict decoding error: {', '.join(unknown)}")
