"""sets.contains, sets.equivalent, sets.intersects: lists taken as sets."""

from __future__ import annotations

from kuberth.cel.comparing import contains
from kuberth.cel.declarations import Overload, function
from kuberth.cel.values import MAX_ELEMENTS, CostExceeded, Value


def _contains(whole: list[Value], part: list[Value]) -> bool:
    _check_work(whole, part)
    return all(contains(whole, one) for one in part)


def _equivalent(one: list[Value], other: list[Value]) -> bool:
    return _contains(one, other) and _contains(other, one)


def _intersects(one: list[Value], other: list[Value]) -> bool:
    _check_work(one, other)
    return any(contains(other, element) for element in one)


def _check_work(one: list[Value], other: list[Value]) -> None:
    if len(one) * len(other) > MAX_ELEMENTS:  # it would cost more than the limit
        raise CostExceeded


LIBRARY: tuple[Overload, ...] = (
    function("sets.contains(list(T), list(T)) -> bool", _contains),
    function("sets.equivalent(list(T), list(T)) -> bool", _equivalent),
    function("sets.intersects(list(T), list(T)) -> bool", _intersects),
)
