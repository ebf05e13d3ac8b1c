"""The string syntax of label selectors, as in `kubectl -l` and `?labelSelector=`.

In: `a=b,c!=d,e in (x,y),f notin (z),!g,h,i>5,j<3`. Out: a `Selector`, or a `SelectorError` with the
position of the error.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kuberth.api.selectors.labels import Operator, Requirement, Selector, new_requirement
from kuberth.errors import SelectorError

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+|\Z)")
_SYMBOLS = frozenset(["==", "!=", "=", "!", "(", ")", ",", "<", ">"])
_OPERATORS = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}


class _Token(NamedTuple):
    text: str  # empty at the end of the selector
    position: int

    @property
    def is_word(self) -> bool:
        return bool(self.text) and self.text not in _SYMBOLS

    @property
    def ends_requirement(self) -> bool:
        return self.text in ("", ",")


def parse_selector(text: str) -> Selector:
    """Parse a selector string; the empty string selects everything."""
    return Selector(tuple(_Parser(text).requirements()))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokenize(text)
        self._next = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if not self._peek().text:
            return found
        while True:
            found.append(self._requirement())
            token = self._take()
            if not token.text:
                return found
            if token.text != ",":
                raise self._expected("',' or the end", token)

    def _requirement(self) -> Requirement:
        token = self._take()
        negated = token.text == "!"
        if negated:
            token = self._take()
        if not token.is_word:
            raise self._expected("a label key", token)
        if negated or self._peek().ends_requirement:
            return self._build(token, Operator.DOES_NOT_EXIST if negated else Operator.EXISTS, ())
        sign = self._take()
        operator = _OPERATORS.get(sign.text)
        if operator is None:
            raise self._expected(f"an operator ({' '.join(_OPERATORS)})", sign)
        in_list = operator in (Operator.IN, Operator.NOT_IN)
        return self._build(token, operator, self._value_list() if in_list else (self._value(),))

    def _value(self) -> str:
        if self._peek().ends_requirement:
            return ""
        token = self._take()
        if not token.is_word:
            raise self._expected("a value", token)
        return token.text

    def _value_list(self) -> tuple[str, ...]:
        """Parse `(a,b)`; nothing between commas or brackets is the empty value."""
        token = self._take()
        if token.text != "(":
            raise self._expected("'('", token)
        values: set[str] = set()
        while True:
            values.add(self._take().text if self._peek().is_word else "")
            token = self._take()
            if token.text == ")":
                return tuple(sorted(values))
            if token.text != ",":
                raise self._expected("',' or ')'", token)

    def _build(self, key: _Token, operator: Operator, values: tuple[str, ...]) -> Requirement:
        try:
            return new_requirement(key.text, operator, values=values)
        except SelectorError as error:
            raise SelectorError(f"selector {self._text!r}, position {key.position}: {error}") from error

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += 1
        return token

    def _expected(self, what: str, token: _Token) -> SelectorError:
        found = repr(token.text) if token.text else "the end"
        return SelectorError(
            f"selector {self._text!r}, position {token.position}: expected {what}, found {found}"
        )


def _tokenize(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while not tokens or tokens[-1].text:
        match = _TOKEN.match(text, position)
        assert match is not None  # every character is blank, a symbol or part of a word; the end matches too
        tokens.append(_Token(match.group(1), match.start(1)))
        position = match.end()
    return tokens
