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
    function("optional.of", "optional_of", "V -> optional(V)", Optional),
    function("optional.ofNonZeroValue", "optional_ofNonZeroValue", "V -> optional(V)", _of_non_zero),
    function("optional.none", "optional_none", "-> optional(V)", lambda: NONE),
    method("value", "optional_value", "optional(V) -> V", _value),
    method("hasValue", "optional_hasValue", "optional(V) -> bool", lambda optional: optional.present),
    method("or", "optional_or_optional", "optional(V), optional(V) -> optional(V)"),
    method("orValue", "optional_orValue_value", "optional(V), V -> V"),
    function("_?._", "select_optional_field", "dyn, string -> optional(V)"),
    function("_[?_]", "list_optindex_optional_int", "list(V), int -> optional(V)"),
    function("_[?_]", "optional_list_optindex_optional_int", "optional(list(V)), int -> optional(V)"),
    function("_[?_]", "map_optindex_optional_value", "map(K, V), K -> optional(V)"),
    function("_[?_]", "optional_map_optindex_optional_value", "optional(map(K, V)), K -> optional(V)"),
    function("_[_]", "optional_list_index_int", "optional(list(V)), int -> optional(V)"),
    function("_[_]", "optional_map_index_value", "optional(map(K, V)), K -> optional(V)"),
    method("last", "list_last", "list(V) -> optional(V)", _last),
    method("first", "list_first", "list(V) -> optional(V)", _first),
    function("optional.unwrap", "optional_unwrap", "list(optional(V)) -> list(V)", _unwrap),
    method("unwrapOpt", "optional_unwrapOpt", "list(optional(V)) -> list(V)", _unwrap),
)
