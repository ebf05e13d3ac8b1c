"""Bodies in protobuf, as client-go sends them for built-in types: kubectl create, kube-scheduler.

In: the bytes of a built-in kind. Out: the JSON tree that the same client would have sent in JSON. Responses
are never in protobuf: all these clients accept JSON as well.
"""

from __future__ import annotations

import base64
import datetime
import struct
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.errors import KuberthError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.schema.fields import fields_of, read_table
from kuberth.local.apiserver.status_errors import bad_request

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_TABLE: Final = "protobuf.json"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH: Final = 50
_EMPTY: Final = memoryview(b"")

Value = int | memoryview


class ProtobufError(KuberthError):
    """The bytes are not a valid message of the expected type."""


class _Field(NamedTuple):
    name: str
    """ "" for a message whose fields JSON has in its parent."""
    type: str
    keeps_zero: bool


def decode_object(data: bytes) -> Obj:
    """A JSON tree with apiVersion and kind; StatusError 400 for an invalid body."""
    try:
        return _decode_object(data)
    except (ProtobufError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise bad_request(f"the body of the request is no protobuf object: {error}") from None


def _decode_object(data: bytes) -> Obj:
    if not data.startswith(_MAGIC):
        raise ProtobufError("it does not start as one")
    # runtime.Unknown: 1 typeMeta (1 apiVersion, 2 kind), 2 raw.
    envelope = dict(_parts(memoryview(data)[4:]))
    meta = {number: _text(value) for number, value in _parts(_bytes(envelope.get(1, _EMPTY)))}
    api_version, kind = meta.get(1, ""), meta.get(2, "")
    type_name = _type_name(api_version, kind)
    if type_name not in read_table(_TABLE):
        raise ProtobufError(f"no kind {kind!r} of {api_version!r} is known in protobuf; send JSON")
    tree = _message(_bytes(envelope.get(2, _EMPTY)), type_name, 0)
    return {"apiVersion": api_version, "kind": kind, **tree}


def _type_name(api_version: str, kind: str) -> str:
    """policy/v1 Eviction → policy.v1.Eviction; options have the group of their resource."""
    if kind == "DeleteOptions":
        return "meta.v1.DeleteOptions"
    group, _, version = api_version.rpartition("/")
    return f"{group.partition('.')[0] or 'core'}.{version}.{kind}"


@cache
def _fields(type_name: str) -> dict[int, _Field]:
    fields = {}
    for number, text in read_table(_TABLE).get(type_name, {}).items():
        name, _, kind = text.partition(" ")
        plain = name.rstrip("!")
        if not kind:
            kind = fields_of(type_name)[plain].type
        fields[int(number)] = _Field("" if name == "^" else plain, kind, keeps_zero=name.endswith("!"))
    return fields


def _message(data: memoryview, type_name: str, depth: int) -> Obj:
    if depth > _MAX_DEPTH:
        raise ProtobufError("nested too deeply")
    tree: Obj = {}
    fields = _fields(type_name)
    for number, value in _parts(data):
        field = fields.get(number)
        if field is None:
            continue
        kind = field.type
        if not field.name:
            tree |= _message(_bytes(value), kind, depth + 1)
        elif kind.startswith("[]"):
            tree.setdefault(field.name, []).extend(_items(value, kind[2:], depth))
        elif kind.startswith("{}"):
            key, item = _entry(value, kind[2:], depth)
            tree.setdefault(field.name, {})[key] = item
        else:
            found = _value(value, kind, depth)
            if found is None or (not field.keeps_zero and found in ("", 0, False)):
                continue
            tree[field.name] = found
    return tree


def _items(value: Value, kind: str, depth: int) -> list[Any]:
    if kind in _VARINTS and not isinstance(value, int):
        # Numbers may come packed together.
        return [_value(item, kind, depth) for item in _varints(value)]
    return [_value(value, kind, depth)]


def _entry(value: Value, kind: str, depth: int) -> tuple[str, Any]:
    parts = dict(_parts(_bytes(value)))
    missing: Value = 0 if kind in _VARINTS else _EMPTY
    return _text(parts.get(1, _EMPTY)), _value(parts.get(2, missing), kind, depth)


def _value(value: Value, kind: str, depth: int) -> Any:
    read = _READERS.get(kind)
    if read is not None:
        return read(value)
    if kind in _UNIONS:
        return _either(_bytes(value), kind, depth + 1)
    return _message(_bytes(value), kind, depth + 1)


def _either(data: memoryview, kind: str, depth: int) -> Any:
    """A schema, or in its place whether there may be anything, several schemas, or names."""
    schema_number, other_number, other = _UNIONS[kind]
    schema: Any = None
    others: list[Any] = []
    for number, value in _parts(data):
        if number == schema_number:
            schema = _value(value, _SCHEMA, depth)
        elif number == other_number:
            others.append(_value(value, other, depth))
    if other == "boolean":
        return schema if schema is not None else bool(others and others[-1])
    return others or schema


def _integer(value: Value) -> int:
    if not isinstance(value, int):
        raise ProtobufError("bytes where a number should be")
    return value - 2**64 if value >= 2**63 else value


def _number(value: Value) -> float:
    number: float = struct.unpack("<d", struct.pack("<Q", _integer(value) % 2**64))[0]
    return number


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise ProtobufError("a number where bytes should be")
    return value


def _text(value: Value) -> str:
    return bytes(_bytes(value)).decode("utf-8")


def _wrapped_text(value: Value) -> str:
    """A quantity: a message around its text."""
    return next((_text(part) for number, part in _parts(_bytes(value)) if number == 1), "0")


def _int_or_string(value: Value) -> int | str:
    """1 which of the two it is, 2 the number, 3 the string."""
    parts = dict(_parts(_bytes(value)))
    return _text(parts.get(3, _EMPTY)) if _integer(parts.get(1, 0)) else _integer(parts.get(2, 0))


def _timestamp(value: Value, precision: str) -> str | None:
    """Decode a time: 1 is seconds since the epoch, 2 nanoseconds. Without fields, it is Go's zero time."""
    parts = dict(_parts(_bytes(value)))
    if not parts:
        return None
    try:
        moment = datetime.datetime.fromtimestamp(_integer(parts.get(1, 0)), datetime.UTC)
    except (OverflowError, ValueError, OSError):
        raise ProtobufError("a time out of range") from None
    moment = moment.replace(microsecond=_integer(parts.get(2, 0)) // 1000 % 1_000_000)
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _raw(value: Value) -> Any:
    """JSON inside protobuf."""
    raw = next((bytes(_bytes(part)) for number, part in _parts(_bytes(value)) if number == 1), b"")
    return msgspec.json.decode(raw) if raw else None


_VARINTS: Final = ("boolean", "int32", "int64")
_SCHEMA: Final = "apiextensions.v1.JSONSchemaProps"
_UNIONS: Final = {
    f"{_SCHEMA}OrBool": (2, 1, "boolean"),
    f"{_SCHEMA}OrArray": (1, 2, _SCHEMA),
    f"{_SCHEMA}OrStringArray": (1, 2, "string"),
}
"""Types that are one of two things in JSON: numbers of the schema and of the other, and the other's type."""
_READERS: Final[dict[str, Callable[[Value], Any]]] = {
    "string": _text,
    "boolean": lambda value: _integer(value) != 0,
    "int32": _integer,
    "int64": _integer,
    "number": _number,
    "bytes": lambda value: base64.b64encode(bytes(_bytes(value))).decode(),
    "quantity": _wrapped_text,
    "strings": lambda value: [_text(part) for number, part in _parts(_bytes(value)) if number == 1],
    "int-or-string": _int_or_string,
    "time": partial(_timestamp, precision="seconds"),
    "microtime": partial(_timestamp, precision="microseconds"),
    "any": _raw,
}


def _parts(view: memoryview) -> Iterator[tuple[int, Value]]:
    """The fields of a message: their number and what they hold."""
    position, end = 0, len(view)
    while position < end:
        key, position = _varint(view, position)
        wire_type = key & 7
        if wire_type == _VARINT:
            value, position = _varint(view, position)
            yield key >> 3, value
            continue
        if wire_type == _BYTES:
            size, position = _varint(view, position)
        elif wire_type == _FIXED64:
            size = 8
        elif wire_type == _FIXED32:
            size = 4
        else:
            raise ProtobufError(f"wire type {wire_type}")
        if size > end - position:
            raise ProtobufError("it ends too early")
        part = view[position : position + size]
        position += size
        yield key >> 3, part if wire_type == _BYTES else int.from_bytes(part, "little")


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(view):
            raise ProtobufError("it ends too early")
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), position
    raise ProtobufError("a number of more than 64 bits")


def _varints(view: memoryview) -> Iterator[int]:
    position = 0
    while position < len(view):
        value, position = _varint(view, position)
        yield value
