"""Compiled expressions: parsed, checked, validated, and evaluated within the limits of cost and work.

In: the text of an expression and the types of its variables; later their values. Out: a `Program`, and the
value and cost of each evaluation. `selector` and `validation_rules` are its two uses.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Final

from kuberth.cel.checking import Checker
from kuberth.cel.compiling import Compiler, Evaluate, Frame
from kuberth.cel.costs import LIMIT
from kuberth.cel.parsing import parse
from kuberth.cel.source import Problem, report
from kuberth.cel.static_types import VARIABLES, Type
from kuberth.cel.validating import validate
from kuberth.cel.values import COST_EXCEEDED, WORK, CostExceeded, Value
from kuberth.errors import CelCompileError, CelRuntimeError

COMPILE_COST: Final = 8
"""What compiling a character costs: on average, it takes as long as this cost of an evaluation."""
_RAISED_LIMIT: Final = 20_000


_SHALLOW = 20  # expressions up to this depth stay within Python's recursion limit


_LOCK: Final = Lock()
_RAISED_FROM: Final[list[int]] = []
"""The original recursion limit, once per thread that has raised it: the limit applies to all threads."""


@contextmanager
def deep_calls() -> Iterator[None]:
    """Raise the recursion limit while the block lasts; the last thread that leaves restores it."""
    with _LOCK:
        usual = _RAISED_FROM[0] if _RAISED_FROM else sys.getrecursionlimit()
        _RAISED_FROM.append(usual)
        sys.setrecursionlimit(max(usual, _RAISED_LIMIT))
    try:
        yield
    finally:
        with _LOCK:
            _RAISED_FROM.pop()
            if not _RAISED_FROM:
                sys.setrecursionlimit(usual)


class Program:
    """A compiled expression; `result` is its static type."""

    def __init__(self, evaluate: Evaluate, result: Type, *, frame_length: int, deep: bool) -> None:
        self.result = result
        self._evaluate = evaluate
        self._deep = deep
        self._frame = [0] + [None] * (frame_length - 1)

    def run(self, *values: Value) -> tuple[Value, int]:
        """The value for these variables, and its cost; raises `CelRuntimeError` if the evaluation fails."""
        WORK.begin()
        frame: Frame = self._frame.copy()
        frame[1 : len(values) + 1] = values
        try:
            if self._deep:
                with deep_calls():
                    value = self._evaluate(frame)
            else:
                value = self._evaluate(frame)
        except (CostExceeded, RecursionError, MemoryError):
            raise CelRuntimeError(COST_EXCEEDED) from None
        finally:
            WORK.end(frame[0])
        if frame[0] > LIMIT:
            raise CelRuntimeError(COST_EXCEEDED)
        return value, frame[0]


def compile_program(
    expression: str,
    *,
    lists: bool = False,
    variables: Mapping[str, Type] = VARIABLES,
    further_variables: Sequence[str] = (),
) -> Program:
    """Compile an expression; raises `CelCompileError` for an invalid text.

    `lists` and `variables` are the checker's options; `further_variables` are the names after the first.
    """
    WORK.begin()
    try:
        with deep_calls():
            return _compile(expression, Checker([], lists=lists, variables=variables), further_variables)
    except (CostExceeded, RecursionError, MemoryError):
        raise CelCompileError("program instantiation failed: the expression is too large") from None
    finally:
        WORK.end(COMPILE_COST * len(expression))


def _compile(expression: str, checker: Checker, further_variables: Sequence[str]) -> Program:
    problems: list[Problem] = checker.problems
    tree = parse(expression, problems)
    if tree is not None:
        result = checker.check(tree)
        if not problems:
            problems += validate(tree, checker.final)
    if tree is None or problems:
        raise CelCompileError(f"compilation failed: {report(expression, problems)}")
    compiler = Compiler(checker.final, further_variables=further_variables)
    evaluate, frame_length = compiler.compile(tree)
    return Program(evaluate, result, frame_length=frame_length, deep=compiler.deepest > _SHALLOW)
