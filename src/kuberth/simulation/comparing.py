"""Compares several configurations on the same workload.

In: the outcomes of each variant, one run per seed. Out: the mean and spread of each figure over seeds, and
the difference to the first variant, seed by seed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Final

import msgspec
import numpy as np

from kuberth.errors import ConfigError
from kuberth.simulation.outcomes import Outcome, rounded
from kuberth.simulation.tables import Table
from kuberth.text.figures import count

FIGURES: Final[Mapping[str, Callable[[Outcome], float]]] = {
    "pods placed": lambda each: each.pods.placed,
    "pods still waiting": lambda each: each.pods.waiting,
    "wait mean (s)": lambda each: each.waits.mean,
    "wait p50 (s)": lambda each: each.waits.p50,
    "wait p90 (s)": lambda each: each.waits.p90,
    "wait p99 (s)": lambda each: each.waits.p99,
    "preempted": lambda each: each.pods.preempted,
    "attempts wasted": lambda each: each.attempts_wasted,
    "fragmentation": lambda each: each.fragmentation,
    "fairness": lambda each: each.fairness,
    "nodes": lambda each: each.nodes_mean,
    "nodes used": lambda each: each.nodes_used,
    "last arrival after (s)": lambda each: each.arrival_seconds,
    "done after (s)": lambda each: each.seconds,
}


class Figure(msgspec.Struct, frozen=True):
    """One figure of one variant."""

    name: str
    variant: str
    mean: float
    spread: float
    """Standard deviation over seeds; 0 with a single one."""
    difference: float
    """Mean of the differences to the first variant with the same seed."""
    difference_spread: float


class Comparison(msgspec.Struct, frozen=True):
    """Variants side by side."""

    variants: list[str]
    seeds: list[int]
    figures: list[Figure]
    outcomes: dict[str, list[Outcome]]

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.variants)}; {count(len(self.seeds), 'seed')}>"

    def _repr_html_(self) -> str:
        """The figures and plots, as Jupyter shows them."""
        from kuberth.simulation.reporting import as_html_part  # which formats comparisons

        return as_html_part(self)

    def figure(self, name: str, variant: str) -> Figure:
        """A figure by its name; ConfigError if it does not exist."""
        for each in self.figures:
            if (each.name, each.variant) == (name, variant):
                return each
        raise ConfigError(f"there is no figure {name!r} of {variant!r}")

    def table(self, *, level: float = 0.95) -> Table:
        """A row for each figure and variant: the mean and the difference to the first variant.

        Both come with the bounds of their confidence interval (Student's t over seeds), which are None with
        a single seed.
        """
        rows = Table()
        for each in self.figures:
            mean = interval(each.mean, each.spread, seeds=len(self.seeds), level=level)
            difference = interval(each.difference, each.difference_spread, seeds=len(self.seeds), level=level)
            rows.append(
                {
                    "figure": each.name,
                    "variant": each.variant,
                    "mean": each.mean,
                    "mean low": mean and mean[0],
                    "mean high": mean and mean[1],
                    "difference": each.difference,
                    "difference low": difference and difference[0],
                    "difference high": difference and difference[1],
                }
            )
        return rows


def interval(mean: float, spread: float, *, seeds: int, level: float = 0.95) -> tuple[float, float] | None:
    """The confidence interval of a mean over seeds with this standard deviation; None with a single seed."""
    if seeds < 2:
        return None
    half = student_quantile(0.5 + level / 2, seeds - 1) * spread / math.sqrt(seeds)
    return rounded(mean - half), rounded(mean + half)


@cache
def student_quantile(share: float, freedom: int) -> float:
    """The value that Student's t stays below with this probability (above a half)."""
    if not 0.5 <= share < 1:
        raise ConfigError(f"a confidence level lies between 0 and 1, got {2 * share - 1:g}")
    # With t = tan(angle) * sqrt(freedom), the density is cos(angle) ** (freedom - 1), which is smooth and
    # has a bounded range: Simpson's rule over a fixed grid is exact to many digits.
    angles = np.linspace(0, math.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    steps = (density[:-2:2] + 4 * density[1::2] + density[2::2]) * (angles[1] / 3)
    areas = np.concatenate(([0.0], np.cumsum(steps)))
    angle = np.interp((share - 0.5) * 2 * areas[-1], areas, angles[::2])
    return float(np.tan(angle) * math.sqrt(freedom))


def compare(outcomes: Mapping[str, Sequence[Outcome]]) -> Comparison:
    """Compare variants that ran with the same seeds, in the same order."""
    variants = list(outcomes)
    first = outcomes[variants[0]]
    resources = sorted({name for runs in outcomes.values() for name in runs[0].utilisation})
    measures = dict(FIGURES)
    for resource in resources:
        measures[f"utilisation {resource}"] = partial(_used, "utilisation", resource)
        if any(each.drain_utilisation for runs in outcomes.values() for each in runs):
            measures[f"utilisation {resource} (drain)"] = partial(_used, "drain_utilisation", resource)
    figures = []
    for name, measure in measures.items():
        base = [measure(each) for each in first]
        for variant in variants:
            values = [measure(each) for each in outcomes[variant]]
            differences = [value - other for value, other in zip(values, base, strict=True)]
            figures.append(
                Figure(
                    name,
                    variant,
                    rounded(statistics.fmean(values)),
                    _spread(values),
                    rounded(statistics.fmean(differences)),
                    _spread(differences),
                )
            )
    return Comparison(
        variants,
        [each.seed for each in first],
        figures,
        {name: list(runs) for name, runs in outcomes.items()},
    )


def _used(field: str, resource: str, outcome: Outcome) -> float:
    shares: dict[str, float] = getattr(outcome, field)
    return shares.get(resource, 0.0)


def _spread(values: Sequence[float]) -> float:
    return rounded(statistics.stdev(values)) if len(values) > 1 else 0.0
