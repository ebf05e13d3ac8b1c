"""Reads YAML scalars as Kubernetes does, which follows neither YAML 1.1 nor 1.2 exactly.

In: the text of a scalar, possibly with its tag. Out: None, bool, int, float or str. `yes` and `on` are true
and `017` is fifteen, as in 1.1; `0o17` is fifteen too, as in 1.2; `12:30` and dates are text. The tests
contain the results of Kubernetes' own reader.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any, Final

_TAG: Final = "tag:yaml.org,2002:"
_WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMBER_START: Final = frozenset("0123456789+-.")
# The longest form of a 64-bit integer is binary, with a sign.
_INTEGER: Final = re.compile(
    r"[-+]?(?:0[bB](?P<binary>[01]{1,64})|0[oO]?(?P<octal>[0-7]{1,24})|0[xX](?P<hex>[0-9a-fA-F]{1,64})"
    r"|(?P<decimal>0|[1-9][0-9]{0,20}))"
)
_BASES: Final = {"binary": 2, "octal": 8, "hex": 16, "decimal": 10}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s].*)?")
_WRITTEN_AS_INTEGER: Final = 1e21
"""Below this, JSON has a float without a fraction in the form of an integer, and so it becomes one."""


def plain_scalar(text: str) -> Any:
    """The value of unquoted text without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_START:
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    number: float | None = _integer(digits)
    if number is None and _FLOAT.fullmatch(digits):
        number = _float(digits)
    return text if number is None else number


def tagged_scalar(tag: str, text: str) -> Any:
    """The value of text with an explicit tag; ValueError if the text does not have this type."""
    read = _TAGGED.get(tag.removeprefix(_TAG)) if tag.startswith(_TAG) else None
    return text if read is None else read(text)


def _integer(text: str) -> int | None:
    found = _INTEGER.fullmatch(text)
    if found is None or found.lastgroup is None:
        return None
    number = int(found[found.lastgroup], _BASES[found.lastgroup])
    if text[0] == "-":
        return -number if number <= 2**63 else None
    # Only integers without a sign may use all 64 bits.
    return number if number < (2**63 if text[0] == "+" else 2**64) else None


def _float(text: str) -> float | None:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        return None
    return int(number) if number.is_integer() and abs(number) < _WRITTEN_AS_INTEGER else number


def _expect(*types: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = plain_scalar(text)
        if type(value) not in types:
            raise ValueError(f"it is no {types[0].__name__}")
        return value

    return read


def _read_integer(text: str) -> int:
    number = _integer(text.replace("_", ""))
    if number is None:
        raise ValueError("it is no int")
    return number


def _read_timestamp(text: str) -> str:
    if not _DATE.fullmatch(text):
        raise ValueError("it is no timestamp")
    return text


_TAGGED: Final[dict[str, Callable[[str], Any]]] = {
    "int": _read_integer,
    "float": _expect(float, int),
    "bool": _expect(bool),
    "null": _expect(type(None)),
    "binary": lambda text: base64.b64decode("".join(text.split()), validate=True).decode(),
    "timestamp": _read_timestamp,
}
