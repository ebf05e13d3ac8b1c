"""The fields of every built-in kind, generated from Kubernetes' OpenAPI documents, and their shapes.

In: a JSON tree from a client. Out: a new tree with the shape of its kind (without nulls, unknown fields and
empty collections, with quantities and times in canonical form), or a `ShapeError`. The same tables contain
the merge keys of lists, atomic types and zero values. `read_table` reads the tables beside this module.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final

import msgspec

from kuberth.api.quantity import format_quantity
from kuberth.errors import KuberthError, QuantityError
from kuberth.local.apiserver.objects import Obj
from kuberth.text.documents import read_tree


@cache
def read_table(name: str) -> Any:
    """The tree of a file beside this module, which callers must not change."""
    text = files("kuberth.local.apiserver.schema").joinpath(name).read_bytes()
    if name.endswith(".json"):
        return msgspec.json.decode(text)
    tree, errors = read_tree(text)
    assert not errors, errors
    return tree


Reader = Callable[[Any], Any]

MAX_DEPTH: Final = 200
"""Deeper trees are rejected: no real object is deeper, and recursion must be bounded."""
_MIN_INT: Final = {"int32": -(2**31), "int64": -(2**63)}
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_LONGEST_TIME_KEPT: Final = 40
_QUANTITY_RULE: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


class ShapeError(KuberthError):
    """A JSON tree does not have the shape of its kind."""

    def __init__(self, problem: str, *, owner: str = "", path: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.owner = owner
        """The type that holds the field."""
        self.path = path

    def __str__(self) -> str:
        wanted = self.problem
        if " of type " not in wanted:
            return wanted
        what, _, go_type = wanted.rpartition(" of type ")
        return f"json: {what} into Go struct field {self.owner}.{self.path} of type {go_type}"


_KEY_DEFAULTS: Final = {"protocol": "TCP"}
"""List keys that clients may omit, and the server's defaults."""


@dataclass(frozen=True, slots=True)
class Field:
    """The type of a value: a field of a struct, an entry of a list or a whole object."""

    type: str
    merge_key: str | None = None
    """The key by which a strategic merge merges a list; "" merges a set, None replaces the whole list."""
    retain_keys: bool = False
    map_keys: tuple[str, ...] = ()
    """Keys by which server-side apply identifies the entries of a list."""
    is_set: bool = False
    atomic: bool = False
    required: bool = False

    @property
    def item_type(self) -> str:
        """The type of a list's or map's entries."""
        return self.type[2:] if self.type.startswith(("[]", "{}")) else ""

    @property
    def is_atomic(self) -> bool:
        return self.atomic or go_type(self.type).atomic

    def has(self, name: str) -> bool:
        """Whether it is a struct with a field of this name."""
        return name in fields_of(self.type)

    def declares(self, name: str) -> bool:
        """Whether the value may have a field or an entry of this name."""
        return self.has(name) or not fields_of(self.type)

    def child(self, name: str) -> Field:
        """A field of a struct, or a value of a map."""
        found = fields_of(self.type).get(name)
        return found or (self.item() if self.type.startswith("{}") else _ANY)

    def item(self) -> Field:
        """An entry of a list, or a value of a map."""
        return _type_field(self.item_type)

    def key_default(self, name: str) -> Any:
        """The value of a list key that an entry leaves out."""
        return _KEY_DEFAULTS.get(name)


_ANY: Final = Field("any")


@cache
def _type_field(type_name: str) -> Field:
    return Field(type_name)


@cache
def fields_of(type_name: str) -> dict[str, Field]:
    """The fields of a struct type; empty for scalars, maps, lists and types that are not known."""
    return {name: _field(text) for name, text in read_table("fields.json").get(type_name, {}).items()}


def _field(text: str) -> Field:
    type_name, *marks = text.split(" ")
    values = dict(mark.partition("=")[::2] for mark in marks)
    return Field(
        type_name,
        merge_key=values.get("merge"),
        retain_keys="retainKeys" in values,
        map_keys=tuple(values["keys"].split(",")) if "keys" in values else (),
        is_set="set" in values,
        atomic="atomic" in values,
        required="required" in values,
    )


def read(type_name: str, tree: Any) -> Any:
    """A new tree of this type; ShapeError if it does not have its shape."""
    return _reader(type_name)(tree)


def read_object(type_name: str, tree: Any) -> Obj:
    """A new object: of a known type, or of a custom kind ("") with only the metadata known."""
    if type(tree) is not dict:
        raise ShapeError(f"cannot unmarshal {_go_kind(tree)} into Go value of an object")
    if type_name:
        found: Obj = _reader(type_name)(tree)
        return found
    obj: Obj = _copy(tree, 0)
    for name, kind in (("apiVersion", "string"), ("kind", "string"), ("metadata", "meta.v1.ObjectMeta")):
        if obj.get(name) is not None:
            try:
                obj[name] = _reader(kind)(obj[name])
            except ShapeError as error:
                raise _inside(error, owner="", name=name) from None
        else:
            obj.pop(name, None)
    return obj


def copy_tree(tree: Any) -> Any:
    """A new JSON tree; ShapeError for values that JSON cannot represent."""
    return _copy(tree, 0)


def _copy(tree: Any, depth: int) -> Any:
    kind = type(tree)
    if kind is dict:
        if depth > MAX_DEPTH:
            raise ShapeError("the object is nested too deeply")
        return {_text(key): _copy(value, depth + 1) for key, value in tree.items()}
    if kind is list or kind is tuple:
        if depth > MAX_DEPTH:
            raise ShapeError("the object is nested too deeply")
        return [_copy(value, depth + 1) for value in tree]
    if kind is str:
        return _text(tree)
    if kind is bool or tree is None:
        return tree
    if kind is int:
        # Go holds numbers in 64 bits.
        return tree if -(2**63) <= tree < 2**64 else float(min(max(tree, -(10**300)), 10**300))
    if kind is float:
        if tree != tree or tree in (float("inf"), float("-inf")):
            raise ShapeError(f"{tree} is no JSON number")
        return tree
    raise ShapeError(f"{kind.__name__} is no JSON value")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ShapeError(f"{type(value).__name__} is no JSON key")
    if not value.isascii():
        # Lone surrogates cannot be written to the wire again; Go replaces them on reading.
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


@cache
def _reader(type_name: str) -> Reader:
    if type_name.startswith("[]"):
        return _list_reader(type_name[2:])
    if type_name.startswith("{}"):
        return _map_reader(type_name[2:])
    return _SCALARS.get(type_name) or _struct_reader(type_name)


def _struct_reader(type_name: str) -> Reader:
    # Types may contain themselves, so field readers are looked up when first needed.
    readers: dict[str, tuple[Reader, bool]] = {}
    fields = fields_of(type_name)
    owner = type_name.rpartition(".")[2]

    def read_struct(value: Any) -> Any:
        if type(value) is not dict:
            raise _mismatch(value, owner)
        found: Obj = {}
        for key, item in value.items():
            if item is None:
                continue
            entry = readers.get(key)
            if entry is None:
                field = fields.get(key)
                if field is None:
                    continue
                drop_empty = not field.required and field.type[:2] in ("[]", "{}")
                entry = readers[key] = _reader(field.type), drop_empty
            reader, drop_empty = entry
            try:
                out = reader(item)
            except ShapeError as error:
                raise _inside(error, owner=owner, name=key) from None
            if drop_empty and not out:
                continue
            found[key] = out
        return found

    return read_struct


def _list_reader(item_type: str) -> Reader:
    reader: Reader | None = None

    def read_list(value: Any) -> Any:
        nonlocal reader
        if type(value) is not list and type(value) is not tuple:
            raise _mismatch(value, f"[]{_go_type(item_type)}")
        if reader is None:
            reader = _reader(item_type)
        # A null entry is Go's zero value.
        return [reader(_zero(item_type) if item is None else item) for item in value]

    return read_list


def _map_reader(item_type: str) -> Reader:
    reader: Reader | None = None

    def read_map(value: Any) -> Any:
        nonlocal reader
        if type(value) is not dict:
            raise _mismatch(value, f"map[string]{_go_type(item_type)}")
        if reader is None:
            reader = _reader(item_type)
        return {_text(key): reader(_zero(item_type) if item is None else item) for key, item in value.items()}

    return read_map


def _read_string(value: Any) -> str:
    if type(value) is not str:
        raise _mismatch(value, "string")
    return value if value.isascii() else _text(value)


def _read_bytes(value: Any) -> str:
    if type(value) is not str:
        raise _mismatch(value, "[]uint8")
    # Go reads past line breaks, as people fold certificates, and writes none.
    text: str = value.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ShapeError("illegal base64 data at input byte 0") from None
    return text


def _read_boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _mismatch(value, "bool")
    return value


def _int_reader(name: str) -> Reader:
    low = _MIN_INT[name]

    def read_int(value: Any) -> int:
        if type(value) is not int or not low <= value < -low:
            raise _mismatch(value, name)
        return value

    return read_int


def _read_number(value: Any) -> float:
    if type(value) not in (int, float):
        raise _mismatch(value, "float64")
    return float(_copy(value, 0))


@lru_cache(maxsize=4096)
def _canonical_quantity(text: str | int | float) -> str:
    try:
        return format_quantity(str(text))
    except QuantityError:
        raise ShapeError(_QUANTITY_RULE) from None


def _read_quantity(value: Any) -> str:
    if type(value) not in (str, int, float):
        raise ShapeError(_QUANTITY_RULE)
    if len(str(value) if type(value) is not int else "") > 100:
        raise ShapeError(_QUANTITY_RULE)
    if type(value) is int and abs(value) >= 10**100:
        raise ShapeError(_QUANTITY_RULE)
    return _canonical_quantity(value)


def _read_int_or_string(value: Any) -> int | str:
    if type(value) is int and -(2**31) <= value < 2**31:
        return value
    if type(value) is str:
        return _text(value)
    raise _mismatch(value, "int32")


def _parse_time(value: str) -> datetime.datetime:
    match = _TIME.fullmatch(value)
    if match is not None:
        fraction = (match[2] or ".0")[:7]
        zone = "+00:00" if match[3] in "Zz" else match[3]
        try:
            moment = datetime.datetime.fromisoformat(f"{match[1].upper()}.{fraction[1:]:0<6}{zone}")
            return moment.astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            pass
    raise ShapeError(f'parsing time "{value[:64]}" as "2006-01-02T15:04:05Z07:00": cannot parse it')


def _time_reader(form: str, *, length: int) -> Reader:
    # Most times of a cluster are of the same few seconds.
    @lru_cache(maxsize=4096)
    def read_text(text: str) -> str:
        return _parse_time(text).strftime(form).zfill(length)

    def read_time(value: Any) -> str:
        if type(value) is not str:
            raise _mismatch(value, "Time")
        # A fraction may have any length: such times are not cached.
        return read_text(value) if len(value) <= _LONGEST_TIME_KEPT else read_text.__wrapped__(value)

    return read_time


_SCALARS: Final[dict[str, Reader]] = {
    "any": copy_tree,
    "string": _read_string,
    "bytes": _read_bytes,
    "boolean": _read_boolean,
    "int32": _int_reader("int32"),
    "int64": _int_reader("int64"),
    "number": _read_number,
    "double": _read_number,
    "quantity": _read_quantity,
    "time": _time_reader("%Y-%m-%dT%H:%M:%SZ", length=20),
    "microtime": _time_reader("%Y-%m-%dT%H:%M:%S.%fZ", length=27),
    "int-or-string": _read_int_or_string,
}
_ZEROS: Final = {"string": "", "boolean": False, "int32": 0, "int64": 0, "quantity": "0", "any": None}


def _zero(type_name: str) -> Any:
    if type_name.startswith("[]"):
        return []
    return _ZEROS.get(type_name, {})


def _inside(error: ShapeError, *, owner: str, name: str) -> ShapeError:
    path = f"{name}.{error.path}" if error.path else name
    return ShapeError(error.problem, owner=error.owner or owner, path=path)


def _mismatch(value: Any, wanted: str) -> ShapeError:
    return ShapeError(f"cannot unmarshal {_go_kind(value)} of type {wanted}")


def _go_type(type_name: str) -> str:
    return {"boolean": "bool", "number": "float64"}.get(type_name, type_name.rpartition(".")[2])


def _go_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list | tuple):
        return "array"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "null"


@dataclass(frozen=True, slots=True)
class GoType:
    atomic: bool = False
    """Whether a value of it is only ever replaced as a whole."""
    zeros: Mapping[str, Any] = field(default_factory=dict)
    """Field → what Kubernetes writes there for nothing: `{}` for a struct, None for a required list."""


_PLAIN: Final = GoType()


@cache
def _go_types() -> dict[str, GoType]:
    return {name: GoType(**entry) for name, entry in read_table("go_types.json").items()}


def go_type(name: str) -> GoType:
    return _go_types().get(name, _PLAIN)


def as_go_writes(tree: Any, type_name: str) -> Any:
    """The tree as Go writes it, with zero values and sorted fields: some clients compare bytes."""
    if isinstance(tree, list):
        return [as_go_writes(entry, type_name[2:]) for entry in tree]
    if not isinstance(tree, dict):
        return tree
    if type_name.startswith("{}"):
        return {name: as_go_writes(tree[name], type_name[2:]) for name in sorted(tree)}
    fields, whole = fields_of(type_name), {**go_type(type_name).zeros, **tree}
    return {
        name: as_go_writes(whole[name], fields[name].type if name in fields else "") for name in sorted(whole)
    }
