"""Declarations of functions, and the selection of their overloads.

In: libraries, which are tables of overloads with signatures. Out: functions by name. The checker picks
overloads by static types; if several match (dynamic values), the values decide at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kuberth.cel.costs import Cost
from kuberth.cel.static_types import Type, read_types
from kuberth.cel.values import Map, Value, no_such_overload, type_name

Apply = Callable[..., Value]
_Guard = Callable[[Value], bool]


class Overload(NamedTuple):
    """A signature of a function; `apply` is None where the function has one implementation for all."""

    id: str
    """The declaration without the result: `string.contains(string)`."""
    function: str
    member: bool
    takes: tuple[Type, ...]
    gives: Type
    apply: Apply | None
    cost: Cost | None = None
    """The cost by the arguments, also if several overloads of the function match; None: 1."""
    cost_if_picked: Cost | None = None
    """The cost by the arguments if this is the only overload that matches."""
    result_cost: Cost | None = None
    """The cost by the result."""


def function(declaration: str, apply: Apply | None = None, **costs: Cost | None) -> Overload:
    """Declare `name(a, b) -> c`; the letters are types."""
    return _overload(declaration, "", apply, costs)


def method(declaration: str, apply: Apply | None = None, **costs: Cost | None) -> Overload:
    """Declare `target.name(a) -> c`; the target is the first argument."""
    return _overload(declaration, declaration.partition(".")[0], apply, costs)


def _overload(
    declaration: str, target: str, apply: Apply | None, costs: Mapping[str, Cost | None]
) -> Overload:
    head, _, result = declaration.partition(" -> ")
    name, _, args = head.removeprefix(f"{target}.").partition("(")
    takes = (*read_types(target), *read_types(args.removesuffix(")")))
    return Overload(head, name, bool(target), takes, read_types(result)[0], apply, **costs)


class Function:
    def __init__(self, name: str) -> None:
        self.name = name
        self.overloads: dict[str, Overload] = {}
        self.operator: Apply | None = None  # the implementation of all overloads, if they share one
        self.guarded = True

    def implementation(self, picked: tuple[str, ...]) -> Apply:
        """The implementation for a call whose static types match these overloads."""
        if self.operator is not None:
            return self.operator
        candidates = [overload for overload in self.overloads.values() if overload.apply is not None]
        if len(picked) == 1 and self.overloads[picked[0]] in candidates:
            candidates = [self.overloads[picked[0]]]
        options = [(one.apply, [self._guard(wanted) for wanted in one.takes]) for one in candidates]
        name, (only, guards) = self.name, options[0]
        if len(options) == 1 and only is not None and not any(guards):
            return only

        def dispatch(*args: Value) -> Value:
            for apply, guards in options:
                if apply is None or len(guards) != len(args):
                    continue
                for guard, arg in zip(guards, args, strict=True):
                    if guard is not None and not guard(arg):
                        break
                else:
                    return apply(*args)
            raise no_such_overload(name, *args)

        return dispatch

    def cost(self, picked: tuple[str, ...]) -> Cost | None:
        """The cost by the arguments of a call whose static types match these overloads; None: 1."""
        if len(picked) == 1:
            only = self.overloads[picked[0]]
            return only.cost or only.cost_if_picked
        return next((each.cost for each in self.overloads.values() if each.cost is not None), None)

    def result_cost(self, picked: tuple[str, ...]) -> Cost | None:
        """The cost by the result; None if the cost depends on the arguments."""
        return self.overloads[picked[0]].result_cost if picked else None

    def is_picked_at_run_time(self, picked: tuple[str, ...]) -> bool:
        """Whether the overload is selected at run time."""
        return self.operator is None and len(picked) != 1 and len(self.overloads) > 1

    def _guard(self, wanted: Type) -> _Guard | None:
        return _guard(wanted) if self.guarded else None


def collect(*libraries: Iterable[Overload]) -> dict[str, Function]:
    """The functions of all libraries by name; a later library adds overloads to an earlier one's function."""
    functions: dict[str, Function] = {}
    for library in libraries:
        for overload in library:
            known = functions.setdefault(overload.function, Function(overload.function))
            known.overloads[overload.id] = overload
    return functions


def _guard(wanted: Type) -> _Guard | None:
    """A check whether a value has this type; of lists and maps it checks the first element."""
    if wanted.is_dynamic or wanted.kind == "parameter":
        return None
    name = wanted.name
    if wanted.kind == "list":
        element = _guard(wanted.parameters[0])
        if element is None:
            return lambda value: isinstance(value, list)
        return lambda value: isinstance(value, list) and (not value or element(value[0]))
    if wanted.kind == "map":
        return _map_guard(*wanted.parameters)
    return lambda value: type_name(value) == name


def _map_guard(key: Type, value: Type) -> _Guard:
    key_guard, value_guard = _guard(key), _guard(value)

    def guard(given: Value) -> bool:
        if not isinstance(given, Map):
            return False
        for first, second in given.items():
            return (key_guard is None or key_guard(first)) and (value_guard is None or value_guard(second))
        return True

    return guard
