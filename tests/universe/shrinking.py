"""Reduces a universe that breaks a rule, as long as it still breaks the same one.

In: a universe and the rule. Out: a universe with fewer faults, steps and nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tests.universe.parts import Universe

PARTS: Final = ("faults", "steps", "objects", "nodes")
MAX_PLAYS: Final = 300


def shrink(universe: Universe, still_breaks: Callable[[Universe], bool]) -> Universe:
    """The smallest universe found by leaving out ever smaller runs of faults, steps and nodes."""
    plays = 0
    smaller = True
    while smaller:
        smaller = False
        for part in PARTS:
            size = len(getattr(universe, part))
            while size:
                start = 0
                while start < len(getattr(universe, part)) and plays < MAX_PLAYS:
                    candidate = _without(universe, part, start, size)
                    plays += 1
                    if still_breaks(candidate):
                        universe, smaller = candidate, True
                    else:
                        start += size
                size //= 2
    return universe


def _without(universe: Universe, part: str, start: int, size: int) -> Universe:
    kept: Any = getattr(universe, part)
    return replace(universe, **{part: kept[:start] + kept[start + size :]})
