"""Kubernetes quantities: quantity("1.5Gi") and its methods."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

from kuberth.api import quantity as quantities
from kuberth.api.quantity import Quantity, QuantityFormat
from kuberth.cel.costs import first_tenth
from kuberth.cel.declarations import Overload, function, method
from kuberth.cel.values import INT_MAX, INT_MIN, QuantityValue
from kuberth.errors import CelRuntimeError, QuantityError

_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_SUFFIX = "unable to parse quantity's suffix"
_NUMBER_FIRST = re.compile(r"[+-]?[0-9.]+[eEinumkKMGTP]*[-+]?[0-9]*$", re.ASCII)
_LARGEST_EXPONENT = 18


def read_quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue([quantities.parse(text)])
    except QuantityError as exc:
        unknown = _NUMBER_FIRST.match(text) and "suffix" in str(exc)
        raise CelRuntimeError(_WRONG_SUFFIX if unknown else _WRONG_FORMAT) from exc


def _is_quantity(text: str) -> bool:
    try:
        quantities.parse(text)
    except QuantityError:
        return False
    return True


def _as_integer(value: QuantityValue) -> int | None:
    """The value as an integer; None if upstream does not store it as one (1000m) or it exceeds an int."""
    quantity = value.quantity
    if quantity.big or not 0 <= quantity.exponent <= _LARGEST_EXPONENT:
        return 0 if quantity.mantissa == 0 and not quantity.big and quantity.exponent >= 0 else None
    number = quantity.mantissa * int(10**quantity.exponent)
    return number if INT_MIN <= number <= INT_MAX else None


def _integer(value: QuantityValue) -> int:
    number = _as_integer(value)
    if number is None:
        raise CelRuntimeError("cannot convert value to integer")
    return number


def _float(value: QuantityValue) -> float:
    quantity = value.quantity
    try:
        base = float(quantity.mantissa)
    except OverflowError:
        base = inf if quantity.mantissa > 0 else -inf
    if quantity.exponent == 0:
        return base
    return base * float(f"1e{quantity.exponent}")


def _compare(one: QuantityValue, other: QuantityValue) -> int:
    if other.quantity.big and not one.quantity.big:
        # Upstream compares with a long number by converting the left one for good, which is no integer then.
        one.held[0] = replace(one.quantity, big=True)
    if one.quantity == other.quantity:
        return 0
    return -1 if one.quantity < other.quantity else 1


def _add(one: QuantityValue, other: Quantity) -> QuantityValue:
    try:
        total = one.quantity + other
    except QuantityError as exc:
        raise CelRuntimeError(str(exc)) from exc
    if not one.quantity.big:
        return QuantityValue([total], computed=True)
    one.held[0] = total
    return QuantityValue(one.held, computed=True)


def _whole(number: int) -> Quantity:
    return Quantity(number, 0, QuantityFormat.DECIMAL_EXPONENT)


LIBRARY: tuple[Overload, ...] = (
    function("quantity(string) -> Quantity", read_quantity, cost=first_tenth),
    function("isQuantity(string) -> bool", _is_quantity, cost=first_tenth),
    function("sign(Quantity) -> int", lambda one: (one.quantity.mantissa > 0) - (one.quantity.mantissa < 0)),
    method(
        "Quantity.isGreaterThan(Quantity) -> bool",
        lambda one, other: _compare(one, other) > 0,
    ),
    method(
        "Quantity.isLessThan(Quantity) -> bool",
        lambda one, other: _compare(one, other) < 0,
    ),
    method("Quantity.compareTo(Quantity) -> int", _compare),
    method("Quantity.asApproximateFloat() -> double", _float),
    method("Quantity.asInteger() -> int", _integer),
    method("Quantity.isInteger() -> bool", lambda value: _as_integer(value) is not None),
    method("Quantity.add(Quantity) -> Quantity", lambda one, other: _add(one, other.quantity)),
    method("Quantity.add(int) -> Quantity", lambda one, other: _add(one, _whole(other))),
    method("Quantity.sub(Quantity) -> Quantity", lambda one, other: _add(one, -other.quantity)),
    method("Quantity.sub(int) -> Quantity", lambda one, other: _add(one, _whole(-other))),
)
