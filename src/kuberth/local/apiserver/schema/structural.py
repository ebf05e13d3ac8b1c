"""Enforces the schema of a custom kind: prunes unknown fields, sets defaults, validates values.

In: an OpenAPI v3 schema from a CustomResourceDefinition, objects of its kind. Out: the objects completed in
place, and validation errors with upstream's messages. Rules in CEL (x-kubernetes-validations) are stored but
not evaluated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kuberth.cel.patterns import PatternError, compile_pattern
from kuberth.cel.values import WORK, CostExceeded
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.schema.fields import Field, ShapeError, copy_tree, read
from kuberth.local.apiserver.status_errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)

METADATA: Final = Field("meta.v1.ObjectMeta")
_RESOURCE: Final = ("apiVersion", "kind", "metadata")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_JUNCTORS: Final = ("allOf", "anyOf", "oneOf")
_NUMBERS: Final = (
    "maximum",
    "minimum",
    "multipleOf",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
)
_MAX_DEPTH: Final = 60


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StructuralSchema(Field):
    """The schema of one version of a custom kind, or of a part of it."""

    schema: Obj = dataclasses.field(default_factory=dict)
    is_resource: bool = False
    """Whether it is an object with metadata of its own."""

    @classmethod
    def of(cls, schema: Any, *, is_resource: bool = False) -> StructuralSchema:
        schema = schema if isinstance(schema, dict) else {_PRESERVE: True}
        kind = schema.get("x-kubernetes-list-type")
        return cls(
            "custom",
            map_keys=tuple(schema.get("x-kubernetes-list-map-keys", ())) if kind == "map" else (),
            is_set=kind == "set",
            atomic=schema.get("x-kubernetes-map-type") == "atomic",
            schema=schema,
            is_resource=is_resource or schema.get(_EMBEDDED) is True,
        )

    def prune(self, obj: Obj) -> list[str]:
        """Drop fields that are not in the schema; returns their paths."""
        return list(_prune(obj, self.schema, "", resource=True))

    def default(self, obj: Obj) -> None:
        _default(obj, self.schema)

    def causes(self, obj: Obj) -> list[Cause]:
        return list(_value_causes(obj, self.schema, ""))

    def has(self, name: str) -> bool:
        return name in self.schema.get("properties", {}) or (self.is_resource and name in _RESOURCE)

    def declares(self, name: str) -> bool:
        return (
            self.has(name)
            or self.schema.get("additionalProperties", False) is not False
            or self.schema.get(_PRESERVE) is True
        )

    def child(self, name: str) -> Field:
        if self.is_resource and name == "metadata":
            return METADATA
        others = self.schema.get("additionalProperties")
        return StructuralSchema.of(self.schema.get("properties", {}).get(name, others))

    def item(self) -> StructuralSchema:
        return StructuralSchema.of(self.schema.get("items"))

    def key_default(self, name: str) -> Any:
        key = self.item().child(name)
        return key.schema.get("default") if isinstance(key, StructuralSchema) else None


def structure_of(schema: Any) -> StructuralSchema | None:
    """The schema to enforce; None for an invalid one, which an earlier version may have stored."""
    if not isinstance(schema, dict) or any(True for _ in schema_causes(schema, "")):
        return None
    return StructuralSchema.of(schema, is_resource=True)


def _parts(tree: Any, schema: Obj, path: str) -> Iterator[tuple[str, Any, Obj]]:
    """The fields or entries of a value that have a schema: path, value and schema of each."""
    parts: Iterable[tuple[str, Any, Any]] = ()
    if isinstance(tree, list):
        parts = ((f"{path}[{index}]", item, schema.get("items")) for index, item in enumerate(tree))
    elif isinstance(tree, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        prefix = path and f"{path}."
        parts = ((f"{prefix}{key}", value, known.get(key, others)) for key, value in tree.items())
    return (part for part in parts if isinstance(part[2], dict))


def _prune(tree: Any, schema: Obj, path: str, *, resource: bool = False) -> Iterator[str]:
    if isinstance(tree, dict):
        known = schema.get("properties", {})
        resource = resource or schema.get(_EMBEDDED) is True
        own = {"metadata", *(name for name in _RESOURCE if name not in known)} if resource else ()
        if schema.get("additionalProperties") in (None, False) and schema.get(_PRESERVE) is not True:
            for key in [key for key in tree if key not in known and key not in own]:
                del tree[key]
                yield f"{path}.{key}" if path else key
        tree = {key: value for key, value in tree.items() if key not in own}
    for where, value, inner in _parts(tree, schema, path):
        yield from _prune(value, inner, where)


def _default(tree: Any, schema: Obj) -> None:
    for key, value in schema.get("properties", {}).items() if isinstance(tree, dict) else ():
        # A null that is not allowed counts as absent if there is a default.
        absent = key not in tree or (tree[key] is None and not value.get("nullable"))
        if absent and "default" in value:
            tree[key] = copy_tree(value["default"])
    for _, value, inner in _parts(tree, schema, ""):
        _default(value, inner)


# Checking


def _value_causes(tree: Any, schema: Obj, path: str) -> Iterator[Cause]:
    if tree is None and schema.get("nullable"):
        return
    wanted = schema.get("type", "")
    found = _type_name(tree)
    if schema.get(_INT_OR_STRING):
        if found not in ("integer", "string"):
            yield _wrong_type(path, "integer,string", found)
            return
    elif wanted and found != wanted and not (wanted == "number" and found == "integer"):
        yield _wrong_type(path, wanted, found)
        return
    enum = schema.get("enum")
    if enum is not None and tree not in enum:
        yield not_supported(path, tree, map(str, enum))
    if isinstance(tree, str):
        yield from _text_causes(tree, schema, path)
    elif isinstance(tree, list):
        yield from _list_causes(tree, schema, path)
    elif isinstance(tree, dict):
        yield from _object_causes(tree, schema, path)
    elif isinstance(tree, int | float) and not isinstance(tree, bool):
        yield from _number_causes(tree, schema, path)
    yield from _junctor_causes(tree, schema, path)


def _type_name(tree: Any) -> str:
    match tree:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if tree.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _wrong_type(path: str, wanted: str, found: str) -> Cause:
    return invalid_value(path, found, f'{path} in body must be of type {wanted}: "{found}"')


def _text_causes(text: str, schema: Obj, path: str) -> Iterator[Cause]:
    longest = schema.get("maxLength")
    if longest is not None and len(text) > longest:
        yield too_long(path, longest)
    shortest = schema.get("minLength")
    if shortest is not None and len(text) < shortest:
        yield invalid_value(path, text, f"{path} in body should be at least {shortest} chars long")
    pattern = schema.get("pattern")
    if pattern and not _matches(pattern, text):
        yield invalid_value(path, text, f"{path} in body should match '{pattern}'")
    kind = _FORMATS.get(schema.get("format", ""))
    if kind is not None:
        try:
            read(kind, text)
        except ShapeError:
            why = f'{path} in body must be of type {schema["format"]}: "{text}"'
            yield invalid_value(path, text, why)


_FORMATS: Final = {"date-time": "time", "byte": "bytes"}
"""Formats that are checked, and the type of the field table that does it."""


def _matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches; a search that would take too long does not, as users write both."""
    WORK.begin()
    try:
        return compile_pattern(pattern).matches(text)
    except PatternError:  # of a definition that was stored before patterns were checked
        return True
    except CostExceeded:
        return False


def _number_causes(number: float, schema: Obj, path: str) -> Iterator[Cause]:
    for field, word, exclusive in (
        ("minimum", "greater", "exclusiveMinimum"),
        ("maximum", "less", "exclusiveMaximum"),
    ):
        bound = schema.get(field)
        if bound is None:
            continue
        beyond = number < bound if field == "minimum" else number > bound
        if beyond or (schema.get(exclusive) and number == bound):
            equal = "" if schema.get(exclusive) else " or equal to"
            wanted = f"{word} than{equal} {_plain(bound)}"
            yield invalid_value(path, number, f"{path} in body should be {wanted}")
    step = schema.get("multipleOf")
    if step and number % step:
        yield invalid_value(path, number, f"{path} in body should be a multiple of {_plain(step)}")


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _list_causes(items: list[Any], schema: Obj, path: str) -> Iterator[Cause]:
    yield from _size_causes(len(items), schema, path, "Items", "items")
    for where, item, inner in _parts(items, schema, path):
        yield from _value_causes(item, inner, where)
    kind = schema.get("x-kubernetes-list-type")
    if kind in ("set", "map") or schema.get("uniqueItems"):
        keys = schema.get("x-kubernetes-list-map-keys", ()) if kind == "map" else ()
        yield from _duplicate_causes(items, keys, path)


def _duplicate_causes(items: list[Any], keys: Iterable[str], path: str) -> Iterator[Cause]:
    seen = set()
    for index, item in enumerate(items):
        shown = item
        if keys:
            shown = {key: item.get(key) for key in keys} if isinstance(item, dict) else None
        identity = repr(shown)
        if identity in seen:
            yield duplicate(f"{path}[{index}]", shown)
        seen.add(identity)


def _size_causes(size: int, schema: Obj, path: str, suffix: str, word: str) -> Iterator[Cause]:
    most, least = schema.get(f"max{suffix}"), schema.get(f"min{suffix}")
    if most is not None and size > most:
        yield too_many(path, size, most)
    if least is not None and size < least:
        yield invalid_value(path, size, f"{path} in body should have at least {least} {word}")


def _object_causes(tree: Obj, schema: Obj, path: str) -> Iterator[Cause]:
    yield from _size_causes(len(tree), schema, path, "Properties", "properties")
    for name in schema.get("required", ()):
        if name not in tree:
            yield required(f"{path}.{name}" if path else name)
    for where, value, inner in _parts(tree, schema, path):
        yield from _value_causes(value, inner, where)


def _junctor_causes(tree: Any, schema: Obj, path: str) -> Iterator[Cause]:
    def holds(part: Obj) -> bool:
        return next(_value_causes(tree, part, path), None) is None

    for part in schema.get("allOf", ()):
        yield from _value_causes(tree, part, path)
    if "anyOf" in schema and not any(map(holds, schema["anyOf"])):
        yield _unmet(tree, path, "must validate at least one schema (anyOf)")
    if "oneOf" in schema and (count := sum(map(holds, schema["oneOf"]))) != 1:
        found = "Found none valid" if count == 0 else f"Found {count} valid alternatives"
        yield _unmet(tree, path, f"must validate one and only one schema (oneOf). {found}")
    if "not" in schema and holds(schema["not"]):
        yield _unmet(tree, path, "must not validate the schema (not)")


def _unmet(tree: Any, path: str, why: str) -> Cause:
    return invalid_value(path or "<nil>", "" if isinstance(tree, dict | list) else tree, f'"{path}" {why}')


# Schemas themselves


def schema_causes(schema: Any, path: str) -> Iterator[Cause]:
    """The problems of a schema as the root of a kind."""
    if not isinstance(schema, dict):
        yield invalid_value(path, schema, "must be an object")
        return
    if not schema.get("type"):
        yield required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield invalid_value(f"{path}.type", schema["type"], "must be object at the root")
    yield from _schema_causes(schema, path, 0)


def _schema_causes(schema: Any, path: str, depth: int, *, needs_type: str = "") -> Iterator[Cause]:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        yield invalid_value(path, "", "must be an object, and not be nested too deeply")
        return
    kind = schema.get("type") or ""
    if needs_type and not kind and not schema.get(_INT_OR_STRING) and not schema.get(_PRESERVE):
        yield required(f"{path}.type", f"must not be empty for specified {needs_type}")
    if kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    yield from _keyword_causes(schema, path)
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    if not isinstance(properties, dict):
        yield invalid_value(f"{path}.properties", "", "must be an object")
        return
    for name, inner in properties.items():
        where = f"{path}.properties[{name}]"
        yield from _schema_causes(inner, where, depth + 1, needs_type="object fields")
    if others is not None and not isinstance(others, bool):
        where = f"{path}.additionalProperties"
        yield from _schema_causes(others, where, depth + 1, needs_type="object fields")
    if others not in (None, False) and properties:
        why = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", why)
    if "items" in schema:
        yield from _schema_causes(schema["items"], f"{path}.items", depth + 1, needs_type="array items")
    for name in _JUNCTORS:
        parts = schema.get(name, [])
        if not isinstance(parts, list):
            yield invalid_value(f"{path}.{name}", "", "must be a list")
            continue
        for index, part in enumerate(parts):
            yield from _shape_causes(part, f"{path}.{name}[{index}]", depth + 1)
    if "not" in schema:
        yield from _shape_causes(schema["not"], f"{path}.not", depth + 1)


def _shape_causes(schema: Any, path: str, depth: int) -> Iterator[Cause]:
    """The problems of a schema below allOf, anyOf, oneOf or not, where types are not required."""
    return (
        cause
        for cause in _schema_causes(schema, path, depth)
        if not (cause.reason == "FieldValueRequired" and cause.field.endswith(".type"))
    )


def _keyword_causes(schema: Obj, path: str) -> Iterator[Cause]:
    if "$ref" in schema:
        yield forbidden_field(f"{path}.$ref", "$ref is not supported")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", why)
    for name in _NUMBERS:
        value = schema.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            yield invalid_value(f"{path}.{name}", value, "must be a number")
    for name in ("required", "enum", "x-kubernetes-list-map-keys"):
        value = schema.get(name, [])
        texts = name == "enum" or (isinstance(value, list) and all(isinstance(each, str) for each in value))
        if not isinstance(value, list) or not texts:
            yield invalid_value(f"{path}.{name}", value, "must be a list of strings")
    for name in ("type", "pattern", "format"):
        if not isinstance(schema.get(name, ""), str):
            yield invalid_value(f"{path}.{name}", "", "must be a string")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and pattern:
        try:
            compile_pattern(pattern)
        except PatternError as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            yield invalid_value(f"{path}.pattern", pattern, why)
