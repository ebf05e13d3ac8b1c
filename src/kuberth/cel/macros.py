"""Expands macros: has, all, exists, map, filter, cel.bind and others become comprehensions.

In: a parsed call. Out: the tree of its expansion, or None if the call is not a macro.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kuberth.cel.source import Problem
from kuberth.cel.syntax import Call, Comprehension, Expression, ListLiteral, Literal, MapLiteral, Name, Select
from kuberth.cel.values import Value

ACCUMULATOR = "@result"
_FORMER_ACCUMULATOR = "__result__"
UNUSED = "#unused"
_SORT_INPUT = "@__sortBy_input__"


class MacroProblem(Exception):  # noqa: N818  # never leaves the parser
    """The arguments of a macro are invalid."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(offset, message)


class _Macro(NamedTuple):
    """A call of a macro. All nodes of its expansion have its offset."""

    offset: int
    target: Expression | None
    args: Sequence[Expression]

    def literal(self, value: Value) -> Literal:
        return Literal(self.offset, value)

    def accumulator(self) -> Name:
        return Name(self.offset, ACCUMULATOR)

    def call(self, function: str, *args: Expression, target: Expression | None = None) -> Call:
        return Call(self.offset, function, args, target)

    def choose(self, condition: Expression | None, then: Expression) -> Expression:
        """The accumulator changes to `then` if the condition holds; None: always."""
        return then if condition is None else self.call("_?_:_", condition, then, self.accumulator())

    def name(self, index: int, message: str) -> str:
        node = self.args[index]
        if not isinstance(node, Name):
            raise MacroProblem(node.offset, message)
        return node.name

    def variables(self, count: int, message: str = "argument must be a simple name") -> tuple[str, str]:
        """The names of one or two loop variables; the second is empty if there is one."""
        names = [self.name(index, message) for index in range(count)]
        if len(set(names)) < count:
            raise MacroProblem(self.args[1].offset, f"duplicate variable name: {names[0]}")
        for arg, name in zip(self.args, names, strict=False):
            if name == _FORMER_ACCUMULATOR:
                raise MacroProblem(arg.offset, "iteration variable overwrites accumulator variable")
        return names[0], names[1] if count == 2 else ""

    def loop(
        self,
        variables: tuple[str, str],
        *,
        start: Expression,
        step: Expression,
        condition: Expression | None = None,
        result: Expression | None = None,
    ) -> Expression:
        assert self.target is not None
        return Comprehension(
            self.offset,
            self.target,
            variables[0],
            second=variables[1],
            accumulator=ACCUMULATOR,
            start=start,
            condition=condition or self.literal(True),
            step=step,
            result=result or self.accumulator(),
        )

    def let(self, name: str, value: Expression, result: Expression) -> Expression:
        """Bind a variable in `result`: a loop over an empty list, whose accumulator is the variable."""
        return Comprehension(
            self.offset,
            ListLiteral(self.offset, []),
            UNUSED,
            accumulator=name,
            start=value,
            condition=self.literal(False),
            step=Name(self.offset, name),
            result=result,
        )


def _all(macro: _Macro) -> Expression:
    variables = macro.variables(len(macro.args) - 1)
    loop_condition = macro.call("@not_strictly_false", macro.accumulator())
    step = macro.call("_&&_", macro.accumulator(), macro.args[-1])
    return macro.loop(variables, start=macro.literal(True), condition=loop_condition, step=step)


def _exists(macro: _Macro) -> Expression:
    variables = macro.variables(len(macro.args) - 1)
    loop_condition = macro.call("@not_strictly_false", macro.call("!_", macro.accumulator()))
    step = macro.call("_||_", macro.accumulator(), macro.args[-1])
    return macro.loop(variables, start=macro.literal(False), condition=loop_condition, step=step)


def _exists_one(macro: _Macro) -> Expression:
    variables = macro.variables(len(macro.args) - 1)
    step = macro.choose(macro.args[-1], macro.call("_+_", macro.accumulator(), macro.literal(1)))
    result = macro.call("_==_", macro.accumulator(), macro.literal(1))
    return macro.loop(variables, start=macro.literal(0), step=step, result=result)


def _append(
    macro: _Macro, variables: tuple[str, str], element: Expression, condition: Expression | None
) -> Expression:
    longer = macro.call("_+_", macro.accumulator(), ListLiteral(macro.offset, [element]))
    return macro.loop(variables, start=ListLiteral(macro.offset, []), step=macro.choose(condition, longer))


def _map(macro: _Macro) -> Expression:
    variables = macro.variables(1, "argument is not an identifier")
    return _append(macro, variables, macro.args[-1], macro.args[1] if len(macro.args) == 3 else None)


def _filter(macro: _Macro) -> Expression:
    return _append(macro, macro.variables(1, "argument is not an identifier"), *macro.args)


def _transform_list(macro: _Macro) -> Expression:
    return _append(macro, macro.variables(2), macro.args[-1], macro.args[2] if len(macro.args) == 4 else None)


def _transform_map(macro: _Macro, *, has_key: bool = True) -> Expression:
    variables = macro.variables(2)
    key = [Name(macro.offset, variables[0])] if has_key else []
    insert = macro.call("cel.@mapInsert", macro.accumulator(), *key, macro.args[-1])
    step = macro.choose(macro.args[2] if len(macro.args) == 4 else None, insert)
    return macro.loop(variables, start=MapLiteral(macro.offset, []), step=step)


def _has(macro: _Macro) -> Expression:
    field = macro.args[0]
    if not isinstance(field, Select):
        raise MacroProblem(field.offset, "invalid argument to has() macro")
    return Select(macro.offset, field.operand, field.field, test=True)


def _bind(macro: _Macro) -> Expression | None:
    if not isinstance(macro.target, Name) or macro.target.name != "cel":
        return None
    name = macro.name(0, "cel.bind() variable names must be simple identifiers")
    return macro.let(name, macro.args[1], macro.args[2])


def _opt_map(macro: _Macro) -> Expression:
    return _mapped_optional(macro, "optMap", lambda mapped: macro.call("optional.of", mapped))


def _opt_flat_map(macro: _Macro) -> Expression:
    return _mapped_optional(macro, "optFlatMap", lambda mapped: mapped)


def _mapped_optional(macro: _Macro, title: str, wrap: Callable[[Expression], Expression]) -> Expression:
    name = macro.name(0, f"{title}() variable name must be a simple identifier")
    mapped = macro.let(name, macro.call("value", target=macro.target), macro.args[1])
    has_value = macro.call("hasValue", target=macro.target)
    return macro.call("_?_:_", has_value, wrap(mapped), macro.call("optional.none"))


def _sort_by(macro: _Macro) -> Expression:
    target, source = macro.target, Name(macro.offset, _SORT_INPUT)
    if not isinstance(target, ListLiteral | Select | Name | Comprehension | Call):
        raise MacroProblem(
            macro.offset if target is None else target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(macro._replace(target=Name(macro.offset, _SORT_INPUT)))
    return macro.let(_SORT_INPUT, target, macro.call("@sortByAssociatedKeys", keys, target=source))


_MACROS: dict[str, tuple[Callable[[_Macro], Expression | None], tuple[int, ...]]] = {
    "has": (_has, (1,)),
    "all": (_all, (2, 3)),
    "exists": (_exists, (2, 3)),
    "exists_one": (_exists_one, (2, 3)),
    "existsOne": (_exists_one, (3,)),
    "map": (_map, (2, 3)),
    "filter": (_filter, (2,)),
    "transformList": (_transform_list, (3, 4)),
    "transformMap": (_transform_map, (3, 4)),
    "transformMapEntry": (partial(_transform_map, has_key=False), (3, 4)),
    "bind": (_bind, (3,)),
    "optMap": (_opt_map, (2,)),
    "optFlatMap": (_opt_flat_map, (2,)),
    "sortBy": (_sort_by, (2,)),
}
"""The macros, each with its numbers of arguments; all but `has` are methods."""


def expand(
    offset: int, function: str, target: Expression | None, args: Sequence[Expression]
) -> Expression | None:
    """The expansion of a macro call; None for another call."""
    expander, counts = _MACROS.get(function, (None, ()))
    if expander is None or len(args) not in counts or (target is None) != (function == "has"):
        return None
    return expander(_Macro(offset, target, args))
