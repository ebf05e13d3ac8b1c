"""matches, find and findAll."""

from __future__ import annotations

from kuberth.cel.declarations import Apply, Overload, function, method
from kuberth.cel.patterns import Pattern, PatternError, compile_pattern
from kuberth.cel.values import MAX_ELEMENTS, CostExceeded, Value, no_such_overload
from kuberth.errors import CelRuntimeError


def _matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise CelRuntimeError("no such overload: matches")
    if type(pattern) is not str:
        raise no_such_overload()
    try:
        return compile_pattern(pattern).matches(text)
    except PatternError as exc:
        raise CelRuntimeError(str(exc)) from exc


def _compiled(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern)
    except PatternError as exc:
        raise CelRuntimeError(f"Illegal regex: {exc}") from exc


def _find_all(text: str, pattern: str, most: int = -1) -> list[Value]:
    found: list[Value] = []
    for part in _compiled(pattern).find_all(text, most):
        found.append(part)
        if len(found) > MAX_ELEMENTS:
            raise CostExceeded
    return found


STANDARD: tuple[Overload, ...] = (
    function("matches(string, string) -> bool"),
    method("string.matches(string) -> bool"),
)
LIBRARY: tuple[Overload, ...] = (
    method("string.find(string) -> string", lambda text, pattern: _compiled(pattern).find(text)),
    method("string.findAll(string) -> list(string)", _find_all),
    method("string.findAll(string, int) -> list(string)", _find_all),
)
OPERATORS: dict[str, Apply] = {"matches": _matches}

PATTERN_ARGUMENT = {"matches": 1, "find": 1, "findAll": 1}
"""The position of the pattern argument; a constant one is checked at compile time."""
