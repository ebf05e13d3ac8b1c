"""NodeResourcesFit's scoring strategies: prefer empty nodes, full nodes, or a custom utilization.

In: the usage of the resources of one node or of many. Out: a score from 0 to 100 for every node: the weighted
mean of the strategy's score for each resource of the node. As in Kubernetes, divisions truncate and large
integers overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from kuberth.cluster.arrays import Column
from kuberth.config.plugin_args import ScoringStrategy, UtilizationShapePoint
from kuberth.errors import ConfigError
from kuberth.framework.scores import FULL, MAX_NODE_SCORE, line_scores
from kuberth.plugins.resources.allocation import N, Use

Divided = Callable[[N | int, N | int], N]
"""Divides toward zero: `floordiv` for the numbers of one node, which are never negative, and `toward_zero`
for arrays."""


class Strategy(Protocol):
    """A scoring strategy, for one node or many; 0 without any resource."""

    def __call__(self, uses: Sequence[Use[N]], divided: Divided[N], /) -> N | int: ...


def strategy_of(settings: ScoringStrategy) -> Strategy:
    """The strategy of the plugin's arguments."""
    try:
        return _STRATEGIES[settings.type](settings)
    except KeyError:
        names = ", ".join(_STRATEGIES)
        raise ConfigError(f"no scoring strategy is called {settings.type!r}; there are: {names}") from None


def least_allocated(uses: Sequence[Use[N]], divided: Divided[N]) -> N | int:
    """Score by free resources; a node whose requests exceed its resources gets 0."""
    total: N | int = 0
    weights = 0
    for weight, allocatable, allocated, added in uses:
        requested = allocated + added
        spare = (allocatable - requested) * (requested <= allocatable)
        total += weight * divided(spare * MAX_NODE_SCORE, allocatable)
        weights += weight
    return divided(total, weights) if weights else 0


def most_allocated(uses: Sequence[Use[N]], divided: Divided[N]) -> N | int:
    """Score by used resources. The defaults for pods without requests can exceed what the node has."""
    total: N | int = 0
    weights = 0
    for weight, allocatable, allocated, added in uses:
        requested = allocated + added
        taken = requested - (requested - allocatable) * (requested > allocatable)
        total += weight * divided(taken * MAX_NODE_SCORE, allocatable)
        weights += weight
    return divided(total, weights) if weights else 0


def requested_to_capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Strategy:
    """Score by utilization along a line through the points of `shape`."""
    line = line_scores(shape)
    column = np.array(line, np.int64)

    def score(uses: Sequence[Use[N]], divided: Divided[N]) -> N | int:
        total: N | int = 0
        weights: N | int = 0
        for weight, allocatable, allocated, added in uses:
            requested = allocated + added
            fits = requested <= allocatable
            used = divided(requested * fits * FULL, allocatable) + FULL * (1 - fits)
            height = line[used] if isinstance(used, int) else column.take(used, mode="clip")
            # As upstream, a resource that scores zero is omitted from the mean, and the mean is rounded.
            total += weight * height
            weights += weight * (height > 0)
        return (2 * total + weights) // (2 * weights + (weights == 0))

    return score


def _ratio(settings: ScoringStrategy) -> Strategy:
    ratio = settings.requested_to_capacity_ratio
    return requested_to_capacity_ratio(ratio.shape if ratio else ())


_STRATEGIES: Mapping[str, Callable[[ScoringStrategy], Strategy]] = {
    "LeastAllocated": lambda _settings: least_allocated,
    "MostAllocated": lambda _settings: most_allocated,
    "RequestedToCapacityRatio": _ratio,
}


def toward_zero(dividends: Column | int, divisors: Column | int) -> Column:
    """The truncated quotients. Only overflowing amounts, in exabytes, are negative."""
    quotients: Column = np.floor_divide(dividends, divisors)
    if quotients.min(initial=0) < 0:
        quotients += (quotients < 0) & (quotients * divisors != dividends)
    return quotients
