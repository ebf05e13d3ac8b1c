"""Validation rules in CEL (x-kubernetes-validations), evaluated for JSON values.

In: a rule over `self` and, for updates, `oldSelf`; later the values. Out: the rule's result as JSON. All
values are dynamic, so a rule has to test for a field that may be absent (`has(self.field)`, `self.?field`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from kuberth.cel.program import Program, compile_program
from kuberth.cel.static_types import DYN
from kuberth.cel.values import Map, Optional, Value

_VARIABLES: Final = {"self": DYN, "oldSelf": DYN}


class ValidationRule:
    """A compiled expression over `self` and `oldSelf`."""

    def __init__(self, expression: str, program: Program) -> None:
        self.expression = expression
        self._program = program

    def evaluate(self, value: Any, old: Any = None) -> Any:
        """The result for these values as JSON; raises `CelRuntimeError` if the evaluation fails."""
        return _to_json(self._program.run(_from_json(value), _from_json(old))[0])


@lru_cache(maxsize=512)
def compile_rule(expression: str) -> ValidationRule:
    """Compile a rule; raises `CelCompileError` for an invalid text."""
    return ValidationRule(
        expression, compile_program(expression, variables=_VARIABLES, further_variables=("oldSelf",))
    )


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
