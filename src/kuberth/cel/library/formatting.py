"""string.format: the clauses %s %d %f %e %b %x %X %o.

In: a format and its arguments. Out: the text. The same reading of a format serves to check one that is
constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isinf, isnan
from typing import NamedTuple

from kuberth.cel.library.times import format_duration, format_timestamp
from kuberth.cel.numbers import format_double, parse_double
from kuberth.cel.values import (
    MAX_CHARACTERS,
    WORK,
    CostExceeded,
    Duration,
    Map,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    type_name,
)
from kuberth.errors import CelRuntimeError

_SPECIAL_NUMBERS = ("NaN", "Infinity", "-Infinity")
_MAX_PRECISION = 10_000

WRONG_TYPE = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types,"
    " durations, and timestamps, was given ",
    "d": "decimal clause can only be used on integers, was given ",
    "f": "fixed-point clause can only be used on doubles, was given ",
    "e": "scientific clause can only be used on doubles, was given ",
    "b": "only integers and bools can be formatted as binary, was given ",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given ",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given ",
    "o": "octal clause can only be used on integers, was given ",
}


class Clause(NamedTuple):
    """A part of a format string: a clause for an argument, or literal text if `kind` is empty."""

    kind: str
    text: str = ""
    precision: int = 6


_Format = Callable[[Value, Clause], str]


def read_format(text: str) -> Iterator[Clause]:
    """Parse a format; raises `CelRuntimeError` for an invalid one."""
    position = 0
    while position < len(text):
        start = text.find("%", position)
        if start < 0:
            yield Clause("", text[position:])
            return
        if start > position:
            yield Clause("", text[position:start])
        position = start + 1
        if text[position : position + 1] == "%":
            yield Clause("", "%")
            position += 1
            continue
        precision = 6
        if position >= len(text):
            yield Clause("?")  # the argument is checked first
            return
        if text[position] == ".":
            digits = position + 1
            while digits < len(text) and text[digits] in "0123456789":
                digits += 1
            precision = _precision(text, position + 1, digits)
            position = digits
        kind = text[position]
        if kind not in WRONG_TYPE:
            raise _unreadable(f'unrecognized formatting clause "{kind}"')
        yield Clause(kind, precision=precision)
        position += 1


def _precision(text: str, start: int, end: int) -> int:
    if end >= len(text):
        raise _unreadable("error while parsing precision: could not find end of precision specifier")
    if start == end or end - start > 18:
        raise _unreadable("error while parsing precision: error while converting precision to integer")
    return int(text[start:end])


def _unreadable(problem: str) -> CelRuntimeError:
    return CelRuntimeError(f"could not parse formatting clause: {problem}")


def format_text(text: str, args: list[Value]) -> str:
    pieces: list[str] = []
    length = used = 0
    for clause in read_format(text):
        if clause.kind:
            if used >= len(args):
                raise CelRuntimeError(f"index {used} out of range")
            if clause.kind == "?":
                raise CelRuntimeError("unexpected end of string")
            pieces.append(_FORMATS[clause.kind](args[used], clause))
            used += 1
        else:
            pieces.append(clause.text)
        length += len(pieces[-1])
        if length > MAX_CHARACTERS:
            raise CostExceeded
    return "".join(pieces)


def _wrong(value: Value, clause: Clause) -> CelRuntimeError:
    return CelRuntimeError(f"error during formatting: {WRONG_TYPE[clause.kind]}{type_name(value)}")


def _as_text(value: Value, clause: Clause) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind in (int, Uint):
        return str(value)
    if kind is float:
        return format_double(value)
    if value is None:
        return "null"
    if kind is bytes:
        try:
            return str(value.decode("utf-8"))
        except UnicodeDecodeError as exc:
            raise CelRuntimeError("error during formatting: could not convert argument to string") from exc
    if kind is Timestamp:
        return format_timestamp(value)
    if kind is Duration:
        return format_duration(value)
    if kind is TypeValue:
        return str(value.name)
    if isinstance(value, list):
        return _list_text(value, clause)
    if isinstance(value, Map):
        return _map_text(value, clause)
    raise _wrong(value, clause)


def _list_text(values: list[Value], clause: Clause) -> str:
    WORK.take(len(values))
    texts: list[str] = []
    length = 0
    for place, value in enumerate(values):
        # A list may hold one list many times, which takes little memory and prints without end.
        repeated = place > 0 and value is values[place - 1]
        texts.append(texts[-1] if repeated else _inner(value, clause))
        length += len(texts[-1]) + 2
        if length > MAX_CHARACTERS:
            raise CostExceeded
    return f"[{', '.join(texts)}]"


def _inner(value: Value, clause: Clause) -> str:
    """A value within a list or map: texts are quoted."""
    kind = type(value)
    if kind is float:
        if isnan(value) or isinf(value):
            return f'"{format_double(value)}"'
        return f"{value:.6f}"
    if kind in (str, bytes):
        return f"{'b' if kind is bytes else ''}{go_quote(_as_text(value, clause))}"
    if kind is Timestamp:
        return f"timestamp({go_quote(format_timestamp(value))})"
    if kind is Duration:
        return f"duration({go_quote(format_duration(value))})"
    if type_name(value) not in _INNER:
        raise CelRuntimeError(f"error during formatting: no formatting function for {type_name(value)}")
    return _as_text(value, clause)


_INNER = frozenset({"int", "uint", "bool", "null_type", "type", "list", "map"})


def _map_text(value: Map, clause: Clause) -> str:
    WORK.take(len(value.entries))
    pairs: list[tuple[str, str]] = []
    length = 0
    for key, one in value.items():
        if type(key) not in (str, bool, int, Uint):
            raise CelRuntimeError(
                f"error during formatting: no formatting function for map key of type {type_name(key)}"
            )
        pairs.append((_inner(key, clause), _inner(one, clause)))
        length += len(pairs[-1][0]) + len(pairs[-1][1])
        if length > MAX_CHARACTERS:
            raise CostExceeded
    pairs.sort(key=lambda pair: pair[0])
    return "{" + ", ".join(f"{key}:{one}" for key, one in pairs) + "}"


def go_quote(text: str) -> str:
    """A text in quotes as Go writes it (%q)."""
    out: list[str] = []
    for char in text:
        if char in GO_ESCAPES:
            out.append(GO_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        elif ord(char) < 0x10000:
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(f"\\U{ord(char):08x}")
    return f'"{"".join(out)}"'


GO_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def _as_double(value: Value, clause: Clause) -> float:
    if value in _SPECIAL_NUMBERS and type(value) is str:
        number = parse_double(value)
        assert number is not None
        return number
    if type(value) is not float:
        raise _wrong(value, clause)
    if clause.precision > _MAX_PRECISION:
        raise CostExceeded
    return float(value)


def _fixed(value: Value, clause: Clause) -> str:
    number = _as_double(value, clause)
    if isnan(number) or isinf(number):
        return _special(number)
    return f"{number:,.{clause.precision}f}"


def _scientific(value: Value, clause: Clause) -> str:
    number = _as_double(value, clause)
    if isnan(number) or isinf(number):
        return _special(number)
    mantissa, exponent = f"{number:.6e}".split("e")
    return f"{mantissa}\u202f×\u202f10{_raised(exponent)}"


def _raised(exponent: str) -> str:
    sign = "⁻" if exponent[0] == "-" else ""
    return sign + "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in exponent[1:])


def _special(number: float) -> str:
    if isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _integer(form: str, *types: type) -> _Format:
    """Formats values of these types as integers."""

    def apply(value: Value, clause: Clause) -> str:
        if type(value) not in types:
            raise _wrong(value, clause)
        return format(int(value), form)

    return apply


def _hex(value: Value, clause: Clause) -> str:
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogatepass")
    text = value.hex() if type(value) is bytes else _integer("x", int, Uint)(value, clause)
    return str(text.upper() if clause.kind == "X" else text)


_FORMATS: dict[str, _Format] = {
    "s": _as_text,
    "d": _integer("d", int, Uint),
    "f": _fixed,
    "e": _scientific,
    "b": _integer("b", int, Uint, bool),
    "x": _hex,
    "X": _hex,
    "o": _integer("o", int, Uint),
}
