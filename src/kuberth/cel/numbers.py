"""Parses and formats numbers as Go does.

In: a text or a number. Out: the other; None for a text that is not a number.
"""

from __future__ import annotations

import re
from decimal import Decimal
from math import inf, isfinite, isinf, isnan, nan

from kuberth.cel.values import INT_MAX, INT_MIN, UINT_MAX

_INT = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UINT = re.compile(r"[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?", re.ASCII)
_HEX_DOUBLE = re.compile(r"[+-]?0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*[pP][+-]?[0-9]+", re.ASCII)
_SPECIAL = re.compile(r"([+-]?)(inf|infinity|nan)", re.IGNORECASE | re.ASCII)
_LONGEST = 4000


def parse_int(text: str) -> int | None:
    if not _INT.fullmatch(text) or len(text) > _LONGEST:
        return None
    value = int(text)
    return value if INT_MIN <= value <= INT_MAX else None


def parse_uint(text: str) -> int | None:
    if not _UINT.fullmatch(text) or len(text) > _LONGEST:
        return None
    value = int(text)
    return value if value <= UINT_MAX else None


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
    sign, digits, point = _digits(value)
    exponent = point - 1
    if -4 <= exponent < 6:
        return sign + _plain(digits, point)
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def format_plain(value: float) -> str:
    """The shortest text that parses to the same number, without an exponent."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, point = _digits(value)
    return sign + _plain(digits, point)


def _digits(value: float) -> tuple[str, str, int]:
    """Sign, digits without trailing zeros, and the position of the point."""
    parts = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, parts.digits))
    point = len(digits) + int(parts.exponent)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0")
    if not stripped:
        return ("-" if parts.sign else ""), "0", 1
    return ("-" if parts.sign else ""), stripped, point


def _plain(digits: str, point: int) -> str:
    if point <= 0:
        return f"0.{'0' * -point}{digits}"
    if point >= len(digits):
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"
