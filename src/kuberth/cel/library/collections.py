"""Size, membership and access of lists and maps, the insertion of transformMap, and optional values.

`or` and `orValue` are declared only, because they evaluate their second part lazily.
"""

from __future__ import annotations

from kuberth.cel.declarations import Apply, Overload, function, method
from kuberth.cel.values import (
    NONE,
    Duration,
    Map,
    MapAccumulator,
    Optional,
    Timestamp,
    Value,
    contains,
    equal,
    no_such_overload,
    size_of,
    token,
)
from kuberth.errors import CelRuntimeError


def _size(value: Value) -> int:
    if isinstance(value, str | bytes | list):
        return len(value)
    if isinstance(value, Map):
        return len(value.entries)
    raise CelRuntimeError("no such overload: size")


def _in(element: Value, container: Value) -> bool:
    if isinstance(container, list):
        return contains(container, element)
    if isinstance(container, Map):
        return container.has(element)
    raise no_such_overload()


def _insert(target: Map, key: Value, value: Value) -> Map:
    if target.find(key)[0]:
        raise CelRuntimeError(f"insert failed: key {_key_text(key)} already exists")
    if isinstance(target, MapAccumulator):
        target.entries[token(key)] = value
        return target
    return Map({**target.entries, token(key): value})


def _insert_all(target: Map, more: Map) -> Map:
    for key, value in list(more.items()):
        target = _insert(target, key, value)
    return target


def _key_text(key: Value) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _includes(target: Value, element: Value) -> bool:
    """Whether a list contains the element, or another value equals it."""
    if not isinstance(target, list):
        return equal(target, element) is True
    for index, one in enumerate(target):
        if index >= _MAX_VALUES:
            raise CelRuntimeError(
                f"'includes' function cannot be applied to lists longer than {_MAX_VALUES} values"
            )
        if equal(one, element) is True:
            return True
    return False


def _is_zero(value: Value) -> bool:
    if value is None or isinstance(value, bool | int | float | str | bytes | list):
        return not value
    if isinstance(value, Map):
        return not value.entries
    if isinstance(value, Duration):
        return value.nanoseconds == 0
    # A timestamp is zero at the beginning of year 1.
    return isinstance(value, Timestamp) and value.nanoseconds == -62135596800 * 10**9


def _value(optional: Optional) -> Value:
    if not optional.present:
        raise CelRuntimeError("optional.none() dereference")
    return optional.value


def _unwrap(elements: list[Value]) -> list[Value]:
    for element in elements:
        if not isinstance(element, Optional):
            raise CelRuntimeError("value is not optional")
    return [element.value for element in elements if element.present]


_MAX_VALUES = 48

IN_LIST = "@in(A, list(A))"

LIBRARY: tuple[Overload, ...] = (
    function("_[_](list(A), int) -> A"),
    function("_[_](map(A, B), A) -> B"),
    function(f"{IN_LIST} -> bool", cost_if_picked=lambda *args: size_of(args[1])),
    function("@in(A, map(A, B)) -> bool"),
    function("size(bytes) -> int"),
    method("bytes.size() -> int"),
    function("size(list(A)) -> int"),
    method("list(A).size() -> int"),
    function("size(map(A, B)) -> int"),
    method("map(A, B).size() -> int"),
    function("size(string) -> int"),
    method("string.size() -> int"),
    function("cel.@mapInsert(map(K, V), K, V) -> map(K, V)", _insert),
    function("cel.@mapInsert(map(K, V), map(K, V)) -> map(K, V)", _insert_all),
    method("dyn.includes(dyn) -> bool", _includes),
)
OPTIONALS: tuple[Overload, ...] = (
    function("optional.of(V) -> optional(V)", Optional),
    function(
        "optional.ofNonZeroValue(V) -> optional(V)",
        lambda value: NONE if _is_zero(value) else Optional(value),
    ),
    function("optional.none() -> optional(V)", lambda: NONE),
    method("optional(V).value() -> V", _value),
    method("optional(V).hasValue() -> bool", lambda optional: optional.present),
    method("optional(V).or(optional(V)) -> optional(V)"),
    method("optional(V).orValue(V) -> V"),
    function("_?._(dyn, string) -> optional(V)"),
    function("_[?_](list(V), int) -> optional(V)"),
    function("_[?_](optional(list(V)), int) -> optional(V)"),
    function("_[?_](map(K, V), K) -> optional(V)"),
    function("_[?_](optional(map(K, V)), K) -> optional(V)"),
    function("_[_](optional(list(V)), int) -> optional(V)"),
    function("_[_](optional(map(K, V)), K) -> optional(V)"),
    method("list(V).last() -> optional(V)", lambda elements: Optional(elements[-1]) if elements else NONE),
    method("list(V).first() -> optional(V)", lambda elements: Optional(elements[0]) if elements else NONE),
    function("optional.unwrap(list(optional(V))) -> list(V)", _unwrap),
    method("list(optional(V)).unwrapOpt() -> list(V)", _unwrap),
)
OPERATORS: dict[str, Apply] = {"size": _size, "@in": _in}
