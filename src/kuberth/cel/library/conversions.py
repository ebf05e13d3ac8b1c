"""Conversions between types: int("3"), string(1.5), type(x), dyn(x)."""

from __future__ import annotations

from collections.abc import Callable
from math import isinf, isnan
from typing import NoReturn

from kuberth.cel.costs import first_tenth
from kuberth.cel.declarations import Apply, Overload, function
from kuberth.cel.library.times import (
    format_duration,
    format_timestamp,
    parse_duration,
    parse_timestamp,
    timestamp_of_seconds,
)
from kuberth.cel.numbers import format_double, parse_double, parse_int, parse_uint
from kuberth.cel.values import (
    INT_MAX,
    TypeValue,
    Uint,
    Value,
    check_uint,
    type_name,
)
from kuberth.errors import CelRuntimeError

_DURATION = "google.protobuf.Duration"
_TIMESTAMP = "google.protobuf.Timestamp"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _no_conversion(value: Value, to: str) -> CelRuntimeError:
    return CelRuntimeError(f"type conversion error from '{type_name(value)}' to '{to}'")


def _unchanged(value: Value) -> Value:
    return value


def _reading(to: str, parse: Callable[[str], Value]) -> Apply:
    """Convert a text with a parser that returns None for an invalid one."""

    def apply(text: str) -> Value:
        value = parse(text)
        if value is None:
            raise _no_conversion(text, to)
        return value

    return apply


def _parse_bool(text: str) -> bool | None:
    return text in _TRUE if text in _TRUE | _FALSE else None


def _double_to_int(value: float) -> int:
    if isinf(value) or isnan(value) or value <= -(2.0**63) or value >= 2.0**63:
        raise CelRuntimeError("integer overflow")
    return int(value)


def _uint_to_int(value: Uint) -> int:
    if value > INT_MAX:
        raise CelRuntimeError("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if isinf(value) or isnan(value) or value < 0 or value >= 2.0**64:
        raise CelRuntimeError("unsigned integer overflow")
    return Uint(int(value))


def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise CelRuntimeError("invalid UTF-8 in bytes, cannot convert to string") from exc


def _int_to_duration(value: int) -> NoReturn:
    raise _no_conversion(value, _DURATION)


def _type(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


LIBRARY: tuple[Overload, ...] = (
    function("type(A) -> type(A)"),
    function("dyn(A) -> dyn"),
    function("bool(bool) -> bool", _unchanged),
    function("bool(string) -> bool", _reading("bool", _parse_bool)),
    function("bytes(bytes) -> bytes", _unchanged),
    function(
        "bytes(string) -> bytes",
        lambda text: text.encode("utf-8", "surrogatepass"),
        cost_if_picked=first_tenth,
    ),
    function("double(double) -> double", _unchanged),
    function("double(int) -> double", float),
    function("double(string) -> double", _reading("double", parse_double)),
    function("double(uint) -> double", float),
    function("duration(duration) -> duration", _unchanged),
    function("duration(int) -> duration", _int_to_duration),
    function("duration(string) -> duration", _reading(_DURATION, parse_duration)),
    function("int(int) -> int", _unchanged),
    function("int(double) -> int", _double_to_int),
    function("int(duration) -> int", lambda value: value.nanoseconds),
    function("int(string) -> int", _reading("int", parse_int)),
    function("int(timestamp) -> int", lambda value: value.nanoseconds // 10**9),
    function("int(uint) -> int", _uint_to_int),
    function("string(string) -> string", _unchanged),
    function("string(bool) -> string", lambda value: "true" if value else "false"),
    function("string(bytes) -> string", _bytes_to_text, cost_if_picked=first_tenth),
    function("string(double) -> string", format_double),
    function("string(duration) -> string", format_duration),
    function("string(int) -> string", str),
    function("string(timestamp) -> string", format_timestamp),
    function("string(uint) -> string", str),
    function("timestamp(timestamp) -> timestamp", _unchanged),
    function("timestamp(int) -> timestamp", timestamp_of_seconds),
    function("timestamp(string) -> timestamp", _reading(_TIMESTAMP, parse_timestamp)),
    function("uint(uint) -> uint", _unchanged),
    function("uint(double) -> uint", _double_to_uint),
    function("uint(int) -> uint", check_uint),
    function("uint(string) -> uint", _reading("uint", parse_uint)),
)
OPERATORS: dict[str, Apply] = {"type": _type, "dyn": _unchanged}

CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
"""Functions that are evaluated at compile time for a constant argument."""
