"""Defaults and validation of built-in kinds that are declared as data (schema/rules.yaml).

In: an object whose fields have the right types, and the stored one for an update. Out: the object with its
defaults, and causes in the words of upstream's declarative validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, cast

from kuberth.cel.validation_rules import compile_rule
from kuberth.errors import CelRuntimeError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.printing.columns import compile_path
from kuberth.local.apiserver.rules import checks, defaulting, device_checks, pod_validation, stored_checks
from kuberth.local.apiserver.rules.checks import Check
from kuberth.local.apiserver.schema import crds
from kuberth.local.apiserver.schema.fields import copy_tree, read_table
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

IMMUTABLE: Final = "field is immutable"
_VALIDATING: Final = {
    "check",
    "enum",
    "frozen",
    "immutable",
    "maxItems",
    "maxLength",
    "maximum",
    "minimum",
    "required",
    "union",
    "unique",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
}
"""Keywords for which a value may be refused."""
_NOT_STORED: Final = object()
"""Used as the stored value where there is none: on creation, and within lists."""


@cache
def declared_rules() -> Mapping[str, DeclaredRules]:
    """The declared rules by stored resource."""
    return {resource: DeclaredRules(schema) for resource, schema in read_table("rules.yaml").items()}


class DeclaredRules:
    """The rules of a kind, or of a part of it, read once: objects are checked more often than declared."""

    def __init__(self, schema: Obj) -> None:
        self.schema = schema
        self._properties = [
            (name, DeclaredRules(inner)) for name, inner in schema.get("properties", {}).items()
        ]
        self._by_name = dict(self._properties)
        self._items = DeclaredRules(schema["items"]) if "items" in schema else None
        self._values = (
            DeclaredRules(schema["additionalProperties"]) if "additionalProperties" in schema else None
        )
        wanted = schema.get("required", {})
        self._required: dict[str, str] = wanted if isinstance(wanted, dict) else dict.fromkeys(wanted, "")
        self._enum: Sequence[Any] | None = schema.get("enum")
        self._least, self._most = schema.get("minimum"), schema.get("maximum")
        self._longest, self._most_items = schema.get("maxLength"), schema.get("maxItems")
        self._map_keys, self._unique = schema.get("x-kubernetes-list-map-keys"), schema.get("unique")
        self._union: Sequence[str] | None = schema.get("union")
        self._frozen: Sequence[str] = schema.get("frozen", ())
        self._check = check_named(schema["check"]) if "check" in schema else None
        self._rules: Sequence[Obj] = schema.get("x-kubernetes-validations", ())
        self._fill = (
            getattr(defaulting, f"default_{schema['fill'].replace('-', '_')}") if "fill" in schema else None
        )
        inner = [node for _, node in (*self._properties, ("", self._items), ("", self._values)) if node]
        self.has_defaults: bool = bool({"default", "defaultExpression", "fill"} & schema.keys())
        self.has_defaults = self.has_defaults or any(node.has_defaults for node in inner)
        self._validates: bool = bool(_VALIDATING & schema.keys()) or any(node._validates for node in inner)
        self._validated = [(name, node) for name, node in self._properties if node._validates]
        self._may_be_absent = not {"absent", "immutable"} & schema.keys()
        self._absent, self._immutable = schema.get("absent"), schema.get("immutable")
        self._is_plain_text = self._longest is None and not self._rules
        """Whether a text is right if the check accepts it."""
        self._settable, self._unless = schema.get("settable"), schema.get("unless")

    def causes(self, new: Obj, old: Obj | None) -> list[Cause]:
        """The problems of an object, or of the change from the stored one."""
        return self._causes_at(new, "", _NOT_STORED if old is None else old)

    def default(self, tree: Any) -> None:
        """Set the defaults of an object, or of a part of it, in place."""
        if isinstance(tree, list):
            for item in tree if self._items is not None and self._items.has_defaults else ():
                self._items.default(item)  # type: ignore[union-attr]  # checked above
            return
        for name, node in self._properties:
            if node.has_defaults:
                node._set_default(tree, name)
        if self._fill is not None:
            self._fill(tree)

    def _set_default(self, holder: Obj, name: str) -> None:
        schema = self.schema
        if "when" in schema and compile_rule(schema["when"]).evaluate(holder) is not True:
            return
        if self.is_unset(holder.get(name)):
            if "default" in schema:
                holder[name] = copy_tree(schema["default"])
            elif "defaultExpression" in schema:
                value = compile_rule(schema["defaultExpression"]).evaluate(holder)
                if value is not None:
                    holder[name] = value
        if isinstance(holder.get(name), dict | list):
            self.default(holder[name])

    def is_unset(self, value: Any) -> bool:
        """Whether Go's types cannot distinguish the value from an absent one."""
        if value is None or "pointer" in self.schema or "absent" in self.schema:
            return value is None
        return value == "" or (value == 0 and "zeroIsUnset" in self.schema)

    def _causes_at(self, tree: Any, path: str, old: Any) -> list[Cause]:
        """Validate a value that is set; returns the problems."""
        if self._enum is not None and tree not in self._enum:
            return [not_supported(path, tree, self._enum)]
        if isinstance(tree, int):
            return self._number_causes(tree, path)
        found = [] if self._check is None else [*self._check(tree, path)]
        if self._is_plain_text and isinstance(tree, str):
            return found
        if self._longest is not None and len(tree.encode()) > self._longest:
            found.append(too_long(path, self._longest))
        if isinstance(tree, dict):
            self._add_object_causes(tree, path, old, found)
        elif isinstance(tree, list):
            self._add_list_causes(tree, path, found)
        for rule in self._rules:
            if not found or "always" in rule:
                found += _rule_causes(tree, rule, path, old)
        return found

    def _number_causes(self, number: int, path: str) -> list[Cause]:
        least, most = self._least, self._most
        if (least is None or number >= least) and (most is None or number <= most):
            return [] if self._check is None else list(self._check(number, path))
        if least is not None and most is not None:
            why = f"must be between {least} and {most}, inclusive"
        else:
            bound = f"greater than or equal to {least}" if most is None else f"less than or equal to {most}"
            why = f"must be {bound}"
        return [invalid_value(path, number, self.schema.get("message", why))]

    def _add_object_causes(self, tree: Obj, path: str, old: Any, found: list[Cause]) -> None:
        prefix = f"{path}." if path else ""
        for name, why in self._required.items():
            value = tree.get(name)
            if not value and _is_missing(value, self._by_name.get(name)):
                found.append(required(f"{prefix}{name}", why))
        if self._union is not None:
            found += _union_causes(tree, self._union, path)
        if self._frozen and isinstance(old, dict) and old.get("immutable"):
            why = "field is immutable when `immutable` is set"
            changed = (name for name in self._frozen if tree.get(name) != old.get(name))
            found += (forbidden_field(f"{prefix}{name}", why) for name in changed)
        for name, node in self._validated:
            value = tree.get(name)
            # The usual cases first: every pod comes this way.
            if not node._may_be_absent:
                node._add_property_causes(value, f"{prefix}{name}", old, name, found)
            elif value is None or (node._enum is not None and value in node._enum):
                continue
            elif not node.is_unset(value):
                stored = old.get(name) if isinstance(old, dict) else _NOT_STORED
                found += node._causes_at(value, f"{prefix}{name}", stored)
        if self._values is not None and self._values._validates:
            for name, value in tree.items():
                found += self._values._causes_at(value, f"{path}[{name}]", _NOT_STORED)

    def _add_property_causes(self, value: Any, path: str, old: Any, name: str, found: list[Cause]) -> None:
        """Validate a property that has a value for its absence, or that cannot change."""
        stored = old.get(name) if isinstance(old, dict) else _NOT_STORED
        value = self._absent if value is None else value
        if self._immutable is None or stored is _NOT_STORED or self._may_change(value, stored, old):
            if not self.is_unset(value):
                found += self._causes_at(value, path, stored)
        elif value != stored:
            # As upstream: pointers, lists and structs are not shown.
            hidden = "pointer" in self.schema or isinstance(value, dict | list)
            hidden = hidden and "showsChange" not in self.schema
            why, shown = self._immutable, None if hidden else value
            found.append(invalid_value(path, shown, IMMUTABLE) if why is True else forbidden_field(path, why))

    def _may_change(self, value: Any, stored: Any, old: Obj) -> bool:
        """Whether an immutable field may be given this value in place of the stored one."""
        if self._settable and (stored in (None, "", []) or (self._settable is True and value is None)):
            return True
        return self._unless is not None and all(old.get(name) == free for name, free in self._unless.items())

    def _add_list_causes(self, items: list[Any], path: str, found: list[Cause]) -> None:
        most, keys, key = self._most_items, self._map_keys, self._unique
        if most is not None and len(items) > most:
            found.append(too_many(path, len(items), most))
            return
        if self._items is not None and self._items._validates:
            for index, item in enumerate(items):
                found += self._items._causes_at(item, f"{path}[{index}]", _NOT_STORED)
        if not keys and not key:
            return
        seen: set[Any] = set()
        for index, item in enumerate(items):
            if keys:
                identity = tuple(item.get(each) for each in keys)
            else:
                identity = item if key is True else item.get(key, "")
            if identity in seen:
                found.append(duplicate(f"{path}[{index}]", item if keys else identity))
            seen.add(identity)


def check_named(name: str) -> Check:
    """The check that rules.yaml calls `name`; StopIteration if there is none."""
    attribute = f"check_{name.replace('-', '_')}"
    modules = (checks, stored_checks, pod_validation, device_checks, crds)
    return cast(Check, next(getattr(each, attribute) for each in modules if hasattr(each, attribute)))


def _is_missing(value: Any, node: DeclaredRules | None) -> bool:
    if node is None:
        return value in (None, "", [])
    if "x-kubernetes-preserve-unknown-fields" in node.schema:
        return value is None
    return node.is_unset(value) or value == [] or (value == "" and "absent" in node.schema)


def _union_causes(tree: Obj, members: Sequence[str], path: str) -> Iterator[Cause]:
    listed = ", ".join(f"`{name}`" for name in members)
    given = [name for name in members if tree.get(name) not in (None, "")]
    if members and not given:
        yield invalid_value(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        yield invalid_value(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}")


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
            shown = compile_path(below)(tree) if below else ""
            yield invalid_value(where, rule.get("value", shown), why)
