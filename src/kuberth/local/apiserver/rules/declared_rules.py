"""Defaults and validation of built-in kinds that are declared as data (schema/rules.yaml).

In: an object whose fields have the right types, and the stored one for an update. Out: the object with its
defaults, and causes in the words of upstream's declarative validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from kuberth.cel.validation_rules import compile_rule
from kuberth.errors import CelRuntimeError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.printing.json_paths import compile_path
from kuberth.local.apiserver.rules.checks import CHECKS
from kuberth.local.apiserver.rules.metadata_validation import (
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kuberth.local.apiserver.rules.pod_defaults import default_pod_spec
from kuberth.local.apiserver.schema.fields import copy_tree
from kuberth.local.apiserver.status_errors import Cause
from kuberth.text.documents import read_tree

IMMUTABLE: Final = "field is immutable"
_FILLS: Final[Mapping[str, Callable[[Obj], None]]] = {"pod-spec": default_pod_spec}
_NOT_STORED: Final = object()
"""In place of the stored value where there is none: on creation, and within lists."""


@cache
def declared_rules() -> Mapping[str, DeclaredRules]:
    """The declared rules by stored resource."""
    text = files("kuberth.local.apiserver.schema").joinpath("rules.yaml").read_bytes()
    tree, errors = read_tree(text)
    assert not errors, errors
    return {resource: DeclaredRules(schema) for resource, schema in tree.items()}


class DeclaredRules:
    """What one kind declares."""

    def __init__(self, schema: Obj) -> None:
        self.schema = schema

    def default(self, obj: Obj) -> None:
        _set_defaults(obj, self.schema)

    def causes(self, new: Obj, old: Obj | None) -> list[Cause]:
        return list(_causes(new, self.schema, "", _NOT_STORED if old is None else old))


def _is_unset(value: Any, schema: Obj) -> bool:
    """Whether Go would take the value for an absent one."""
    if value is None or "pointer" in schema:
        return value is None
    return value == "" or (value == 0 and "zeroIsUnset" in schema)


def _set_defaults(tree: Any, schema: Obj) -> None:
    if isinstance(tree, list):
        for item in tree:
            _set_defaults(item, schema.get("items", {}))
        return
    for name, inner in schema.get("properties", {}).items():
        if "when" in inner and compile_rule(inner["when"]).evaluate(tree) is not True:
            continue
        if _is_unset(tree.get(name), inner):
            if "default" in inner:
                tree[name] = copy_tree(inner["default"])
            elif "defaultExpression" in inner:
                value = compile_rule(inner["defaultExpression"]).evaluate(tree)
                if value is not None:
                    tree[name] = value
        if isinstance(tree.get(name), dict | list):
            _set_defaults(tree[name], inner)
            if "fill" in inner:
                _FILLS[inner["fill"]](tree[name])


def _causes(tree: Any, schema: Obj, path: str, old: Any) -> Iterator[Cause]:
    if "enum" in schema and tree not in schema["enum"]:
        yield not_supported(path, tree, schema["enum"])
        return
    if isinstance(tree, int):
        yield from _number_causes(tree, schema, path)
    found = list(_check_causes(tree, schema, path))
    if isinstance(tree, dict):
        found += _object_causes(tree, schema, path, old)
    elif isinstance(tree, list):
        found += _list_causes(tree, schema, path)
    yield from found
    if not found:
        for rule in schema.get("x-kubernetes-validations", ()):
            yield from _rule_causes(tree, rule, path, old)


def _number_causes(number: int, schema: Obj, path: str) -> Iterator[Cause]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if (least is None or number >= least) and (most is None or number <= most):
        return
    if least is not None and most is not None:
        why = f"must be between {least} and {most}, inclusive"
    else:
        bound = f"greater than or equal to {least}" if most is None else f"less than or equal to {most}"
        why = f"must be {bound}"
    yield invalid_value(path, number, schema.get("message", why))


def _check_causes(tree: Any, schema: Obj, path: str) -> list[Cause]:
    return CHECKS[schema["check"]](tree, path) if "check" in schema else []


def _object_causes(tree: Obj, schema: Obj, path: str, old: Any) -> Iterator[Cause]:
    prefix, properties = f"{path}." if path else "", schema.get("properties", {})
    for name in (wanted := schema.get("required", ())):
        inner, value = properties.get(name, {}), tree.get(name)
        takes_all = "x-kubernetes-preserve-unknown-fields" in inner
        if value is None or (not takes_all and (_is_unset(value, inner) or value == [])):
            yield required(f"{prefix}{name}", wanted[name] if isinstance(wanted, dict) else "")
    yield from _union_causes(tree, schema.get("union", ()), path)
    for name, inner in properties.items():
        where, value = f"{prefix}{name}", tree.get(name, {} if "struct" in inner else None)
        stored = old.get(name) if isinstance(old, dict) else _NOT_STORED
        if "immutable" in inner and stored is not _NOT_STORED and value != stored:
            # As upstream: pointers, lists and structs are not shown.
            hidden, why = "pointer" in inner or isinstance(value, dict | list), inner["immutable"]
            shown = None if hidden else value
            yield invalid_value(where, shown, IMMUTABLE) if why is True else forbidden_field(where, why)
        elif not _is_unset(value, inner):
            yield from _causes(value, inner, where, stored)


def _union_causes(tree: Obj, members: Sequence[str], path: str) -> Iterator[Cause]:
    listed = ", ".join(f"`{name}`" for name in members)
    given = [name for name in members if tree.get(name) not in (None, "")]
    if members and not given:
        yield invalid_value(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        yield invalid_value(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}")


def _list_causes(items: list[Any], schema: Obj, path: str) -> Iterator[Cause]:
    most, keys, seen = schema.get("maxItems"), schema.get("x-kubernetes-list-map-keys"), []
    if most is not None and len(items) > most:
        words = f"must have at most {most} {'item' if most == 1 else 'items'}"
        yield Cause(path, f"Too many: {len(items)}: {words}", "FieldValueTooMany")
    for index, item in enumerate(items):
        where = f"{path}[{index}]"
        yield from _causes(item, schema.get("items", {}), where, _NOT_STORED)
        if keys is not None:
            identity = [item.get(key) for key in keys]
            if identity in seen:
                yield duplicate(where, item)
            seen.append(identity)


def _rule_causes(tree: Any, rule: Obj, path: str, old: Any) -> Iterator[Cause]:
    if "oldSelf" in rule["rule"] and old is _NOT_STORED:
        return
    stored, below = None if old is _NOT_STORED else old, rule.get("fieldPath", "")
    try:
        if compile_rule(rule["rule"]).evaluate(tree, stored) is True:
            return
        why = rule.get("message", "")
        if "messageExpression" in rule:
            why = compile_rule(rule["messageExpression"]).evaluate(tree, stored)
    except CelRuntimeError as error:
        why = f"{rule['rule']}: {error}"
    where = f"{path}{below}" if path else below.removeprefix(".")
    match rule.get("reason"):
        case "FieldValueRequired":
            yield required(where, why)
        case "FieldValueForbidden":
            yield forbidden_field(where, why)
        case _:
            yield invalid_value(where, compile_path(below)(tree) if below else "", why)
