"""String functions: the standard ones, version 2 of the strings extension, and regular expressions."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from kuberth.cel.costs import contains_cost, first_tenth, pattern_cost, twice_first_tenth, whole_size
from kuberth.cel.declarations import Apply, Overload, function, method
from kuberth.cel.library.formatting import GO_ESCAPES, format_text
from kuberth.cel.patterns import Pattern, PatternError, compile_pattern
from kuberth.cel.values import (
    MAX_CHARACTERS,
    MAX_ELEMENTS,
    CostExceeded,
    Value,
    no_such_overload,
    size_of,
)
from kuberth.errors import CelRuntimeError

_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED = str.maketrans(GO_ESCAPES)


def _on_texts(apply: Callable[[str, str], bool]) -> Apply:
    """A function of two texts that checks its arguments itself."""

    def checked(text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            raise no_such_overload()
        return apply(text, part)

    return checked


def _out_of_range(index: int) -> CelRuntimeError:
    return CelRuntimeError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start) if start < len(text) else -1


def _last_index_of(text: str, part: str) -> int:
    if not part:
        return len(text)
    return text.rfind(part)


def _last_index_from(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    most = len(text) + 1 if not old else text.count(old)
    if 0 <= count < most:
        most = count
    if len(text) + most * len(new) > MAX_CHARACTERS:
        raise CostExceeded
    return text.replace(old, new, most)


def _split(text: str, separator: str, count: int = -1) -> list[Value]:
    if count == 0:
        return []
    if len(text) > MAX_ELEMENTS:
        raise CostExceeded
    if not separator:
        if 0 < count < len(text):
            return [*text[: count - 1], text[count - 1 :]]
        return list(text)
    return list(text.split(separator, count - 1 if count > 0 else -1))


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = max(start, len(text)) if end is None else end
    if start > end:
        raise CelRuntimeError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def _joined_size(result: Value) -> int:
    return ceil(size_of(result) * 2 * 0.1)


def _join(parts: list[Value], separator: str = "") -> str:
    length = len(separator) * len(parts)
    for part in parts:
        if type(part) is not str:
            raise CelRuntimeError(f"join: invalid input: {part}")
        length += len(part)
    if length > MAX_CHARACTERS:
        raise CostExceeded
    return separator.join(parts)


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


def _find(text: str, pattern: str) -> str:
    return _compiled(pattern).find(text)


def _find_all(text: str, pattern: str, most: int = -1) -> list[Value]:
    found: list[Value] = []
    for part in _compiled(pattern).find_all(text, most):
        found.append(part)
        if len(found) > MAX_ELEMENTS:
            raise CostExceeded
    return found


STANDARD: tuple[Overload, ...] = (
    function("matches(string, string) -> bool"),
    method("string.matches(string) -> bool", cost_if_picked=pattern_cost),
    method("string.contains(string) -> bool", _on_texts(lambda text, part: part in text), cost=contains_cost),
    method("string.endsWith(string) -> bool", _on_texts(str.endswith), cost=first_tenth),
    method("string.startsWith(string) -> bool", _on_texts(str.startswith), cost=first_tenth),
)
LIBRARY: tuple[Overload, ...] = (
    method("string.charAt(int) -> string", _char_at),
    method("string.indexOf(string) -> int", _index_of, cost=whole_size),
    method("string.indexOf(string, int) -> int", _index_of, cost=whole_size),
    method("string.lastIndexOf(string) -> int", _last_index_of, cost=whole_size),
    method("string.lastIndexOf(string, int) -> int", _last_index_from, cost=whole_size),
    method("string.lowerAscii() -> string", lambda text: text.translate(_LOWER), cost=first_tenth),
    method("string.upperAscii() -> string", lambda text: text.translate(_UPPER), cost=first_tenth),
    method("string.replace(string, string) -> string", _replace, cost=twice_first_tenth),
    method("string.replace(string, string, int) -> string", _replace, cost=twice_first_tenth),
    method("string.split(string) -> list(string)", _split, cost=twice_first_tenth),
    method("string.split(string, int) -> list(string)", _split, cost=twice_first_tenth),
    method("string.substring(int) -> string", _substring, cost=first_tenth),
    method("string.substring(int, int) -> string", _substring, cost=first_tenth),
    method("string.trim() -> string", lambda text: text.strip(_SPACES), cost=first_tenth),
    method("string.format(list(dyn)) -> string", format_text, cost=first_tenth),
    function("strings.quote(string) -> string", _quote, cost=first_tenth),
    method("list(string).join() -> string", _join, result_cost=_joined_size),
    method("list(string).join(string) -> string", _join, result_cost=_joined_size),
    method("string.find(string) -> string", _find, cost=pattern_cost),
    method("string.findAll(string) -> list(string)", _find_all, cost=pattern_cost),
    method("string.findAll(string, int) -> list(string)", _find_all, cost=pattern_cost),
)
OPERATORS: dict[str, Apply] = {"matches": _matches}

PATTERN_ARGUMENT = {"matches": 1, "find": 1, "findAll": 1}
"""The position of the pattern argument; a constant one is checked at compile time."""
