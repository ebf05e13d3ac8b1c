"""The tree of an expression.

Nodes have their offset in the text, for problems, and once checked their static type. A node may occur twice
in the tree (macros repeat their target), always in the same scope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kuberth.cel.static_types import Type
from kuberth.cel.values import Value


@dataclass(slots=True, eq=False)
class Expression:
    offset: int
    depth: int = field(default=0, init=False)
    """The depth of nested operators and accesses in the text, for the parser's limit."""
    type: Type | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Literal(Expression):
    value: Value


@dataclass(slots=True, eq=False)
class Name(Expression):
    name: str


@dataclass(slots=True, eq=False)
class Select(Expression):
    """`operand.field`, or with `test` a presence test."""

    operand: Expression
    is_name: str = field(default="", init=False)
    """Set by the checker where a.b is one declared name."""
    field: str
    test: bool = False


@dataclass(slots=True, eq=False)
class Call(Expression):
    """A call of a function, an operator or, with `target`, a method."""

    function: str
    args: Sequence[Expression]
    target: Expression | None = None
    overloads: tuple[str, ...] = field(default=(), init=False)
    """Set by the checker: the ids that fit the static types."""


@dataclass(slots=True, eq=False)
class ListLiteral(Expression):
    elements: Sequence[Expression]
    optional: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Entry:
    """`key: value` of a map; with a leading question mark only if the value is present."""

    key: Expression
    value: Expression
    optional: bool


@dataclass(slots=True, eq=False)
class MapLiteral(Expression):
    entries: Sequence[Entry]


@dataclass(slots=True, eq=False)
class MessageField:
    """`name: value` of a message."""

    offset: int
    name: str
    value: Expression


@dataclass(slots=True, eq=False)
class MessageLiteral(Expression):
    name: str
    fields: Sequence[MessageField]


@dataclass(slots=True, eq=False)
class Comprehension(Expression):
    """The expansion of macros with a loop: fold `source` into an accumulator that starts as `start`."""

    source: Expression
    variable: str
    second: str = ""
    accumulator: str = field(kw_only=True)
    start: Expression = field(kw_only=True)
    condition: Expression = field(kw_only=True)
    step: Expression = field(kw_only=True)
    result: Expression = field(kw_only=True)


def qualified_name(node: Expression) -> str | None:
    """The dotted name `a.b.c`; None for any other node."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Name):
        return None
    parts.append(node.name)
    return ".".join(reversed(parts))
