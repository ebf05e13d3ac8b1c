"""Optional values. `or` and `orValue` are not functions, because they evaluate their second part lazily."""

from __future__ import annotations

from kuberth.cel.declarations import Overload, function, method
from kuberth.cel.values import NONE, Duration, Map, Optional, Timestamp, Value
from kuberth.errors import CelRuntimeError


def _of_non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


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


def _first(elements: list[Value]) -> Optional:
    return Optional(elements[0]) if elements else NONE


def _last(elements: list[Value]) -> Optional:
    return Optional(elements[-1]) if elements else NONE


LIBRARY: tuple[Overload, ...] = (
    function("optional.of(V) -> optional(V)", Optional),
    function("optional.ofNonZeroValue(V) -> optional(V)", _of_non_zero),
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
    method("list(V).last() -> optional(V)", _last),
    method("list(V).first() -> optional(V)", _first),
    function("optional.unwrap(list(optional(V))) -> list(V)", _unwrap),
    method("list(optional(V)).unwrapOpt() -> list(V)", _unwrap),
)
