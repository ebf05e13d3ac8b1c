"""Reduces a universe that breaks a rule, as long as it still breaks the same one.

In: a universe and the rule. Out: a universe with fewer faults, steps and nodes. Classes stay: without its
class a claim breaks the same rule for another reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tests.universe.parts import Step, Tree, Universe

PARTS: Final = ("faults", "steps", "objects", "nodes")
MAX_PLAYS: Final = 300
CLASSES: Final = ("DeviceClass", "StorageClass")


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
                    plays += candidate != universe
                    if candidate != universe and still_breaks(candidate):
                        universe, smaller = candidate, True
                    else:
                        start += size
                size //= 2
    return universe


def _without(universe: Universe, part: str, start: int, size: int) -> Universe:
    kept: Any = getattr(universe, part)
    classes = tuple(each for each in kept[start : start + size] if _is_class(each))
    return replace(universe, **{part: kept[:start] + classes + kept[start + size :]})


def _is_class(each: Any) -> bool:
    tree: Tree = each.tree if isinstance(each, Step) else each if isinstance(each, dict) else {}
    return tree.get("kind") in CLASSES
