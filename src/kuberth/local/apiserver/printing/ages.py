"""Ages in kubectl's format.

In: nanoseconds. Out: "5s", "2m30s", "3d4h".
"""

from __future__ import annotations

from typing import Any

from kuberth.clock import NANOSECONDS
from kuberth.text.timestamps import parse_timestamp


def since(text: Any, now_ns: int) -> str:
    """An age in kubectl's format."""
    then = parse_timestamp(text)
    return "<unknown>" if then is None else human_duration(now_ns - then)


def human_duration(nanoseconds: int) -> str:
    """At most two units, fewer for longer ages, with upstream's rounding."""
    seconds = int(nanoseconds / NANOSECONDS)
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 24 * 8:
        return _two(days, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{days}d"
    if hours < 24 * 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
