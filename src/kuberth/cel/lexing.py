"""Splits the text of an expression into tokens.

In: the text. Out: its tokens with their offsets, and problems for text that is not a token.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kuberth.cel.source import Problem

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
