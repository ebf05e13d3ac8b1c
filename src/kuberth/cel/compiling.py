"""Compiles checked trees to Python closures.

In: a checked tree. Out: a closure that takes a frame and returns the value of the expression. A frame is a
list: the cost so far, the device, and a slot for each loop variable. Errors are exceptions; `&&`, `||` and
loops catch those that they absorb.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from kuberth.cel import syntax
from kuberth.cel.costs import LIMIT, LIST_COST, MAP_COST, Cost
from kuberth.cel.declarations import Apply
from kuberth.cel.library import FUNCTIONS
from kuberth.cel.library.collections import IN_LIST
from kuberth.cel.library.conversions import CONVERSIONS
from kuberth.cel.library.strings import PATTERN_ARGUMENT
from kuberth.cel.numbers import format_double
from kuberth.cel.patterns import PatternError, compile_pattern
from kuberth.cel.static_types import TYPE_NAMES, Type
from kuberth.cel.values import (
    NONE,
    Accumulator,
    CostExceeded,
    Map,
    MapAccumulator,
    Optional,
    TypeValue,
    Uint,
    Value,
    no_such_overload,
    other_numbers,
    token,
    type_name,
)
from kuberth.errors import CelCompileError, CelRuntimeError

Frame = list[Any]
Evaluate = Callable[[Frame], Value]

COST, DEVICE = 0, 1
_FIRST_VARIABLE = 2


class _Unset:
    """A loop's accumulator that was not read yet; its start value is evaluated at the first read."""


@dataclass(slots=True, eq=False)
class _Failed:
    """An accumulator whose last step failed; reading it raises the same error."""

    error: CelRuntimeError


_UNSET = _Unset()
_MISSING = _Unset()

# One step of an access: returns the value, raises, or returns _MISSING for an optional access.
Access = Callable[[Frame, Value, bool], Value]
_Path = tuple[tuple[Access, bool], ...]
"""Accesses, each with whether it may miss its value."""


@dataclass(slots=True, eq=False)
class Compiled:
    """A compiled node.

    `constant` holds its value in a list if it is constant. An access (a name, a field, an index, a
    conditional of these) has `root` and `path`; evaluated on its own it costs `surcharge` more than as a
    part of a longer one.
    """

    evaluate: Evaluate
    constant: list[Value] | None = field(default=None, kw_only=True)
    root: Evaluate | None = field(default=None, kw_only=True)
    path: _Path = field(default=(), kw_only=True)
    surcharge: int = field(default=1, kw_only=True)

    @property
    def resolve(self) -> Evaluate:
        """The closure of its value as a part of a larger expression."""
        if self.root is None:
            return self.evaluate
        return _walk(self.root, self.path)


def _constant(value: Value) -> Compiled:
    return Compiled(lambda _frame: value, constant=[value])


def _access_plan(root: Evaluate, path: _Path, surcharge: int = 1) -> Compiled:
    resolve = _walk(root, path)

    def evaluate(frame: Frame) -> Value:
        frame[COST] += surcharge
        return resolve(frame)

    return Compiled(evaluate, root=root, path=path, surcharge=surcharge)


def _walk(root: Evaluate, path: _Path) -> Evaluate:
    if not path:
        return root

    def walk(frame: Frame) -> Value:
        value = root(frame)
        is_optional = False
        if type(value) is Optional:
            if not value.present:
                return value
            value = value.value
            is_optional = True
        for access, may_miss in path:
            is_optional = is_optional or may_miss
            value = access(frame, value, is_optional)
            if value is _MISSING:
                return NONE
        return Optional(value) if is_optional else value

    return walk


def look_up(value: Value, key: Value, *, is_optional: bool) -> Value:
    """value[key]; with `is_optional`, `_MISSING` instead of an error for a missing key."""
    if isinstance(value, Map):
        found, inner = value.find(key)
        if found:
            return inner
    elif isinstance(value, list):
        index = _list_index(key)
        if 0 <= index < len(value):
            return value[index]
        if not is_optional:
            raise CelRuntimeError(f"index out of bounds: {show_key(key)}")
    if is_optional:
        return _MISSING
    raise CelRuntimeError(f"no such key: {show_key(key)}")


def _list_index(key: Value) -> int:
    kind = type(key)
    if kind is int:
        return int(key)
    if kind is Uint or (kind is float and key.is_integer()):
        if -(2**63) < key < 2**63:
            return int(key)
    elif kind is not float:
        raise CelRuntimeError(f"unsupported index type '{type_name(key)}' in list")
    raise CelRuntimeError(f"unsupported index value {show_key(key)} in list")


def show_key(key: Value) -> str:
    if type(key) is bool:
        return "true" if key else "false"
    return format_double(key) if type(key) is float else str(key)


_KEYS = frozenset({str, int, Uint, bool, float})


class Compiler:
    """Compiles one tree."""

    def __init__(
        self, type_of: Callable[[syntax.Expression], Type], *, further_variables: Sequence[str] = ()
    ) -> None:
        """`further_variables`: their values follow the first one's in the frame."""
        self._type_of = type_of
        self._plans: dict[int, Compiled] = {}
        self._scopes: list[dict[str, Evaluate]] = [
            {name: itemgetter(_FIRST_VARIABLE + index) for index, name in enumerate(further_variables)}
        ]
        self._next = _FIRST_VARIABLE + len(further_variables)
        self._depth = 0
        self.deepest = 0

    def compile(self, node: syntax.Expression) -> tuple[Evaluate, int]:
        """The closure and the length of its frames; sets `deepest`, the nesting of its calls."""
        evaluate = self._plan(node).evaluate
        return evaluate, self._next

    def _plan(self, node: syntax.Expression) -> Compiled:
        plan = self._plans.get(id(node))
        if plan is None:
            self._depth += 1
            self.deepest = max(self.deepest, self._depth)
            plan = self._make(node)
            self._depth -= 1
            self._plans[id(node)] = plan
        return plan

    def _make(self, node: syntax.Expression) -> Compiled:
        if isinstance(node, syntax.Literal):
            return _constant(node.value)
        if isinstance(node, syntax.Name):
            return self._name(node, node.name)
        if isinstance(node, syntax.Select):
            return self._name(node, node.is_name) if node.is_name else self._select(node)
        if isinstance(node, syntax.Call):
            return self._call(node)
        if isinstance(node, syntax.ListLiteral):
            return self._list(node)
        if isinstance(node, syntax.MapLiteral):
            return self._map(node)
        if isinstance(node, syntax.MessageLiteral):
            return self._message(node)
        assert isinstance(node, syntax.Comprehension)
        return self._comprehension(node)

    # Names and accesses

    def _name(self, node: syntax.Expression, name: str) -> Compiled:
        name = name.removeprefix(".")
        if self._type_of(node).kind == "type":
            # Upstream takes every name with a type's type for the name of a type, variables, too.
            if name not in TYPE_NAMES:
                raise CelCompileError(f"program instantiation failed: reference to undefined type: {name}")
            return _constant(TypeValue(name))
        for scope in reversed(self._scopes):
            if name in scope:
                return _access_plan(scope[name], ())
        return _access_plan(lambda frame: frame[DEVICE], ())

    def _extend(self, operand: Compiled, access: Access, *, optional: bool) -> Compiled:
        root = operand.evaluate if operand.root is None else operand.root
        surcharge = 1 if operand.root is None else operand.surcharge
        return _access_plan(root, (*operand.path, (access, optional)), surcharge)

    def _select(self, node: syntax.Select) -> Compiled:
        operand = self._plan(node.operand)
        if not node.test:
            return self._extend(operand, _field_access(node.field), optional=False)
        field = node.field

        def test(frame: Frame, value: Value, _is_optional: bool) -> Value:
            frame[COST] += 1
            return look_up(value, field, is_optional=True) is not _MISSING

        # A presence test costs only the accesses that lead to it.
        root = operand.evaluate if operand.root is None else operand.root
        walk = _walk(root, (*operand.path, (test, False)))

        def evaluate(frame: Frame) -> Value:
            value = walk(frame)
            return value.present and value.value if type(value) is Optional else value

        return Compiled(evaluate)

    def _index(self, operand: Compiled, index: Compiled, *, optional: bool) -> Compiled:
        if index.constant is not None:
            key = index.constant[0]
            if type(key) not in _KEYS:
                raise CelCompileError(
                    f"program instantiation failed: invalid qualifier type: {type_name(key)}"
                )
            return self._extend(operand, _field_access(key), optional=optional)
        return self._extend(operand, _index_access(index.resolve), optional=optional)

    # Calls

    def _call(self, node: syntax.Call) -> Compiled:
        function = node.function
        if function in ("_[_]", "_[?_]", "_?._"):
            operand, index = self._plan(node.args[0]), self._plan(node.args[1])
            return self._index(operand, index, optional=function != "_[_]")
        parts = [*([node.target] if node.target is not None else []), *node.args]
        plans = [self._plan(part) for part in parts]
        if function == "_&&_":
            return _logical([plan.evaluate for plan in plans], decisive=False)
        if function == "_||_":
            return _logical([plan.evaluate for plan in plans], decisive=True)
        if function == "_?_:_":
            return _conditional(plans)
        if function in ("or", "orValue"):
            return _alternative(plans, whole=function == "or")
        if function == "@in" and node.overloads == (IN_LIST,) and plans[1].constant is not None:
            member = _constant_membership(plans[0], plans[1].constant[0])
            if member is not None:
                return member
        return self._function(node, plans)

    @staticmethod
    def _function(node: syntax.Call, plans: list[Compiled]) -> Compiled:
        name, function = node.function, FUNCTIONS[node.function]
        apply = function.implementation(node.overloads)
        try:
            if name in CONVERSIONS and len(plans) == 1 and plans[0].constant is not None:
                return _constant(apply(plans[0].constant[0]))
            pattern = plans[PATTERN_ARGUMENT[name]].constant if name in PATTERN_ARGUMENT else None
            if pattern is not None and type(pattern[0]) is str:
                compile_pattern(pattern[0])
        except (CelRuntimeError, PatternError) as exc:
            raise CelCompileError(f"program instantiation failed: {exc}") from exc
        in_turn = function.is_picked_at_run_time(node.overloads) or pattern is not None
        args = [plan.evaluate for plan in plans]
        before, after = function.cost(node.overloads), function.result_cost(node.overloads)
        return Compiled(_calling(apply, args, before=before, after=after, in_turn=in_turn))

    # Literals

    def _list(self, node: syntax.ListLiteral) -> Compiled:
        plans = [self._plan(element) for element in node.elements]
        if all(plan.constant is not None for plan in plans) and not node.optional:
            return _constant([plan.constant[0] for plan in plans if plan.constant is not None])
        evaluators = [plan.evaluate for plan in plans]
        optional = node.optional

        def evaluate(frame: Frame) -> Value:
            frame[COST] += LIST_COST
            values = [evaluate(frame) for evaluate in evaluators]
            if not optional:
                return values
            return [
                value.value if index in optional else value
                for index, value in enumerate(values)
                if index not in optional or _present(value)
            ]

        return Compiled(evaluate)

    def _map(self, node: syntax.MapLiteral) -> Compiled:
        entries = [(self._plan(entry.key), self._plan(entry.value), entry.optional) for entry in node.entries]
        evaluators = [(key.evaluate, value.evaluate, optional) for key, value, optional in entries]

        def build(frame: Frame) -> Map:
            built: dict[Hashable, Value] = {}
            for key_of, value_of, optional in evaluators:
                key, value = key_of(frame), value_of(frame)
                if optional:
                    if not _present(value):
                        built.pop(token(key), None)
                        continue
                    value = value.value
                built[token(key)] = value
            return Map(built)

        if all(key.constant is not None and value.constant is not None for key, value, _ in entries):
            try:
                return _constant(build([0, None]))
            except CelRuntimeError as exc:
                raise CelCompileError(f"program instantiation failed: {exc}") from exc

        def evaluate(frame: Frame) -> Value:
            frame[COST] += MAP_COST
            return build(frame)

        return Compiled(evaluate)

    def _message(self, node: syntax.MessageLiteral) -> Compiled:
        values = [self._plan(field.value).evaluate for field in node.fields]
        name = node.name.removeprefix(".")

        def evaluate(frame: Frame) -> Value:
            for value in values:
                value(frame)
            raise CelRuntimeError(f"unknown type '{name}'")

        return Compiled(evaluate)

    # Loops

    def _comprehension(self, node: syntax.Comprehension) -> Compiled:
        start = self._plan(node.start).evaluate
        source = self._plan(node.source).evaluate
        accumulator, first, second = self._next, self._next + 1, self._next + 2
        self._next += 3
        self._scopes.append({node.accumulator: _reading(accumulator, start)})
        loop: dict[str, Evaluate] = {node.variable: lambda frame: frame[first]}
        if node.second:
            loop[node.second] = lambda frame: frame[second]
        self._scopes.append(loop)
        # The accumulator hides a loop variable of the same name.
        self._scopes.append(dict(self._scopes[-2]))
        places = (accumulator, first, second if node.second else 0)
        if isinstance(node.condition, syntax.Call) and node.condition.function == "@not_strictly_false":
            assert isinstance(node.step, syntax.Call)
            predicate = self._plan(node.step.args[1]).evaluate
            del self._scopes[-3:]
            return Compiled(_quantifying(source, predicate, places, decisive=node.step.function == "_||_"))
        condition = self._plan(node.condition)
        step = self._plan(node.step).evaluate
        del self._scopes[-2:]
        result = self._plan(node.result).evaluate
        self._scopes.pop()
        loop_condition = None if condition.constant == [True] else condition.evaluate
        return Compiled(_folding(source, loop_condition, step, result, places))


def _field_access(key: Value) -> Access:
    def access(frame: Frame, value: Value, is_optional: bool) -> Value:
        if not is_optional:
            frame[COST] += 1
            return look_up(value, key, is_optional=False)
        found = look_up(value, key, is_optional=True)
        frame[COST] += found is not _MISSING
        return found

    return access


def _index_access(index: Evaluate) -> Access:
    def access(frame: Frame, value: Value, is_optional: bool) -> Value:
        key = index(frame)
        if type(key) not in _KEYS:
            raise CelRuntimeError(f"invalid qualifier type: {type_name(key)}")
        found = look_up(value, key, is_optional=is_optional)
        frame[COST] += found is not _MISSING
        return found

    return access


def _present(value: Value) -> bool:
    if type(value) is not Optional:
        raise CelRuntimeError("cannot initialize optional entry from non-optional value")
    return value.present


def _calling(
    apply: Apply, args: list[Evaluate], *, before: Cost | None, after: Cost | None, in_turn: bool
) -> Evaluate:
    """The closure of a call, with its cost by the arguments or by the result.

    `in_turn`: after an argument fails, the others are not evaluated or charged.
    """
    flat = 1 if after is None else 0
    in_turn = in_turn or after is not None or len(args) > 2

    def call(frame: Frame) -> Value:
        values: list[Value] = []
        try:
            for arg in args:
                values.append(arg(frame))  # noqa: PERF401 - those before a failure are needed
        except CelRuntimeError:
            if not in_turn:  # both arguments are evaluated and charged
                values.append(NONE)
                values += [_value_or_none(arg, frame) for arg in args[len(values) :]]
                frame[COST] += flat if before is None else before(*values)
            raise
        frame[COST] += flat if before is None else before(*values)
        if frame[COST] > LIMIT:
            raise CostExceeded
        value = apply(*values)
        if after is not None:
            frame[COST] += after(value)
        return value

    return call


def _value_or_none(evaluate: Evaluate, frame: Frame) -> Value:
    try:
        return evaluate(frame)
    except CelRuntimeError:
        return NONE


def _logical(terms: list[Evaluate], *, decisive: bool) -> Compiled:
    """`&&` or `||`: the decisive value if any term has it, else the first error."""

    def evaluate(frame: Frame) -> Value:
        failure: CelRuntimeError | None = None
        for term in terms:
            try:
                value = term(frame)
                if value is decisive:
                    return decisive
                if type(value) is not bool:
                    raise no_such_overload()
            except CelRuntimeError as exc:
                failure = failure or exc
        if failure is not None:
            raise failure.with_traceback(None)  # raised repeatedly in a loop, its traceback would grow
        return not decisive

    return Compiled(evaluate)


def _conditional(plans: list[Compiled]) -> Compiled:
    condition, then, otherwise = plans[0].evaluate, plans[1].resolve, plans[2].resolve

    def choose(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return then(frame)
        if value is False:
            return otherwise(frame)
        raise no_such_overload()

    return Compiled(choose, root=choose, surcharge=0)


def _alternative(plans: list[Compiled], *, whole: bool) -> Compiled:
    first, second = plans[0].evaluate, plans[1].evaluate

    def evaluate(frame: Frame) -> Value:
        value = first(frame)
        if type(value) is not Optional:
            return value
        if value.present:
            return value if whole else value.value
        return second(frame)

    return Compiled(evaluate)


def _constant_membership(element: Compiled, container: Value) -> Compiled | None:
    """`x in [...]` with constants: a set look-up instead of a loop."""
    if not container:
        return _constant(False)
    known: set[Hashable] = set()
    for one in container:
        if type(one) not in _KEYS:
            return None
        known.add(token(one))
        if type(one) in (int, Uint):
            known.add(token(float(one)))
        known.update(map(token, other_numbers(one)))
    evaluate = element.evaluate

    def find(frame: Frame) -> Value:
        return token(evaluate(frame)) in known

    return Compiled(find)


def _reading(place: int, start: Evaluate) -> Evaluate:
    """Read an accumulator. The first read evaluates its start value; a failed step raises its error."""

    def read(frame: Frame) -> Value:
        value = frame[place]
        if value is _UNSET:
            try:
                value = start(frame)
            except CelRuntimeError as exc:
                value = _Failed(exc)
            if isinstance(value, list) and not value:
                value = Accumulator()
            elif isinstance(value, Map) and not value.entries:
                value = MapAccumulator()
            frame[place] = value
        if type(value) is _Failed:
            raise value.error.with_traceback(None)
        return value

    return read


def _quantifying(
    source: Evaluate, predicate: Evaluate, places: tuple[int, int, int], *, decisive: bool
) -> Evaluate:
    """`all` and `exists` as a plain loop, with the cost of their comprehension."""
    _, first, second = places
    reading_cost = 3 if decisive else 2  # reading the accumulator before each step

    def quantify(frame: Frame) -> Value:
        failure: CelRuntimeError | None = None
        decided = False
        for key, value in _pairs(source(frame), two=second > 0):
            frame[COST] += reading_cost
            if decided:
                break
            frame[COST] += 1
            if frame[COST] > LIMIT:
                raise CostExceeded
            frame[first] = key
            if second:
                frame[second] = value
            try:
                answer = predicate(frame)
                if answer is decisive:
                    decided = True
                elif type(answer) is not bool:
                    raise no_such_overload()
            except CelRuntimeError as exc:
                failure = failure or exc
        frame[COST] += 1
        if decided:
            return decisive
        if failure is not None:
            raise failure.with_traceback(None)
        return not decisive

    return quantify


def _folding(
    source: Evaluate,
    loop_condition: Evaluate | None,
    step: Evaluate,
    result: Evaluate,
    places: tuple[int, int, int],
) -> Evaluate:
    accumulator, first, second = places

    def fold(frame: Frame) -> Value:
        items = source(frame)
        frame[accumulator] = _UNSET
        for key, value in _pairs(items, two=second > 0):
            frame[first] = key
            if second:
                frame[second] = value
            if loop_condition is not None and _ends_loop(loop_condition, frame):
                break
            try:
                frame[accumulator] = step(frame)
            except CelRuntimeError as exc:
                frame[accumulator] = _Failed(exc)
            if frame[COST] > LIMIT:
                raise CostExceeded
        value = result(frame)
        if type(value) is Accumulator:
            return list(value)
        return Map(value.entries) if type(value) is MapAccumulator else value

    return fold


def _ends_loop(loop_condition: Evaluate, frame: Frame) -> bool:
    try:
        return loop_condition(frame) is False
    except CelRuntimeError:
        return False


def _pairs(items: Value, *, two: bool) -> Any:
    if isinstance(items, list):
        return enumerate(list(items)) if two else ((item, None) for item in list(items))
    if isinstance(items, Map):
        return list(items.items()) if two else [(key, None) for key in items.keys()]  # noqa: SIM118  # no dict
    raise CelRuntimeError(f"got '{type_name(items)}', expected iterable type")
