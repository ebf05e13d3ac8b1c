"""Compiled selectors with a cache of their results.

In: an expression, later devices. Out: whether a device matches; for an equal device from the cache.
"""

from __future__ import annotations

from functools import lru_cache

from kuberth.cel.checking import Checker
from kuberth.cel.compiling import Compiler, Evaluate, Frame
from kuberth.cel.costs import LIMIT
from kuberth.cel.deep_calls import deep_calls
from kuberth.cel.device import DeviceContent, variable_of
from kuberth.cel.parsing import parse
from kuberth.cel.source import Problem, Source
from kuberth.cel.static_types import ANY, BOOL, DYN
from kuberth.cel.validating import validate
from kuberth.cel.values import COST_EXCEEDED, WORK, CostExceeded, Optional, Value, type_name
from kuberth.errors import CelCompileError, CelRuntimeError

_SELECTORS = 512
_ANSWERS_A_SELECTOR = 4096
_SHALLOW = 20  # expressions up to this depth stay within Python's recursion limit
_NO_BOOL = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "double": "type conversion error from Double to 'bool'",
}


class DeviceSelector:
    """A compiled expression; evaluates it once for all devices with equal content."""

    def __init__(self, expression: str, evaluate: Evaluate, *, frame_length: int, deep: bool) -> None:
        self.expression = expression
        self._deep = deep
        self._evaluate = evaluate
        self._frame = [0] + [None] * (frame_length - 1)
        self._answers: dict[DeviceContent, bool | str] = {}

    def matches(self, device: DeviceContent) -> bool:
        """Whether the device is selected; raises `CelRuntimeError` if the evaluation fails."""
        answer = self._answers.get(device)
        if answer is None:
            answer = self._ask(device)
        if isinstance(answer, str):
            raise CelRuntimeError(answer)
        return answer

    def cost(self, device: DeviceContent) -> int:
        """The cost of the evaluation, in the units of the limit; raises like `matches`."""
        return int(self._run(device)[1])

    def _ask(self, device: DeviceContent) -> bool | str:
        answer: bool | str
        try:
            answer = self._run(device)[0]
        except CelRuntimeError as exc:
            answer = str(exc)
        if len(self._answers) >= _ANSWERS_A_SELECTOR:
            self._answers.clear()
        self._answers[device] = answer
        return answer

    def _run(self, device: DeviceContent) -> tuple[bool, int]:
        WORK.begin()
        frame: Frame = self._frame.copy()
        frame[1] = variable_of(device)
        try:
            if self._deep:
                with deep_calls():
                    value = self._evaluate(frame)
            else:
                value = self._evaluate(frame)
        except (CostExceeded, RecursionError, MemoryError):
            raise CelRuntimeError(COST_EXCEEDED) from None
        if frame[0] > LIMIT:
            raise CelRuntimeError(COST_EXCEEDED)
        return _as_bool(value), frame[0]


def _as_bool(value: Value) -> bool:
    inner = value
    while type(inner) is Optional and inner.present:
        inner = inner.value
    if type(inner) is bool:
        return inner
    name = type_name(value)
    problem = _NO_BOOL.get(name, f"type conversion error from {name} to 'bool'")
    raise CelRuntimeError(f"CEL result of type {name} could not be converted to bool: {problem}")


def compile_selector(expression: str, *, lists: bool = False) -> DeviceSelector:
    """Compile a selector; raises `CelCompileError` for an invalid text.

    `lists`: attributes may be lists (the feature gate DRAListTypeAttributes).
    """
    compiled = _compile(expression, lists)
    if isinstance(compiled, str):
        raise CelCompileError(compiled)
    return compiled


@lru_cache(maxsize=_SELECTORS)
def _compile(expression: str, lists: bool) -> DeviceSelector | str:
    """The selector, or the error message, which is cached, too."""
    WORK.begin()
    try:
        with deep_calls():
            return _compile_uncached(expression, lists=lists)
    except CelCompileError as exc:
        return str(exc)
    except (CostExceeded, RecursionError, MemoryError):
        return "program instantiation failed: the expression is too large"


def _compile_uncached(expression: str, *, lists: bool) -> DeviceSelector:
    problems: list[Problem] = []
    tree = parse(expression, problems)
    if tree is not None:
        checker = Checker(problems, lists=lists)
        result = checker.check(tree)
        if not problems:
            problems += validate(tree, checker.final)
    if tree is None or problems:
        raise CelCompileError(f"compilation failed: {Source(expression).report(problems)}")
    if result is not BOOL and result is not ANY and not (lists and result is DYN):
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {result.full_name()}")
    compiler = Compiler(checker.final)
    evaluate, frame_length = compiler.compile(tree)
    return DeviceSelector(expression, evaluate, frame_length=frame_length, deep=compiler.deepest > _SHALLOW)
