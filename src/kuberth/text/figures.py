"""Formats figures for people: durations, shares, sizes and counts.

In: seconds, fractions, bytes, numbers. Out: short texts, in the same form in every command.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def duration(seconds: float) -> str:
    """The two largest units: `2d 4h`, `5h 37m`, `3m 20s`; below a minute `12s`, `1.5s`, `250ms`, `0s`."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g}ms" if seconds >= 0.0005 else "0s"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for (unit, size), (next_unit, next_size) in pairwise(_UNITS):
        if whole >= size:
            first, rest = divmod(whole, size)
            second = rest // next_size
            return f"{first}{unit} {second}{next_unit}" if second else f"{first}{unit}"
    return f"{whole}s"


def percent(share: float, digits: int = 1) -> str:
    """`97.3 %` for 0.973."""
    return f"{100 * share:.{digits}f} %"


def size(number: float) -> str:
    """Bytes: `512 B`, `1.5 GiB`, `12 GiB`."""
    for unit in _SIZES:
        if abs(number) < 1024 or unit == _SIZES[-1]:
            break
        number /= 1024
    return f"{decimal(number)} {unit}"


def decimal(number: float) -> str:
    """The number with at most one decimal place: `3`, `2.5`."""
    return f"{number:.1f}".removesuffix(".0")


def count(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: object, *, keep: str = "", instead: str = "�") -> str:
    """The text with control characters replaced, which could move the cursor or change colours."""
    return "".join(each if each.isprintable() or each in keep else instead for each in str(text))


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The percentile of sorted numbers by nearest rank."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
