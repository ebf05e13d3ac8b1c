"""Operators: arithmetic, order, logic."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import copysign, inf, nan

from kuberth.cel.costs import both_sizes, equality_cost, shorter_size
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
    compare,
    equal,
    is_ordered,
    no_such_overload,
    type_name,
)
from kuberth.errors import CelRuntimeError

_NUMERIC = ("int", "uint", "double")
_COMPARED = ("bool", *_NUMERIC, "string", "bytes", "timestamp", "duration")
_ORDERS: dict[str, Callable[[int], bool]] = {
    "_<_": lambda order: order < 0,
    "_<=_": lambda order: order <= 0,
    "_>_": lambda order: order > 0,
    "_>=_": lambda order: order >= 0,
}
_ADDED = ("bytes", "double", "duration", "int", "list(A)", "string", "uint")
_ADDING_COSTS = {"bytes": both_sizes, "string": both_sizes}
_COMPARING_COSTS = {"bytes": shorter_size, "string": shorter_size}

LIBRARY: tuple[Overload, ...] = (
    function("_?_:_(bool, A, A) -> A"),
    function("_&&_(bool, bool) -> bool"),
    function("_||_(bool, bool) -> bool"),
    function("!_(bool) -> bool"),
    function("@not_strictly_false(bool) -> bool"),
    function("_==_(A, A) -> bool", cost=equality_cost),
    function("_!=_(A, A) -> bool", cost=shorter_size),
    *(function(f"_+_({kind}, {kind}) -> {kind}", cost_if_picked=_ADDING_COSTS.get(kind)) for kind in _ADDED),
    function("_+_(duration, timestamp) -> timestamp"),
    function("_+_(timestamp, duration) -> timestamp"),
    *(function(f"_-_({kind}, {kind}) -> {kind}") for kind in (*_NUMERIC, "duration")),
    function("_-_(timestamp, duration) -> timestamp"),
    function("_-_(timestamp, timestamp) -> duration"),
    *(function(f"{name}({kind}, {kind}) -> {kind}") for name in ("_*_", "_/_") for kind in _NUMERIC),
    *(function(f"_%_({kind}, {kind}) -> {kind}") for kind in ("int", "uint")),
    *(function(f"-_({kind}) -> {kind}") for kind in ("int", "double")),
    *(
        function(f"{name}({one}, {other}) -> bool", cost_if_picked=_COMPARING_COSTS.get(one))
        for name, one, other in product(_ORDERS, _COMPARED, _COMPARED)
        if one == other or (one in _NUMERIC and other in _NUMERIC)
    ),
)


def _equals(one: Value, other: Value) -> bool:
    same = equal(one, other)
    if same is None:
        raise no_such_overload()
    return same


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
    if kind not in _ADDABLE:
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


_ADDABLE = frozenset({int, Uint, float, str, bytes, list, Accumulator, Duration, Timestamp})


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


_TYPES_WITH_METHODS = frozenset({"string", "google.protobuf.Timestamp", "google.protobuf.Duration"})


def _unsupported(name: str, one: Value) -> CelRuntimeError:
    """Upstream's message, which depends on whether the type could have methods of its own."""
    if type_name(one) in _TYPES_WITH_METHODS:
        return no_such_overload()
    return CelRuntimeError(f"no such overload: {name}")


OPERATORS: dict[str, Apply] = {
    "_==_": _equals,
    "_!=_": lambda one, other: equal(one, other) is not True,
    "_+_": add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "-_": _negate,
    "!_": _not,
    **{name: _order(name, holds) for name, holds in _ORDERS.items()},
}
