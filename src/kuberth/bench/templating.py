"""Object templates: text with `{{.Index}}` in it → plain trees.

In: a file, and the number of the object and of all objects. Out: the tree of one object. Of Go's
text/template only what workloads use is understood: `.Index`, `.Count`, numbers, calls of arithmetic
functions, comments and the trimming of spaces. Anything else between braces is refused by name.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NoReturn

from kuberth.errors import ConfigError
from kuberth.text.documents import read_tree
from kuberth.text.field_errors import InvalidConfiguration

Number = int | float

_ACTION: Final = re.compile(r"\{\{(- )?(.*?)( -)?\}\}", re.DOTALL)
_COMMENT: Final = re.compile(r"\s*/\*.*\*/\s*", re.DOTALL)
_TOKEN: Final = re.compile(
    r"\s*(?:([()])|(\.?[A-Za-z_]\w*)|([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(\S+))"
)


def _divide(dividend: Number, divisor: Number) -> float:
    if divisor == 0:
        raise ValueError("division by zero")
    return dividend / divisor


def _remainder(dividend: Number, divisor: Number) -> int:
    if int(divisor) == 0:
        raise ValueError("division by zero")
    return int(math.fmod(int(dividend), int(divisor)))  # with the sign of the dividend, as Go's


FUNCTIONS: Final[Mapping[str, Callable[..., Number]]] = {
    "AddFloat": lambda *numbers: float(sum(numbers)),
    "AddInt": lambda *numbers: int(sum(numbers)),
    "DivideFloat": _divide,
    "DivideInt": lambda dividend, divisor: int(_divide(dividend, divisor)),
    "Mod": _remainder,
    "MultiplyFloat": lambda *numbers: float(math.prod(numbers)),
    "MultiplyInt": lambda *numbers: int(math.prod(numbers)),
    "SubtractFloat": lambda number, less: float(number - less),
    "SubtractInt": lambda number, less: int(number - less),
}

Values = Mapping[str, int]
_Part = str | Callable[[Values], Number]


class Template:
    """A parsed template. `static`: it has no actions, and every object made from it is the same."""

    def __init__(self, text: str, *, source: str) -> None:
        self._source = source
        self._parts = _parse(text, source)
        self.static = all(isinstance(part, str) for part in self._parts)
        self._tree: Any = None

    @classmethod
    def read(cls, path: Path) -> Template:
        try:
            return cls(path.read_text(encoding="utf-8"), source=str(path))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"template {path} cannot be read: {reason}") from error

    def text(self, index: int, count: int) -> str:
        values = {"Index": index, "Count": count}
        try:
            return "".join(part if isinstance(part, str) else _format(part(values)) for part in self._parts)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"template {self._source}, object {index} of {count}: {error}") from error

    def tree(self, index: int, count: int) -> dict[str, Any]:
        """The object; it is to be read, not changed: a static template gives the same one again."""
        if self.static and self._tree is not None:
            return self._tree  # type: ignore[no-any-return]  # it was checked when it was kept
        tree = self._read(self.text(index, count))
        if self.static:
            self._tree = tree
        return tree

    def _read(self, text: str) -> dict[str, Any]:
        try:
            tree, errors = read_tree(text)
        except InvalidConfiguration as error:
            raise ConfigError(f"template {self._source} is not YAML: {error}") from error
        if errors:
            raise ConfigError(f"template {self._source}: {errors[0]}")
        if not isinstance(tree, dict) or not isinstance(tree.get("metadata", {}), dict):
            raise ConfigError(f"template {self._source}: expected one Kubernetes object")
        return tree


def _parse(text: str, source: str) -> Sequence[_Part]:
    parts: list[_Part] = []
    end, trim_next = 0, False
    for found in _ACTION.finditer(text):
        literal = text[end : found.start()]
        if trim_next:
            literal = literal.lstrip()
        parts.append(literal.rstrip() if found[1] else literal)
        if not _COMMENT.fullmatch(found[2]):
            parts.append(_compile(found[2], source))
        end, trim_next = found.end(), bool(found[3])
    rest = text[end:]
    parts.append(rest.lstrip() if trim_next else rest)
    if "{{" in "".join(part for part in parts if isinstance(part, str)):
        raise ConfigError(f"template {source}: a {{{{ has no }}}}")
    return parts


def _compile(text: str, source: str) -> Callable[[Values], Number]:
    """An expression between braces, as a function of the values."""
    tokens = deque(found for found in _TOKEN.finditer(text) if found[0].strip())

    def refuse(what: str) -> NoReturn:
        raise ConfigError(
            f"template {source}: {{{{ {text.strip()} }}}} has {what}, which is not understood here; "
            f"understood are .Index, .Count, numbers and {', '.join(FUNCTIONS)}"
        )

    def call() -> Callable[[Values], Number]:
        """A function with its arguments, or a single value."""
        name = tokens[0][2] if tokens else None
        if name is None or name.startswith("."):
            return value()
        tokens.popleft()
        function = FUNCTIONS.get(name) or refuse(name)
        arguments = []
        while tokens and tokens[0][1] != ")":
            arguments.append(value())
        return lambda values: function(*(argument(values) for argument in arguments))

    def value() -> Callable[[Values], Number]:
        if not tokens:
            refuse("nothing")
        token = tokens.popleft()
        if token[1] == "(":
            inner = call()
            if not tokens or tokens.popleft()[1] != ")":
                refuse("a ( without )")
            return inner
        if token[2] in (".Index", ".Count"):
            return itemgetter(token[2][1:])
        if token[3]:
            number = _number(token[3])
            return lambda _values: number
        refuse(token[0].strip())

    compiled = call()
    if tokens:
        refuse(tokens[0][0].strip())
    return compiled


def _number(text: str) -> Number:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _format(number: Number) -> str:
    """A number as Go prints it: the shortest digits, an exponent only far from one."""
    if isinstance(number, int):
        return str(number)
    if number == 0 or 1e-4 <= abs(number) < 1e21:
        return format(Decimal(repr(number)), "f").removesuffix(".0")
    return repr(number)
