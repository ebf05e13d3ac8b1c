"""Decodes a plain tree to structs and collects all errors.

In: a tree from `documents` and a msgspec struct type. Out: the struct, and a `FieldError` for each unknown
field, wrong type and missing field. msgspec's own decoder stops at the first error; this one reports all.
Leaves are decoded by msgspec, so constraints in annotations apply.
"""

from __future__ import annotations

import base64
import binascii
import types
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from kuberth.text.durations import parse_duration
from kuberth.text.field_errors import FieldError, InvalidConfiguration, child, did_you_mean, item, show

T = TypeVar("T")
FieldType = Callable[[type, str, Mapping[str, Any]], Any]
"""Called with the struct type, the field name and the struct's tree; returns a type that overrides the
annotation, or None."""

_WANTED: dict[Any, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}


def decode_tree(tree: Any, as_type: type[T], *, source: str = "", path: str = "") -> T:
    """Decode a tree; InvalidConfiguration with all problems, each after the name of the source."""
    decoder = Decoder()
    value = decoder.decode(tree, as_type, path)
    if decoder.errors:
        raise InvalidConfiguration(decoder.errors, source=source)
    assert isinstance(value, get_origin(as_type) or as_type)
    return value


BROKEN: Final = object()
"""Stands for a value that could not be decoded."""


class Decoder:
    """Decodes trees and collects all errors in `errors`."""

    def __init__(self, *, field_type: FieldType | None = None) -> None:
        self.errors: list[FieldError] = []
        self.broken: list[str] = []
        """Paths of values that could not be decoded and may be replaced by a default."""
        self._field_type = field_type

    def decode(self, tree: Any, as_type: Any, path: str = "") -> Any:
        """The value, or `BROKEN`.

        An unknown field is an error but is otherwise ignored. A field with a default keeps it if its value is
        wrong, so that one mistake does not hide the next; the error is recorded in both cases.
        """
        origin = get_origin(as_type)
        if as_type is Any:
            return tree
        if isinstance(as_type, type) and origin is None and issubclass(as_type, msgspec.Struct):
            return self._struct(tree, as_type, path)
        if origin in (Union, types.UnionType):
            return self._union(tree, as_type, path)
        if origin in (list, tuple):
            return self._sequence(tree, as_type, path)
        if origin in (dict, Mapping):
            return self._mapping(tree, as_type, path)
        return self._leaf(tree, as_type, path)

    def _struct(self, tree: Any, as_type: type[msgspec.Struct], path: str) -> Any:
        if not isinstance(tree, dict):
            return self._broken(path, tree, "a mapping")
        fields = {field.encode_name: field for field in msgspec.structs.fields(as_type)}
        for key in [key for key in tree if key not in fields]:
            hint = did_you_mean(key, fields.keys() - tree.keys()) or f"; known are {', '.join(fields)}"
            self._error(child(path, key), f"unknown field{hint}", tree[key])
        values: dict[str, Any] = {}
        broken = False
        for name, field in fields.items():
            raw = tree.get(name)
            wanted = (self._field_type and self._field_type(as_type, field.name, tree)) or field.type
            if raw is None and not _allows_none(wanted):
                # As everywhere in Kubernetes, null is equivalent to omitting the field.
                if field.required:
                    self._break(child(path, name), "required, but missing")
                    broken = True
                elif wanted is not field.type:
                    # An overriding type has its own defaults.
                    values[field.name] = self.decode({}, wanted, child(path, name))
                    broken = broken or values[field.name] is BROKEN
                continue
            if name not in tree and not field.required:
                continue
            value = self.decode(raw, wanted, child(path, name))
            if value is not BROKEN:
                values[field.name] = value
            elif field.required:
                broken = True
            # The default replaces it, so that the rest can still be validated.
        return BROKEN if broken else self._construct(as_type, values, path)

    def _construct(self, as_type: type[msgspec.Struct], values: dict[str, Any], path: str) -> Any:
        try:
            return as_type(**values)
        except (TypeError, ValueError) as error:
            # A struct's __post_init__ raised: plugin authors validate combinations of fields there.
            return self._break(path, str(error))

    def _union(self, tree: Any, as_type: Any, path: str) -> Any:
        others = [option for option in get_args(as_type) if option is not type(None)]
        if tree is None and _allows_none(as_type):
            return None
        if len(others) == 1:
            return self.decode(tree, others[0], path)
        return self._leaf(tree, as_type, path)

    def _sequence(self, tree: Any, as_type: Any, path: str) -> Any:
        arguments = get_args(as_type)
        if get_origin(as_type) is tuple and arguments[-1] is not Ellipsis:
            return self._leaf(tree, as_type, path)
        if not isinstance(tree, list | tuple):
            return self._broken(path, tree, "a list")
        values = [self.decode(each, arguments[0], item(path, i)) for i, each in enumerate(tree)]
        if any(value is BROKEN for value in values):
            return BROKEN
        return tuple(values) if get_origin(as_type) is tuple else values

    def _mapping(self, tree: Any, as_type: Any, path: str) -> Any:
        if not isinstance(tree, dict):
            return self._broken(path, tree, "a mapping")
        value_type = get_args(as_type)[1]
        values = {key: self.decode(each, value_type, child(path, key)) for key, each in tree.items()}
        return BROKEN if any(value is BROKEN for value in values.values()) else values

    def _leaf(self, tree: Any, as_type: Any, path: str) -> Any:
        plain = get_args(as_type)[0] if get_origin(as_type) is Annotated else as_type
        if plain is timedelta:
            return self._duration(tree, path)
        if plain is bytes:
            return self._bytes(tree, path)
        if plain in _WANTED and not _is_a(tree, plain):
            return self._broken(path, tree, _WANTED[plain])
        try:
            return msgspec.convert(tree, as_type)
        except msgspec.ValidationError as error:
            # msgspec's path is relative to this leaf; ours is absolute.
            problem = str(error).partition(" - at `$")[0].partition(", got ")[0]
            problem = problem.replace("`int` ", "an integer ").replace("`float` ", "a number ")
            if get_origin(plain) is Literal:
                problem = f"expected one of {', '.join(show(each) for each in get_args(plain))}"
            return self._break(path, f"{problem[:1].lower()}{problem[1:]}, got {show(tree)}", tree)

    def _duration(self, tree: Any, path: str) -> Any:
        if not isinstance(tree, str):
            return self._broken(path, tree, 'a duration such as "15s"')
        try:
            return parse_duration(tree)
        except ValueError as error:
            return self._break(path, f"{error}, got {show(tree)}", tree)

    def _bytes(self, tree: Any, path: str) -> Any:
        if isinstance(tree, str):
            try:
                return base64.b64decode("".join(tree.split()), validate=True)
            except (binascii.Error, ValueError):
                pass
        # The value may be a private key: it is not shown.
        return self._break(path, "expected base64 text")

    def _broken(self, path: str, tree: Any, wanted: str) -> Any:
        return self._break(path, f"expected {wanted}, got {show(tree)}", tree)

    def _break(self, path: str, message: str, value: Any = None) -> Any:
        """Report a value that cannot be decoded; returns `BROKEN`."""
        self.broken.append(path)
        self._error(path, message, value)
        return BROKEN

    def _error(self, path: str, message: str, value: Any = None) -> None:
        self.errors.append(FieldError(path, message, value))


def _allows_none(as_type: Any) -> bool:
    if as_type is Any or as_type is None or as_type is type(None):
        return True
    return get_origin(as_type) in (Union, types.UnionType) and type(None) in get_args(as_type)


def _is_a(tree: Any, plain: Any) -> bool:
    if plain is float:
        return isinstance(tree, int | float) and not isinstance(tree, bool)
    return isinstance(tree, plain) and (plain is bool or not isinstance(tree, bool))
