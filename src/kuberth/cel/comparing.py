"""Equality and order of values.

In: two values. Out: whether they are equal, or their order. Numbers compare across their types. Other values
of different types are unequal, except that comparing Kubernetes' own types with another type is an error.
"""

from __future__ import annotations

from math import isnan

from kuberth.cel.values import (
    WORK,
    Duration,
    Map,
    Optional,
    QuantityValue,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    no_such_overload,
)
from kuberth.errors import CelRuntimeError

_NUMBERS = (int, Uint, float)
_EQUAL_BY_VALUE = (str, bytes, bool)


def equal(one: Value, other: Value) -> bool | None:
    """Whether two values are equal; None if they cannot be compared."""
    kind = type(one)
    if kind in _EQUAL_BY_VALUE:
        return type(other) is kind and bool(one == other)
    if one is None or other is None:
        return one is other
    if kind in _NUMBERS:
        # Python compares an int with a float exactly; CEL goes through a double.
        return type(other) in _NUMBERS and _compare_numbers(one, other) == 0
    if isinstance(one, list):
        return isinstance(other, list) and _equal_lists(one, other)
    if isinstance(one, Map):
        return isinstance(other, Map) and _equal_maps(one, other)
    if kind is Optional:
        return _equal_optionals(one, other)
    if kind is QuantityValue:
        if type(other) is not QuantityValue or other.computed:
            return None
        return bool(one.quantity == other.quantity)
    if kind in (Timestamp, Duration):
        return type(other) is kind and bool(one.nanoseconds == other.nanoseconds)
    if kind is TypeValue:
        return type(other) is TypeValue and bool(one.name == other.name)
    return bool(one.same(other)) if type(other) is kind else None


def _equal_lists(one: list[Value], other: list[Value]) -> bool:
    if len(one) != len(other):
        return False
    WORK.take(len(one))
    # No generator: values nest deeply, and each generator would take a part of the C stack.
    for mine, theirs in zip(one, other, strict=True):  # noqa: SIM110  # see above
        if equal(mine, theirs) is False:  # a pair that cannot be compared does not make lists unequal
            return False
    return True


def _equal_maps(one: Map, other: Map) -> bool:
    if len(one.entries) != len(other.entries):
        return False
    WORK.take(len(one.entries))
    for key, mine in one.items():
        found, theirs = other.find(key)
        if not found or equal(mine, theirs) is False:
            return False
    return True


def _equal_optionals(one: Optional, other: Value) -> bool | None:
    if type(other) is not Optional or one.present != other.present:
        return False
    return equal(one.value, other.value) if one.present else True


def contains(container: list[Value], element: Value) -> bool:
    WORK.take(len(container))
    return any(equal(element, one) is True for one in container)


def compare(one: Value, other: Value) -> int:
    """-1, 0 or 1; raises CelRuntimeError for values without an order."""
    kind, others = type(one), type(other)
    if kind in _NUMBERS:
        if others not in _NUMBERS:
            raise no_such_overload()
        if (kind is float and isnan(one)) or (others is float and isnan(other)):
            raise CelRuntimeError("NaN values cannot be ordered")
        return _compare_numbers(one, other)
    if kind is not others or kind not in _ORDERED:
        raise no_such_overload()
    if kind in (Timestamp, Duration):
        one, other = one.nanoseconds, other.nanoseconds
    return int(one > other) - int(one < other)


_ORDERED = frozenset({str, bytes, bool, Timestamp, Duration})


def is_ordered(value: Value) -> bool:
    return type(value) in _NUMBERS or type(value) in _ORDERED


def _compare_numbers(one: int | float, other: int | float) -> int:
    if isinstance(one, float):
        if isnan(one):
            return 1
        if not isinstance(other, float):
            return _compare_double(one, other)
    if isinstance(other, float):
        if isnan(other):
            return 1
        if not isinstance(one, float):
            return -_compare_double(other, one)
    return (one > other) - (one < other)


def _compare_double(one: float, other: int) -> int:
    """A double against an integer: beyond the integer's range first, then as doubles."""
    low, high = (0.0, 2.0**64) if type(other) is Uint else (-(2.0**63), 2.0**63)
    if one < low:
        return -1
    if one > high:
        return 1
    as_double = float(other)
    return (one > as_double) - (one < as_double)
