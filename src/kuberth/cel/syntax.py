"""The tree of an expression.

Nodes have their offset in the text, for problems, and once checked their static type. A node may occur twice
in the tree (macros repeat their target), always in the same scope.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberth.cel.static_types import Type
from kuberth.cel.values import Value


class Expression:
    """Part of an expression."""

    __slots__ = ("depth", "offset", "type")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.depth = 0  # of nested operators and accesses in the text, for the parser's limit
        self.type: Type | None = None


class Literal(Expression):
    __slots__ = ("value",)

    def __init__(self, offset: int, value: Value) -> None:
        super().__init__(offset)
        self.value = value


class Name(Expression):
    __slots__ = ("name",)

    def __init__(self, offset: int, name: str) -> None:
        super().__init__(offset)
        self.name = name


class Select(Expression):
    """`operand.field`, or with `test` a presence test."""

    __slots__ = ("field", "is_name", "operand", "test")

    def __init__(self, offset: int, operand: Expression, field: str, *, test: bool = False) -> None:
        super().__init__(offset)
        self.operand = operand
        self.field = field
        self.test = test
        self.is_name = ""  # set by the checker where a.b is one declared name


class Call(Expression):
    """A call of a function, an operator or, with `target`, a method."""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(
        self, offset: int, function: str, args: Sequence[Expression], target: Expression | None = None
    ) -> None:
        super().__init__(offset)
        self.function = function
        self.args = list(args)
        self.target = target
        self.overloads: tuple[str, ...] = ()  # set by the checker: the ids that fit the static types


class ListLiteral(Expression):
    __slots__ = ("elements", "optional")

    def __init__(
        self, offset: int, elements: Sequence[Expression], optional: frozenset[int] = frozenset()
    ) -> None:
        super().__init__(offset)
        self.elements = list(elements)
        self.optional = optional


class Entry:
    """`key: value` of a map; with a leading question mark only if the value is present."""

    __slots__ = ("key", "optional", "value")

    def __init__(self, key: Expression, value: Expression, *, optional: bool) -> None:
        self.key = key
        self.value = value
        self.optional = optional


class MapLiteral(Expression):
    __slots__ = ("entries",)

    def __init__(self, offset: int, entries: Sequence[Entry]) -> None:
        super().__init__(offset)
        self.entries = list(entries)


class MessageField:
    """`name: value` of a message."""

    __slots__ = ("name", "offset", "value")

    def __init__(self, offset: int, name: str, value: Expression) -> None:
        self.offset = offset
        self.name = name
        self.value = value


class MessageLiteral(Expression):
    __slots__ = ("fields", "name")

    def __init__(self, offset: int, name: str, fields: Sequence[MessageField]) -> None:
        super().__init__(offset)
        self.name = name
        self.fields = list(fields)


class Comprehension(Expression):
    """The expansion of macros with a loop: fold `scope` into an accumulator that starts as `start`."""

    __slots__ = ("accumulator", "condition", "result", "second", "source", "start", "step", "variable")

    def __init__(
        self,
        offset: int,
        source: Expression,
        variable: str,
        *,
        second: str = "",
        accumulator: str,
        start: Expression,
        condition: Expression,
        step: Expression,
        result: Expression,
    ) -> None:
        super().__init__(offset)
        self.source = source
        self.variable = variable
        self.second = second
        self.accumulator = accumulator
        self.start = start
        self.condition = condition
        self.step = step
        self.result = result


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
