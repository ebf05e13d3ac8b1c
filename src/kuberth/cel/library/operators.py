"""Operators: arithmetic, order, logic."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import copysign, inf, nan

from kuberth.cel.comparing import compare, is_ordered
from kuberth.cel.declarations import Apply, Overload, function
from kuberth.cel.library.times import check_duration, check_timestamp
from kuberth.cel.values import (
    MAX_CHARACTERS,
    MAX_ELEMENTS,
    Accumulator,
    CostExceeded,
    Duration,
    Timestamp,
    Uint,
    Value,
    check_int,
    check_uint,
    no_such_overload,
    type_name,
)
from kuberth.errors import CelRuntimeError

_NUMERIC = {"int": "int64", "uint": "uint64", "double": "double"}
_COMPARED = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
_ORDERS: dict[str, tuple[str, Callable[[int], bool]]] = {
    "_<_": ("less", lambda order: order < 0),
    "_<=_": ("less_equals", lambda order: order <= 0),
    "_>_": ("greater", lambda order: order > 0),
    "_>=_": ("greater_equals", lambda order: order >= 0),
}


def _order_overloads() -> list[Overload]:
    overloads: list[Overload] = []
    for name, (word, _) in _ORDERS.items():
        for one, other in product(_COMPARED, _COMPARED):
            if one == other:
                overloads.append(function(name, f"{word}_{_NUMERIC.get(one, one)}", f"{one}, {one} -> bool"))
            elif one in _NUMERIC and other in _NUMERIC:
                identity = f"{word}_{_NUMERIC[one]}_{_NUMERIC[other]}"
                overloads.append(function(name, identity, f"{one}, {other} -> bool"))
    return overloads


LIBRARY: tuple[Overload, ...] = (
    function("_?_:_", "conditional", "bool, A, A -> A"),
    function("_&&_", "logical_and", "bool, bool -> bool"),
    function("_||_", "logical_or", "bool, bool -> bool"),
    function("!_", "logical_not", "bool -> bool"),
    function("@not_strictly_false", "not_strictly_false", "bool -> bool"),
    function("_==_", "equals", "A, A -> bool"),
    function("_!=_", "not_equals", "A, A -> bool"),
    function("_+_", "add_bytes", "bytes, bytes -> bytes"),
    function("_+_", "add_double", "double, double -> double"),
    function("_+_", "add_duration_duration", "duration, duration -> duration"),
    function("_+_", "add_duration_timestamp", "duration, timestamp -> timestamp"),
    function("_+_", "add_timestamp_duration", "timestamp, duration -> timestamp"),
    function("_+_", "add_int64", "int, int -> int"),
    function("_+_", "add_list", "list(A), list(A) -> list(A)"),
    function("_+_", "add_string", "string, string -> string"),
    function("_+_", "add_uint64", "uint, uint -> uint"),
    function("_-_", "subtract_double", "double, double -> double"),
    function("_-_", "subtract_duration_duration", "duration, duration -> duration"),
    function("_-_", "subtract_int64", "int, int -> int"),
    function("_-_", "subtract_timestamp_duration", "timestamp, duration -> timestamp"),
    function("_-_", "subtract_timestamp_timestamp", "timestamp, timestamp -> duration"),
    function("_-_", "subtract_uint64", "uint, uint -> uint"),
    *(
        function(name, f"{word}_{_NUMERIC[kind]}", f"{kind}, {kind} -> {kind}")
        for name, word in (("_*_", "multiply"), ("_/_", "divide"))
        for kind in ("double", "int", "uint")
    ),
    function("_%_", "modulo_int64", "int, int -> int"),
    function("_%_", "modulo_uint64", "uint, uint -> uint"),
    function("-_", "negate_double", "double -> double"),
    function("-_", "negate_int64", "int -> int"),
    *_order_overloads(),
)


def add(one: Value, other: Value) -> Value:
    kind = type(one)
    if kind is int and type(other) is int:
        return check_int(one + other)
    if kind is Accumulator and isinstance(other, list):
        if len(one) + len(other) > MAX_ELEMENTS:
            raise CostExceeded
        one.extend(other)
        return one
    if kind is list and isinstance(other, list):
        if not one or not other:
            return other or one
        if len(one) + len(other) > MAX_ELEMENTS:
            raise CostExceeded
        return [*one, *other]
    if kind is Duration and type(other) is Timestamp:
        return check_timestamp(other.nanoseconds + one.nanoseconds, other.offset)
    if kind is Timestamp and type(other) is Duration:
        return check_timestamp(one.nanoseconds + other.nanoseconds, one.offset)
    if kind not in _ADDED:
        raise _unsupported("_+_", one)
    if kind is not type(other) or kind is Timestamp:
        raise no_such_overload()
    if kind is Uint:
        return check_uint(one + other)
    if kind is Duration:
        return check_duration(one.nanoseconds + other.nanoseconds)
    if kind is not float and len(one) + len(other) > MAX_CHARACTERS:
        raise CostExceeded
    return one + other


_ADDED = frozenset({int, Uint, float, str, bytes, list, Accumulator, Duration, Timestamp})


def _subtract(one: Value, other: Value) -> Value:
    kind, others = type(one), type(other)
    if kind is Timestamp and others is Duration:
        return check_timestamp(one.nanoseconds - other.nanoseconds, one.offset)
    if kind is Timestamp and others is Timestamp:
        return check_duration(one.nanoseconds - other.nanoseconds)
    if kind not in (int, Uint, float, Duration, Timestamp):
        raise _unsupported("_-_", one)
    if kind is not others:
        raise no_such_overload()
    if kind is int:
        return check_int(one - other)
    if kind is Uint:
        return check_uint(int(one) - int(other))
    if kind is Duration:
        return check_duration(one.nanoseconds - other.nanoseconds)
    return one - other


def _multiply(one: Value, other: Value) -> Value:
    kind = _same_number("_*_", one, other)
    if kind is float:
        return one * other
    return check_int(one * other) if kind is int else check_uint(int(one) * int(other))


def _divide(one: Value, other: Value) -> Value:
    kind = _same_number("_/_", one, other)
    if kind is float:
        return _divide_doubles(one, other)
    if other == 0:
        raise CelRuntimeError("division by zero")
    quotient = abs(one) // abs(other)
    if kind is Uint:
        return Uint(quotient)
    return check_int(quotient if (one < 0) == (other < 0) else -quotient)


def _divide_doubles(one: float, other: float) -> float:
    if other != 0:
        return one / other
    if one == 0 or one != one:
        return nan
    return copysign(inf, one) * copysign(1.0, other)


def _modulo(one: Value, other: Value) -> Value:
    if type(one) is float:
        raise _unsupported("_%_", one)
    kind = _same_number("_%_", one, other)
    if other == 0:
        raise CelRuntimeError("modulus by zero")
    rest = abs(one) % abs(other)
    if kind is Uint:
        return Uint(rest)
    if one == -(2**63) and other == -1:
        raise CelRuntimeError("integer overflow")
    return -rest if one < 0 else rest


def _same_number(name: str, one: Value, other: Value) -> type:
    kind = type(one)
    if kind not in (int, Uint, float):
        raise _unsupported(name, one)
    if kind is not type(other):
        raise no_such_overload()
    return kind


def _negate(one: Value) -> Value:
    if type(one) is int:
        return check_int(-one)
    if type(one) is float:
        return -one
    if type(one) is Duration:
        return check_duration(-one.nanoseconds)
    raise _unsupported("-_", one)


def _not(one: Value) -> bool:
    if type(one) is not bool:
        raise no_such_overload()
    return not one


def _order(name: str, holds: Callable[[int], bool]) -> Apply:
    def apply(one: Value, other: Value) -> bool:
        if not is_ordered(one):
            raise _unsupported(name, one)
        return holds(compare(one, other))

    return apply


_SELF_TELLING = frozenset({"string", "google.protobuf.Timestamp", "google.protobuf.Duration"})


def _unsupported(name: str, one: Value) -> CelRuntimeError:
    """Upstream's message, which depends on whether the type could have methods of its own."""
    if type_name(one) in _SELF_TELLING:
        return no_such_overload()
    return CelRuntimeError(f"no such overload: {name}")


OPERATORS: dict[str, Apply] = {
    "_+_": add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "-_": _negate,
    "!_": _not,
    **{name: _order(name, holds) for name, (_, holds) in _ORDERS.items()},
}
