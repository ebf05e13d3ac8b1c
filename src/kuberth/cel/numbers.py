"""Parses and formats numbers as Go does.

In: a text or a number. Out: the other; None for a text that is not a number.
"""

from __future__ import annotations

import re
from decimal import Decimal
from math import inf, isfinite, isinf, isnan, nan

from kuberth.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT = re.compile(r"[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?", re.ASCII)
_HEX_DOUBLE = re.compile(r"[+-]?0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9]+", re.ASCII)
_SPECIAL = re.compile(r"([+-]?)(inf|infinity|nan)", re.IGNORECASE | re.ASCII)
_LONGEST = 4000


def parse_int(text: str) -> int | None:
    return _parse_integer(text, _INT, range(INT_MIN, INT_MAX + 1))


def parse_uint(text: str) -> Uint | None:
    value = _parse_integer(text, _UINT, range(UINT_MAX + 1))
    return None if value is None else Uint(value)


def _parse_integer(text: str, form: re.Pattern[str], valid: range) -> int | None:
    if not form.fullmatch(text) or len(text) > _LONGEST:
        return None
    value = int(text)
    return value if value in valid else None


def parse_double(text: str) -> float | None:
    special = _SPECIAL.fullmatch(text)
    if special is not None:
        if special[2].lower() == "nan":
            return None if special[1] else nan
        return -inf if special[1] == "-" else inf
    try:
        if _DOUBLE.fullmatch(text):
            value = float(_without_separators(text))
        elif _HEX_DOUBLE.fullmatch(text):
            value = float.fromhex(_without_separators(text))
        else:
            return None
    except (ValueError, OverflowError):
        return None
    return None if isinf(value) else value


def _without_separators(text: str) -> str:
    """The text without underscores; raises ValueError unless they are between digits."""
    if re.search(r"__|_$|^_|[^0-9a-fA-FxX]_|_[^0-9a-fA-F]", text):
        raise ValueError(text)
    return text.replace("_", "")


def format_double(value: float) -> str:
    """The shortest text that parses to the same number, with an exponent from a million on (%g)."""
    if not isfinite(value):
        return format_plain(value)
    number = _shortest(value)
    if -4 <= number.adjusted() < 6 or not value:
        return f"{number:f}"
    mantissa, exponent = f"{number:e}".split("e")
    return f"{mantissa}e{int(exponent):+03d}"


def format_plain(value: float) -> str:
    """The shortest text that parses to the same number, without an exponent."""
    if isfinite(value):
        return f"{_shortest(value):f}"
    return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"


def _shortest(value: float) -> Decimal:
    return Decimal(repr(value)).normalize()
