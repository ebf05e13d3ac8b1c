"""Counts that may be percentages: maxSurge, maxUnavailable, minAvailable."""

from __future__ import annotations

from typing import Any


def scaled(value: Any, total: int, *, up: bool) -> int:
    """`value` as a number of `total`: integers unchanged, "25%" rounded up or down, anything else 0."""
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal():
        percent = int(value[:-1])
        return -(-percent * total // 100) if up else percent * total // 100
    return 0
