"""Whether tolerations cover taints: those of pods and nodes, and those of device requests and devices."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from kuberth.api.nodes import Taint
from kuberth.api.pods import Toleration
from kuberth.api.resource import DeviceTaint, DeviceToleration
from kuberth.api.selectors.labels import parse_int64

_CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")

# The effects that reject a pod; PreferNoSchedule only lowers the score.
HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def toleration_tolerates(
    toleration: Toleration | DeviceToleration,
    taint: Taint | DeviceTaint,
    *,
    comparison_operators: bool = False,
) -> bool:
    """Whether the toleration covers the taint; an empty key or effect covers all keys or effects.

    `comparison_operators` is the gate TaintTolerationComparisonOperators: Gt tolerates taints with a greater
    value than the toleration's, Lt those with a smaller one. If it is off, neither tolerates any taint.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Gt" | "Lt" if comparison_operators:
            bound, actual = _integer(toleration.value), _integer(taint.value)
            if bound is None or actual is None:
                return False
            return actual > bound if toleration.operator == "Gt" else actual < bound
        case _:
            return False


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Collection[Toleration],
    effects: Collection[str] = HARD_EFFECTS,
    *,
    comparison_operators: bool = False,
) -> Taint | None:
    """The first taint with one of these effects that no toleration covers, or None."""
    for taint in taints:
        if taint.effect in effects and not any(
            toleration_tolerates(toleration, taint, comparison_operators=comparison_operators)
            for toleration in tolerations
        ):
            return taint
    return None


class KeyedTolerations:
    """Tolerations by key, so that checking a taint reads a few of thousands."""

    def __init__(self, tolerations: Iterable[Toleration], *, comparison_operators: bool = False) -> None:
        self._comparison_operators = comparison_operators
        self._by_key: dict[str, list[Toleration]] = {}
        """Tolerations under "" cover every key."""
        for toleration in tolerations:
            self._by_key.setdefault(toleration.key, []).append(toleration)

    def cover(self, taint: Taint) -> bool:
        """Whether a toleration covers the taint."""
        return any(
            toleration_tolerates(toleration, taint, comparison_operators=self._comparison_operators)
            for key in {taint.key, ""}
            for toleration in self._by_key.get(key, ())
        )

    def cover_all(self, taints: Iterable[Taint]) -> bool:
        """Whether the tolerations cover every taint with the effect NoSchedule or NoExecute."""
        return all(taint.effect not in HARD_EFFECTS or self.cover(taint) for taint in taints)


def _integer(text: str) -> int | None:
    # Stricter than integers elsewhere: no plus sign, no leading zeros, no minus zero.
    return parse_int64(text) if _CANONICAL_INTEGER.fullmatch(text) else None
