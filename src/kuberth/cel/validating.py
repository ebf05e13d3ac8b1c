"""Validates constants in an expression.

In: a checked tree. Out: problems: invalid patterns, durations and timestamps, formats that do not match their
arguments, lists and maps that mix types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from kuberth.cel import syntax
from kuberth.cel.library.conversions import LIBRARY as CONVERSIONS
from kuberth.cel.library.formatting import WRONG_TYPE, read_format
from kuberth.cel.patterns import PatternError, compile_pattern
from kuberth.cel.source import Problem
from kuberth.cel.static_types import Type, unwrap_optional
from kuberth.cel.values import Value, type_name
from kuberth.errors import CelRuntimeError

TypeOf = Callable[[syntax.Expression], Type]
_ALLOWED = {
    "s": frozenset(
        {
            *("list", "map", "int", "uint", "double", "bool", "string", "bytes", "null_type", "type"),
            *("google.protobuf.Timestamp", "google.protobuf.Duration"),
        }
    ),
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}


def validate(root: syntax.Expression, type_of: TypeOf) -> list[Problem]:
    """Validate a checked tree; returns its problems."""
    problems: list[Problem] = []
    seen: set[int] = set()
    todo: list[tuple[syntax.Expression, bool]] = [(root, False)]
    while todo:
        node, formatted = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, syntax.Call):
            problems += _check_call(node, type_of)
        elif isinstance(node, syntax.ListLiteral) and not formatted:
            problems += _check_list(node, type_of)
        elif isinstance(node, syntax.MapLiteral) and not formatted:
            problems += _check_map(node, type_of)
        formatted = formatted or (isinstance(node, syntax.Call) and node.function == "format")
        todo.extend((part, formatted) for part in parts_of(node))
    return problems


def parts_of(node: syntax.Expression) -> Iterator[syntax.Expression]:
    """The children of a node."""
    if isinstance(node, syntax.Select):
        if not node.is_name:
            yield node.operand
    elif isinstance(node, syntax.Call):
        if node.target is not None:
            yield node.target
        yield from node.args
    elif isinstance(node, syntax.ListLiteral):
        yield from node.elements
    elif isinstance(node, syntax.MapLiteral):
        yield from chain.from_iterable((entry.key, entry.value) for entry in node.entries)
    elif isinstance(node, syntax.MessageLiteral):
        yield from (field.value for field in node.fields)
    elif isinstance(node, syntax.Comprehension):
        yield from (node.source, node.start, node.condition, node.step, node.result)


def _check_call(node: syntax.Call, type_of: TypeOf) -> Iterator[Problem]:
    if node.function in _READABLE and node.args:
        # Upstream checks the first argument, although in matches(text, pattern) that is the text.
        arg = node.args[0]
        if isinstance(arg, syntax.Literal) and not _READABLE[node.function](arg.value):
            yield Problem(arg.offset, f"invalid {node.function} argument")
    if node.function == "format" and isinstance(node.target, syntax.Literal):
        yield from _check_format(node, type_of)


def _is_pattern(value: Value) -> bool:
    if type(value) is not str:
        return True
    try:
        compile_pattern(value)
    except PatternError:
        return False
    return True


def _converts(function: str) -> Callable[[Value], bool]:
    overloads = [overload for overload in CONVERSIONS if overload.function == function]

    def check(value: Value) -> bool:
        for overload in overloads:
            if overload.takes[0].name == type_name(value) and overload.apply is not None:
                try:
                    overload.apply(value)
                except CelRuntimeError:
                    return False
                return True
        return False

    return check


_READABLE: dict[str, Callable[[Value], bool]] = {
    "matches": _is_pattern,
    "duration": _converts("duration"),
    "timestamp": _converts("timestamp"),
}


def _check_format(node: syntax.Call, type_of: TypeOf) -> Iterator[Problem]:
    target = node.target
    assert isinstance(target, syntax.Literal)
    if (
        type(target.value) is not str
        or len(node.args) != 1
        or not isinstance(node.args[0], syntax.ListLiteral)
    ):
        return
    args = node.args[0].elements
    used = 0
    try:
        for clause in read_format(target.value):
            if not clause.kind:
                continue
            if used >= len(args) or clause.kind == "?":
                text = "unexpected end of string" if clause.kind == "?" else f"index {used} out of range"
                yield Problem(node.offset, text)
                return
            wrong = _wrong_argument(args[used], clause.kind, type_of)
            if wrong is not None:
                message = WRONG_TYPE[clause.kind] + type_of(wrong).name
                yield Problem(wrong.offset, f"error during formatting: {message}")
                return
            used += 1
    except CelRuntimeError as exc:
        yield Problem(node.offset, str(exc))
        return
    if len(args) > used:
        message = f"too many arguments supplied to string.format (expected {used}, got {len(args)})"
        yield Problem(node.offset, message)


def _wrong_argument(node: syntax.Expression, clause: str, type_of: TypeOf) -> syntax.Expression | None:
    """The part of an argument that does not match the clause."""
    todo = [node]
    while todo:
        one = todo.pop(0)
        given = type_of(one)
        if given.kind != "dyn" and given.name not in _ALLOWED[clause]:
            return one
        if clause == "s" and isinstance(one, syntax.ListLiteral | syntax.MapLiteral):
            todo = [*parts_of(one), *todo]
    return None


def _check_list(node: syntax.ListLiteral, type_of: TypeOf) -> Iterator[Problem]:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        given = type_of(element)
        if index in node.optional:
            given = unwrap_optional(given)[0]
        if first is None:
            first = given
        elif not first.same(given, by_name=False):
            yield Problem(element.offset, f"expected type '{first}' but found '{given}'")
            return


def _check_map(node: syntax.MapLiteral, type_of: TypeOf) -> Iterator[Problem]:
    first: tuple[Type, Type] | None = None
    for entry in node.entries:
        key, value = type_of(entry.key), type_of(entry.value)
        if entry.optional:
            value = unwrap_optional(value)[0]
        if first is None:
            first = key, value
            continue
        for part, wanted, given in ((entry.key, first[0], key), (entry.value, first[1], value)):
            if not wanted.same(given, by_name=False):
                yield Problem(part.offset, f"expected type '{wanted}' but found '{given}'")
