"""Parses expressions.

In: the text of an expression. Out: its tree with macros expanded, or problems. The limits are cel-go's: the
length of the text and the depth of its nesting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from kuberth.cel import syntax
from kuberth.cel.lexing import END, Token, read_literal, read_tokens
from kuberth.cel.macros import MacroProblem, expand
from kuberth.cel.source import NOWHERE, Problem

T = TypeVar("T")

MAX_CODE_POINTS = 100_000
MAX_DEPTH = 250

_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in"),
        *("let", "loop", "package", "namespace", "null", "return", "true", "var", "void", "while"),
    }
)
_RELATIONS = {
    "<": "_<_",
    "<=": "_<=_",
    ">=": "_>=_",
    ">": "_>_",
    "==": "_==_",
    "!=": "_!=_",
    "in": "@in",
}
_SUMS = {"+": (1, "_+_"), "-": (1, "_-_"), "*": (2, "_*_"), "/": (2, "_/_"), "%": (2, "_%_")}
_WORD_VALUES = {"true": True, "false": False, "null": None}

_OPERAND = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES,"
    " IDENTIFIER}"
)


class _StopParsing(Exception):  # noqa: N818  # ends the parser, never leaves it
    """Parsing cannot go on; the problem is recorded."""


def parse(text: str, problems: list[Problem]) -> syntax.Expression | None:
    """The tree of the text; None, and problems, for an invalid text."""
    if len(text) > MAX_CODE_POINTS:
        problems.append(
            Problem(
                NOWHERE,
                f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CODE_POINTS}",
            )
        )
        return None
    tokens = read_tokens(text, problems)
    if problems:
        return None
    try:
        node = _Parser(tokens, problems).whole()
    except _StopParsing:
        return None
    return None if problems else node


class _Parser:
    def __init__(self, tokens: list[Token], problems: list[Problem]) -> None:
        self._tokens = tokens
        self._position = 0
        self._problems = problems
        # Open rules by kind, which cel-go counts against its limit beside the depth of the tree (a chain like
        # a + b + c is as deep as it is long).
        self._open = {"expression": 0, "relation": 0, "sum": 0}
        self._unclosed = 0  # brackets, and conditionals without their second half

    def whole(self) -> syntax.Expression:
        node = self._expression()
        if self._peek != END:
            self._unexpected("<EOF>")
        return node

    # Reading tokens

    @property
    def _peek(self) -> str:
        return self._tokens[self._position].kind

    def _take(self) -> Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _accept(self, kind: str) -> bool:
        if self._peek == kind:
            self._position += 1
            return True
        return False

    def _expect(self, kind: str) -> Token:
        token = self._tokens[self._position]
        if token.kind == kind:
            return self._take()
        if kind == ")" and token.kind == END and self._unclosed == 1:
            self._stop(token.offset, f"Syntax error: missing ')' at '{token.text}'")
        return self._unexpected("IDENTIFIER" if kind == "name" else f"'{kind}'")

    def _unexpected(self, wanted: str) -> NoReturn:
        token = self._tokens[self._position]
        self._stop(token.offset, f"Syntax error: mismatched input '{token.text}' expecting {wanted}")

    def _stop(self, offset: int, message: str) -> NoReturn:
        self._problems.append(Problem(offset, message))
        raise _StopParsing

    def _report(self, offset: int, message: str) -> syntax.Expression:
        self._problems.append(Problem(offset, message))
        return syntax.Literal(offset, None)

    # Limits

    def _enter(self, rule: str) -> None:
        self._open[rule] += 1
        if self._open[rule] > MAX_DEPTH:
            self._stop(NOWHERE, f"expression recursion limit exceeded: {MAX_DEPTH}")

    def _nested(
        self, node: syntax.Expression, *parts: syntax.Expression, deeper: int = 1
    ) -> syntax.Expression:
        node.depth = deeper + max((part.depth for part in parts), default=0)
        if node.depth > MAX_DEPTH:
            self._stop(NOWHERE, "max recursion depth exceeded")
        return node

    # Rules, loosest first

    def _expression(self) -> syntax.Expression:
        self._enter("expression")
        node = self._logical("||", "_||_", self._conjunction)
        if self._peek == "?":
            offset = self._take().offset
            self._unclosed += 1
            then = self._logical("||", "_||_", self._conjunction)
            self._expect(":")
            self._unclosed -= 1
            otherwise = self._expression()
            node = self._nested(syntax.Call(offset, "_?_:_", [node, then, otherwise]), node, then, otherwise)
        self._open["expression"] -= 1
        return node

    def _conjunction(self) -> syntax.Expression:
        return self._logical("&&", "_&&_", self._relation)

    def _logical(
        self, mark: str, function: str, operand: Callable[[], syntax.Expression]
    ) -> syntax.Expression:
        terms = [operand()]
        offset = 0
        while self._peek == mark:
            offset = self._take().offset
            terms.append(operand())
        if len(terms) == 1:
            return terms[0]
        return self._nested(syntax.Call(offset, function, terms), *terms, deeper=0)

    def _relation(self) -> syntax.Expression:
        self._enter("relation")
        node = self._sum(1)
        while self._peek in _RELATIONS:
            token = self._take()
            self._enter("relation")
            right = self._sum(1)
            self._open["relation"] -= 1
            node = self._nested(syntax.Call(token.offset, _RELATIONS[token.kind], [node, right]), node, right)
        self._open["relation"] -= 1
        return node

    def _sum(self, binding: int) -> syntax.Expression:
        self._enter("sum")
        node = self._unary()
        while (operator := _SUMS.get(self._peek)) is not None and operator[0] >= binding:
            token = self._take()
            right = self._sum(operator[0] + 1)
            node = self._nested(syntax.Call(token.offset, operator[1], [node, right]), node, right)
        self._open["sum"] -= 1
        return node

    def _unary(self) -> syntax.Expression:
        first = self._tokens[self._position]
        if first.kind not in ("!", "-") or self._at_signed_number():
            return self._member()
        count = 0
        while self._accept(first.kind):
            count += 1
        operand = self._member()
        if count % 2 == 0:
            return operand
        function = "!_" if first.kind == "!" else "-_"
        return self._nested(syntax.Call(first.offset, function, [operand]), operand, deeper=0)

    def _at_signed_number(self) -> bool:
        return self._peek == "-" and self._tokens[self._position + 1].kind in ("int", "float")

    def _member(self) -> syntax.Expression:
        node = self._primary()
        while self._peek in (".", "["):
            node = self._access(node) if self._peek == "." else self._index(node)
        return node

    def _access(self, operand: syntax.Expression) -> syntax.Expression:
        dot = self._take()
        optional = self._accept("?")
        if self._peek == "quoted":
            return self._report(self._take().offset, "unsupported syntax: '`'")
        name = self._expect("name")
        if optional:
            field = syntax.Literal(name.offset, name.text)
            return self._nested(syntax.Call(dot.offset, "_?._", [operand, field]), operand)
        if self._peek != "(":
            return self._nested(syntax.Select(dot.offset, operand, name.text), operand)
        offset, args = self._arguments()
        return self._nested(self._call(offset, name.text, args, operand), operand, *args)

    def _index(self, operand: syntax.Expression) -> syntax.Expression:
        bracket = self._take()
        function = "_[?_]" if self._accept("?") else "_[_]"
        index = self._within("]", self._expression)
        return self._nested(syntax.Call(bracket.offset, function, [operand, index]), operand, index)

    def _call(
        self,
        offset: int,
        function: str,
        args: list[syntax.Expression],
        target: syntax.Expression | None = None,
    ) -> syntax.Expression:
        try:
            expanded = expand(offset, function, target, args)
        except MacroProblem as exc:
            return self._report(*exc.problem)
        return syntax.Call(offset, function, args, target) if expanded is None else expanded

    def _arguments(self) -> tuple[int, list[syntax.Expression]]:
        offset = self._expect("(").offset
        return offset, self._within(")", self._expressions)

    def _expressions(self) -> list[syntax.Expression]:
        """None, or several with commas between them."""
        if self._peek == ")":
            return []
        found = [self._expression()]
        while self._accept(","):
            found.append(self._expression())
        return found

    def _primary(self) -> syntax.Expression:
        token = self._tokens[self._position]
        kind = token.kind
        if kind == "(":
            self._take()
            return self._within(")", self._expression)
        if kind == "[":
            return self._list()
        if kind == "{":
            return self._map()
        if kind in _WORD_VALUES:
            self._take()
            return syntax.Literal(token.offset, _WORD_VALUES[kind])
        if kind in ("name", "."):
            return self._message() if self._at_message() else self._name()
        if kind == "-" and self._at_signed_number():
            self._take()
            return self._literal(token.offset, negative=True)
        if kind in ("int", "uint", "float", "string", "bytes"):
            return self._literal(token.offset, negative=False)
        return self._unexpected(_OPERAND)

    def _literal(self, offset: int, *, negative: bool) -> syntax.Expression:
        token = self._take()
        try:
            return syntax.Literal(offset, read_literal(token, negative=negative))
        except ValueError as exc:
            return self._report(offset, str(exc))

    def _name(self) -> syntax.Expression:
        start = self._tokens[self._position].offset
        leading = "." if self._accept(".") else ""
        token = self._expect("name")
        if token.text in _RESERVED:
            self._problems.append(Problem(start, f"reserved identifier: {token.text}"))
        if self._peek != "(":
            return syntax.Name(token.offset, leading + token.text)
        offset, args = self._arguments()
        return self._nested(self._call(offset, leading + token.text, args), *args, deeper=0)

    def _within(self, closing: str, read: Callable[[], T]) -> T:
        """What is read up to a bracket."""
        self._unclosed += 1
        found = read()
        self._expect(closing)
        self._unclosed -= 1
        return found

    def _items(self, closing: str, read: Callable[[], T]) -> list[T]:
        """Items before a bracket; a comma may follow the last one."""
        items: list[T] = []
        while self._peek not in (closing, ","):
            items.append(read())
            if self._peek != "," or self._tokens[self._position + 1].kind == closing:
                break
            self._take()
        self._accept(",")
        return items

    def _list(self) -> syntax.Expression:
        offset = self._take().offset
        items = self._within("]", lambda: self._items("]", lambda: (self._accept("?"), self._expression())))
        elements = [element for _, element in items]
        optional = frozenset(index for index, (is_optional, _) in enumerate(items) if is_optional)
        return self._nested(syntax.ListLiteral(offset, elements, optional), *elements, deeper=0)

    def _map(self) -> syntax.Expression:
        offset = self._take().offset
        entries = self._within("}", lambda: self._items("}", self._entry))
        parts = [part for entry in entries for part in (entry.key, entry.value)]
        return self._nested(syntax.MapLiteral(offset, entries), *parts, deeper=0)

    def _entry(self) -> syntax.Entry:
        optional = self._accept("?")
        key = self._expression()
        self._expect(":")
        return syntax.Entry(key, self._expression(), optional=optional)

    def _at_message(self) -> bool:
        """Whether a dotted name is followed by a brace."""
        position = self._position + (self._peek == ".")
        kinds = self._tokens
        while kinds[position].kind == "name":
            position += 1
            if kinds[position].kind == "{":
                return True
            if kinds[position].kind != ".":
                return False
            position += 1
        return False

    def _message(self) -> syntax.Expression:
        name = ""
        while self._peek != "{":
            name += self._take().text
        offset = self._take().offset
        fields = self._items("}", self._message_field)
        self._expect("}")
        return self._nested(
            syntax.MessageLiteral(offset, name, fields), *(field.value for field in fields), deeper=0
        )

    def _message_field(self) -> syntax.MessageField:
        self._accept("?")
        name = self._expect("name").text
        colon = self._expect(":").offset
        return syntax.MessageField(colon, name, self._expression())
