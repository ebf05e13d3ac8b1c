"""Validation rules in CEL (x-kubernetes-validations), evaluated for JSON values.

In: a rule over `self` and, for updates, `oldSelf`; later the values. Out: what the rule gives, as JSON.
All values are dynamic, so a field that is absent has to be asked for (`has(self.field)`, `self.?field`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from kuberth.cel.checking import Checker
from kuberth.cel.compiling import Compiler, Evaluate, Frame
from kuberth.cel.costs import LIMIT
from kuberth.cel.parsing import parse
from kuberth.cel.source import Problem, Source
from kuberth.cel.static_types import DYN
from kuberth.cel.validating import validate
from kuberth.cel.values import COST_EXCEEDED, WORK, CostExceeded, Map, Optional, Value
from kuberth.errors import CelCompileError, CelRuntimeError

_VARIABLES: Final = {"self": DYN, "oldSelf": DYN}


class ValidationRule:
    """A compiled expression over `self` and `oldSelf`."""

    def __init__(self, expression: str, evaluate: Evaluate, *, frame_length: int) -> None:
        self.expression = expression
        self._evaluate = evaluate
        self._frame = [0] + [None] * (frame_length - 1)

    def evaluate(self, value: Any, old: Any = None) -> Any:
        """What the expression gives for these values; `CelRuntimeError` where it gives nothing."""
        WORK.begin()
        frame: Frame = self._frame.copy()
        frame[1], frame[2] = _from_json(value), _from_json(old)
        try:
            result = self._evaluate(frame)
        except (CostExceeded, RecursionError, MemoryError):
            raise CelRuntimeError(COST_EXCEEDED) from None
        if frame[0] > LIMIT:
            raise CelRuntimeError(COST_EXCEEDED)
        return _to_json(result)


@lru_cache(maxsize=512)
def compile_rule(expression: str) -> ValidationRule:
    """The rule of this text; raises `CelCompileError` if it is none."""
    problems: list[Problem] = []
    tree = parse(expression, problems)
    if tree is not None:
        checker = Checker(problems, variables=_VARIABLES)
        checker.check(tree)
        if not problems:
            problems += validate(tree, checker.final)
    if tree is None or problems:
        raise CelCompileError(f"compilation failed: {Source(expression).report(problems)}")
    evaluate, frame_length = Compiler(checker.final, more=("oldSelf",)).compile(tree)
    return ValidationRule(expression, evaluate, frame_length=frame_length)


def _from_json(tree: Any) -> Value:
    if isinstance(tree, dict):
        return Map({key: _from_json(value) for key, value in tree.items()})
    return [_from_json(value) for value in tree] if isinstance(tree, list) else tree


def _to_json(value: Value) -> Any:
    if isinstance(value, Map):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, Optional):
        return _to_json(value.value) if value.present else None
    return [_to_json(item) for item in value] if isinstance(value, list) else value
