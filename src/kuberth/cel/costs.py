"""The cost of a call, in the units of kube-scheduler's limit.

In: a function, the overload that the checker picked (none if several match), and the values. Out: the cost.
Some costs depend on the result; the others are charged before the call.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from kuberth.cel.library.formats import NamedFormat
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


def _first_tenth(*args: Value) -> int:
    return _tenth(size_of(args[0]))


def _pattern(*args: Value) -> int:
    return ceil((1.0 + size_of(args[0])) * 0.1) * ceil(size_of(args[1]) * 0.25)


def _contains(*args: Value) -> int:
    return _tenth(size_of(args[0])) * _tenth(size_of(args[1]))


def _shorter(*args: Value) -> int:
    return _tenth(min(size_of(args[0]), size_of(args[1])))


def _equal(*args: Value) -> int:
    return 1 if type_name(args[0]) in _OWN_TYPES else _shorter(*args)


def _both(*args: Value) -> int:
    return _tenth(size_of(args[0]) + size_of(args[1]))


def _walk(*args: Value) -> int:
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


def _contains_ip(*args: Value) -> int:
    cost = _tenth(2 * size_of(args[0]))
    return cost + (_tenth(size_of(args[1])) if isinstance(args[1], str) else 0)


def _contains_cidr(*args: Value) -> int:
    return _contains_ip(*args) + _tenth(size_of(args[0])) + 1


def _validate(*args: Value) -> int:
    if not isinstance(args[0], NamedFormat):
        return 1
    return ceil((1.0 + size_of(args[1])) * 0.1) * ceil(args[0].regex_size * 0.25)


def _sets(factor: int) -> Cost:
    return lambda *args: 1 + size_of(args[0]) * size_of(args[1]) * factor


def _allocate(factor: float, size: int) -> int:
    return int(size * factor) + 1 + LIST_COST


def _flatten(*args: Value) -> int:
    depth = args[1] if len(args) == 2 else 1
    return _allocate(float(depth), size_of(args[0])) if type(depth) is int and depth >= 0 else 1


def _self_compare(elements: Value) -> int:
    if not isinstance(elements, list):
        return 1
    texts = bool(elements) and isinstance(elements[0], str | bytes)
    return _allocate(2.1 if texts else 2.0, len(elements) ** 2)


def _sorted_keys(argument: int) -> Cost:
    return lambda *args: _self_compare(args[argument])


def _allocated_result(result: Value) -> int:
    return _allocate(1.0, size_of(result))


_BY_FUNCTION: dict[str, Cost] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _walk),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _first_tenth),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first_tenth),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), lambda *args: ceil(size_of(args[0]) * 2 * 0.1)),
    **dict.fromkeys(("find", "findAll"), _pattern),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equal,
    "_!=_": _shorter,
}
_IF_PICKED: dict[str, Cost] = {"sort": _sorted_keys(0), "@sortByAssociatedKeys": _sorted_keys(1)}
"""Costs of functions for which the checker picked one overload."""
_BY_OVERLOAD: dict[str, Cost] = {
    "list(T).distinct()": _sorted_keys(0),
    "list(list(T)).flatten()": _flatten,
    "list(dyn).flatten(int)": _flatten,
    "sets.contains(list(T), list(T))": _sets(1),
    "sets.intersects(list(T), list(T))": _sets(1),
    "sets.equivalent(list(T), list(T))": _sets(2),
    "ip(string)": _first_tenth,
    "string.startsWith(string)": _first_tenth,
    "string.endsWith(string)": _first_tenth,
    "bytes(string)": _first_tenth,
    "string(bytes)": _first_tenth,
    "strings.quote(string)": _first_tenth,
    "string.format(list(dyn))": _first_tenth,
    "@in(A, list(A))": lambda *args: size_of(args[1]),
    **{
        f"{order}({kind}, {kind})": _shorter
        for order in ("_<_", "_<=_", "_>_", "_>=_")
        for kind in ("string", "bytes")
    },
    "_+_(string, string)": _both,
    "_+_(bytes, bytes)": _both,
    "string.matches(string)": _pattern,
    "string.contains(string)": _contains,
}
_BY_RESULT: dict[str, Cost] = {
    "join": lambda result: ceil(size_of(result) * 2 * 0.1),
    **dict.fromkeys(("list(T).slice(int, int)", "lists.range(int)", "list(T).reverse()"), _allocated_result),
}


def cost_before(function: str, overloads: tuple[str, ...]) -> Cost | None:
    """The cost that depends on the arguments; None if it is 1 or depends on the result."""
    if function in _IF_PICKED:
        return _IF_PICKED[function] if len(overloads) == 1 else None
    picked = overloads[0] if len(overloads) == 1 else ""
    return _BY_FUNCTION.get(function) or _BY_OVERLOAD.get(picked)


def cost_after(function: str, overloads: tuple[str, ...]) -> Cost | None:
    """The part of a function's cost that depends on its result; None if there is none."""
    return _BY_RESULT.get(function) or _BY_RESULT.get(overloads[0] if len(overloads) == 1 else "")
