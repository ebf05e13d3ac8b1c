"""The static types of CEL, their notation, and the names that a selector can use.

In: a notation like `list(A), A, int`. Out: types; single letters are type parameters.
"""

from __future__ import annotations

import re

from kuberth.errors import CelCompileError

_MAX_SIZE = 500


class Type:
    """A type: its name and its parameters; `kind` distinguishes sorts of types with the same name."""

    __slots__ = ("kind", "name", "parameters", "size")

    def __init__(self, kind: str, name: str, parameters: tuple[Type, ...] = ()) -> None:
        self.kind = kind
        self.name = name
        self.parameters = parameters
        self.size: int = 1 + sum(part.size for part in parameters)
        if self.size > _MAX_SIZE:  # {x: x} doubles a type
            raise CelCompileError(f"compilation failed: a type has more than {_MAX_SIZE} parts")

    def __str__(self) -> str:
        """The type in most of cel-go's messages."""
        if not self.parameters:
            return _SHORT.get(self.name, self.name)
        return f"{self.name}({', '.join(str(parameter) for parameter in self.parameters)})"

    def full_name(self) -> str:
        """The type of a result in cel-go's messages."""
        if self.kind == "parameter":
            return f"<{self.name}>"
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(parameter.full_name() for parameter in self.parameters)})"

    def same(self, other: Type, *, by_name: bool = True) -> bool:
        """Whether the types are equal; without `by_name` all type parameters are equal."""
        if self is other:
            return True
        if self.kind != other.kind or len(self.parameters) != len(other.parameters):
            return False
        if (by_name or self.kind != "parameter") and self.name != other.name:
            return False
        for mine, others in zip(self.parameters, other.parameters, strict=True):
            if not mine.same(others, by_name=by_name):
                return False
        return True

    @property
    def is_dynamic(self) -> bool:
        return self.kind in ("dyn", "any")


_SHORT = {
    "google.protobuf.Any": "any",
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
}

BOOL = Type("bool", "bool")
INT = Type("int", "int")
UINT = Type("uint", "uint")
DOUBLE = Type("double", "double")
STRING = Type("string", "string")
BYTES = Type("bytes", "bytes")
NULL = Type("null", "null_type")
DYN = Type("dyn", "dyn")
ANY = Type("any", "google.protobuf.Any")
ERROR = Type("error", "!error!")
DURATION = Type("duration", "google.protobuf.Duration")
TIMESTAMP = Type("timestamp", "google.protobuf.Timestamp")
TYPE = Type("type", "type")

_AUTHORIZATION = ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
NAMED = {
    **{each.name: each for each in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, DYN, TYPE)},
    "null": NULL,
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "IP": Type("opaque", "net.IP"),
    "CIDR": Type("opaque", "net.CIDR"),
    "Device": Type("struct", "kubernetes.DRADevice"),
    **{name: Type("struct", f"kubernetes.{name}") for name in ("URL", "Quantity", "Semver", "NamedFormat")},
    **{name: Type("struct", f"kubernetes.authorization.{name}") for name in _AUTHORIZATION},
}
"""The types by the names that declarations use."""
_GENERIC = {"list": "list", "map": "map", "optional": "optional_type", "type": "type"}


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of(instance: Type) -> Type:
    return Type("type", "type", (instance,))


def parameter(name: str) -> Type:
    return Type("parameter", name)


def unwrap_optional(given: Type) -> tuple[Type, bool]:
    """The type in an optional, and whether it is one."""
    if given.kind == "opaque" and given.name == "optional_type":
        return given.parameters[0], True
    return given, False


def read_types(text: str) -> tuple[Type, ...]:
    """Parse `list(A), int`: types separated by commas."""
    words = re.findall(r"\w+|[()]", text)
    types: list[Type] = []
    while words:
        types.append(_read(words))
    return tuple(types)


def _read(words: list[str]) -> Type:
    name = words.pop(0)
    if not words or words[0] != "(":
        return parameter(name) if len(name) == 1 else NAMED[name]
    words.pop(0)
    parts: list[Type] = []
    while words[0] != ")":
        parts.append(_read(words))
    words.pop(0)
    kind = "opaque" if name == "optional" else name
    return Type(kind, _GENERIC[name], tuple(parts))


# The names that a selector can use

DEVICE = NAMED["Device"]
VARIABLES: dict[str, Type] = {"device": DEVICE}
TYPE_NAMES: dict[str, Type] = {
    named.name: type_of(named)
    for named in read_types(
        "bool, bytes, double, duration, int, list(A), map(A, B), null, string, timestamp, type, uint, IP,"
        " CIDR, optional(V)"
    )
}


def device_fields(*, lists: bool) -> dict[str, Type]:
    """The fields of a device. Attributes that may be lists are dynamic, so that loops accept them."""
    return {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, DYN if lists else ANY)),
        "capacity": map_of(STRING, map_of(STRING, NAMED["Quantity"])),
    }
