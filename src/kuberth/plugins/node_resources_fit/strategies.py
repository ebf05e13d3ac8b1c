"""NodeResourcesFit's scoring strategies: prefer empty nodes, full nodes, or a utilisation of your choice.

In: an `Allocation`. Out: a score from 0 to 100 for every node: the weighted mean of what the strategy
says of each resource the node has. Divisions drop the fraction, as Kubernetes' integers do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.config.plugin_args import MAX_CUSTOM_SCORE, ScoringStrategy, UtilizationShapePoint
from kuberth.errors import ConfigError
from kuberth.framework.extension_points import Scores
from kuberth.framework.scores import MAX_NODE_SCORE
from kuberth.plugins.resources.allocation import Allocation, Matrix, Use, allocation_of_one

FULL = 100
"""The utilisation, in per cent, of a node that has nothing left."""
_WRAPS: Final = 2**63
"""From here on Kubernetes' integers wrap around."""


class Strategy(NamedTuple):
    """A way to score, over many nodes and of one; both say the same."""

    scores: Callable[[Allocation], Scores]
    score: Callable[[Sequence[Use]], int]


def strategy_of(settings: ScoringStrategy) -> Strategy:
    """The strategy that the plugin's arguments name."""
    try:
        return _STRATEGIES[settings.type](settings)
    except KeyError:
        names = ", ".join(_STRATEGIES)
        raise ConfigError(f"no scoring strategy is called {settings.type!r}; there are: {names}") from None


def least_allocated(use: Allocation) -> Scores:
    """The more is left, the better; a node that is asked for more than it has gets nothing."""
    spare = use.allocatable - use.allocated
    spare -= use.added
    np.maximum(spare, 0, out=spare)
    return _weighted_mean(_per_cent(spare, use), use)


def most_allocated(use: Allocation) -> Scores:
    """The less is left, the better. The defaults for small pods can ask for more than there is."""
    taken = use.allocated + use.added
    np.minimum(taken, use.allocatable, out=taken)
    return _weighted_mean(_per_cent(taken, use), use)


def least_allocated_of_one(uses: Sequence[Use]) -> int:
    return _mean_of_one(
        (weight, allocatable, max(allocatable - allocated - added, 0))
        for weight, allocatable, allocated, added in uses
    )


def most_allocated_of_one(uses: Sequence[Use]) -> int:
    return _mean_of_one(
        (weight, allocatable, min(allocated + added, allocatable))
        for weight, allocatable, allocated, added in uses
    )


def requested_to_capacity_ratio(
    shape: Sequence[UtilizationShapePoint],
) -> Callable[[Allocation], Scores]:
    """Scores by utilisation along a line through the points of `shape`."""
    by_utilisation = np.array([_on_line(shape, utilisation) for utilisation in range(FULL + 1)], np.int64)

    def score(use: Allocation) -> Scores:
        requested = use.allocated + use.added
        overdrawn = requested > use.allocatable
        utilisation = np.where(overdrawn, FULL, _per_cent(requested, use))
        scores = by_utilisation.take(utilisation, mode="clip")
        # Upstream leaves a resource that scores zero out of the mean, and rounds instead of truncating.
        counts = (scores > 0) & use.has
        weight_sums = _weighted_sum(counts, use)
        means: NDArray[np.float64] = _weighted_sum(scores * counts, use) / np.maximum(weight_sums, 1)
        return np.floor(means + 0.5).astype(np.int64)

    return score


def _over_one(scores: Callable[[Allocation], Scores]) -> Callable[[Sequence[Use]], int]:
    """The way for one node made from that for many."""
    return lambda uses: int(scores(allocation_of_one(uses))[0])


def _ratio(settings: ScoringStrategy) -> Strategy:
    shape = settings.requested_to_capacity_ratio.shape if settings.requested_to_capacity_ratio else ()
    scores = requested_to_capacity_ratio(shape)
    return Strategy(scores, _over_one(scores))


_STRATEGIES: Mapping[str, Callable[[ScoringStrategy], Strategy]] = {
    "LeastAllocated": lambda _settings: Strategy(least_allocated, least_allocated_of_one),
    "MostAllocated": lambda _settings: Strategy(most_allocated, most_allocated_of_one),
    "RequestedToCapacityRatio": _ratio,
}


def _mean_of_one(parts: Iterable[tuple[int, int, int]]) -> int:
    """The weighted mean of shares: weight, what there is, and the part of it."""
    total = weights = 0
    for weight, whole, part in parts:
        hundredfold = part * MAX_NODE_SCORE
        if not -_WRAPS < hundredfold < _WRAPS:
            hundredfold = (hundredfold + _WRAPS) % (2 * _WRAPS) - _WRAPS
        total += weight * _quotient(hundredfold, whole)
        weights += weight
    return _quotient(total, weights) if weights else 0


def _quotient(dividend: int, divisor: int) -> int:
    return dividend // divisor if dividend >= 0 else -(-dividend // divisor)


def _weighted_mean(scores: Matrix, use: Allocation) -> Scores:
    """Over the resources that the node has; zero for a node that has none of them."""
    if use.is_complete and use.weights:
        return _divided(_weighted_sum(scores, use), sum(use.weights))
    weight_sums = _weighted_sum(use.has, use)
    return _divided(_weighted_sum(scores * use.has, use), np.maximum(weight_sums, 1))


def _weighted_sum(scores: Matrix | NDArray[np.bool_], use: Allocation) -> Scores:
    total = np.zeros(scores.shape[1], np.int64)
    for row, weight in zip(scores, use.weights, strict=True):
        total += row * np.int64(weight) if weight != 1 else row
    return total


def _per_cent(part: Matrix, use: Allocation) -> Matrix:
    """How much of what the node has is `part`, which is used up."""
    part *= MAX_NODE_SCORE
    return _divided(part, use.divisors)


def _divided(dividends: NDArray[np.int64], divisors: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Toward zero. Only figures in the exabytes get negative here: they wrap around, as upstream's do."""
    quotients: NDArray[np.int64] = dividends // divisors
    if dividends.min(initial=0) < 0:
        quotients += (dividends < 0) & (quotients * divisors != dividends)
    return quotients


def _on_line(shape: Sequence[UtilizationShapePoint], utilisation: int) -> int:
    """The score at a utilisation: the first and last point hold beyond the ends of the line."""
    stretch = MAX_NODE_SCORE // MAX_CUSTOM_SCORE
    before: UtilizationShapePoint | None = None
    for point in shape:
        if utilisation <= point.utilization:
            if before is None:
                return point.score * stretch
            rise = (point.score - before.score) * stretch * (utilisation - before.utilization)
            run = point.utilization - before.utilization
            climbed = rise // run if rise >= 0 else -(-rise // run)
            return before.score * stretch + climbed
        before = point
    return before.score * stretch if before is not None else 0
