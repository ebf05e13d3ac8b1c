"""The values of CEL as Python values, their equality and their order.

bool, float, str, bytes, None and list represent themselves, int CEL's 64-bit int; the others have classes
here. Operations keep an int within 64 bits. Lists and maps do not change once an expression has them, except
the accumulator of a loop. Numbers compare across their types. Other values of different types are unequal,
except that comparing Kubernetes' own types with another type is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import isnan
from typing import Any, ClassVar, TypeAlias

from kuberth.api.quantity import Quantity
from kuberth.errors import CelRuntimeError

Value: TypeAlias = Any

INT_MIN = -(2**63)
INT_MAX = 2**63 - 1
UINT_MAX = 2**64 - 1

MAX_ELEMENTS = 1_000_000
MAX_CHARACTERS = 10_000_000
"""The maximum sizes of a value that a single call builds; the cost limit bounds values built step by step."""

COST_EXCEEDED = "operation cancelled: actual cost limit exceeded"


class CostExceeded(Exception):  # noqa: N818  # ends an evaluation; no operator absorbs it
    """The evaluation does more work than allowed."""


class Work(threading.local):
    """The work that one evaluation in this thread may still do: parts of values and regular expressions.

    A value can hold another one twice, that one a third one twice, and so on: small to build, and without end
    to compare or to print. The cost of such a traversal is known only after it.
    """

    MOST = 1_000_000

    def __init__(self) -> None:
        self.left = self.MOST
        self.spent = 0
        """Work and cost of all evaluations so far."""

    def begin(self) -> None:
        self.left = self.MOST

    def end(self, cost: int) -> None:
        """The evaluation is over and had this cost besides its work."""
        self.spent += cost + self.MOST - self.left

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise CostExceeded


WORK = Work()


def no_such_overload(function: str = "", *args: Value) -> CelRuntimeError:
    if not function:
        return CelRuntimeError("no such overload")
    return CelRuntimeError(f"no such overload: {function}({', '.join(type_name(arg) for arg in args)})")


class LibraryValue:
    """A value of one of Kubernetes' own types; comparing it with a value of another type is an error."""

    __slots__ = ()
    cel_name: ClassVar[str]

    def same(self, other: Any) -> bool:
        """Whether another value of this type is equal."""
        raise NotImplementedError


class Uint(int):
    """CEL's unsigned 64-bit integer."""

    __slots__ = ()


class Accumulator(list[Value]):
    """The list that a loop builds; adding changes it instead of copying it."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class TypeValue:
    """A type as a value: the result of type(x), and the value of `int`."""

    name: str


@dataclass(slots=True, eq=False)
class Optional:
    """A value that may be absent."""

    value: Value = None
    present: bool = True


NONE = Optional(present=False)


@dataclass(slots=True, eq=False)
class Timestamp:
    """Nanoseconds since 1970, and the offset from UTC of its text, which string() keeps."""

    nanoseconds: int
    offset: int


@dataclass(slots=True, eq=False)
class Duration:
    """A signed number of nanoseconds."""

    nanoseconds: int


@dataclass(slots=True, eq=False)
class QuantityValue:
    """A Kubernetes quantity, with two of upstream's peculiarities that expressions can observe.

    `computed` marks the result of add and sub, which equals nothing on the right of ==. `held` is upstream's
    pointer: of a number in its long form, the result of add shares it with the first operand, so that both
    change.
    """

    held: list[Quantity]
    computed: bool = False

    @property
    def quantity(self) -> Quantity:
        return self.held[0]


class Map:
    """A map; keys of different types differ, but 1, 1u and 1.0 find each other."""

    __slots__ = ("entries",)

    def __init__(self, entries: dict[Hashable, Value] | None = None) -> None:
        """`entries` by token: a string is its own token, other keys have `token`."""
        self.entries = {} if entries is None else entries

    def keys(self) -> Iterator[Value]:
        return map(_key_of, self.entries)

    def items(self) -> Iterator[tuple[Value, Value]]:
        for mine, value in self.entries.items():
            yield _key_of(mine), value

    def has(self, key: Value) -> bool:
        return self._find(key) is not None

    def find(self, key: Value) -> tuple[bool, Value]:
        """Whether the map has the key, and its value."""
        token = self._find(key)
        return (False, None) if token is None else (True, self.entries[token])

    def _find(self, key: Value) -> Hashable | None:
        entries = self.entries
        if type(key) is str:
            return key if key in entries else None
        if not entries:
            return None
        mine = token(key)
        if mine in entries:
            return mine
        for other in other_numbers(key):
            mine = token(other)
            if mine in entries:
                return mine
        return None


class Domains(Map):
    """A device's attributes or capacities by domain; a missing domain is an empty map."""

    __slots__ = ()

    def find(self, key: Value) -> tuple[bool, Value]:
        found, value = super().find(key)
        return (True, value) if found else (True, Map())


class MapAccumulator(Map):
    """The map that a loop builds; inserting changes it."""

    __slots__ = ()


class _Token:
    """The token of a key that is not a string."""

    __slots__ = ("_same", "key")

    def __init__(self, key: Value, same: Hashable) -> None:
        self.key = key
        self._same = same

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Token) and self._same == other._same

    def __hash__(self) -> int:
        return hash(self._same)


def _key_of(mine: Hashable) -> Value:
    return mine.key if isinstance(mine, _Token) else mine


def token(key: Value) -> Hashable:
    """The hashable form of a map's key, which keeps apart keys of different types."""
    kind = type(key)
    if kind is str:
        return str(key)
    if kind in (int, Uint, float, bool, type(None)):
        return _Token(key, (kind.__name__, key))
    if kind is Duration:
        return _Token(key, ("duration", key.nanoseconds))
    if kind is bytes or kind.__name__ in _UNHASHABLE:
        raise CelRuntimeError(f"internal error: runtime error: hash of unhashable type {type_name(key)}")
    return _Token(key, id(key))


_UNHASHABLE = frozenset({"SemverValue", "NamedFormat"})


def other_numbers(key: Value) -> Iterator[Value]:
    """The number in CEL's other numeric types that may be keys."""
    kind = type(key)
    if kind is float:
        if key.is_integer():
            whole = int(key)
            if INT_MIN < whole <= INT_MAX:
                yield whole
            if 0 <= whole <= UINT_MAX:
                yield Uint(whole)
    elif kind is int and key >= 0:
        yield Uint(key)
    elif kind is Uint and key <= INT_MAX:
        yield int(key)


_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    Accumulator: "list",
    Map: "map",
    Domains: "map",
    MapAccumulator: "map",
    type(None): "null_type",
    TypeValue: "type",
    Optional: "optional_type",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    QuantityValue: "kubernetes.Quantity",
}


def type_name(value: Value) -> str:
    return _TYPE_NAMES.get(type(value)) or str(value.cel_name)


def size_of(value: Value) -> int:
    """The size for costs: characters, elements or octets; 1 for other values."""
    if isinstance(value, str | bytes | list):
        return len(value)
    if isinstance(value, Map):
        return len(value.entries)
    if isinstance(value, Optional):
        return size_of(value.value) if value.present else 1
    size = getattr(value, "octets", None)
    return 1 if size is None else int(size)


def check_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelRuntimeError("integer overflow")


def check_uint(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelRuntimeError("unsigned integer overflow")


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
