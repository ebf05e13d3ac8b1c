"""Size, membership and access of lists and maps, and the insertion of transformMap."""

from __future__ import annotations

from kuberth.cel.comparing import contains, equal
from kuberth.cel.declarations import Apply, Overload, function, method
from kuberth.cel.values import Map, MapAccumulator, Value, no_such_overload, token
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
        raise CelRuntimeError(f"insert failed: key {_shown(key)} already exists")
    if isinstance(target, MapAccumulator):
        target.entries[token(key)] = value
        return target
    return Map({**target.entries, token(key): value})


def _insert_all(target: Map, more: Map) -> Map:
    for key, value in list(more.items()):
        target = _insert(target, key, value)
    return target


def _shown(key: Value) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _includes(target: Value, element: Value) -> bool:
    """Whether a list contains the element, or another value equals it."""
    if not isinstance(target, list):
        return equal(target, element) is True
    for index, one in enumerate(target):
        if index >= _MOST_VALUES:
            raise CelRuntimeError(
                f"'includes' function cannot be applied to lists longer than {_MOST_VALUES} values"
            )
        if equal(one, element) is True:
            return True
    return False


_MOST_VALUES = 48

IN_LIST = "@in(A, list(A))"

LIBRARY: tuple[Overload, ...] = (
    function("_[_](list(A), int) -> A"),
    function("_[_](map(A, B), A) -> B"),
    function(f"{IN_LIST} -> bool"),
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
OPERATORS: dict[str, Apply] = {"size": _size, "@in": _in}
