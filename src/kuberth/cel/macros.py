"""Expands macros: has, all, exists, map, filter, cel.bind and others become comprehensions.

In: a parsed call. Out: the tree of its expansion, or None if the call is not a macro.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kuberth.cel.source import Problem
from kuberth.cel.syntax import Call, Comprehension, Expression, ListLiteral, Literal, MapLiteral, Name, Select

ACCUMULATOR = "@result"
_FORMER_ACCUMULATOR = "__result__"
UNUSED = "#unused"
_SORT_INPUT = "@__sortBy_input__"


class MacroProblem(Exception):  # noqa: N818  # never leaves the parser
    """The arguments of a macro are invalid."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.problem = Problem(offset, message)


_Expand = Callable[[int, "Expression | None", Sequence[Expression]], "Expression | None"]


def expand(
    offset: int, function: str, target: Expression | None, args: Sequence[Expression]
) -> Expression | None:
    """The expansion of a macro call; None for another call."""
    macro = _MACROS.get((function, len(args), target is not None))
    return None if macro is None else macro(offset, target, args)


def _variable(node: Expression, message: str) -> str:
    if not isinstance(node, Name):
        raise MacroProblem(node.offset, message)
    return node.name


def _loop_variable(node: Expression, message: str) -> str:
    name = _variable(node, message)
    if name == _FORMER_ACCUMULATOR:
        raise MacroProblem(node.offset, "iteration variable overwrites accumulator variable")
    return name


def _accumulator(offset: int) -> Name:
    return Name(offset, ACCUMULATOR)


def _choose(offset: int, condition: Expression | None, then: Expression, otherwise: Expression) -> Expression:
    return then if condition is None else Call(offset, "_?_:_", [condition, then, otherwise])


def _loop(
    offset: int,
    target: Expression | None,
    variables: tuple[str, str],
    *,
    start: Expression,
    step: Expression,
    condition: Expression | None = None,
    result: Expression | None = None,
) -> Expression:
    assert target is not None
    return Comprehension(
        offset,
        target,
        variables[0],
        second=variables[1],
        accumulator=ACCUMULATOR,
        start=start,
        condition=condition or Literal(offset, True),
        step=step,
        result=result or _accumulator(offset),
    )


def _variables(args: Sequence[Expression], count: int) -> tuple[str, str]:
    if count == 1:
        return _loop_variable(args[0], "argument must be a simple name"), ""
    names = [_variable(arg, "argument must be a simple name") for arg in args[:2]]
    if names[0] == names[1]:
        raise MacroProblem(args[1].offset, f"duplicate variable name: {names[0]}")
    for arg in args[:2]:
        _loop_variable(arg, "")
    return names[0], names[1]


def _all(count: int) -> _Expand:
    def expander(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
        variables = _variables(args, count)
        going = Call(offset, "@not_strictly_false", [_accumulator(offset)])
        step = Call(offset, "_&&_", [_accumulator(offset), args[count]])
        return _loop(offset, target, variables, start=Literal(offset, True), condition=going, step=step)

    return expander


def _exists(count: int) -> _Expand:
    def expander(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
        variables = _variables(args, count)
        going = Call(offset, "@not_strictly_false", [Call(offset, "!_", [_accumulator(offset)])])
        step = Call(offset, "_||_", [_accumulator(offset), args[count]])
        return _loop(offset, target, variables, start=Literal(offset, False), condition=going, step=step)

    return expander


def _exists_one(count: int) -> _Expand:
    def expander(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
        variables = _variables(args, count)
        more = Call(offset, "_+_", [_accumulator(offset), Literal(offset, 1)])
        step = _choose(offset, args[count], more, _accumulator(offset))
        result = Call(offset, "_==_", [_accumulator(offset), Literal(offset, 1)])
        return _loop(offset, target, variables, start=Literal(offset, 0), step=step, result=result)

    return expander


def _append(offset: int, element: Expression, condition: Expression | None) -> Expression:
    longer = Call(offset, "_+_", [_accumulator(offset), ListLiteral(offset, [element])])
    return _choose(offset, condition, longer, _accumulator(offset))


def _map(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
    variable = _loop_variable(args[0], "argument is not an identifier")
    step = _append(offset, args[-1], args[1] if len(args) == 3 else None)
    return _loop(offset, target, (variable, ""), start=ListLiteral(offset, []), step=step)


def _filter(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
    variable = _loop_variable(args[0], "argument is not an identifier")
    step = _append(offset, args[0], args[1])
    return _loop(offset, target, (variable, ""), start=ListLiteral(offset, []), step=step)


def _transform_list(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
    variables = _variables(args, 2)
    step = _append(offset, args[-1], args[2] if len(args) == 4 else None)
    return _loop(offset, target, variables, start=ListLiteral(offset, []), step=step)


def _transform_map(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
    variables = _variables(args, 2)
    insert = [_accumulator(offset), Name(offset, variables[0]), args[-1]]
    return _insert(offset, target, variables, args, insert)


def _transform_map_entry(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
    variables = _variables(args, 2)
    return _insert(offset, target, variables, args, [_accumulator(offset), args[-1]])


def _insert(
    offset: int,
    target: Expression | None,
    variables: tuple[str, str],
    args: Sequence[Expression],
    insert: list[Expression],
) -> Expression:
    condition = args[2] if len(args) == 4 else None
    step = _choose(offset, condition, Call(offset, "cel.@mapInsert", insert), _accumulator(offset))
    return _loop(offset, target, variables, start=MapLiteral(offset, []), step=step)


def _has(offset: int, _target: Expression | None, args: Sequence[Expression]) -> Expression:
    if not isinstance(args[0], Select):
        raise MacroProblem(args[0].offset, "invalid argument to has() macro")
    return Select(offset, args[0].operand, args[0].field, test=True)


def _let(offset: int, name: str, value: Expression, *, step: Expression, result: Expression) -> Expression:
    """Bind a variable in `result`: a loop over an empty list, whose accumulator is the variable."""
    return Comprehension(
        offset,
        ListLiteral(offset, []),
        UNUSED,
        accumulator=name,
        start=value,
        condition=Literal(offset, False),
        step=step,
        result=result,
    )


def _bind(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression | None:
    if not isinstance(target, Name) or target.name != "cel":
        return None
    name = _variable(args[0], "cel.bind() variable names must be simple identifiers")
    return _let(offset, name, args[1], step=args[0], result=args[2])


def _opt_map(*, wrap: bool) -> _Expand:
    macro = "optMap" if wrap else "optFlatMap"

    def expander(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
        assert target is not None
        name = _variable(args[0], f"{macro}() variable name must be a simple identifier")
        value = Call(offset, "value", [], target)
        mapped = _let(offset, name, value, step=Name(offset, name), result=args[1])
        present = Call(offset, "optional.of", [mapped]) if wrap else mapped
        asked = Call(offset, "hasValue", [], target)
        return Call(offset, "_?_:_", [asked, present, Call(offset, "optional.none", [])])

    return expander


def _sort_by(offset: int, target: Expression | None, args: Sequence[Expression]) -> Expression:
    if not isinstance(target, ListLiteral | Select | Name | Comprehension | Call):
        raise MacroProblem(
            offset if target is None else target.offset,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        )
    keys = _map(offset, Name(offset, _SORT_INPUT), args)
    sort = Call(offset, "@sortByAssociatedKeys", [keys], Name(offset, _SORT_INPUT))
    return _let(offset, _SORT_INPUT, target, step=Name(offset, _SORT_INPUT), result=sort)


_MACROS: dict[tuple[str, int, bool], _Expand] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all(1),
    ("all", 3, True): _all(2),
    ("exists", 2, True): _exists(1),
    ("exists", 3, True): _exists(2),
    ("exists_one", 2, True): _exists_one(1),
    ("exists_one", 3, True): _exists_one(2),
    ("existsOne", 3, True): _exists_one(2),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _opt_map(wrap=True),
    ("optFlatMap", 2, True): _opt_map(wrap=False),
    ("sortBy", 2, True): _sort_by,
}
