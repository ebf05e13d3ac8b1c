"""Label selectors: requirements on single labels, all of which must hold.

In: a `LabelSelector` struct or a set of labels. Out: a `Selector`; selectors with the same meaning are equal,
however they were written.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Final

from kuberth.api.meta import LabelSelector
from kuberth.errors import SelectorError

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")


class Operator(enum.Enum):
    """The operator of a requirement; the values are those of selector strings."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = ">"
    LESS_THAN = "<"

    __hash__ = object.__hash__  # that of enum.Enum is Python code, and every requirement is hashed


_MEANING = {
    Operator.EQUALS: Operator.IN,
    Operator.DOUBLE_EQUALS: Operator.IN,
    Operator.NOT_EQUALS: Operator.NOT_IN,
}
_NO_VALUES = frozenset[str]()
_KEY = attrgetter("key")
LABEL_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
"""The operators of label selectors in the API."""


class Requirement:
    """A condition on one label. `a=b`, `a==b` and `a in (b)` are equal, but are printed as they were written.

    Immutable. `new_requirement` creates it with validation, `selector_from_set` without.
    """

    # Not a dataclass: a pod can have thousands of requirements, and a frozen dataclass takes twice as long.
    __slots__ = ("_hash", "bound", "key", "meaning", "operator", "value_set", "values")

    def __init__(self, key: str, operator: Operator, values: tuple[str, ...] = ()) -> None:
        self.key: Final[str] = key
        """The key of the label."""
        self.operator: Final[Operator] = operator
        """The operator, as written in the selector."""
        self.values: Final[tuple[str, ...]] = values
        """The values that the label's value is compared with."""
        meaning = _MEANING.get(operator, operator)
        bound = 0
        value_set: frozenset[str] = _NO_VALUES
        if meaning is Operator.GREATER_THAN or meaning is Operator.LESS_THAN:
            parsed = parse_int64(values[0]) if len(values) == 1 else None
            if parsed is None:
                raise SelectorError(
                    f"label {key!r}: {operator.value!r} takes exactly one integer, got {list(values)}"
                )
            bound = parsed
        elif values:
            value_set = frozenset(values)
        self.meaning: Final[Operator] = meaning
        """The operator without its spelling: all forms of In, and all of NotIn, are one."""
        self.value_set: Final[frozenset[str]] = value_set
        """The values of In and NotIn."""
        self.bound: Final[int] = bound
        """The number with which Gt and Lt compare."""
        self._hash: int | None = None

    def matches_value(self, value: str | None) -> bool:
        """Whether a label with this value satisfies it; None means that the label is absent."""
        meaning = self.meaning
        if meaning is Operator.IN:
            return value in self.value_set
        if meaning is Operator.NOT_IN:
            return value not in self.value_set
        if meaning is Operator.EXISTS:
            return value is not None
        if meaning is Operator.DOES_NOT_EXIST:
            return value is None
        number = None if value is None else parse_int64(value)
        if number is None:
            return False
        return number > self.bound if meaning is Operator.GREATER_THAN else number < self.bound

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it."""
        return self.matches_value(labels.get(self.key))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Requirement):
            return NotImplemented
        return (
            self.key == other.key
            and self.meaning is other.meaning
            and self.value_set == other.value_set
            and self.bound == other.bound
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.key, self.meaning, self.value_set, self.bound))
        return self._hash

    def __repr__(self) -> str:
        return f"<Requirement {self}>"

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.value} ({values})"
            case _:
                return f"{self.key}{self.operator.value}{values}"


class Selector:
    """Requirements, all of which must hold, ordered by key; without any, everything matches. Immutable.

    `matches_nothing` is only True for an absent `LabelSelector`, not for a selector that contradicts itself,
    as upstream.
    """

    __slots__ = ("_hash", "matches_nothing", "requirements")

    def __init__(self, requirements: tuple[Requirement, ...] = (), matches_nothing: bool = False) -> None:
        if len(requirements) > 1:
            requirements = tuple(sorted(requirements, key=_KEY))
        self.requirements: Final[tuple[Requirement, ...]] = requirements
        """The requirements, ordered by key; all of them must hold."""
        self.matches_nothing: Final[bool] = matches_nothing
        """Whether the selector matches no object at all."""
        self._hash: int | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector matches an object with these labels."""
        if self.matches_nothing:
            return False
        get = labels.get
        return all(requirement.matches_value(get(requirement.key)) for requirement in self.requirements)

    @property
    def empty(self) -> bool:
        """Whether the selector has no requirements and matches every object."""
        return not self.requirements and not self.matches_nothing

    @property
    def length(self) -> int:
        """The number of requirements plus the number of their values."""
        return len(self.requirements) + sum(len(each.values) for each in self.requirements)

    @property
    def keys(self) -> frozenset[str]:
        """The label keys that the requirements name."""
        return frozenset(requirement.key for requirement in self.requirements)

    def with_requirements(self, requirements: Iterable[Requirement]) -> Selector:
        """This selector with more requirements; one that matches nothing is returned unchanged."""
        return self if self.matches_nothing else Selector((*self.requirements, *requirements))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selector):
            return NotImplemented
        if self.matches_nothing is not other.matches_nothing or hash(self) != hash(other):
            return False
        ours, theirs = self.requirements, other.requirements
        return ours == theirs or frozenset(ours) == frozenset(theirs)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((frozenset(self.requirements), self.matches_nothing))
        return self._hash

    def __repr__(self) -> str:
        return "<Selector of nothing>" if self.matches_nothing else f"<Selector {self}>"

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
NOTHING = Selector(matches_nothing=True)


def compile_label_selector(selector: LabelSelector | None) -> Selector:
    """Compile a selector: None selects nothing, an empty one all. SelectorError if the API rejects it."""
    if selector is None:
        return NOTHING
    if not selector.match_labels and not selector.match_expressions:
        return EVERYTHING
    requirements = [
        new_requirement(key, Operator.EQUALS, values=(value,)) for key, value in selector.match_labels.items()
    ]
    for expression in selector.match_expressions:
        operator = LABEL_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(
                f"label {expression.key!r}: {expression.operator!r} is not a label selector operator; "
                f"use one of {', '.join(LABEL_OPERATORS)}"
            )
        requirements.append(new_requirement(expression.key, operator, values=expression.values))
    return Selector(tuple(requirements))


def selector_from_set(labels: Mapping[str, str]) -> Selector:
    """A selector that requires exactly these labels; nothing is validated, as upstream."""
    if not labels:
        return EVERYTHING
    return Selector(tuple(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items()))


def new_requirement(key: str, operator: Operator, *, values: Iterable[str] = ()) -> Requirement:
    """Create a requirement that the API would accept; SelectorError with all problems otherwise."""
    values = tuple(values)
    if is_label_key(key) and not _values_problem(operator, values) and all(map(_VALUE.fullmatch, values)):
        return Requirement(key, operator, values)
    problems = []
    if not is_label_key(key):
        problems.append(
            f"key {key!r} is not a label key (an optional DNS subdomain and '/', then up to 63 letters, "
            "digits, '-', '_' or '.', beginning and ending with a letter or digit)"
        )
    problem = _values_problem(operator, values)
    if problem:
        problems.append(problem)
    problems += [
        f"value {value!r} is not a label value (up to 63 letters, digits, '-', '_' or '.', beginning and "
        "ending with a letter or digit)"
        for value in values
        if not is_label_value(value)
    ]
    raise SelectorError(f"label {key!r}: {'; '.join(problems)}")


def _values_problem(operator: Operator, values: tuple[str, ...]) -> str:
    if operator in (Operator.IN, Operator.NOT_IN):
        return "" if values else f"{operator.value!r} needs at least one value"
    name = operator.value
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return f"{name!r} takes no values, got {list(values)}" if values else ""
    if len(values) != 1:
        return f"{name!r} takes exactly one value, got {list(values)}"
    if operator in (Operator.GREATER_THAN, Operator.LESS_THAN) and parse_int64(values[0]) is None:
        return f"{name!r} needs an integer, got {values[0]!r}"
    return ""


def is_subdomain(name: str) -> bool:
    """Whether this is a DNS subdomain (RFC 1123), which the names of most kinds have to be."""
    return len(name) <= 253 and _SUBDOMAIN.fullmatch(name) is not None


@lru_cache(maxsize=1024)
def is_label_key(key: str) -> bool:
    """Whether this can be a label key (upstream: qualified name): `[subdomain/]name`."""
    prefix, slash, name = key.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Whether this can be a label value; the empty string can."""
    return _VALUE.fullmatch(value) is not None


def parse_int64(text: str) -> int | None:
    """The decimal integer in the text; None if there is none, or it needs more than 64 bits."""
    if _INTEGER.fullmatch(text) is None or len(text.lstrip("+-0")) > 19:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
