"""Field selectors, as in `?fieldSelector=spec.nodeName=,status.phase!=Failed`.

In: a selector string. Out: a `FieldSelector`, which is evaluated with a function from field path to value.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kuberth.errors import SelectorError

_TERM = re.compile(r"(?:\\.|[^\\,])*\\?", re.DOTALL)
_OPERATOR = re.compile(r"!=|==|=")
_SPECIAL = re.compile(r"[\\,=]")


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """Requires that a field has a value or, if negated, does not have it; an absent field is empty."""

    field: str
    value: str
    negated: bool = False

    def matches_value(self, value: str | None) -> bool:
        return ((value or "") == self.value) is not self.negated

    def __str__(self) -> str:
        return f"{self.field}{'!=' if self.negated else '='}{escape_field_value(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Requirements on fields, all of which must hold; without any, everything matches."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, get: Callable[[str], str | None]) -> bool:
        """`get` returns the value of a field path; None or "" if there is none."""
        return all(requirement.matches_value(get(requirement.field)) for requirement in self.requirements)

    def requires_exact_match(self, field: str) -> str | None:
        """The only value that this field may have, if the selector names one; for example to use an index."""
        for requirement in self.requirements:
            if requirement.field == field and not requirement.negated:
                return requirement.value
        return None

    @property
    def empty(self) -> bool:
        return not self.requirements

    @property
    def fields(self) -> frozenset[str]:
        """The field paths that it reads."""
        return frozenset(requirement.field for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def parse_field_selector(text: str) -> FieldSelector:
    r"""Parse a field selector; in values, `\\`, `\,` and `\=` mean the character after the backslash."""
    found: list[tuple[str, FieldRequirement]] = []
    position = 0
    while position <= len(text):
        match = _TERM.match(text, position)
        assert match is not None  # the pattern also matches the empty string
        term = match.group()
        if term:
            requirement = _read_term(text, term, position)
            # A term that is just an operator has no effect; upstream drops it.
            if requirement.field or requirement.value:
                found.append((term, requirement))
        position = match.end() + 1
    # Sorted by text, as upstream, so that the written order does not matter.
    found.sort(key=lambda pair: pair[0])
    return FieldSelector(tuple(requirement for _, requirement in found))


def escape_field_value(value: str) -> str:
    """`value` as it must be written in a field selector."""
    return _SPECIAL.sub(lambda match: "\\" + match.group(), value)


def _read_term(text: str, term: str, position: int) -> FieldRequirement:
    operator = _OPERATOR.search(term)
    if operator is None:
        raise SelectorError(
            f"field selector {text!r}, position {position}: {term!r} has no operator (=, == or !=)"
        )
    start = position + operator.end()
    value = _unescape(text, term[operator.end() :], start)
    return FieldRequirement(term[: operator.start()], value, operator.group() == "!=")


def _unescape(text: str, raw: str, start: int) -> str:
    out: list[str] = []
    characters = iter(enumerate(raw, start))
    for position, character in characters:
        if character == "\\":
            _, escaped = next(characters, (0, ""))
            if escaped not in ("\\", ",", "="):
                raise SelectorError(
                    f"field selector {text!r}, position {position}: '\\{escaped}' is no escape; "
                    r"write \\, \, or \="
                )
            out.append(escaped)
        elif character == "=":
            raise SelectorError(
                f"field selector {text!r}, position {position}: '=' in a value must be written '\\='"
            )
        else:
            out.append(character)
    return "".join(out)
