"""Compiled selectors with a cache of their results.

In: an expression, later devices. Out: whether a device matches; for an equal device from the cache.
"""

from __future__ import annotations

from functools import lru_cache

from kuberth.cel.device import DeviceContent, variable_of
from kuberth.cel.program import Program, compile_program
from kuberth.cel.static_types import ANY, BOOL, DYN
from kuberth.cel.values import Optional, Value, type_name
from kuberth.errors import CelCompileError, CelRuntimeError

_SELECTORS = 512
_ANSWERS_A_SELECTOR = 4096
_NO_BOOL = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "double": "type conversion error from Double to 'bool'",
}


class DeviceSelector:
    """A compiled expression; evaluates it once for all devices with equal content."""

    def __init__(self, expression: str, program: Program) -> None:
        self.expression = expression
        self._program = program
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
        return self._run(device)[1]

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
        value, cost = self._program.run(variable_of(device))
        return _as_bool(value), cost


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
    try:
        program = compile_program(expression, lists=lists)
    except CelCompileError as exc:
        return str(exc)
    result = program.result
    if result is not BOOL and result is not ANY and not (lists and result is DYN):
        return f"must evaluate to bool or the unknown type, not {result.full_name()}"
    return DeviceSelector(expression, program)
