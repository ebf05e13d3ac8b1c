"""The OpenAPI documents of the served resources, for kubectl's explain and validation.

In: the tables of resources, of their fields and of descriptions. Out: OpenAPI v3 documents, one per group
version, and one OpenAPI v2 document with all definitions. Operations do not offer strategic merge: kubectl
then computes its patches from its built-in Go types, which contain every merge key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from kuberth.local.apiserver.http.discovery import Discovery, Groups
from kuberth.local.apiserver.http.negotiation import PATCH_TYPES, encode
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.schema.fields import Field, fields_of, read_table
from kuberth.local.apiserver.status_errors import unknown_resource

V2_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The media type by which clients request it; in a response, Go's media type parser rejects it."""
V2_PROTOBUF_ANSWER: Final = V2_PROTOBUF.replace("@", ".")
# The parts that kubectl reads: swagger, info{title, version}, paths{}. Without definitions, it leaves
# validation to the server.
V2_DOCUMENT_PROTOBUF: Final = b"\n\x032.0\x12\x12\n\x07Kuberth\x12\x07v1.36.4B\x00"

_INFO: Final = {"title": "Kuberth", "version": "v1.36.4"}
_V2: Final = "v2"
_KIND: Final = "x-kubernetes-group-version-kind"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_PREFIX: Final = "io.k8s.api."
_SCALARS: Final[Mapping[str, Obj]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "int-or-string": {"oneOf": [{"type": "string"}, {"type": "integer"}], "format": "int-or-string"},
    "time": {"type": "string", "format": "date-time"},
    "microtime": {"type": "string", "format": "date-time"},
    "bytes": {"type": "string", "format": "byte"},
    "any": {_PRESERVE: True},
}
_TEXT_OR_NUMBER: Final = [_SCALARS[name]["oneOf"] for name in ("quantity", "int-or-string")]
_NOT_IN_V2: Final = frozenset({"allOf", "anyOf", "nullable", "not", "oneOf"})
_QUERY: Final = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation", "force")
]


_DESCRIPTIONS: Final = "descriptions.yaml"
_ANY: Final = "any"
_TYPE_FIELD: Final = "type_"
"""The key of a field that is called `type`, which stands for the type itself."""


class OpenApi:
    """OpenAPI documents, created on request and cached until the table of resources changes."""

    def __init__(
        self, discovery: Discovery, *, custom_schema: Callable[[ServedResource], Obj | None] | None = None
    ) -> None:
        self._discovery = discovery
        self._custom_schema = custom_schema or (lambda _row: None)
        self._documents: dict[str, bytes] = {}
        self._groups: object = None

    def index(self) -> Obj:
        """The response to /openapi/v3: the paths of the documents."""
        paths = {}
        for group, version in self._discovery.group_versions():
            path = _path(group, version)
            digest = hashlib.sha256(self.document(path)).hexdigest()[:32].upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def document(self, path: str) -> bytes:
        """/openapi/v3/`path`"""
        groups = self._renewed()
        found = self._documents.get(path)
        if found is None:
            for group, versions in groups.items():
                for version, rows in versions.items():
                    if _path(group, version) == path:
                        found = self._documents[path] = encode(self._make(rows))
        if found is None:
            raise unknown_resource()
        return found

    def document_v2(self) -> bytes:
        """The document at /openapi/v2."""
        groups = self._renewed()
        found = self._documents.get(_V2)
        if found is None:
            schemas: Obj = {}
            for versions in groups.values():
                for rows in versions.values():
                    for row in rows:
                        self._add_schema(schemas, row)
            definitions = {name: _definition(schema) for name, schema in schemas.items()}
            tree = {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": definitions}
            found = self._documents[_V2] = encode(tree)
        return found

    def _renewed(self) -> Groups:
        """The groups that are served now; documents of earlier tables are dropped."""
        groups = self._discovery.groups()
        if groups is not self._groups:
            self._groups = groups
            self._documents.clear()
        return groups

    def _make(self, rows: list[ServedResource]) -> Obj:
        schemas: Obj = {}
        paths: Obj = {}
        for row in rows:
            name = self._add_schema(schemas, row)
            paths |= _operations(row, name)
        return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}

    def _add_schema(self, schemas: Obj, row: ServedResource) -> str:
        if row.schema:
            _add_type(schemas, row.schema)
            name = _PREFIX + row.schema
        else:
            _add_type(schemas, "meta.v1.ObjectMeta")
            name = ".".join((*reversed(row.group.split(".")), row.version, row.kind))
            schemas[name] = self._custom(row)
        known = {"group": row.group, "version": row.version, "kind": row.kind}
        schemas[name] = {**schemas[name], _KIND: [known]}
        return name

    def _custom(self, row: ServedResource) -> Obj:
        schema: Obj = dict(self._custom_schema(row) or {_PRESERVE: True})
        properties = schema.get("properties")
        schema["type"] = "object"
        schema["properties"] = {
            **(properties if isinstance(properties, dict) else {}),
            "apiVersion": {
                "type": "string",
                "description": "APIVersion defines which version of the kind it is.",
            },
            "kind": {"type": "string", "description": "Kind is what the object is an instance of."},
            "metadata": {
                "allOf": [_reference("meta.v1.ObjectMeta")],
                "default": {},
                "description": "What every object has: a name, labels and the like.",
            },
        }
        return schema


def _definition(schema: Obj) -> Obj:
    """A type in OpenAPI v2; as upstream, the schema of a kind that may contain anything is empty."""
    if _KIND in schema and schema.get(_PRESERVE) is True:
        return {"type": "object", _KIND: schema[_KIND]}
    return as_v2(schema)


def as_v2(schema: Obj) -> Obj:
    """A schema in OpenAPI v2, which has neither junctors nor null."""
    match schema:
        case {"allOf": [{"$ref": str(reference)}]} | {"$ref": str(reference)}:
            return {"$ref": reference.replace("#/components/schemas/", "#/definitions/")}
        case {"oneOf": [*choices]} if choices in _TEXT_OR_NUMBER:
            return {"type": "string", **{key: schema[key] for key in ("format",) if key in schema}}
    found = {key: value for key, value in schema.items() if key not in _NOT_IN_V2}
    is_open = schema.get(_PRESERVE) is True
    if schema.get("nullable") is True or is_open:
        # Clients cannot read the parts of a value that may have several types.
        found = {key: value for key, value in found.items() if key not in ("items", "properties", "type")}
    properties = found.get("properties")
    if isinstance(properties, dict):
        found["properties"] = {name: _below(each) for name, each in properties.items()}
        nullable = {
            name for name, each in properties.items() if isinstance(each, dict) and each.get("nullable")
        }
        if isinstance(found.get("required"), list) and nullable:
            found["required"] = [name for name in found["required"] if name not in nullable]
    for key in ("items", "additionalProperties"):
        if key in found:
            found[key] = _below(found[key])
    if found.get("type") == "array" and "items" not in found:
        del found["type"]
    return found


def _below(schema: Any) -> Any:
    return as_v2(schema) if isinstance(schema, dict) else schema


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _reference(type_name: str) -> Obj:
    return {"$ref": f"#/components/schemas/{_PREFIX}{type_name}"}


def _add_type(schemas: Obj, type_name: str) -> None:
    """Add a type and the types of its fields; types may contain themselves."""
    if _PREFIX + type_name in schemas:
        return
    fields = fields_of(type_name)
    schema: Obj = {"type": "object"}
    if text := type_description(type_name):
        schema["description"] = text
    schemas[_PREFIX + type_name] = schema
    schema["properties"] = {name: _property(schemas, field) for name, field in fields.items()}
    for name, found in schema["properties"].items():
        if text := field_description(type_name, name):
            found["description"] = text
    if required := [name for name, field in fields.items() if field.required]:
        schema["required"] = required


def _property(schemas: Obj, field: Field) -> Obj:
    schema = _type(schemas, field.type)
    if field.merge_key is not None:
        schema["x-kubernetes-patch-strategy"] = "merge,retainKeys" if field.retain_keys else "merge"
        if field.merge_key:
            schema["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.map_keys:
        schema["x-kubernetes-list-map-keys"] = list(field.map_keys)
        schema["x-kubernetes-list-type"] = "map"
    elif field.is_set:
        schema["x-kubernetes-list-type"] = "set"
    elif field.atomic and field.type.startswith("[]"):
        schema["x-kubernetes-list-type"] = "atomic"
    return schema


def _type(schemas: Obj, type_name: str) -> Obj:
    if type_name.startswith("[]"):
        return {"type": "array", "items": _type(schemas, type_name[2:])}
    if type_name.startswith("{}"):
        return {"type": "object", "additionalProperties": _type(schemas, type_name[2:])}
    if type_name in _SCALARS:
        return dict(_SCALARS[type_name])
    if not fields_of(type_name):
        return {"type": "object", _PRESERVE: True}
    _add_type(schemas, type_name)
    # Siblings of $ref are ignored, so a reference that has some is wrapped.
    return {"allOf": [_reference(type_name)]}


def _operations(row: ServedResource, schema: str) -> Obj:
    """The paths of a resource, with the parts that kubectl reads."""
    root = f"/{_path(row.group, row.version)}"
    if row.namespaced:
        root += "/namespaces/{namespace}"
    body: Any = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}

    def operation(verb: str, *, parameters: bool = False, content: Obj | None = None) -> Obj:
        made: Obj = {
            "operationId": f"{verb}{row.version.capitalize()}{row.kind}",
            "responses": {"200": {"description": "OK", "content": body}},
            "x-kubernetes-action": verb,
            _KIND: {"group": row.group, "version": row.version, "kind": row.kind},
        }
        if parameters:
            made["parameters"] = _QUERY
        if content is not None:
            made["requestBody"] = {"content": content, "required": True}
        return made

    patch_body = {
        media_type: {"schema": {"type": "object"}}
        for media_type in PATCH_TYPES
        if "strategic" not in media_type
    }
    return {
        f"{root}/{row.plural}": {
            "get": operation("list"),
            "post": operation("create", parameters=True, content=body),
        },
        f"{root}/{row.plural}/{{name}}": {
            "get": operation("get"),
            "put": operation("update", parameters=True, content=body),
            "patch": operation("patch", parameters=True, content=patch_body),
            "delete": operation("delete"),
        },
    }


def type_description(type_name: str) -> str:
    return str(_descriptions_of(type_name).get("type", ""))


def field_description(type_name: str, field: str) -> str:
    """The description of this field of the type, or else that of the field in all types."""
    own = _descriptions_of(type_name).get(_TYPE_FIELD if field == "type" else field)
    return str(own or read_table(_DESCRIPTIONS)[_ANY].get(field, ""))


@cache
def _descriptions_of(type_name: str) -> dict[str, str]:
    found = read_table(_DESCRIPTIONS).get(type_name, {})
    return {**_descriptions_of(found["like"]), **found} if "like" in found else found
