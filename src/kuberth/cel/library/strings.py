"""String functions: the standard ones and version 2 of the strings extension."""

from __future__ import annotations

from collections.abc import Callable

from kuberth.cel.declarations import Apply, Overload, function, method
from kuberth.cel.library.formatting import GO_ESCAPES, format_text
from kuberth.cel.values import (
    MAX_CHARACTERS,
    MAX_ELEMENTS,
    CostExceeded,
    Value,
    no_such_overload,
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


def _join(parts: list[Value], separator: str = "") -> str:
    length = len(separator) * len(parts)
    for part in parts:
        if type(part) is not str:
            raise CelRuntimeError(f"join: invalid input: {part}")
        length += len(part)
    if length > MAX_CHARACTERS:
        raise CostExceeded
    return separator.join(parts)


STANDARD: tuple[Overload, ...] = (
    method("string.contains(string) -> bool", _on_texts(lambda text, part: part in text)),
    method("string.endsWith(string) -> bool", _on_texts(str.endswith)),
    method("string.startsWith(string) -> bool", _on_texts(str.startswith)),
)
LIBRARY: tuple[Overload, ...] = (
    method("string.charAt(int) -> string", _char_at),
    method("string.indexOf(string) -> int", _index_of),
    method("string.indexOf(string, int) -> int", _index_of),
    method("string.lastIndexOf(string) -> int", _last_index_of),
    method("string.lastIndexOf(string, int) -> int", _last_index_from),
    method("string.lowerAscii() -> string", lambda text: text.translate(_LOWER)),
    method("string.upperAscii() -> string", lambda text: text.translate(_UPPER)),
    method("string.replace(string, string) -> string", _replace),
    method("string.replace(string, string, int) -> string", _replace),
    method("string.split(string) -> list(string)", _split),
    method("string.split(string, int) -> list(string)", _split),
    method("string.substring(int) -> string", _substring),
    method("string.substring(int, int) -> string", _substring),
    method("string.trim() -> string", lambda text: text.strip(_SPACES)),
    method("string.format(list(dyn)) -> string", format_text),
    function("strings.quote(string) -> string", lambda text: f'"{text.translate(_QUOTED)}"'),
    method("list(string).join() -> string", _join),
    method("list(string).join(string) -> string", _join),
)
