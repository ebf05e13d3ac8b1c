"""Lists: Kubernetes' own functions, version 3 of the lists extension, and lists taken as sets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key

from kuberth.cel.costs import allocated_size, flatten_cost, product_of_sizes, sorted_keys, whole_size
from kuberth.cel.declarations import Apply, Overload, function, method
from kuberth.cel.library.operators import add
from kuberth.cel.values import (
    MAX_ELEMENTS,
    WORK,
    CostExceeded,
    Duration,
    Uint,
    Value,
    compare,
    contains,
    equal,
    is_ordered,
    no_such_overload,
)
from kuberth.errors import CelRuntimeError

_SUMMED: dict[str, Value] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_COMPARED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _is_sorted(elements: list[Value]) -> bool:
    for index, element in enumerate(elements):
        if not is_ordered(element):
            raise no_such_overload()
        if index and _order(elements[index - 1], element) > 0:
            return False
    return True


def _order(one: Value, other: Value) -> int:
    """Compare two elements; those that cannot be compared are in order."""
    try:
        return compare(one, other)
    except CelRuntimeError:
        return 0


def _sum(zero: Value) -> Callable[[list[Value]], Value]:
    def apply(elements: list[Value]) -> Value:
        total = zero
        for element in elements:
            total = add(total, element)
        return total

    return apply


def _extreme(name: str, wanted: int) -> Callable[[list[Value]], Value]:
    def apply(elements: list[Value]) -> Value:
        if not elements:
            raise CelRuntimeError(f"{name} called on empty list")
        best = elements[0]
        for element in elements:
            if not is_ordered(element):
                raise no_such_overload()
            if _order(best, element) == wanted:
                best = element
        return best

    return apply


def _index_of(elements: list[Value], element: Value) -> int:
    WORK.take(len(elements))
    for index, one in enumerate(elements):
        if equal(one, element) is True:
            return index
    return -1


def _last_index_of(elements: list[Value], element: Value) -> int:
    WORK.take(len(elements))
    for index in range(len(elements) - 1, -1, -1):
        if equal(elements[index], element) is True:
            return index
    return -1


def _slice(elements: list[Value], start: int, end: int) -> list[Value]:
    what = f"cannot slice({start}, {end}), "
    if start < 0 or end < 0:
        raise CelRuntimeError(f"{what}negative indexes not supported")
    if start > end:
        raise CelRuntimeError(f"{what}start index must be less than or equal to end index")
    if len(elements) < end:
        raise CelRuntimeError(f"{what}list is length {len(elements)}")
    return elements[start:end]


def _flatten(elements: Value, depth: Value = 1) -> list[Value]:
    if not isinstance(elements, list) or type(depth) is not int:
        raise no_such_overload("flatten", elements)
    if depth < 0:
        raise CelRuntimeError("level must be non-negative")
    flat = list(elements)
    # Level by level instead of by recursion: values may nest to any depth.
    while depth > 0 and any(isinstance(one, list) for one in flat):
        next_level: list[Value] = []
        for one in flat:
            if isinstance(one, list):
                next_level.extend(one)
            else:
                next_level.append(one)
            if len(next_level) > MAX_ELEMENTS:
                raise CostExceeded
        flat = next_level
        depth -= 1
    return flat


def _sort(elements: Value) -> list[Value]:
    if not isinstance(elements, list):
        raise CelRuntimeError("no such overload: sort")
    return _sort_by(elements, elements)


def _sort_by(elements: Value, keys: Value) -> list[Value]:
    if not isinstance(elements, list):
        raise CelRuntimeError("no such overload: @sortByAssociatedKeys")
    if len(elements) != len(keys):
        raise CelRuntimeError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got"
            f" {len(elements)} and {len(keys)} elements respectively"
        )
    if not elements:
        return elements
    _check_square(elements)
    if not is_ordered(keys[0]):
        raise CelRuntimeError("list elements must be comparable")
    if any(type(key) is not type(keys[0]) for key in keys):
        raise CelRuntimeError("list elements must have the same type")
    order = cmp_to_key(_order)
    positions = sorted(range(len(keys)), key=lambda position: order(keys[position]))
    return [elements[position] for position in positions]


def _range(count: int) -> list[Value]:
    if count > MAX_ELEMENTS:
        raise CostExceeded
    return list(range(count))


def _distinct(elements: list[Value]) -> list[Value]:
    _check_square(elements)
    seen: list[Value] = []
    for element in elements:
        if not any(equal(element, one) is True for one in seen):
            seen.append(element)
    return seen


def _check_square(elements: list[Value]) -> None:
    """Raise CostExceeded before a call whose cost, twice the square of the length, exceeds the limit."""
    if 2 * len(elements) ** 2 > MAX_ELEMENTS:
        raise CostExceeded


def _contains_all(whole: list[Value], part: list[Value]) -> bool:
    _check_work(whole, part)
    return all(contains(whole, one) for one in part)


def _equivalent(one: list[Value], other: list[Value]) -> bool:
    return _contains_all(one, other) and _contains_all(other, one)


def _intersects(one: list[Value], other: list[Value]) -> bool:
    _check_work(one, other)
    return any(contains(other, element) for element in one)


def _check_work(one: list[Value], other: list[Value]) -> None:
    if len(one) * len(other) > MAX_ELEMENTS:  # it would cost more than the limit
        raise CostExceeded


KUBERNETES: tuple[Overload, ...] = (
    *(method(f"list({kind}).isSorted() -> bool", _is_sorted, cost=whole_size) for kind in _COMPARED),
    *(method(f"list({kind}).sum() -> {kind}", _sum(zero), cost=whole_size) for kind, zero in _SUMMED.items()),
    *(method(f"list({kind}).max() -> {kind}", _extreme("max", -1), cost=whole_size) for kind in _COMPARED),
    *(method(f"list({kind}).min() -> {kind}", _extreme("min", 1), cost=whole_size) for kind in _COMPARED),
    method("list(A).indexOf(A) -> int", _index_of, cost=whole_size),
    method("list(A).lastIndexOf(A) -> int", _last_index_of, cost=whole_size),
)
LIBRARY: tuple[Overload, ...] = (
    method("list(T).slice(int, int) -> list(T)", _slice, result_cost=allocated_size),
    method("list(list(T)).flatten() -> list(T)", _flatten, cost_if_picked=flatten_cost),
    method("list(dyn).flatten(int) -> list(dyn)", _flatten, cost_if_picked=flatten_cost),
    *(method(f"list({kind}).sort() -> list({kind})", cost_if_picked=sorted_keys(0)) for kind in _COMPARED),
    *(
        method(f"list(T).@sortByAssociatedKeys(list({kind})) -> list(T)", cost_if_picked=sorted_keys(1))
        for kind in _COMPARED
    ),
    function("lists.range(int) -> list(int)", _range, result_cost=allocated_size),
    method("list(T).reverse() -> list(T)", lambda elements: elements[::-1], result_cost=allocated_size),
    method("list(T).distinct() -> list(T)", _distinct, cost=sorted_keys(0)),
)
SETS: tuple[Overload, ...] = (
    function("sets.contains(list(T), list(T)) -> bool", _contains_all, cost=product_of_sizes(1)),
    function("sets.equivalent(list(T), list(T)) -> bool", _equivalent, cost=product_of_sizes(2)),
    function("sets.intersects(list(T), list(T)) -> bool", _intersects, cost=product_of_sizes(1)),
)
OPERATORS: dict[str, Apply] = {"sort": _sort, "@sortByAssociatedKeys": _sort_by}
