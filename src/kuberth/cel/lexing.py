"""Splits the text of an expression into tokens, and reads the values of literals.

In: the text. Out: its tokens with their offsets, and problems for text that is not a token; the value of a
number or string token, or `ValueError` with CEL's message if it is invalid.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kuberth.cel.source import Problem
from kuberth.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint, Value

_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
_STRING = (
    r"[rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\n\r]*\"|'[^'\n\r]*')"
    rf"|\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf"|\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN = re.compile(
    rf"""(?P<skip>[\t \r\n\f]+|//[^\n]*)
        |(?P<bytes>[bB](?:{_STRING}))
        |(?P<string>{_STRING})
        |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
        |(?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
        |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
        |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
        |(?P<quoted>`[A-Za-z0-9_.\-/\ ]+`)
        |(?P<mark>==|!=|<=|>=|&&|\|\||[<>\[\](){{}}.,\-!?:+*/%])""",
    re.VERBOSE,
)
_WORDS = frozenset({"in", "true", "false", "null"})

_SIMPLE_ESCAPES = dict(zip("abfnrtv\\'\"`?", "\a\b\f\n\r\t\v\\'\"`?", strict=True))
_HEX_DIGITS = {"x": 2, "X": 2, "u": 4, "U": 8}
_LONGEST_NUMBER = 4000  # Python refuses to parse longer ones, which exceed 64 bits anyway

END = "end"


class Token(NamedTuple):
    """`kind` is a mark or word itself, or string, bytes, int, uint, float, name, quoted, end."""

    kind: str
    text: str
    offset: int


def read_tokens(text: str, problems: list[Problem]) -> list[Token]:
    """The tokens of a text, and a last one that marks the end."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            problems.append(
                Problem(position, f"Syntax error: token recognition error at: '{text[position]}'")
            )
            position += 1
            continue
        kind, found = str(match.lastgroup), match.group()
        if kind == "mark" or found in _WORDS:
            kind = found
        if kind != "skip":
            tokens.append(Token(kind, found, position))
        position = match.end()
    tokens.append(Token(END, "<EOF>", len(text)))
    return tokens


def read_literal(token: Token, *, negative: bool) -> Value:
    """The value of a literal; `negative`: it is a number after a minus sign."""
    match token.kind:
        case "int":
            return _read_int(token.text, negative=negative)
        case "uint":
            return _read_uint(token.text)
        case "float":
            return _read_double(token.text, negative=negative)
        case "string":
            return _read_string(token.text)
        case _:
            return _read_bytes(token.text)


def _read_int(text: str, *, negative: bool) -> int:
    value = _magnitude(text)
    value = -value if negative else value
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def _read_uint(text: str) -> Uint:
    value = _magnitude(text[:-1])
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return Uint(value)


def _magnitude(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:], 16)
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) < _LONGEST_NUMBER else UINT_MAX + 1


def _read_double(text: str, *, negative: bool) -> float:
    value = float(text)
    if value == float("inf"):
        raise ValueError("invalid double literal")
    return -value if negative else value


def _read_string(token: str) -> str:
    body, raw = _body(token)
    if raw or "\\" not in body:
        return body
    return "".join(chr(code) for code in _codes(body, octets=False))


def _read_bytes(token: str) -> bytes:
    body, raw = _body(token[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    out = bytearray()
    for code in _codes(body, octets=True):
        if code < 0:  # an escaped octet
            out.append(-code - 1)
        else:
            out += chr(code).encode("utf-8", "surrogatepass")
    return bytes(out)


def _body(token: str) -> tuple[str, bool]:
    token = token.replace("\r\n", "\n").replace("\r", "\n")
    raw = token[0] in "rR"
    if raw:
        token = token[1:]
    width = 3 if len(token) >= 6 and token[:3] in ('"""', "'''") else 1
    return token[width:-width], raw


def _codes(body: str, *, octets: bool) -> list[int]:
    """Code points; in bytes an escaped octet is -1 - octet, to distinguish it from a character."""
    codes: list[int] = []
    position = 0
    while position < len(body):
        char = body[position]
        position += 1
        if char != "\\":
            codes.append(ord(char))
            continue
        char = body[position]
        position += 1
        if char in _SIMPLE_ESCAPES:
            codes.append(ord(_SIMPLE_ESCAPES[char]))
            continue
        if char in _HEX_DIGITS:
            if octets and char in "uU":
                raise ValueError("unable to unescape string")
            digits = _HEX_DIGITS[char]
            code = int(body[position : position + digits], 16)
            position += digits
        else:
            code = int(body[position - 1 : position + 2], 8)
            position += 2
        if octets:
            code = -1 - code
        elif code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise ValueError("invalid unicode code point")
        codes.append(code)
    return codes
