"""Durations as Kubernetes writes them.

In: text such as "15s", "1h30m" or "250ms". Out: `timedelta`, and the same text back.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

_MICROSECONDS = {
    "ns": Fraction(1, 1000),
    "us": Fraction(1),
    "µs": Fraction(1),  # U+00B5, which Kubernetes prints
    "μs": Fraction(1),  # U+03BC, the Greek letter
    "ms": Fraction(1_000),
    "s": Fraction(1_000_000),
    "m": Fraction(60_000_000),
    "h": Fraction(3_600_000_000),
}
_PART = re.compile(r"([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"[-+]?(?:0|(?:{_PART.pattern})+)")
# Kubernetes stores nanoseconds in a signed 64-bit integer.
_LARGEST = Fraction(2**63 - 1, 1000)


def parse_duration(text: str) -> timedelta:
    """Parse a duration; ValueError with a sentence if `text` is not one, or is longer than 292 years."""
    if not _WHOLE.fullmatch(text):
        raise ValueError('expected a duration such as "15s", "1m30s" or "500ms"')
    total = sum((Fraction(number) * _MICROSECONDS[unit] for number, unit in _PART.findall(text)), Fraction(0))
    if total > _LARGEST:
        raise ValueError("expected a duration of at most 2562047h (292 years)")
    # Rounded up to microseconds: a positive duration must not become zero, which means "use the default".
    microseconds = -(-total.numerator // total.denominator)
    return timedelta(microseconds=-microseconds if text.startswith("-") else microseconds)


def format_duration(duration: timedelta) -> str:
    """Format a duration as Kubernetes does: "15s", "1m30s", "10m0s", "1.5s", "250ms", "0s"."""
    microseconds = duration // timedelta(microseconds=1)
    if microseconds == 0:
        return "0s"
    sign, rest = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    if rest < 1_000:
        return f"{sign}{rest}µs"
    if rest < 1_000_000:
        return f"{sign}{_decimal(rest, 3)}ms"
    minutes, rest = divmod(rest, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{text}{_decimal(rest, 6)}s"


def _decimal(number: int, places: int) -> str:
    whole, fraction = divmod(number, 10**places)
    return f"{whole}.{fraction:0{places}d}".rstrip("0").rstrip(".") if fraction else str(whole)
