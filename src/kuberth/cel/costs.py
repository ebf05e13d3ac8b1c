"""The costs of calls, in the units of kube-scheduler's limit.

In: the values of the arguments, or the result. Out: the cost. The libraries declare the cost of a function
with its overloads; without a declaration, a call costs one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from kuberth.cel.values import WORK, Map, Value, size_of, type_name

LIMIT = 1_000_000
LIST_COST = 10
MAP_COST = 30

Cost = Callable[..., int]

_OWN_TYPES = frozenset(
    {
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.URL",
        "kubernetes.NamedFormat",
        "net.IP",
        "net.CIDR",
    }
)


def _tenth(size: int) -> int:
    return ceil(size * 0.1)


def first_tenth(*args: Value) -> int:
    return _tenth(size_of(args[0]))


def twice_first_tenth(*args: Value) -> int:
    return _tenth(2 * size_of(args[0]))


def pattern_cost(*args: Value) -> int:
    return ceil((1.0 + size_of(args[0])) * 0.1) * ceil(size_of(args[1]) * 0.25)


def contains_cost(*args: Value) -> int:
    return _tenth(size_of(args[0])) * _tenth(size_of(args[1]))


def shorter_size(*args: Value) -> int:
    return _tenth(min(size_of(args[0]), size_of(args[1])))


def equality_cost(*args: Value) -> int:
    return 1 if type_name(args[0]) in _OWN_TYPES else shorter_size(*args)


def both_sizes(*args: Value) -> int:
    return _tenth(size_of(args[0]) + size_of(args[1]))


def whole_size(*args: Value) -> int:
    """The size of a value with everything in it."""
    total = 0
    todo = [args[0]]
    while todo:
        WORK.take(1)
        value = todo.pop()
        if isinstance(value, str):
            total += int(len(value.encode("utf-8", "surrogatepass")) * 0.1)
        elif isinstance(value, bytes):
            total += int(len(value) * 0.1)
        elif isinstance(value, list):
            todo.extend(value)
        elif isinstance(value, Map):
            for key, inner in value.items():
                todo += (key, inner)
        else:
            total += 1
    return total


def contains_ip_cost(*args: Value) -> int:
    cost = _tenth(2 * size_of(args[0]))
    return cost + (_tenth(size_of(args[1])) if isinstance(args[1], str) else 0)


def contains_cidr_cost(*args: Value) -> int:
    return contains_ip_cost(*args) + _tenth(size_of(args[0])) + 1


def product_of_sizes(factor: int) -> Cost:
    return lambda *args: 1 + size_of(args[0]) * size_of(args[1]) * factor


def _allocate(factor: float, size: int) -> int:
    return int(size * factor) + 1 + LIST_COST


def flatten_cost(*args: Value) -> int:
    depth = args[1] if len(args) == 2 else 1
    return _allocate(float(depth), size_of(args[0])) if type(depth) is int and depth >= 0 else 1


def _self_compare(elements: Value) -> int:
    if not isinstance(elements, list):
        return 1
    texts = bool(elements) and isinstance(elements[0], str | bytes)
    return _allocate(2.1 if texts else 2.0, len(elements) ** 2)


def sorted_keys(argument: int) -> Cost:
    return lambda *args: _self_compare(args[argument])


def allocated_size(result: Value) -> int:
    return _allocate(1.0, size_of(result))
