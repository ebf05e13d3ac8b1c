"""Assignability of static types, with type parameters.

In: two types. Out: whether one is assignable to the other, and the bindings of type parameters. A parameter
is bound to the first type and widened by later, more general ones; a failed attempt changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberth.cel.static_types import DYN, Type
from kuberth.errors import CelCompileError

_NULLABLE = frozenset({"opaque", "struct", "any", "duration", "timestamp"})
_GENERIC = frozenset({"opaque", "list", "map"})
_SIMPLE = frozenset(
    {"bool", "bytes", "double", "int", "string", "uint", "duration", "timestamp", "struct", "any"}
)

_MAX_STEPS = 1_000_000


class Bindings:
    """The bindings of type parameters so far.

    Types are traversed with loops and lists instead of generators: they can nest deeply, and each generator
    would take a part of the C stack.
    """

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._undo: list[tuple[str, Type | None]] = []
        self._fresh = 0
        self._steps = 0

    def fresh(self) -> Type:
        """A new type parameter."""
        self._fresh += 1
        return Type("parameter", f"_var{self._fresh - 1}")

    def instantiate(self, signature: Sequence[Type]) -> list[Type]:
        """The signature with new type parameters."""
        names: dict[str, Type] = {}
        return [self._rename(given, names) for given in signature]

    def _rename(self, given: Type, names: dict[str, Type]) -> Type:
        if given.kind == "parameter":
            if given.name not in names:
                names[given.name] = self.fresh()
            return names[given.name]
        if not given.parameters:
            return given
        return Type(given.kind, given.name, tuple([self._rename(part, names) for part in given.parameters]))

    def resolve(self, given: Type, *, free_to_dyn: bool = False) -> Type:
        """The type with its parameters replaced by their bindings."""
        while given.kind == "parameter":
            found = self._bound.get(given.name)
            if found is None:
                return DYN if free_to_dyn else given
            given = found
        if not given.parameters:
            return given
        parts = tuple([self.resolve(part, free_to_dyn=free_to_dyn) for part in given.parameters])
        return Type(given.kind, given.name, parts)

    def assignable(self, wanted: Type, given: Type) -> bool:
        return self.all_assignable((wanted,), (given,))

    def all_assignable(self, wanted: Sequence[Type], given: Sequence[Type]) -> bool:
        if len(wanted) != len(given):
            return False
        self._undo.clear()
        if all(self._fits(one, other) for one, other in zip(wanted, given, strict=True)):
            return True
        for name, before in reversed(self._undo):
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def _bind(self, variable: Type, to: Type) -> None:
        self._undo.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = to

    def _fits(self, one: Type, other: Type) -> bool:
        self._steps += 1
        if self._steps > _MAX_STEPS:  # parameters bound to pairs of parameters can nest without end
            raise CelCompileError("compilation failed: the types are too complicated")
        if other.kind == "parameter":
            fits, was_bound = self._substitutes(one, other)
            if fits or was_bound:
                return fits
        if one.kind == "parameter":
            return self._substitutes(other, one)[0]
        if one.is_dynamic or other.is_dynamic or "error" in (one.kind, other.kind):
            return True
        if one.kind == "null" or other.kind == "null":
            return one.kind == other.kind or (other if one.kind == "null" else one).kind in _NULLABLE
        if one.kind == "type":
            return other.kind == "type"
        if one.kind in _GENERIC:
            if one.kind != other.kind or one.name != other.name:
                return False
            if len(one.parameters) != len(other.parameters):
                return False
            for mine, theirs in zip(one.parameters, other.parameters, strict=True):
                if not self._fits(mine, theirs):
                    return False
            return True
        return one.kind in _SIMPLE and one.kind == other.kind and one.name == other.name

    def _substitutes(self, one: Type, variable: Type) -> tuple[bool, bool]:
        """Whether the variable can be bound to `one`, and whether it was bound before."""
        if one.same(variable):
            return True, True
        bound = self._bound.get(variable.name)
        if bound is not None:
            if one.same(bound):
                return True, True
            if not self._fits(one, bound):
                return False, True
            wider = most_general(one, bound)
            if not self._occurs(variable, wider, set()):
                self._bind(variable, wider)
            return True, True
        if self._occurs(variable, one, set()):
            return False, False
        self._bind(variable, one)
        return True, False

    def _occurs(self, variable: Type, within: Type, seen: set[str]) -> bool:
        while within.kind == "parameter":
            if within.name == variable.name:
                return True
            if within.name in seen:
                return False
            seen.add(within.name)
            bound = self._bound.get(within.name)
            if bound is None:
                return False
            within = bound
        for part in within.parameters:  # noqa: SIM110  # see above
            if self._occurs(variable, part, seen):
                return True
        return False


def most_general(one: Type, other: Type) -> Type:
    return one if _as_general(one, other) else other


def _as_general(one: Type, other: Type) -> bool:
    if one.is_dynamic or one.kind == "parameter":
        return True
    if other.is_dynamic or other.kind == "parameter" or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in _GENERIC:
        if one.name != other.name or len(one.parameters) != len(other.parameters):
            return False
        pairs = zip(one.parameters, other.parameters, strict=True)
        return all(_as_general(mine, theirs) for mine, theirs in pairs)
    return one.same(other)
