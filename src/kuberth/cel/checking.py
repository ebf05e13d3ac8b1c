"""Checks the static types of an expression, by unification.

In: a tree. Out: the same tree with a type on every node and, on every call, the matching overloads; or
problems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kuberth.cel import syntax
from kuberth.cel.library import FUNCTIONS
from kuberth.cel.source import Problem
from kuberth.cel.static_types import (
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    TYPE_NAMES,
    UINT,
    VARIABLES,
    Type,
    device_fields,
    list_of,
    map_of,
    optional_of,
    type_of,
    unwrap_optional,
)
from kuberth.cel.values import Uint
from kuberth.errors import CelCompileError

_NULLABLE = frozenset({"opaque", "struct", "any", "duration", "timestamp"})
_GENERIC = frozenset({"opaque", "list", "map"})
_SIMPLE = frozenset(
    {"bool", "bytes", "double", "int", "string", "uint", "duration", "timestamp", "struct", "any"}
)

_MAX_STEPS = 1_000_000


_LITERALS: dict[type, Type] = {
    bool: BOOL,
    int: INT,
    Uint: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


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


class Checker:
    """Checks one tree."""

    def __init__(
        self, problems: list[Problem], *, lists: bool = False, variables: Mapping[str, Type] = VARIABLES
    ) -> None:
        """`lists`: attributes of devices may be lists. `variables`: the declared names."""
        self._variables = variables
        self.problems = problems
        self._device_fields = device_fields(lists=lists)
        self._bindings = Bindings()
        self._scopes: list[dict[str, Type]] = []

    def check(self, node: syntax.Expression) -> Type:
        """The type of the tree; sets the type of every node."""
        return self._bindings.resolve(self._check(node), free_to_dyn=True)

    def final(self, node: syntax.Expression) -> Type:
        """A checked node's type, with the type parameters that were resolved later."""
        assert node.type is not None
        return self._bindings.resolve(node.type, free_to_dyn=True)

    # Names

    def _lookup(self, name: str) -> Type | None:
        name = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        if name == DEVICE.name:
            return type_of(DEVICE)
        return self._variables.get(name) or TYPE_NAMES.get(name)

    def _report(self, node: syntax.Expression, message: str) -> None:
        self.problems.append(Problem(node.offset, message))

    def _undeclared(self, node: syntax.Expression, name: str) -> Type:
        self._report(node, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    def _mismatch(self, node: syntax.Expression, wanted: Type, found: Type) -> None:
        self._report(node, f"expected type '{wanted}' but found '{found}'")

    # Nodes

    def _check(self, node: syntax.Expression) -> Type:
        if node.type is None:  # a node that occurs twice in the tree is checked once
            node.type = self._type(node)
        return node.type

    def _type(self, node: syntax.Expression) -> Type:
        if isinstance(node, syntax.Literal):
            return _LITERALS[type(node.value)]
        if isinstance(node, syntax.Name):
            return self._lookup(node.name) or self._undeclared(node, node.name)
        if isinstance(node, syntax.Select):
            return self._select(node)
        if isinstance(node, syntax.Call):
            return self._call(node)
        if isinstance(node, syntax.ListLiteral):
            return self._list(node)
        if isinstance(node, syntax.MapLiteral):
            return self._map(node)
        if isinstance(node, syntax.Comprehension):
            return self._comprehension(node)
        assert isinstance(node, syntax.MessageLiteral)
        return self._message(node)

    def _select(self, node: syntax.Select) -> Type:
        name = syntax.qualified_name(node)
        if name is not None:
            found = self._lookup(name)
            if found is not None:
                node.is_name = name
                return found
        given = self._field(node, node.operand, node.field, optional=False)
        return BOOL if node.test else self._bindings.resolve(given)

    def _field(
        self, node: syntax.Expression, operand: syntax.Expression, field: str, *, optional: bool
    ) -> Type:
        target, was_optional = unwrap_optional(self._bindings.resolve(self._check(operand)))
        if target.kind == "map":
            given = target.parameters[1]
        elif target.kind == "struct":
            given = self._struct_field(node, target, field)
        elif target.kind == "parameter":
            self._bindings.assignable(DYN, target)
            given = DYN
        else:
            if not target.is_dynamic and target.kind != "error":
                self._report(node, f"type '{target}' does not support field selection")
            given = DYN
        return optional_of(given) if was_optional or optional else given

    def _struct_field(self, node: syntax.Expression, target: Type, field: str) -> Type:
        if target is not DEVICE and target.name != DEVICE.name:
            self._report(node, f"unexpected failed resolution of '{target.name}'")
            return ERROR
        if field not in self._device_fields:
            self._report(node, f"undefined field '{field}'")
            return ERROR
        return self._device_fields[field]

    def _call(self, node: syntax.Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, syntax.Literal)
            given = self._field(node, node.args[0], str(field.value), optional=True)
            field.type = STRING
            return self._bindings.resolve(given)
        for arg in node.args:
            self._check(arg)
        if node.target is not None:
            prefix = syntax.qualified_name(node.target)
            name = f"{prefix}.{node.function}".removeprefix(".")
            if prefix is not None and name in FUNCTIONS:
                node.function, node.target = name, None  # a function in a namespace, not a method
            else:
                self._check(node.target)
        else:
            node.function = node.function.removeprefix(".")
        if node.function not in FUNCTIONS:
            return self._undeclared(node, node.function)
        return self._resolve(node)

    def _resolve(self, node: syntax.Call) -> Type:
        if node.function in ("_&&_", "_||_"):
            return self._logical(node)
        parts = [*([node.target] if node.target is not None else []), *node.args]
        given = [self._check(part) for part in parts]
        picked: list[str] = []
        result: Type | None = None
        for overload in FUNCTIONS[node.function].overloads.values():
            if overload.member != (node.target is not None):
                continue
            instance = self._bindings.instantiate((overload.gives, *overload.takes))
            if not self._bindings.all_assignable(given, instance[1:]):
                continue
            picked.append(overload.id)
            gives = self._bindings.resolve(instance[0])
            if result is None:
                result = gives
            elif not result.is_dynamic and not gives.same(result):
                result = DYN
        if result is None:
            self._no_overload(node, given)
            return ERROR
        node.overloads = tuple(picked)
        return result

    def _logical(self, node: syntax.Call) -> Type:
        fine = True
        for arg in node.args:
            given = self._check(arg)
            if not self._bindings.assignable(given, BOOL):
                self._mismatch(arg, BOOL, given)
                fine = False
        return BOOL if fine else ERROR

    def _no_overload(self, node: syntax.Call, given: Sequence[Type]) -> None:
        shown = [str(self._bindings.resolve(one, free_to_dyn=True)) for one in given]
        target = f"{shown.pop(0)}." if node.target is not None else ""
        signature = f"{target}({', '.join(shown)})"
        self._report(node, f"found no matching overload for '{node.function}' applied to '{signature}'")

    def _list(self, node: syntax.ListLiteral) -> Type:
        element: Type | None = None
        for index, part in enumerate(node.elements):
            given = self._check(part)
            if index in node.optional:
                given = self._inside_optional(part, given)
            element = self._join(element, given)
        return list_of(element or self._bindings.fresh())

    def _map(self, node: syntax.MapLiteral) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._join(key, self._check(entry.key))
            given = self._check(entry.value)
            if entry.optional:
                given = self._inside_optional(entry.value, given)
            value = self._join(value, given)
        if key is None or value is None:
            return map_of(self._bindings.fresh(), self._bindings.fresh())
        return map_of(key, value)

    def _inside_optional(self, node: syntax.Expression, given: Type) -> Type:
        inside, is_optional = unwrap_optional(given)
        if not is_optional and not inside.is_dynamic:
            self._mismatch(node, optional_of(inside), inside)
        return inside

    def _join(self, before: Type | None, given: Type) -> Type:
        """The type of elements; mixed ones are dynamic here and refused later, except as format arguments."""
        if before is None:
            return given
        return most_general(before, given) if self._bindings.assignable(before, given) else DYN

    def _message(self, node: syntax.MessageLiteral) -> Type:
        if node.name.removeprefix(".") == DEVICE.name:
            return self._device(node)
        for field in node.fields:
            self._check(field.value)
        found = self._lookup(node.name)
        if found is None:
            return self._undeclared(node, node.name)
        if found.kind != "type":
            self._report(node, f"'{found.name}' is not a type")
        else:
            self._report(node, f"'{node.name}' is not a message type")
        return ERROR

    def _device(self, node: syntax.MessageLiteral) -> Type:
        """The only message type; creating one fails at run time."""
        for field in node.fields:
            wanted = self._device_fields.get(field.name)
            given = self._check(field.value)
            if wanted is None:
                self.problems.append(Problem(field.offset, f"undefined field '{field.name}'"))
            elif not self._bindings.assignable(wanted, given):
                text = f"expected type of field '{field.name}' is '{wanted}' but provided type is '{given}'"
                self.problems.append(Problem(field.offset, text))
        return DEVICE

    def _comprehension(self, node: syntax.Comprehension) -> Type:
        source = self._bindings.resolve(self._check(node.source))
        accumulator = self._check(node.start)
        self._scopes.append({node.accumulator: accumulator})
        first, second = self._loop_types(node, source)
        loop = {node.variable: first}
        if node.second:
            loop[node.second] = second
        self._scopes.append(loop)
        self._check(node.condition)
        self._assert(node.condition, BOOL)
        self._check(node.step)
        self._assert(node.step, accumulator)
        self._scopes.pop()
        result = self._check(node.result)
        self._scopes.pop()
        return self._bindings.resolve(result)

    def _loop_types(self, node: syntax.Comprehension, source: Type) -> tuple[Type, Type]:
        if source.kind == "list":
            element = source.parameters[0]
            return (INT, element) if node.second else (element, element)
        if source.kind == "map":
            return source.parameters[0], source.parameters[1]
        if (source.is_dynamic and source.kind == "dyn") or source.kind in ("error", "parameter"):
            self._bindings.assignable(DYN, source)
            return DYN, DYN
        self._report(
            node.source,
            f"expression of type '{source}' cannot be range of a comprehension"
            " (must be list, map, or dynamic)",
        )
        return ERROR, ERROR

    def _assert(self, node: syntax.Expression, wanted: Type) -> None:
        given = self._check(node)
        if not self._bindings.assignable(wanted, given):
            self._mismatch(node, wanted, given)
